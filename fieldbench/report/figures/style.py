"""How figures look: the styles, and what all kinds share of lines, bands and axes."""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Literal

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from fieldbench.report.figures.colours import Look
from fieldbench.report.settings import SETTING
from fieldbench.report.statistics import interval

_PAPER: dict[str, Any] = {
    **dict.fromkeys(["font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize"], 8),
    **dict.fromkeys(["legend.fontsize", "xtick.labelsize", "ytick.labelsize"], 7),
    **dict.fromkeys(["axes.linewidth", "xtick.major.width", "ytick.major.width"], 0.6),
    **dict.fromkeys(["xtick.major.size", "ytick.major.size"], 2.5),
    **dict.fromkeys(["xtick.minor.size", "ytick.minor.size"], 0),
    **dict.fromkeys(["axes.spines.top", "axes.spines.right", "legend.frameon"], False),
    **dict.fromkeys(["axes.grid", "axes.axisbelow"], True),
    **dict.fromkeys(["figure.dpi", "savefig.dpi"], 200),
    "grid.linewidth": 0.4,
    "grid.color": "#e3e3e3",
    "axes.titlelocation": "left",
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "hatch.linewidth": 0.5,
    "legend.handlelength": 2.2,
    "text.parse_math": False,  # a dollar sign in a name is one
    "pdf.fonttype": 42,
    "svg.hashsalt": "fieldbench",
}

_TALK: dict[str, Any] = {
    **{name: 1.4 * size for name, size in _PAPER.items() if "size" in name and isinstance(size, int | float)},
    "axes.linewidth": 1.0,
    "lines.linewidth": 2.0,
    "hatch.linewidth": 0.8,
}

_GROUND, _INK = "#14171c", "#e8eaed"

_DARK: dict[str, Any] = {
    **dict.fromkeys(["figure.facecolor", "axes.facecolor", "savefig.facecolor"], _GROUND),
    **dict.fromkeys(
        ["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "legend.labelcolor"], _INK
    ),
    "grid.color": "#30353d",
}

#: What `--style` may be, and what each changes of print on paper.
STYLES: dict[str, dict[str, Any]] = {"paper": {}, "talk": _TALK, "dark": _DARK}


_ALONE = threading.RLock()


@contextlib.contextmanager
def printing(name: str = "paper") -> Iterator[None]:
    """Settings of one of :data:`STYLES`, whatever the user's own are.

    Other threads wait, since matplotlib has one set of settings for all.
    """
    fonts = {"font.family": ["DejaVu Sans", *_fallbacks()]}
    with _ALONE, style.context(["default", _PAPER, STYLES[name], fonts]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # :func:`without_glyph` says it
        yield


#: Fonts for the scripts that matplotlib's own font lacks, which of them a machine has.
FALLBACKS = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK KR", "Source Han Sans", "WenQuanYi Zen Hei"),
    *("WenQuanYi Micro Hei", "Droid Sans Fallback", "Microsoft YaHei", "SimHei", "PingFang SC", "Hiragino Sans"),
    *("Yu Gothic", "Malgun Gothic", "Apple SD Gothic Neo", "Arial Unicode MS", "Unifont"),
)


@cache
def _fallbacks() -> tuple[str, ...]:
    installed = set(fontManager.get_font_names())
    return tuple(name for name in FALLBACKS if name in installed)


def without_glyph(figures: Iterable[Figure]) -> str:
    """The characters of figures that no font has, so that a box stands for each."""
    texts = (text.get_text() for figure in figures for text in figure.findobj(Text) if isinstance(text, Text))
    shown = dict.fromkeys(letter for text in texts for letter in text if letter.isprintable())
    files = (fontManager.findfont(FontProperties(family=[name])) for name in ("DejaVu Sans", *_fallbacks()))
    had = set(chain.from_iterable(get_font(file).get_charmap() for file in files))
    return "".join(letter for letter in shown if ord(letter) not in had)


#: What stands behind the data: trials joined, promises, the floor's hatching.
FAINT = "#8a8a8a"


def scale() -> float:
    """How large text is, relative to paper: heights grow with it."""
    return float(matplotlib.rcParams["font.size"]) / float(_PAPER["font.size"])


def ink() -> str:
    """The colour of text and axes."""
    return str(matplotlib.rcParams["text.color"])


@dataclass
class Shown:
    """What an axis of scores has to show.

    Attributes:
        values: all of them lie on it.
        ends: of intervals, which may reach beyond where one would squash everything else.
        last: the value at the right end of each line, by its name.
    """

    values: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)

    def add(self, other: Shown) -> None:
        self.values += other.values
        self.ends += other.ends
        self.last |= other.last


