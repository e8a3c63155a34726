"""Slices of truth, observation, every method's reconstruction, its error, and how large it says that is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fieldbench.field import Field, FloatArray
from fieldbench.reconstructions import Reconstruction
from fieldbench.report.figures import View
from fieldbench.report.figures.colours import looks
from fieldbench.report.figures.layout import (
    LEADING,
    POINT,
    heading,
    height_of,
    inch_axes,
    size_of,
    width_of_word,
    wrapped,
)
from fieldbench.report.figures.pictures import (
    Coloured,
    Scale,
    aspect,
    colour_bars,
    cut_axis,
    cut_positions,
    error_colours,
    plane,
    plane_axes,
    room_of_bars,
    scale_of,
    show,
)
from fieldbench.report.figures.style import scale
from fieldbench.report.numbers import with_unit
from fieldbench.report.stored import Panel, StoredRun

#: Share of the errors that the error scale covers, so that one bad entry does not make all others pale.
COVERED = 0.995

#: Inches between two pictures, of the least wide one and of the widest one.
GAP, NARROW, WIDE = 0.07, 0.72, 1.7


@dataclass(frozen=True)
class Pictures:
    """What stands below one heading: its rows by kind, ``field``, ``error`` and ``deviation``, on the scale shown."""

    head: str
    rows: Mapping[str, FloatArray]


def draw(run: StoredRun, view: View) -> Iterator[tuple[str, Figure]]:
    """One figure a setting: for each slice a row of the fields, one of their errors, and one of the standard deviations
    of methods that have them. All fields share one scale, all errors and deviations another; all are of one draw. Where
    the width does not hold all methods, the others follow below. Fields that were not kept are recomputed.

    Raises:
        RequestError: if the view is not part of the field.
    """
    names = {method: look.name for method, look in looks(run.methods, run.labels).items()}
    for setting in run.settings:
        title, rows = run.draw(setting, view.trial)
        shown = {method: run.reconstruction(rows[method]) for method in names if method in rows}
        if shown:
            heads = {method: f"{names[method]}\n{_score(setting, rows[method])}".strip() for method in shown}
            yield title, _figure(title, shown, heads, view)


def _score(setting: Panel, row: Mapping[str, Any]) -> str:
    score = row["metrics"].get(setting.metric)
    return "" if score is None else f"{setting.name} {score:.3g}"


def error_range(errors: Sequence[FloatArray]) -> float:
    """Where the common scale of errors ends: where that of the median method would.

    Errors that are not finite do not count.
    """
    finite = [np.abs(error[np.isfinite(error)]) for error in errors]
    ends = [float(np.quantile(sizes, COVERED)) for sizes in finite if len(sizes)]
    return float(np.median(ends or [0.0])) or 1.0


def _columns(shown: dict[str, Reconstruction], heads: dict[str, str], colours: Scale) -> list[Pictures]:
    first = next(iter(shown.values()))
    truth = colours.shown(first.truth.values)
    observed = np.where(first.truth.valid, colours.shown(first.observation.values), np.nan)
    columns = [Pictures("truth", {"field": truth}), Pictures("observation", {"field": observed})]
    for method, item in shown.items():
        rows = {"field": colours.shown(item.estimate), "error": colours.shown(item.estimate) - truth}
        deviation = colours.deviation(item.made)
        columns.append(Pictures(heads[method], rows if deviation is None else {**rows, "deviation": deviation}))
    return columns


@dataclass(frozen=True)
class _Sheet:
    """How pictures are arranged, sizes in inches.

    Attributes:
        truth: the field that they are of.
        axis: the one that is cut.
        bands: columns that stand beside one another, from the top.
        positions: of the slices along it.
        left: of the first picture.
        size, tall: width and height of a picture.
    """

    truth: Field
    axis: int
    bands: list[list[Pictures]]
    positions: list[int]
    left: float
    size: float
    tall: float

    @classmethod
    def of(cls, truth: Field, columns: list[Pictures], view: View) -> _Sheet:
        """As many columns beside one another as the width holds with the words of their heads whole, two at least.

        Where it does not hold all, the middle slice alone.
        """
        axis = cut_axis(truth, view.axis)
        left = 0.34 * scale() + 3 * size_of("axes.label") * LEADING * POINT
        room = view.width - left - 0.1
        words = [word for column in columns for word in column.head.split()]
        longest = max(width_of_word(word, size_of("axes.title")) for word in words)
        narrow = max(NARROW * scale(), min(longest, room / 2))
        bands = -(-len(columns) // max(2, int((room + GAP) / (narrow + GAP))))
        many = -(-len(columns) // bands)
        size = min(WIDE * scale(), (room + GAP) / many - GAP)
        positions = [0]
        if len(truth.shape) > 2:
            positions = cut_positions(truth.shape[axis], view.at or (() if bands == 1 else (truth.shape[axis] // 2,)))
        parts = [columns[start : start + many] for start in range(0, len(columns), many)]
        return cls(truth, axis, parts, positions, left, size, size * aspect(truth, axis))

    def rows(self, band: list[Pictures]) -> list[tuple[int, str]]:
        """The rows of a band: index along the axis, and kind."""
        return list(itertools.product(self.positions, dict.fromkeys(kind for column in band for kind in column.rows)))

    def pictures(self, band: list[Pictures]) -> float:
        """Height of the pictures of a band."""
        return len(self.rows(band)) * (self.tall + GAP) - GAP


def _figure(title: str, shown: dict[str, Reconstruction], heads: dict[str, str], view: View) -> Figure:
    truth = next(iter(shown.values())).truth
    colours = scale_of(truth)
    columns = _columns(shown, heads, colours)
    sheet = _Sheet.of(truth, columns, view)
    points = size_of("axes.title")
    names = [[wrapped(column.head, sheet.size, points) for column in band] for band in sheet.bands]
    tops = [max(height_of(name, points) for name in band) + 0.06 for band in names]
    what = "error, deviation" if any("deviation" in column.rows for column in columns) else "error"
    labels = [colours.label, with_unit(what, colours.unit)]
    half, foot = (view.width - sheet.left - 0.45) / 2, 0.42 * scale()
    begin = sum(tops) + sum(sheet.pictures(band) + foot for band in sheet.bands) + room_of_bars(labels, half)
    figure = Figure(figsize=(view.width, begin))
    heading(figure, title, ["hatched: not observed"])
    largest = error_range([column.rows["error"][truth.valid] for column in columns if "error" in column.rows])
    signed = (error_colours(), -largest, largest)
    limits = {"field": (colours.colours, colours.low, colours.high), "error": signed, "deviation": signed}
    for band, heads_here, top in zip(sheet.bands, names, tops, strict=True):
        _band(figure, sheet, band, heads_here, begin - top, limits)
        begin -= top + sheet.pictures(band) + foot
    bars = [(limits["field"], labels[0], "neither"), (signed, labels[1], "both")]
    colour_bars(figure, sheet.left, half, bars)
    return figure


def _band(
    figure: Figure, sheet: _Sheet, band: list[Pictures], names: list[str], top: float, limits: Mapping[str, Coloured]
) -> None:
    """Draw one band of pictures, whose upper edge is ``top`` inches above the figure's lower one."""
    rows = sheet.rows(band)
    across, up = plane_axes(sheet.truth, sheet.axis)
    for number, (column, name) in enumerate(zip(band, names, strict=True)):
        own = [row for row, (_, kind) in enumerate(rows) if kind in column.rows]
        for row in own:
            index, kind = rows[row]
            left, bottom = number * (sheet.size + GAP), (row + 1) * (sheet.tall + GAP) - GAP
            ax = inch_axes(figure, sheet.left + left, top - bottom, sheet.size, sheet.tall)
            picture = plane(np.where(sheet.truth.valid, column.rows[kind], np.nan), sheet.axis, index)
            show(ax, picture, across, up, limits[kind])
            if row == own[0]:
                ax.set_title(name, loc="center")
            if kind != "field" and column is next(other for other in band if kind in other.rows):
                ax.set_ylabel(kind)
            if number == 0 and kind == "field":
                ax.set_ylabel(wrapped(_where(sheet, index), max(sheet.tall, 0.9), size_of("axes.label")))
                ax.tick_params(labelleft=True)
            if number == 0 and row == own[-1]:
                ax.set_xlabel(wrapped(with_unit(across.name, across.unit), sheet.size, size_of("axes.label")))
                ax.tick_params(labelbottom=True)


def _where(sheet: _Sheet, index: int) -> str:
    """The position of a slice, and its upward axis."""
    upward = plane_axes(sheet.truth, sheet.axis)[1]
    up = with_unit(upward.name, upward.unit)
    if len(sheet.truth.shape) == 2:
        return up
    cut = sheet.truth.axes[sheet.axis]
    return f"{cut.name} {cut.coordinates[index]:g} {cut.unit}".strip() + f"\n{up}"
