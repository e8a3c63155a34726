"""Every setting of a run in one figure: each method's mean error with its interval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import (
    column_of_names,
    grid,
    grow,
    heading,
    height_of,
    legend,
    size_of,
    width_of,
    wrapped,
)
from fieldbench.report.figures.style import Shown, error_axis, floor_edge, not_finite, trials_of
from fieldbench.report.statistics import interval
from fieldbench.report.stored import Panel, StoredRun


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure: a panel for each setting, methods from the best mean rank down, and the floor where there is one."""
    settings = [setting for setting in run.settings if run.part(setting)["score"].notna().any()]
    if not settings:
        return
    parts = {setting.title: run.part(setting) for setting in settings}
    styles = looks(run.methods, run.labels, view.colours)
    order = _order(run, settings)
    scored = {str(method) for part in parts.values() for method in part.loc[part["score"].notna(), "method"]}
    names = [styles[method].name + ("" if method in scored else " (no score)") for method in order]
    points = size_of("ytick.label")
    room = min(max(width_of(name, points) for name in names), 0.4 * view.width)
    figure, axes = grid(len(settings), view.width, 1.25, 0.5, room + 0.2)
    panels: Any = axes[0].get_gridspec()
    down, across = panels.get_geometry()
    each = (view.width - room - 0.2) / across
    common, *apart = _told_apart([setting.title for setting in settings])
    titles = [wrapped(title, each - 0.12, size_of("axes.title")) for title in apart]
    tallest = max(height_of(title, size_of("axes.title")) for title in titles)
    for ax, setting, title in zip(axes, settings, titles, strict=True):
        positions = column_of_names(ax, names, room)
        _panel(ax, run, setting, parts[setting.title], styles, dict(zip(order, positions, strict=True)))
        ax.set_title(title)
        measure = f"{setting.measure}, logarithmic" if ax.get_xscale() == "log" else setting.measure
        ax.set_xlabel(wrapped(measure, each - 0.12, size_of("axes.label")))
    grow(figure, 0.1 + down * (axes[0].get_ylim()[0] * points * 1.35 / 72 + tallest))
    whole = pd.concat(parts.values())
    heading(
        figure, common or f"{len(settings)} settings", [trials_of(whole, "bar"), *not_finite(whole["score"].dropna())]
    )
    if any(ax.get_legend_handles_labels()[1] for ax in axes):
        legend(figure, axes)
    yield "", figure


def _told_apart(titles: list[str]) -> list[str]:
    """What all titles have in common, and what is left of each."""
    split = [title.split(", ") for title in titles]
    common = [part for part in split[0] if all(part in parts for parts in split)]
    return [", ".join(common), *(", ".join(part for part in parts if part not in common) for parts in split)]


def _order(run: StoredRun, settings: list[Panel]) -> list[str]:
    """Methods by their mean rank over the settings in which they have a score."""
    ranks = []
    for setting in settings:
        means = run.part(setting).groupby("method", observed=True)["score"].mean()
        ranks.append(means.map(lambda score, metric=setting.metric: run.metadata.rank(metric, score)).rank())
    mean = pd.concat(ranks, axis=1).mean(axis=1)
    return sorted(run.methods, key=lambda method: float(mean.fillna(np.inf).get(method, np.inf)))


def _panel(
    ax: Axes,
    run: StoredRun,
    setting: Panel,
    part: pd.DataFrame,
    styles: dict[str, Look],
    positions: dict[str, float],
) -> None:
    shown = Shown()
    for method, position in positions.items():
        look, scores = styles[method], part.loc[part["method"] == method, "score"].dropna()
        if scores.empty or not np.isfinite(scores).all():
            continue
        low, high = interval(scores)
        if (scores >= 0).all():
            low = max(low, 0.0)
        ax.hlines(position, low, high, color=look.colour, linewidth=1.2, alpha=0.6, zorder=2)
        ax.plot([scores.mean()], [position], **look.points, zorder=3)
        shown.add(Shown([float(scores.mean())], [low, high]))
    floor = run.floor(setting)
    shown.values.append(floor)
    error_axis(ax, shown, "x")
    floor_edge(ax, [0, ax.get_ylim()[0]], [floor, floor], upright=True)
