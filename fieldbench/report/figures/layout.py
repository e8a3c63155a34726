"""Where things stand in a figure: text is measured, so that it is broken, makes room for itself and never overlaps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.transforms import offset_copy

from fieldbench.report.figures.colours import Look, readable
from fieldbench.report.figures.style import FAINT, scale

#: Height of a line of text, relative to the size of its font.
LEADING = 1.3

#: Inches a point.
POINT = 1 / 72

#: Points between axes and the names beside them.
BEFORE_NAME = 24

#: Share of a figure's width that labels beside its axes may take.
BESIDE = 0.4


def size_of(kind: str) -> float:
    """Points of one kind of text: ``legend``, ``figure.title``, ``axes.title``, ``axes.label``, ``xtick.label``."""
    settings = cast("Mapping[str, Any]", matplotlib.rcParams)
    return float(settings[f"{kind}.fontsize" if kind == "legend" else f"{kind}size"])


def width_of(text: str, points: float) -> float:
    """Inches that the longest line of a text takes."""
    font = FontProperties(size=points)
    lines = text.split("\n")
    return max(float(text_to_path.get_text_width_height_descent(line, font, False)[0]) for line in lines) * POINT


def height_of(text: str, points: float) -> float:
    """Inches that the lines of a text take."""
    return (text.count("\n") + 1) * points * LEADING * POINT


def wrapped(text: str, width: float, points: float) -> str:
    """A text broken after spaces, commas and the marks of a spec, or anywhere if need be, so that no line is wider.

    Args:
        text: perhaps of several lines.
        width: in inches.
        points: of its font.
    """
    return "\n".join(line for part in text.split("\n") for line in _lines(part, width, points))


#: Of a word, what stays together: up to a mark of a spec, with a parameter and its value.
_PIECE = r"[^,;\[+]*(?:[,;\[+]\s*|$)"


def _lines(text: str, width: float, points: float) -> list[str]:
    lines = [""]

    def put(pieces: list[str], smaller: Sequence[str]) -> None:
        """Append pieces, each to a new line where it does not fit, or in smaller ones where no line holds it."""
        for piece in pieces:
            if width_of((lines[-1] + piece).rstrip(), points) <= width:
                lines[-1] += piece
            elif smaller and width_of(piece.rstrip(), points) > width:
                put(re.findall(smaller[0], piece), smaller[1:])
            else:
                lines.append(piece)

    # Between words, but not before a per cent sign; behind the marks of a spec; before a value; anywhere.
    put(re.findall(r"(?:[^ ]| %)+ *", text), [_PIECE, r"[^=]*(?:=|$)", r"."])
    return [line.strip() for line in lines if line.strip()] or [""]


def width_of_word(text: str, points: float) -> float:
    """Inches that the longest piece takes which :func:`wrapped` would not break: the least room for a text."""
    return max(width_of(piece.strip(), points) for piece in re.findall(rf"(?:{_PIECE})", text) if piece.strip())


def heading(figure: Figure, title: str, notes: Sequence[str] = ()) -> None:
    """The figure's title, and what has to be known to read it, above everything; the figure grows by it.

    Args:
        figure: drawn on.
        title: becomes its label, too.
        notes: one a line.
    """
    points = size_of("figure.title")
    inches = figure.get_figwidth()
    text = wrapped("\n".join([title, *notes]), inches - 0.15, points)
    grow(figure, height_of(text, points))
    title_above = figure.suptitle(text, x=0.06 / inches, ha="left")
    if figure.get_layout_engine() is None:
        title_above.set_y(1 - 0.05 / figure.get_figheight())
    figure.set_label(title)


def grow(figure: Figure, inches: float) -> None:
    """Make a figure higher."""
    figure.set_figheight(figure.get_figheight() + inches)


def inch_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a position in a figure, which must not grow afterwards.

    Args:
        figure: drawn on.
        left, bottom, width, height: in inches from its lower left corner.
    """
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def grid(count: int, width: float, panel: float, height: float, names: float = 0.0) -> tuple[Figure, list[Axes]]:
    """A figure of equal panels.

    Args:
        count: of panels.
        width: of the figure, in inches.
        panel: least width of a panel, in inches; as many stand beside one another as have it.
        height: of a panel, in inches.
        names: inches at the left for names that all panels share.
    """
    across = max(1, min(count, int((width - names) / (panel * scale()))))
    down = -(-count // across)
    figure = Figure(figsize=(width, height * down * scale()), layout="constrained")
    axes = list(figure.subplots(down, across, sharey=names > 0, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def panel_width(figure: Any) -> float:
    """Inches that text over or under one panel of a figure of equal ones may take."""
    across = figure.axes[0].get_gridspec().ncols
    return float(figure.get_figwidth() / across - 0.65 * scale())


def legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels, below them, with as many columns as fit; the figure grows by it."""
    entries: dict[str, Any] = {}
    points = size_of("legend")
    room = figure.get_figwidth() - 0.2
    handle = 4.5 * points * POINT  # line, gap and the space to the next column
    for axes in panels:
        for artist, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(wrapped(label, room - handle, points), artist)
    widest = max(width_of(label, points) for label in entries) + handle
    columns = max(1, min(len(entries), int(room / widest)))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside lower left",
        ncols=columns,
        columnspacing=1.2,
        labelspacing=0.35,
        borderaxespad=0.2,
    )
    labels = list(entries)
    rows = -(-len(labels) // columns)
    grow(figure, sum(max(height_of(label, points) for label in labels[row::rows]) for row in range(rows)) + 0.08)


def name_lines(panels: Sequence[Axes], ends: Mapping[str, float], looks: Iterable[Look]) -> None:
    """Write what each line is, with its marker, at its end on the right; long names and several panels make a legend.

    To be called last: labels are moved apart where the finished axes are. The figure grows as far as they need.

    Args:
        panels: of the figure; lines are named in the first.
        ends: height of each line's end, by label.
        looks: of the lines; what has none is faint.
    """
    axes, figure = panels[0], cast("Figure", panels[0].get_figure())
    points = size_of("legend")
    if len(panels) > 1 or max(width_of(name, points) for name in ends) > BESIDE * figure.get_figwidth():
        legend(figure, panels)
        return
    known = {look.name: look for look in looks}
    names = sorted(ends, key=ends.__getitem__)
    heights = np.full(len(names), points * LEADING * 1.02)
    grow(figure, max(0.0, (heights.sum() + 6) * POINT - 0.6 * figure.get_figheight()))
    texts = [
        axes.annotate(
            name,
            (1, ends[name]),
            xycoords=("axes fraction", "data"),
            xytext=(BEFORE_NAME, 0),
            textcoords="offset points",
            va="center",
            fontsize=points,
            color=readable(known[name].colour if name in known else FAINT),
            annotation_clip=False,
        )
        for name in names
    ]
    figure.draw_without_rendering()  # so that axes have their positions
    per_point = figure.dpi * POINT
    wanted = np.array([axes.transData.transform((0, ends[name]))[1] for name in names]) / per_point
    below = 0.3 * scale() / POINT  # beside the label of the horizontal axis
    low, high = axes.bbox.y0 / per_point - below, axes.bbox.y1 / per_point
    placed = apart(np.clip(wanted, low, high), heights, low, high)
    for text, there, here in zip(texts, placed, wanted, strict=True):
        text.set_position((BEFORE_NAME, there - here))
        name = text.get_text()
        look = known.get(name)
        axes.annotate(
            "",
            (1, ends[name]),
            xycoords=("axes fraction", "data"),
            xytext=(BEFORE_NAME - (7 if look else 2), there - here),
            textcoords="offset points",
            arrowprops={
                "arrowstyle": "-", "color": look.colour if look else FAINT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2
            },
            annotation_clip=False,
        )  # fmt: skip
        if look:
            beside = offset_copy(axes.get_yaxis_transform(), figure, BEFORE_NAME - 4, there - here, "points")
            figure.add_artist(Line2D([1], [ends[name]], transform=beside, **look.points))


def apart(wanted: Any, heights: Any, low: float, high: float) -> Any:
    """Positions as near as can be to those wanted, in their order, at which things of these heights do not overlap.

    >>> apart([1.0, 1.0, 9.0], [2.0, 2.0, 2.0], 0.0, 20.0).tolist()
    [1.0, 3.0, 9.0]

    Args:
        wanted: centres, rising.
        heights: of the things.
        low, high: between which they stand, as far as there is room.
    """
    from scipy.optimize import isotonic_regression

    heights = np.asarray(heights, dtype=float)
    steps = np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])
    best = isotonic_regression(np.asarray(wanted, dtype=float) - steps).x
    bottom = low + heights[0] / 2
    return np.clip(best, bottom, max(bottom, high - heights[-1] / 2 - steps[-1])) + steps


def value_ticks(axes: Axes, labels: Mapping[float, str]) -> None:
    """Ticks at labelled values along the horizontal axis, which ends at the last; a label that would touch goes.

    The axes are one of the equal panels of a figure.
    """
    points, room, end = size_of("xtick.label"), panel_width(axes.get_figure()), -np.inf
    values = sorted(labels)
    span = values[-1] - values[0]
    axes.set_xlim(values[0] - 0.03 * span, values[-1] + 0.015 * span)
    kept = []
    for value in values:
        position, half = (value - values[0]) / span * room, width_of(labels[value], points) / 2
        fits = position - half > end + 0.04
        kept.append(labels[value] if fits else "")
        end = position + half if fits else end
    axes.set_xticks(values, kept)


def column_of_names(axes: Axes, names: Sequence[str], room: float) -> list[float]:
    """Put names on the vertical axis, from the top down, broken to fit; a height in lines for each.

    Args:
        axes: drawn on.
        names: from the top.
        room: inches that they may take.
    """
    points = size_of("ytick.label")
    broken = [wrapped(name, room, points) for name in names]
    heights = [float(text.count("\n") + 1) for text in broken]
    ends = np.array([0.0, *itertools.accumulate(heights)])
    positions = (ends[:-1] + ends[1:]) / 2
    axes.set_yticks(positions, broken)
    axes.set_ylim(ends[-1], 0)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    return [float(position) for position in positions]
