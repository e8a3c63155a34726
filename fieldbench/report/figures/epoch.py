"""Error and core sparsity against epoch: how each method learns, and how complex it becomes (paper, figure 4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fieldbench.errors import RequestError
from fieldbench.report.figures import View, slug
from fieldbench.report.figures.style import PAGE, Look, error_axis, legend, looks, wrapped
from fieldbench.report.stored import Setting, StoredRun
from fieldbench.report.summary import interval
from fieldbench.trial import OK


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting: mean error of the reported estimates with its 95 % interval, and beside it the
    share of core entries that are not zero, where a method reports it. A method that reports nothing is a
    level line at its final error.

    Raises:
        RequestError: if no method reported estimates while it worked.
    """
    styles = looks(run.methods)
    curves = _curves(run)
    figures: dict[str, Figure] = {}
    for setting in run.settings:
        if len(figures) == view.most:
            break
        here = {method: curves[setting.title, method] for method in styles if (setting.title, method) in curves}
        if here:
            figures[slug("epoch", setting.title)] = _figure(run, setting, here, styles)
    if not figures:
        raise RequestError("no method of this run reports estimates while it works, so there is no curve to draw")
    return figures


def _curves(run: StoredRun) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The curves of every setting and method, one a trial."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in run.rows():
        curve = (row.get("diagnostics") or {}).get("curve")
        if row["status"] != OK or not curve:
            continue
        setting = next(setting for setting in run.settings if setting.holds(row))
        found.setdefault((setting.title, row["method"]), []).append(curve)
    return found


def _figure(
    run: StoredRun, setting: Setting, curves: dict[str, list[dict[str, Any]]], styles: dict[str, Look]
) -> Figure:
    sparse = {name: listed for name, listed in curves.items() if all("support" in curve for curve in listed)}
    figure = Figure(figsize=(PAGE if sparse else 0.6 * PAGE, 2.6), layout="constrained")
    axes = list(figure.subplots(1, 2 if sparse else 1, squeeze=False).flat)
    shown: list[float] = []
    for method, listed in curves.items():
        shown += _band(axes[0], listed, setting.metric, styles[method])
    shown += _levels(axes[0], run, setting, styles, set(curves))
    axes[0].set_ylabel(setting.measure)
    error_axis(axes[0], shown)
    for method, listed in sparse.items():
        _band(axes[1], listed, "support", styles[method], factor=100)
    if sparse:
        axes[1].set_ylabel("non-zero core entries (%)")
        axes[1].set_ylim(bottom=0)
    for ax in axes:
        ax.set_xlabel("epoch")
    figure.suptitle(wrapped(setting.title, figure.get_figwidth()), fontsize=8)
    legend(figure, axes[0], len(styles))
    figure.set_label(setting.title)
    return figure


def _band(ax: Axes, curves: list[dict[str, Any]], name: str, look: Look, factor: float = 1.0) -> list[float]:
    """Mean and interval at the steps that all trials reported; the means."""
    steps = sorted(set.intersection(*(set(curve["step"]) for curve in curves)))
    if not steps:
        return []
    values = np.array([[_at(curve, step, name) for step in steps] for curve in curves]) * factor
    means = values.mean(axis=0)
    bounds = np.array([interval(column) for column in values.T])
    ax.plot(steps, means, color=look.colour, label=look.name)
    ax.fill_between(steps, np.maximum(bounds[:, 0], 0), bounds[:, 1], color=look.colour, alpha=0.18, linewidth=0)
    return [float(value) for value in _finite(means)]


def _levels(ax: Axes, run: StoredRun, setting: Setting, styles: dict[str, Look], curved: set[str]) -> list[float]:
    part = run.part(setting)
    shown = []
    for method, look in styles.items():
        mean = float(part.loc[part["method"] == method, "score"].mean())
        if method not in curved and not math.isnan(mean):
            ax.axhline(mean, color=look.colour, linestyle=(0, (3, 2)), linewidth=1.2, label=look.name)
            shown.append(mean)
    return shown


def _at(curve: dict[str, Any], step: int, name: str) -> float:
    value = curve[name][curve["step"].index(step)]
    return math.nan if value is None else float(value)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[np.isfinite(values)]
