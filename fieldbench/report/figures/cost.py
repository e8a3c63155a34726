"""Error against seconds: what accuracy costs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from fieldbench.errors import RequestError
from fieldbench.report.figures import View, file_name
from fieldbench.report.figures.style import COLUMN, error_axis, log_axis, looks, not_finite, wrapped
from fieldbench.report.statistics import front
from fieldbench.report.stored import StoredRun


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: trials as faint points, means as large ones, and a line through the methods
    that no other beats in both error and seconds.

    Raises:
        RequestError: if no trial has both a score and seconds.
    """
    styles = looks(run.methods)
    figures: dict[str, Figure] = {}
    for setting in run.settings:
        if len(figures) == view.most:
            break
        part = run.part(setting).dropna(subset=["score", "seconds"])
        if part.empty:
            continue
        figure = Figure(figsize=(COLUMN + 1.1, 2.7), layout="constrained")
        ax = figure.subplots()
        means: dict[str, tuple[float, float]] = {}
        for method, look in styles.items():
            mine = part[part["method"] == method]
            if mine.empty:
                continue
            ax.plot(
                mine["seconds"],
                mine["score"],
                look.marker,
                color=look.colour,
                alpha=0.3,
                markersize=2.5,
                mew=0,
                zorder=1,
            )
            if np.isfinite(mine["score"]).all():
                means[method] = (float(mine["seconds"].mean()), float(mine["score"].mean()))
                ax.plot(*means[method], look.marker, color=look.colour, markersize=6.5, mec="white", mew=0.6, zorder=3)
            ax.plot([], [], look.marker, color=look.colour, markersize=5, label=look.name)
        sign = 1 if run.facts.lower_is_better(setting.metric) else -1
        best = front({name: (seconds, sign * score) for name, (seconds, score) in means.items()})
        ax.plot(*np.array([means[name] for name in best]).T, color="#999999", linewidth=0.8, zorder=2, label="front")
        log_axis(ax, "x")
        error_axis(ax, list(part["score"]))
        devices = " and ".join(sorted({str(name) for name in part["device"]}))
        ax.set_xlabel(f"seconds a trial ({devices})")
        ax.set_ylabel(setting.measure)
        ax.set_title(wrapped(setting.title, COLUMN) + not_finite(part["score"]))
        figure.legend(loc="outside right center")
        figure.set_label(setting.title)
        figures[file_name("cost", setting.title, figures)] = figure
    if not figures:
        raise RequestError("no trial of this run has both a score and seconds")
    return figures
