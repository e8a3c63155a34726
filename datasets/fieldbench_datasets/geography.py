"""Which axes of a field are its horizontal plane and its time, and which grid points lie nearest to positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import fieldbench
from fieldbench import Axis, FloatArray

LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "longitude")

#: Length of one degree of latitude on a sphere of 6371 km radius.
KM_PER_DEGREE = np.pi * 6371.0 / 180


def time_axis(axes: Sequence[Axis]) -> int | None:
    """The dimension called time, or whose unit counts from a date (``days since 2017-01-01``); None without one."""
    return next((index for index, axis in enumerate(axes) if axis.name == "time" or " since " in axis.unit), None)


def days(axis: Axis) -> FloatArray:
    """The coordinates of a time axis in days; without a unit of time they are days already."""
    unit = axis.unit.split(" ")[0].lower().rstrip("s")
    lengths = {"hour": 1 / 24, "h": 1 / 24, "minute": 1 / 1440, "min": 1 / 1440, "second": 1 / 86400, "": 1 / 86400}
    return axis.coordinates * (lengths.get(unit, 1.0) if axis.unit else 1.0)


def horizontal(axes: Sequence[Axis]) -> tuple[int, int]:
    """The dimensions of latitude and longitude, or else the first two that are not time.

    Raises:
        RequestError: if there are not two such dimensions.
    """
    names = [axis.name for axis in axes]
    found = [next((names.index(name) for name in known if name in names), None) for known in (LATITUDES, LONGITUDES)]
    if found[0] is not None and found[1] is not None:
        return found[0], found[1]
    others = [index for index in range(len(axes)) if index != time_axis(axes)]
    if len(others) < 2:
        raise fieldbench.RequestError("the field has no horizontal plane: it has fewer than two dimensions beside time")
    return others[0], others[1]


def nearest(axis: Axis, positions: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Indices of the grid points nearest to positions along an axis, and which lie within half a step of it.

    Args:
        axis: an axis in any order; positions on one with a period are taken modulo it.
        positions: array of any shape, in the axis' unit.

    Returns:
        Two arrays of the positions' shape.
    """
    order = np.argsort(axis.coordinates)
    points = axis.coordinates[order]
    margin = axis.spacing / 2
    if axis.period is not None:
        positions = points[0] - margin + np.mod(positions - points[0] + margin, axis.period)
    middles = (points[1:] + points[:-1]) / 2
    inside = (positions >= points[0] - margin) & (positions <= points[-1] + margin)
    return order[np.searchsorted(middles, positions)], inside
