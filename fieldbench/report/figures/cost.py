"""Error against seconds: what accuracy costs."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.style import COLUMN, Look, error_axis, log_axis, looks, not_finite, wrapped
from fieldbench.report.statistics import front
from fieldbench.report.stored import Panel, StoredRun
from fieldbench.report.times import SECONDS, caution, counted, left_out


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: trials as faint points, each method at its median seconds and mean score as a large
    one, and a line through the methods that no other beats in both. The title says where seconds do not compare.

    Raises:
        RequestError: if no trial has both a score and seconds.
    """
    styles = looks(run.methods)
    nothing = "no trial of this run has both a score and seconds"
    return of_settings("cost", run, view, lambda setting: _figure(run, setting, styles), nothing)


def _figure(run: StoredRun, setting: Panel, styles: dict[str, Look]) -> Figure | None:
    part = run.part(setting).dropna(subset=["score", SECONDS])
    if part.empty:
        return None
    timed = part[counted(part, ["method"])]
    figure = Figure(figsize=(COLUMN + 1.1, 2.7), layout="constrained")
    ax = figure.subplots()
    centres: dict[str, tuple[float, float]] = {}
    for method, look in styles.items():
        mine, scores = timed[timed["method"] == method], part.loc[part["method"] == method, "score"]
        if mine.empty:
            continue
        seconds = mine[SECONDS]
        ax.plot(seconds, mine["score"], look.marker, color=look.colour, alpha=0.3, markersize=2.5, mew=0, zorder=1)
        if np.isfinite(scores).all():
            centres[method] = (float(seconds.median()), float(scores.mean()))
            ax.plot(*centres[method], look.marker, color=look.colour, markersize=6.5, mec="white", mew=0.6, zorder=3)
        ax.plot([], [], look.marker, color=look.colour, markersize=5, label=look.name)
    best = front({name: (time, run.metadata.rank(setting.metric, score)) for name, (time, score) in centres.items()})
    ax.plot(*np.array([centres[name] for name in best]).T, color="#999999", linewidth=0.8, zorder=2, label="front")
    log_axis(ax, "x")
    error_axis(ax, list(timed["score"]))
    devices = " and ".join(sorted({str(name) for name in part["device"]}))
    ax.set_xlabel(f"seconds a trial, median ({devices})")
    ax.set_ylabel(setting.measure)
    ax.set_title(wrapped(setting.title, COLUMN) + _of_seconds(timed, len(part)) + not_finite(part["score"]))
    figure.legend(loc="outside right center")
    figure.set_label(setting.title)
    return figure


def _of_seconds(timed: pd.DataFrame, count: int) -> str:
    """What the title adds about seconds: why they do not compare, and how many of the ``count`` do not count."""
    lost = count - len(timed)
    said = [caution(timed), left_out(lost) if lost else ""]
    return "".join(f"\n{textwrap.fill(line, 66)}" for line in said if line)
