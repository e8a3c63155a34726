"""Every trial's error: what means and intervals are made of."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.style import COLUMN, Look, error_axis, floor_edge, looks, not_finite, wrapped
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: a strip of points for each method, its mean as a bar, trials of one draw joined
    by a line; failed trials are counted below the method's name.

    Raises:
        RequestError: if no trial has a score.
    """
    styles = looks(run.methods)
    return of_settings(
        "strips", run, view, lambda setting: _figure(run, setting, styles), "no trial of this run has a score"
    )


def _figure(run: StoredRun, setting: Panel, styles: dict[str, Look]) -> Figure | None:
    part = run.part(setting)
    if part["score"].notna().sum() == 0:
        return None
    table = part.groupby(["seed", "trial", part["method"].astype(str)])["score"].mean().unstack()
    present = [method for method in styles if (part["method"] == method).any()]
    figure = Figure(figsize=(max(COLUMN, 0.75 * len(present) + 0.8), 2.6), layout="constrained")
    ax = figure.subplots()
    scores = np.array([[row.get(method, np.nan) for method in present] for _, row in table.iterrows()])
    positions = np.arange(len(present))
    for line in scores:
        ax.plot(positions, line, color="#bbbbbb", linewidth=0.5, zorder=1)
    names = []
    for position, method in enumerate(present):
        look, values = styles[method], scores[:, position]
        good = values[np.isfinite(values)]
        ax.plot(np.full(len(values), position), values, look.marker, color=look.colour, alpha=0.75, mew=0, zorder=2)
        if len(good) and not np.isinf(values).any():
            ax.hlines(good.mean(), position - 0.25, position + 0.25, color=look.colour, linewidth=1.8, zorder=3)
        lost = int((part["method"] == method).sum() - (~np.isnan(values)).sum())
        names.append(f"{_breakable(look.name)}\n({lost} without score)" if lost else _breakable(look.name))
    ax.set_xticks(positions, names)
    ax.set_xlim(-0.5, len(present) - 0.5)
    floor = run.floor(setting)
    error_axis(ax, [*scores[np.isfinite(scores)], floor])
    floor_edge(ax, ax.get_xlim(), [floor, floor])
    ax.set_ylabel(setting.measure)
    count = f"{len(scores)} trial{'s' if len(scores) > 1 else ''}"
    title = wrapped(f"{setting.title}, {count}", figure.get_figwidth() - 0.8)
    ax.set_title(title + not_finite(part["score"].dropna()))
    figure.set_label(setting.title)
    return figure


def _breakable(name: str) -> str:
    return name.replace("[", "\n[").replace(",", ",\n").replace("+", "\n+")