def mean_band(
    axes: Axes, samples: Mapping[float, ArrayLike], look: Look, among: int, number: int | None = None
) -> Shown:
    """A line through the means of samples, with their 95 % intervals (Student's t) as a band.

    An empty sample is left out. One with a value that is not finite has no mean to be shown and leaves a gap. Where no
    value is negative, as with an error, the band ends at zero. Bands lie below all lines, and are the paler, the more
    there are.

    Args:
        axes: drawn on.
        samples: values by their position along the horizontal axis, shape (n,) each.
        look: colour and name of the line.
        among: how many bands the axes have.
        number: of the line among them, where it has too many means for a marker on each; see :func:`some_markers`.
    """
    vectors = {position: np.asarray(samples[position], dtype=float) for position in sorted(samples)}
    vectors = {position: vector for position, vector in vectors.items() if len(vector)}
    if not vectors:
        return Shown()
    positions = list(vectors)
    means = [float(vector.mean()) if np.isfinite(vector).all() else math.nan for vector in vectors.values()]
    lows, highs = np.array([interval(vector) for vector in vectors.values()]).T
    if not any((vector < 0).any() for vector in vectors.values()):
        lows = np.maximum(lows, 0)
    every = some_markers(number) if number is not None and len(positions) > 1 else None
    axes.plot(positions, means, **look.points, linestyle=look.dash, label=look.name, markevery=every, zorder=3)
    pale = min(0.16, 0.35 / among)
    axes.fill_between(positions, lows, highs, facecolor=(look.colour, pale), linewidth=0, zorder=1)
    edges = [np.column_stack([positions, ends]) for ends in (lows, highs)]
    axes.add_collection(
        LineCollection(edges, colors=[(look.colour, 3 * pale)], linewidths=0.4, zorder=2), autolim=False
    )
    finite = [mean for mean in means if math.isfinite(mean)]
    return Shown(finite, [*lows, *highs], {look.name: finite[-1]} if finite else {})


def some_markers(number: int) -> tuple[float, float]:
    """Where a line has its markers, in shares of the axes' diagonal: each line of a figure at other positions."""
    return 0.02 + 0.047 * number % 0.23, 0.25


def error_axis(axes: Axes, shown: Shown, which: Literal["x", "y"] = "y") -> None:
    """Scale an axis of scores: logarithmic where means span decades, from zero where none is negative.

    Args:
        axes: drawn on.
        shown: what it has to show.
        which: of the two axes.
    """
    values = [value for value in shown.values if math.isfinite(value)]
    ends = [end for end in shown.ends if math.isfinite(end)]
    if not values:
        return
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    low, high = min(values), max(values)
    if logarithmic(values):
        log_axis(axes, which)
        near = [end for end in ends if low / 4 < end < high * 4]
        set_limits(min([low, *near]) / 1.25, max([high, *near]) * 1.25)
        return
    room = max(high - low, float(np.quantile(np.abs(np.array(ends) - np.mean(values)), 0.9)) if ends else 0.0)
    low, high = max(min([low, *ends]), low - room), min(max([high, *ends]), high + room)
    margin = 0.06 * (high - low if min([*values, *ends]) < 0 else high) or 0.5
    set_limits(low - margin if min([*values, *ends]) < 0 else 0.0, high + margin)
    (axes.xaxis if which == "x" else axes.yaxis).set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers, and enough of them where it spans little."""
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
    return len(positive) == len(values) > 0 and max(positive) / min(positive) > 8


def floor_edge(axes: Axes, positions: Sequence[float], floors: Sequence[float], upright: bool = False) -> None:
    """Hatch what lies below the floor, where every position has one; to be called when the axis has its scale.

    Args:
        axes: drawn on.
        positions: along the other axis, one for each floor.
        floors: in the unit of the axis of scores, which is the vertical one.
        upright: whether that axis is the horizontal one instead.
    """
    if not np.isfinite(floors).all():
        return
    low = (axes.get_xlim() if upright else axes.get_ylim())[0]
    fill = axes.fill_betweenx if upright else axes.fill_between
    limits = axes.axis()
    fill(
        positions,
        low,
        floors,
        facecolor="none",
        edgecolor=(FAINT, 0.7),
        hatch="///",
        linewidth=0.6,
        label=FLOOR,
        zorder=0,
    )
    axes.axis(limits)


#: What the hatched edge is called.
FLOOR = "floor"


def not_finite(scores: ArrayLike) -> list[str]:
    """What is said of scores that no axis can show: a line, or none."""
    count = int((~np.isfinite(np.asarray(scores, dtype=float))).sum())
    return [f"{count} score{'s are' if count > 1 else ' is'} not finite: not shown"] if count else []


def trials_of(part: pd.DataFrame, what: str = "band") -> str:
    """How many trials the means of records are of, and what the interval is that ``what`` shows: a note of a figure."""
    counts = part.dropna(subset="score").groupby([*SETTING, "method"], observed=True).size()
    low, high = int(counts.min()), int(counts.max())
    number = f"{low} trial{'s' * (low > 1)}" if low == high else f"{low} to {high} trials"
    if high == 1:
        return f"{number} each, so that there is no interval"
    return f"mean of {number}; {what}: 95 % interval of the mean (Student's\u00a0t)"
