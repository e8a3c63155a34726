"""How figures look: sizes, colours and names that all kinds share."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fieldbench.report.statistics import interval
from fieldbench.spec import parse

#: Widths in inches of one and of two columns of a journal page.
COLUMN, PAGE = 3.5, 7.16

#: Okabe and Ito's colours, told apart by colour-blind readers, darkest uses first; then again with other markers.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")

_PRINT: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "text.parse_math": False,  # a dollar sign in a name is one
    "pdf.fonttype": 42,
    "svg.hashsalt": "fieldbench",
}


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Settings for print, whatever the user's own are."""
    with style.context(["default", _PRINT]):
        yield


@dataclass(frozen=True)
class Look:
    """How a method is drawn, the same in every figure of a run."""

    name: str
    colour: str
    marker: str


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """A look for each method; names are as short as they can be and still differ."""
    pairs = zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS), strict=False)
    named = short_names(methods)
    return {method: Look(named[method], *pair) for method, pair in zip(methods, pairs, strict=False)}


def short_names(methods: Sequence[str]) -> dict[str, str]:
    """Specs without the parameters that all specs of that name share."""
    bare = {method: "+".join(part.name for part in parse(method)) for method in methods}
    shared = [name for name in bare.values() if list(bare.values()).count(name) > 1]
    return {method: method if name in shared else name for method, name in bare.items()}


def grid(count: int, width: float = 2.6, height: float = 2.2, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, in rows of at most ``columns``.

    Args:
        count: of panels.
        width: of a panel, in inches.
        height: of a panel, in inches.
        columns: panels beside one another, at most.
    """
    across = min(count, columns)
    down = -(-count // across)
    figure = Figure(figsize=(max(COLUMN, width * across), height * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = max(1, min(len(entries), int(figure.get_figwidth() / 1.1)))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns)


def mean_band(
    axes: Axes, positions: Sequence[float], samples: Sequence[ArrayLike], look: Look, marker: str = ""
) -> list[float]:
    """A line through the means of samples, one a position, with their 95 % intervals (Student's t) as a band.

    A sample with a value that is not finite has no mean to be shown and leaves a gap. Where no value is
    negative, as with an error, the band ends at zero.

    Args:
        axes: drawn on.
        positions: of the samples along the horizontal axis.
        samples: values of each sample, shape (n,).
        look: colour and name of the line.
        marker: matplotlib's, at each mean.

    Returns:
        The values that the axis has to show.
    """
    vectors = [np.asarray(sample, dtype=float) for sample in samples]
    means = np.array([vector.mean() if np.isfinite(vector).all() else math.nan for vector in vectors])
    lows, highs = np.array([interval(vector) for vector in vectors]).T
    signed = any((vector < 0).any() for vector in vectors)
    if not signed:
        lows = np.maximum(lows, 0)
    axes.plot(positions, means, color=look.colour, marker=marker, label=look.name)
    axes.fill_between(positions, lows, highs, color=look.colour, alpha=0.18, linewidth=0)
    return [float(value) for value in (*means, *(lows if signed else ())) if math.isfinite(value)]


def not_finite(scores: ArrayLike) -> str:
    """What a title adds about scores that no axis can show: a line of its own, or nothing."""
    count = int((~np.isfinite(np.asarray(scores, dtype=float))).sum())
    return f"\n{count} score{'s are' if count > 1 else ' is'} not finite: not shown" if count else ""


def floor_edge(axes: Axes, positions: Sequence[float], floors: Sequence[float]) -> None:
    """Hatch what lies below the floor, where every position has one; to be called when the axis has its scale.

    Args:
        axes: drawn on.
        positions: along the horizontal axis, one for each floor.
        floors: in the unit of the vertical axis.
    """
    if not np.isfinite(floors).all():
        return
    low, high = axes.get_ylim()
    axes.fill_between(
        positions, low, floors, facecolor="none", edgecolor="#777777", hatch="////", linewidth=0.8, label="floor"
    )
    axes.set_ylim(low, high)


def error_axis(axes: Axes, values: Sequence[float]) -> None:
    """Scale the y axis, which shows scores: logarithmic where they span decades, from zero where none is negative."""
    finite = [value for value in values if math.isfinite(value)]
    if logarithmic(finite):
        log_axis(axes, "y")
    elif min(finite, default=0.0) >= 0:
        axes.set_ylim(bottom=0)


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers, and enough of them where it spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_data_interval()
    decades = math.log10(high / low) if 0 < low < high else 0
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def logarithmic(values: Sequence[float]) -> bool:
    """Whether an axis with these values is read more easily on a logarithmic scale."""
    positive = [value for value in values if value > 0]
    return len(positive) == len(values) > 0 and max(positive) / min(positive) > 20


def wrapped(title: str, width: float) -> str:
    """A title broken after its commas so that it fits over a panel ``width`` inches wide."""
    fitting = max(12, int(width * 15))
    lines = [""]
    for piece in re.findall(r"[^,]*,? ?", title):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > fitting:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.strip() for line in lines)
