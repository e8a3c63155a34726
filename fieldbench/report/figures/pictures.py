"""How fields become pictures: conventional colours, shared scales, units and coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fieldbench.errors import RequestError, nearest
from fieldbench.estimate import Estimate
from fieldbench.field import Axis, Field, FloatArray
from fieldbench.report.figures.layout import height_of, inch_axes, size_of, wrapped
from fieldbench.report.figures.style import scale
from fieldbench.report.numbers import with_unit


@dataclass(frozen=True, eq=False)
class Scale:
    """How values of a field are shown.

    Attributes:
        colours: colour map of the values.
        low, high: values at its ends.
        label: quantity with unit.
        decibel: whether values are shown as 10 log10(value + floor).
        floor: what is added to them then.
        unit: of errors and deviations.
    """

    colours: Any
    low: float
    high: float
    label: str
    decibel: bool
    floor: float
    unit: str

    def shown(self, values: FloatArray) -> NDArray[np.float64]:
        """Values on the scale that is shown."""
        if not self.decibel:
            return np.asarray(values, dtype=float)
        return np.asarray(10 * np.log10(np.maximum(values, 0) + self.floor), dtype=float)

    def deviation(self, made: Estimate) -> FloatArray | None:
        """The standard deviation of each entry on the scale that is shown, or None if the estimate has none."""
        if not self.decibel:
            return made.spread()
        spread = made.in_domain(self.floor).spread()
        return None if spread is None else spread * 10 / np.log(10)


def scale_of(field: Field) -> Scale:
    """The scale of a field's truth: decibels for power, else the unit itself; cmocean's colours for the sea."""
    quantity, decibel = field.quantity or "value", field.log_floor is not None
    reference = f" re 1 {field.unit}" if decibel and field.unit else ""
    unit = "dB" if decibel else field.unit
    scale = Scale(None, 0, 1, with_unit(quantity, unit + reference), decibel, field.log_floor or 0.0, unit)
    values = scale.shown(field.values[field.valid])
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    signed, ocean = not decibel and low < 0 < high, "sound speed" in quantity
    if signed:
        high = max(high, -low)
        low = -high
    sea, other = ("balance", "RdBu_r") if signed else ("thermal", "inferno" if decibel else "viridis")
    return replace(scale, low=low, high=high, colours=_ocean(sea, other) if ocean else matplotlib.colormaps[other])


def error_colours() -> Any:
    """The colour map of errors, one for colour-blind readers: orange is too much, violet too little, zero pale."""
    return matplotlib.colormaps["PuOr_r"]


def deviation_colours() -> Any:
    """The colour map of sizes of errors and of standard deviations: zero is pale."""
    return matplotlib.colormaps["Oranges"]


#: A colour map, and the values at its ends.
Coloured: TypeAlias = tuple[Any, float, float]

#: What unobserved entries look like: hatching on a ground that no colour map has.
UNOBSERVED = {"facecolor": "#a8a89c", "edgecolor": "#7c7f76", "hatch": "//////", "linewidth": 0.0}


def show(ax: Axes, picture: Any, across: Axis, up: Axis, limits: Coloured) -> None:
    """Draw one slice; entries that are NaN are hatched.

    Args:
        ax: drawn on.
        picture: as :func:`plane` gives it.
        across, up: its axes; depth goes down.
        limits: the colour map, and the values at its ends.
    """
    colours, low, high = limits
    ax.patch.set(**UNOBSERVED)
    ax.grid(visible=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    ax.imshow(
        picture,
        origin="lower",
        extent=extent(across, up),
        cmap=colours,
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="nearest",
    )
    if "depth" in up.name:
        ax.invert_yaxis()
    ax.xaxis.set_major_locator(MaxNLocator(2))
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.tick_params(labelleft=False, labelbottom=False, length=1.5)


def colour_bars(figure: Figure, left: float, width: float, bars: Sequence[tuple[Coloured, str, str]]) -> None:
    """Colour scales beside one another at the foot of a figure, in the room that :func:`room_of_bars` says.

    Args:
        figure: drawn on.
        left: of the first, in inches.
        width: of each.
        bars: the colours of each, its label, and which ends have values beyond: ``neither``, ``max`` or ``both``.
    """
    top = room_of_bars([label for _, label, _ in bars], width)
    for number, ((colours, low, high), label, extend) in enumerate(bars):
        position = left + number * (width + 0.3)
        ax = inch_axes(figure, position, top - 0.2 * scale(), width, 0.09 * scale())
        values = ScalarMappable(Normalize(low, high), colours)
        bar = figure.colorbar(values, cax=ax, orientation="horizontal", extend=extend)
        bar.set_label(wrapped(label, width + 0.2, size_of("axes.label")))
        bar.locator = MaxNLocator(4 if width > 1.4 * scale() else 2)
        bar.outline.set_linewidth(0.4)


def room_of_bars(labels: Sequence[str], width: float) -> float:
    """Inches at the foot of a figure that colour scales of this width need for themselves, their ticks and labels."""
    points = size_of("axes.label")
    return 0.45 * scale() + max(height_of(wrapped(label, width + 0.2, points), points) for label in labels)


def aspect(field: Field, axis: int) -> float:
    """Height over width of a slice: true to scale where both axes have one unit, as far as it can be read."""
    across, up = plane_axes(field, axis)
    if across.unit != up.unit:
        return 1.0
    return float(np.clip((len(up) * up.spacing) / (len(across) * across.spacing), 0.5, 1.6))


def cut_axis(field: Field, named: str | None) -> int:
    """Number of the axis that slices are cut along; the last by default.

    Raises:
        RequestError: if the field has no such axis, or fewer than two.
    """
    names = [axis.name for axis in field.axes]
    if len(names) < 2:
        raise RequestError("a field of one axis has no slices")
    if named is None:
        return len(names) - 1
    if named in names:
        return names.index(named)
    if named.isdigit() and int(named) < len(names):
        return int(named)
    raise RequestError(f"the field has no axis {named!r}{nearest(named, names)}")


def cut_positions(size: int, wanted: tuple[int, ...]) -> list[int]:
    """Indices of the slices: those wanted, or three spread over the axis.

    Raises:
        RequestError: if one is outside.
    """
    for index in wanted:
        if not 0 <= index < size:
            raise RequestError(f"there is no slice {index}; the axis has {size}, from 0 to {size - 1}")
    return list(wanted) or sorted({size // 6, size // 2, size - 1 - size // 6})


def plane(values: NDArray[Any], axis: int, index: int) -> NDArray[Any]:
    """The 2-D picture of one slice, first remaining axis across and second up; further axes at their middle.

    Args:
        values: of a field of at least two dimensions.
        axis: that is cut.
        index: where it is cut.
    """
    if values.ndim == 2:
        return values.T
    cut = np.take(values, index, axis=axis)
    while cut.ndim > 2:
        cut = np.take(cut, cut.shape[-1] // 2, axis=-1)
    return np.asarray(cut).T


def plane_axes(field: Field, axis: int) -> tuple[Axis, Axis]:
    """The axes that a slice shows: across and up."""
    if len(field.axes) == 2:
        return field.axes[0], field.axes[1]
    remaining = [item for number, item in enumerate(field.axes) if number != axis]
    return remaining[0], remaining[1]


def extent(across: Axis, up: Axis) -> tuple[float, float, float, float]:
    """Edges of the picture in the axes' units, half a step beyond the outermost points."""
    edges: list[float] = []
    for axis in (across, up):
        first, last, half = float(axis.coordinates[0]), float(axis.coordinates[-1]), axis.spacing / 2
        sign = 1 if last >= first else -1
        edges += [first - sign * half, last + sign * half]
    return edges[0], edges[1], edges[2], edges[3]


def _ocean(name: str, otherwise: str) -> Any:
    try:
        import cmocean
    except ImportError:
        return matplotlib.colormaps[otherwise]
    return getattr(cmocean.cm, name)
