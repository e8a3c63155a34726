"""Where and how well the deviation that a method states tells the size of its error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fieldbench.field import Field, FloatArray
from fieldbench.report.figures import View, of_settings
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import heading, size_of, wrapped
from fieldbench.report.figures.pictures import (
    aspect,
    cut_axis,
    deviation_colours,
    plane,
    plane_axes,
    scale_of,
    show,
)
from fieldbench.report.figures.slices import error_range
from fieldbench.report.figures.style import FAINT, scale
from fieldbench.report.numbers import with_unit
from fieldbench.report.stored import Panel, StoredRun

#: Groups of entries, by their stated deviation, of which each has one point.
GROUPS = 10


@dataclass(frozen=True)
class Stated:
    """What one method said of one draw, on the scale that is shown; shape of the field, NaN where it is not valid.

    Attributes:
        error: size of the error.
        deviation: as it was stated.
        hidden: entries that were not observed and are valid.
    """

    error: FloatArray
    deviation: FloatArray
    hidden: FloatArray


def draw(run: StoredRun, view: View) -> dict[str, Figure]:
    """One figure a setting, a row for each method that states a deviation: a slice of the size of its error, the same
    slice of the deviation, and the root mean square error of unobserved entries in groups of equal deviation. All are of
    one draw. Points on the diagonal are right; above it the method is too sure. Fields that were not kept are recomputed.

    Raises:
        RequestError: if no method says how sure it is, or the view is not part of the field.
    """
    styles = looks(run.methods, run.labels, view.colours)

    def drawn(setting: Panel) -> Figure | None:
        title, rows = run.draw(setting, view.trial)
        sure = [method for method in styles if method in rows and rows[method]["metrics"].get("coverage90") is not None]
        shown = {method: run.reconstruction(rows[method]) for method in sure}
        stated: dict[str, Stated] = {}
        for method, item in shown.items():
            colours = scale_of(item.truth)
            deviation = colours.deviation(item.made)
            if deviation is not None:
                error = np.abs(colours.shown(item.estimate) - colours.shown(item.truth.values))
                hidden = np.isnan(item.observation.values) & item.truth.valid
                stated[method] = Stated(*(np.where(item.truth.valid, part, np.nan) for part in (error, deviation)), hidden)
        if not stated:
            return None
        truth = next(iter(shown.values())).truth
        return _figure(title, truth, stated, styles, view)

    nothing = "no method of this run states a deviation; add +conformal to one"
    return of_settings("deviation", run, view, drawn, nothing)


def reliability(stated: Stated) -> tuple[FloatArray, FloatArray]:
    """Root mean square of the deviation and of the error of unobserved entries, in groups of equal size by deviation."""
    deviations, errors = stated.deviation[stated.hidden], stated.error[stated.hidden]
    order = np.argsort(deviations, kind="stable")
    groups = [group for group in np.array_split(order, GROUPS) if len(group)]
    return tuple(np.array([math.sqrt(float((part[group] ** 2).mean())) for group in groups]) for part in (deviations, errors))


def _figure(title: str, truth: Field, stated: Mapping[str, Stated], styles: dict[str, Look], view: View) -> Figure:
    axis = cut_axis(truth, view.axis)
    index = (*view.at, truth.shape[axis] // 2)[0]
    colours = scale_of(truth)
    unit = "dB" if colours.decibel else truth.unit
    pairs = 2 if view.width > 6 * scale() and len(stated) > 1 else 1
    down = -(-len(stated) // pairs)
    each = view.width / (3 * pairs)
    tall = (each - 0.3 * scale()) * aspect(truth, axis) + 0.6 * scale()
    figure = Figure(figsize=(view.width, down * tall + 0.6 * scale()), layout="constrained")
    axes = figure.subplots(down, 3 * pairs, squeeze=False).reshape(-1, 3)
    for spare in axes[len(stated) :].flat:
        spare.remove()
    axes = axes[: len(stated)]
    largest = error_range([part[truth.valid] for item in stated.values() for part in (item.error, item.deviation)])
    curves = {method: reliability(item) for method, item in stated.items()}
    farthest = 1.08 * max(float(part.max()) for curve in curves.values() for part in curve)
    for (method, item), (*maps, ax) in zip(stated.items(), axes, strict=True):
        for place, (part, what) in zip(maps, ((item.error, "size of error"), (item.deviation, "deviation")), strict=True):
            image = show(place, plane(part, axis, index), *plane_axes(truth, axis), deviation_colours(), 0, largest)
            place.set_xlabel(what)
            place.tick_params(length=0)
        maps[0].set_title(wrapped(styles[method].name, 3 * each - 0.2, size_of("axes.title")))
        _reliability(ax, *curves[method], styles[method], farthest, unit)
    label = with_unit("size of error, deviation", unit)
    figure.colorbar(image, ax=axes.ravel().tolist(), location="bottom", label=label, aspect=30, shrink=0.5, extend="max")
    where = f"{truth.axes[axis].name} {truth.axes[axis].coordinates[index]:g} {truth.axes[axis].unit}".strip()
    slice_ = [f"maps: at {where}"] if len(truth.shape) > 2 else []
    heading(figure, title, [*slice_, f"points: unobserved entries in {GROUPS} groups by deviation; above the line: too sure"])
    return figure


def _reliability(ax: Axes, deviations: FloatArray, errors: FloatArray, look: Look, farthest: float, unit: str) -> None:
    """Actual against stated error, on equal axes."""
    ax.plot([0, farthest], [0, farthest], color=FAINT, linewidth=0.8, zorder=1)
    ax.plot(deviations, errors, look.marker + "-", color=look.colour, markersize=2.5 * scale(), linewidth=0.8, zorder=3)
    ax.set_xlim(0, farthest)
    ax.set_ylim(0, farthest)
    ax.set_box_aspect(1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(3))
    ax.set_xlabel(with_unit("deviation", unit))
    ax.set_ylabel("RMS error")
