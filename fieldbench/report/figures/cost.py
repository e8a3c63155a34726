"""Error against seconds: what accuracy costs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import heading, legend
from fieldbench.report.figures.style import FAINT, Shown, error_axis, floor_edge, log_axis, not_finite, scale
from fieldbench.report.statistics import front
from fieldbench.report.stored import Panel, StoredRun
from fieldbench.report.times import SECONDS, caution, counted, left_out


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: trials as faint points, each method at its median seconds and mean score as a large one.

    Where seconds compare, a step goes through the methods that no other beats in both: the best score that can be had
    in so much time. Where they do not, the figure says why, and has no such line.
    """
    styles = looks(run.methods, run.labels, view.colours)
    for setting in run.settings:
        part = run.part(setting).dropna(subset=["score", SECONDS])
        if not part.empty:
            yield setting.title, _figure(run, setting, part, styles, view)


def _figure(run: StoredRun, setting: Panel, part: pd.DataFrame, styles: dict[str, Look], view: View) -> Figure:
    timed = part[counted(part, ["method"])]
    figure = Figure(figsize=(view.width, 2.3 * scale()), layout="constrained")
    ax = figure.subplots()
    centres = _points(ax, part, timed, styles)
    floor = run.floor(setting)
    error_axis(ax, Shown([*timed["score"], floor]))
    if (timed[SECONDS] > 0).all():  # a clock may be coarse
        log_axis(ax, "x")
    floor_edge(ax, ax.get_xlim(), [floor, floor])
    doubt = caution(timed)
    if not doubt:
        ranked = {name: (time, run.metadata.rank(setting.metric, score)) for name, (time, score) in centres.items()}
        _step(ax, [centres[name] for name in front(ranked)])
    devices = " and ".join(sorted({str(name) for name in part["device"]}))
    ax.set_xlabel(f"seconds a trial, median ({devices})")
    ax.set_ylabel(setting.measure)
    lost = len(part) - len(timed)
    notes = [f"no front: {doubt}" if doubt else "", left_out(lost) if lost else "", *not_finite(part["score"])]
    heading(figure, setting.title, [note for note in notes if note])
    legend(figure, [ax])
    return figure


def _points(
    ax: Axes, part: pd.DataFrame, timed: pd.DataFrame, styles: dict[str, Look]
) -> dict[str, tuple[float, float]]:
    """Draw every trial and every method; where the methods are."""
    centres: dict[str, tuple[float, float]] = {}
    for method, look in styles.items():
        mine, scores = timed[timed["method"] == method], part.loc[part["method"] == method, "score"]
        if mine.empty:
            continue
        seconds = mine[SECONDS]
        ax.plot(seconds, mine["score"], linestyle="", **look.points, alpha=0.3, markersize=2.5, zorder=1)
        if np.isfinite(scores).all():
            centres[method] = (float(seconds.median()), float(scores.mean()))
            ax.plot(*centres[method], linestyle="", **look.points, markersize=6 * scale(), zorder=3)
        ax.plot([], [], linestyle="", **look.points, markersize=5 * scale(), label=look.name)
    return centres


def _step(ax: Axes, best: list[tuple[float, float]]) -> None:
    """The best score by time: from the quickest method on, level until the next better one, to the edge."""
    if not best:
        return
    right = ax.get_xlim()[1]
    times, scores = np.array([*best, (right, best[-1][1])]).T
    ax.plot(times, scores, color=FAINT, linewidth=0.9, drawstyle="steps-post", zorder=2, label="best by that time")
    ax.set_xlim(right=right)
