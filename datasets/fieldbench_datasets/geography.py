"""Which axes of a field are its horizontal plane and its time."""

from __future__ import annotations

from collections.abc import Sequence

import fieldbench
from fieldbench import Axis

LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "longitude")


def time_axis(axes: Sequence[Axis]) -> int | None:
    """The dimension called time, or whose unit counts from a date (``days since 2017-01-01``); None without one."""
    return next((index for index, axis in enumerate(axes) if axis.name == "time" or " since " in axis.unit), None)


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
