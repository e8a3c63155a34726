"""Axes from what files say of coordinates: in order, distinct, and closed where longitudes close the circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fieldbench.errors import RequestError, nearest
from fieldbench.field import Axis, FloatArray

CIRCLE = 360.0

#: Steps along a closed axis differ by no more than this factor from the one across the seam.
_EVEN = 1.5

#: CF's spellings, in small letters without spaces and underscores.
_EAST = {"degreeseast", "degreeeast", "degreese", "degreee"}
_NORTH = {"degreesnorth", "degreenorth", "degreesn", "degreen"}
_DEGREES = {"", "deg", "degree", "degrees", "°"}


def axis(name: str, size: int, coordinates: np.ndarray, unit: str = "") -> Axis:
    """An axis with these coordinates, in the order that the file has them.

    Args:
        name: of the axis.
        size: number of points.
        coordinates: as the file has them.
        unit: of the coordinates.

    Raises:
        RequestError: if they are not a vector of ``size`` different numbers.
    """
    if coordinates.dtype.kind not in "fiub":
        raise RequestError(f"the coordinates {name!r} are not numbers")
    vector = np.asarray(coordinates, dtype=float).squeeze()
    if vector.ndim == 0 and size == 1:
        vector = vector.reshape(1)
    if vector.shape != (size,):
        raise RequestError(f"the coordinates {name!r} are not a vector of {size} numbers")
    if not np.isfinite(vector).all():
        raise RequestError(f"the coordinates {name!r} have missing or infinite entries")
    values, counts = np.unique(vector, return_counts=True)
    if len(values) < size:
        again = int(np.argmax(counts > 1))
        repeats = " and ".join(map(str, np.flatnonzero(vector == values[again])[:2]))
        more = "" if (counts > 1).sum() == 1 else f", and {(counts > 1).sum() - 1} other values repeat"
        raise RequestError(f"the coordinates {name!r} repeat {values[again]:g} (positions {repeats}{more})")
    return Axis(name, vector, unit)


def axis_if_usable(name: str, size: int, coordinates: np.ndarray | None, unit: str, remarks: list[str]) -> Axis:
    """An axis with the coordinates that a file gives it, or with indices where they cannot be used, and a remark.

    Args:
        name: of the axis.
        size: number of points.
        coordinates: as the file has them; None where it has none.
        unit: of the coordinates.
        remarks: where a remark is appended.
    """
    if coordinates is not None:
        try:
            return axis(name, size, coordinates, unit)
        except RequestError as error:
            remarks.append(f"{error}; positions along {name} are counted instead")
    return Axis.regular(name, size)


def is_longitude(axis: Axis) -> bool:
    """Whether coordinates are degrees east, by their unit or else by their name."""
    return _in_degrees(axis, _EAST, {"lon", "long", "longitude"})


def is_latitude(axis: Axis) -> bool:
    """Whether coordinates are degrees north, by their unit or else by their name."""
    return _in_degrees(axis, _NORTH, {"lat", "latitude"})


def on_sphere(latitude: FloatArray, longitude: FloatArray) -> FloatArray:
    """Points of the unit sphere, shape (3, ...), from degrees that broadcast to each other."""
    phi, theta = np.broadcast_arrays(np.radians(latitude), np.radians(longitude))
    return np.stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])


def arranged(axis: Axis, periods: Mapping[str, float | None]) -> tuple[Axis, NDArray[np.intp] | None, str]:
    """An axis as methods need it: coordinates that only rise or only fall, and its period if it is closed.

    Longitudes are unwrapped: 358, 359, 0, 1 become 358 to 361. Those that go around the earth close the circle.

    Args:
        axis: with its coordinates in any order.
        periods: of the axes that are closed by request; None stands for one more step than the axis has.

    Returns:
        The axis, the order in which positions are taken from the file (None: as they are), and a remark or "".
    """
    coordinates, remark = axis.coordinates, ""
    if is_longitude(axis) and len(axis) > 1:
        axis = replace(axis, coordinates=_unwrapped(coordinates))
        if not _monotonic(coordinates) and _monotonic(axis.coordinates):
            first, last = axis.coordinates[[0, -1]]
            remark = f"{axis.name} goes on across the meridian; its positions are taken as {first:g} to {last:g}"
    order = None
    if not _monotonic(axis.coordinates):
        order = np.argsort(axis.coordinates, kind="stable")
        remark = f"the coordinates {axis.name!r} are out of order; they are sorted to complete the field and put back"
        axis = replace(axis, coordinates=axis.coordinates[order])
    if axis.name in periods:
        return replace(axis, period=_checked_period(axis, periods[axis.name])), order, remark
    if is_longitude(axis) and _closes(axis):
        axis = replace(axis, period=CIRCLE)
        closed = f"{axis.name} closes the circle: its first and last positions are neighbours"
        remark = f"{remark}; {closed}" if remark else closed
    return axis, order, remark


def periods(texts: Sequence[str], axes: Sequence[Axis]) -> dict[str, float | None]:
    """The axes that are closed by request, with their periods: from ``hour`` or ``hour=24``.

    Raises:
        RequestError: if there is no such axis, or a period is not a positive number.
    """
    names = [axis.name for axis in axes]
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, period = (piece.strip() for piece in text.partition("="))
        if name not in names:
            raise RequestError(f"cyclic: there is no axis {name!r}{nearest(name, names)}")
        try:
            found[name] = float(period) if equals else None
        except ValueError:
            raise RequestError(f"cyclic {text!r}: write AXIS or AXIS=PERIOD, such as hour=24") from None
    return found


def _in_degrees(axis: Axis, units: set[str], names: set[str]) -> bool:
    unit = axis.unit.lower().replace(" ", "").replace("_", "")
    return unit in units or (unit in _DEGREES and axis.name.lower() in names)


def _unwrapped(coordinates: FloatArray) -> FloatArray:
    """Longitudes without a jump at the meridian, from behind the widest gap on; as they are where that is outside."""
    steps = np.abs(np.diff(coordinates))
    outside = CIRCLE - float(np.ptp(coordinates))
    if outside < 0 or (_monotonic(coordinates) and steps.max() <= max(outside, _EVEN * float(np.median(steps)))):
        return coordinates
    around = np.sort(np.unique(coordinates % CIRCLE))
    gaps = np.diff(around, append=around[0] + CIRCLE)
    start = around[(np.argmax(gaps) + 1) % len(around)]
    if gaps.max() <= _EVEN * np.median(gaps):  # no gap: begin where the file begins
        start = coordinates[0]
    turned = start + (coordinates - start) % CIRCLE
    return turned if len(np.unique(turned)) == len(coordinates) else coordinates


def _closes(axis: Axis) -> bool:
    steps = np.abs(np.diff(axis.coordinates))
    seam, widest = CIRCLE - float(np.ptp(axis.coordinates)), _EVEN * float(np.median(steps))
    return len(axis) > 3 and -1e-3 <= seam <= widest and bool(steps.max() <= widest)


def _checked_period(axis: Axis, period: float | None) -> float:
    span = float(np.ptp(axis.coordinates))
    if period is None:
        return span + axis.spacing
    if not span <= period < np.inf:
        raise RequestError(f"cyclic {axis.name}={period:g}: its positions reach over {span:g}, so its period is larger")
    return period


def _monotonic(vector: np.ndarray) -> bool:
    steps = np.diff(vector)
    return bool((steps > 0).all() or (steps < 0).all())
