"""Where and how well the deviation that a method states tells the size of its error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fieldbench.errors import RequestError
from fieldbench.field import Field, FloatArray, Mask
from fieldbench.reconstructions import Reconstruction
from fieldbench.report.figures import View
from fieldbench.report.figures.colours import Look, looks
from fieldbench.report.figures.layout import heading, height_of, inch_axes, size_of, wrapped
from fieldbench.report.figures.pictures import (
    aspect,
    colour_bars,
    cut_axis,
    deviation_colours,
    plane,
    plane_axes,
    room_of_bars,
    scale_of,
    show,
)
from fieldbench.report.figures.slices import error_range
from fieldbench.report.figures.style import FAINT, scale
from fieldbench.report.numbers import with_unit
from fieldbench.report.stored import StoredRun

#: Groups of entries by their stated deviation; each has one point.
GROUPS = 10


@dataclass(frozen=True)
class Stated:
    """What one method said of one draw, on the scale that is shown; shape of the field, NaN where it is not valid.

    Attributes:
        error: size of the error.
        deviation: as it was stated.
        unobserved: entries that were not observed and are valid.
    """

    error: FloatArray
    deviation: FloatArray
    unobserved: Mask


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting, for each method that states a deviation: a slice of the size of its error, the same slice
    of the deviation, and the root mean square error of unobserved entries in groups of like deviation, all of one draw.

    Points on the diagonal are right; above it the method is too sure. Fields that were not kept are recomputed.

    Raises:
        RequestError: if the view is not part of the field.
    """
    if len(view.at) > 1:
        raise RequestError(f"deviation shows one slice; give one index, such as {view.at[0]}")
    styles = looks(run.methods, run.labels, view.colours)
    for setting in run.settings:
        title, rows = run.draw(setting, view.trial)
        sure = [method for method in styles if method in rows and rows[method]["metrics"].get("coverage90") is not None]
        shown = {method: run.reconstruction(rows[method]) for method in sure}
        stated = {method: told for method, item in shown.items() if (told := _stated(item))}
        if stated:
            yield title, _figure(title, next(iter(shown.values())).truth, stated, styles, view)


def _stated(item: Reconstruction) -> Stated | None:
    """What an estimate says of its error, beside the error; None if it says nothing."""
    truth, colours = item.truth, scale_of(item.truth)
    deviation = colours.deviation(item.made)
    if deviation is None:
        return None
    error = np.abs(colours.shown(item.estimate) - colours.shown(truth.values))
    unobserved = np.isnan(item.observation.values) & truth.valid
    return Stated(np.where(truth.valid, error, np.nan), np.where(truth.valid, deviation, np.nan), unobserved)


def reliability(stated: Stated) -> tuple[FloatArray, FloatArray]:
    """Root mean squares of deviation and error of unobserved entries, in groups of equal size by deviation."""
    deviations, errors = stated.deviation[stated.unobserved], stated.error[stated.unobserved]
    order = np.argsort(deviations, kind="stable")
    groups = [group for group in np.array_split(order, GROUPS) if len(group)]

    def of_groups(values: FloatArray) -> FloatArray:
        return np.array([math.sqrt(float((values[group] ** 2).mean())) for group in groups])

    return of_groups(deviations), of_groups(errors)


def _figure(title: str, truth: Field, stated: Mapping[str, Stated], styles: dict[str, Look], view: View) -> Figure:
    axis = cut_axis(truth, view.axis)
    index = (*view.at, truth.shape[axis] // 2)[0]
    points = size_of("axes.title")
    pairs = 2 if view.width > 6 * scale() and len(stated) > 1 else 1
    block = (view.width - 0.12) / pairs
    room = 0.52 * scale()  # of the labels beside a diagram
    size = (block - room - 0.07 - 0.15) / 3
    tall = size * aspect(truth, axis)
    names = [wrapped(styles[method].name, block - 0.2, points) for method in stated]
    row = max(height_of(name, points) for name in names) + tall + 0.5 * scale()
    label = with_unit("size of error, deviation", scale_of(truth).unit)
    bar = min(3.0 * scale(), view.width - 0.5)
    down, foot = -(-len(stated) // pairs), room_of_bars([label], bar)
    figure = Figure(figsize=(view.width, down * row + foot))
    heading(figure, title, _notes(truth, axis, index))
    largest = error_range([part[truth.valid] for item in stated.values() for part in (item.error, item.deviation)])
    limits = (deviation_colours(), 0.0, largest)
    curves = {method: reliability(item) for method, item in stated.items()}
    farthest = 1.08 * max(float(part.max()) for curve in curves.values() for part in curve)
    for number, ((method, item), name) in enumerate(zip(stated.items(), names, strict=True)):
        left, bottom = 0.06 + number % pairs * block, foot + (down - 1 - number // pairs) * row + 0.42 * scale()
        for column, (part, what) in enumerate(((item.error, "error"), (item.deviation, "deviation"))):
            ax = inch_axes(figure, left + column * (size + 0.07), bottom, size, tall)
            show(ax, plane(part, axis, index), *plane_axes(truth, axis), limits)
            ax.set_xlabel(what)
            ax.tick_params(length=0)
            ax.set_title("" if column else name)
        ax = inch_axes(figure, left + 2 * (size + 0.07) + room, bottom, size, tall)
        _reliability(ax, *curves[method], styles[method], farthest)
    colour_bars(figure, 0.15, bar, [(limits, label, "max")])
    return figure


def _notes(truth: Field, axis: int, index: int) -> list[str]:
    cut = truth.axes[axis]
    where = f"maps at {cut.name} {cut.coordinates[index]:g} {cut.unit}".strip()
    points = f"points: unobserved entries in {GROUPS} groups by deviation; above the line the method is too sure"
    return [where, points] if len(truth.shape) > 2 else [points]


def _reliability(ax: Axes, deviations: FloatArray, errors: FloatArray, look: Look, farthest: float) -> None:
    """Actual against stated error, on equal axes."""
    ax.plot([0, farthest], [0, farthest], color=FAINT, linewidth=0.8, zorder=1)
    ax.plot(deviations, errors, **look.points, markersize=2.5 * scale(), linewidth=0.8, zorder=3)
    ax.set_xlim(0, farthest)
    ax.set_ylim(0, farthest)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(2))
    ax.set_xlabel("deviation")
    ax.set_ylabel("RMS error")
