"""Every trial's error: what means and intervals are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import column_of_names, grow, heading, legend, size_of
from fieldbench.report.figures.style import FAINT, Shown, error_axis, floor_edge, not_finite, scale
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: a row of points for each method, its mean as a bar, trials of one draw joined by a line;
    failed trials are counted behind the method's name.
    """
    styles = looks(run.methods, run.labels, view.colours)
    for setting in run.settings:
        part = run.part(setting)
        if part["score"].notna().any():
            yield setting.title, _figure(run, setting, part, styles, view)


def _figure(run: StoredRun, setting: Panel, part: pd.DataFrame, styles: dict[str, Look], view: View) -> Figure:
    table = part.groupby(["seed", "trial", part["method"].astype(str)])["score"].mean().unstack()
    present = [method for method in styles if (part["method"] == method).any()]
    scores = np.array([[row.get(method, np.nan) for method in present] for _, row in table.iterrows()])
    names = []
    for method, values in zip(present, scores.T, strict=True):
        lost = int((part["method"] == method).sum() - (~np.isnan(values)).sum())
        names.append(f"{styles[method].name} ({lost} without score)" if lost else styles[method].name)
    figure = Figure(figsize=(view.width, 0.45 * scale()), layout="constrained")
    ax = figure.subplots()
    positions = column_of_names(ax, names, 0.4 * view.width)
    grow(figure, ax.get_ylim()[0] * size_of("ytick.label") * 1.6 / 72 + 0.15)
    for line in scores:
        ax.plot(line, positions, color=FAINT, alpha=0.5, linewidth=0.5, zorder=1)
    for position, method, values in zip(positions, present, scores.T, strict=True):
        look, good = styles[method], values[np.isfinite(values)]
        ax.plot(values, np.full(len(values), position), linestyle="", **look.points, alpha=0.75, zorder=2)
        if len(good) and not np.isinf(values).any():
            ax.vlines(good.mean(), position - 0.35, position + 0.35, color=look.colour, linewidth=1.8, zorder=3)
    floor = run.floor(setting)
    error_axis(ax, Shown([*scores[np.isfinite(scores)], floor]), "x")
    floor_edge(ax, [0, ax.get_ylim()[0]], [floor, floor], upright=True)
    ax.set_xlabel(setting.measure)
    count = f"{len(scores)} trial{'s' if len(scores) > 1 else ''}"
    heading(figure, f"{setting.title}, {count}", not_finite(part["score"].dropna()))
    figure.set_label(setting.title)
    if np.isfinite(floor):
        legend(figure, [ax])
    return figure
