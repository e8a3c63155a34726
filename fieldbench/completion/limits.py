"""What a completion may fill: gaps near an observation, with values that are possible."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldbench.errors import RequestError, nearest
from fieldbench.field import Axis, FloatArray, Mask, Observation
from fieldbench.files.axes import is_latitude, is_longitude, on_sphere

_EARTH_RADIUS = 6371e3
_LENGTHS = {"m": 1.0, "km": 1e3, "cm": 1e-2, "mm": 1e-3, "nmi": 1852.0}
_TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPELLINGS = {
    **dict.fromkeys(("meter", "meters", "metre", "metres"), "m"),
    **dict.fromkeys(("kilometer", "kilometers", "kilometre", "kilometres"), "km"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("week", "weeks"), "w"),
}
_GAP = re.compile(r"(?:(?P<axis>[^=]+)=)?\s*(?P<number>[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?P<unit>[A-Za-z]*)\s*\Z")
_HOW = "write a number of grid steps, a distance (25km), a time (2d), or either along an axis (time=2d, depth=10)"


@dataclass(frozen=True)
class Limits:
    """What may be filled.

    Attributes:
        max_gap: how far an observation may be from what is filled: grid steps in any direction (``3``), a distance
            over all axes that have lengths or degrees (``25km``), a time (``2d``), or along one axis in its own
            unit, in steps or in a unit (``depth=10``, ``time=1steps``, ``time=36h``). Along an axis that is not
            named the observation must be at the same position. Of several, the sum of squares of distance over limit
            may be at most 1.
        within: the lowest and highest value that is possible.
        positive: whether only values above zero are possible.
    """

    max_gap: tuple[str, ...] = ()
    within: tuple[float, float] | None = None
    positive: bool = False

    def __post_init__(self) -> None:
        if self.within is None:
            return
        if np.shape(self.within) != (2,):
            raise RequestError(f"within {self.within!r:.60}: give two numbers, the lowest and the highest value")
        lowest, highest = self.within
        if not lowest <= highest:
            raise RequestError(f"within {lowest:g} {highest:g}: give the lowest value first")
        if self.positive and highest <= 0:
            raise RequestError(f"within {lowest:g} {highest:g} holds no value above zero, and only such are possible")

    def near(self, observation: Observation) -> Mask:
        """True where an entry is observed or within the largest gap of one that is.

        Raises:
            RequestError: if a limit is none, or fits no axis.
        """
        if not self.max_gap:
            return np.ones(observation.shape, dtype=bool)
        columns = _columns(self.max_gap, observation.axes)
        sought = observation.valid & ~observation.mask
        near = observation.mask.copy()
        near[sought] = _close(columns, observation.mask, sought)
        return near

    def possible(self, values: FloatArray, observed: FloatArray) -> FloatArray:
        """Values brought into the possible range.

        With ``positive``, what is at or below zero becomes the lowest value above zero that was observed, or zero
        where zero was observed.

        Args:
            values: estimates of any shape.
            observed: vector of the observed values.
        """
        if self.positive:
            above = observed[observed > 0]
            lowest = 0.0 if (observed == 0).any() or not above.size else float(above.min())
            values = np.where(values <= 0, lowest, values)
        return values if self.within is None else np.clip(values, *self.within)


@dataclass(frozen=True, eq=False)
class _Column:
    """A coordinate, divided by its limit, as it varies along some axes of the grid (a broadcastable array)."""

    values: FloatArray
    period: float = 0.0


def _close(columns: Sequence[_Column], mask: Mask, sought: Mask) -> Mask:
    """For each entry that is sought, whether an observed one is at a distance of at most 1."""
    from scipy.spatial import cKDTree

    grids = [np.broadcast_to(column.values - column.values.min(), mask.shape) for column in columns]
    observed, targets = (np.stack([grid[part] for grid in grids], axis=1) for part in (mask, sought))
    periods = [column.period for column in columns]
    for index, period in enumerate(periods):
        if period:
            observed[:, index] %= period
            targets[:, index] %= period
    tree = cKDTree(observed, boxsize=periods if any(periods) else None)
    distances, _ = tree.query(targets, distance_upper_bound=1 + 1e-9, workers=-1)
    return np.asarray(np.isfinite(distances))


def _columns(texts: Sequence[str], axes: Sequence[Axis]) -> list[_Column]:
    """Coordinates in which a distance of 1 is the largest allowed; those of axes without a limit must be the same."""
    columns: list[_Column] = []
    limited: set[int] = set()
    for text in texts:
        along, found = _limited(text, axes)
        columns += found
        limited |= set(along)
    # Twice the largest distance from one position to the next: not another one along these axes.
    rest = [index for index in range(len(axes)) if index not in limited]
    return columns + [_along(index, axes, 2.0 * np.arange(len(axes[index]))) for index in rest]


def _limited(text: str, axes: Sequence[Axis]) -> tuple[list[int], list[_Column]]:
    match = _GAP.match(text.strip())
    if match is None or not float(match["number"]) > 0:
        raise RequestError(f"max-gap {text!r}: {_HOW}")
    limit, unit = float(match["number"]), _spelled(match["unit"])
    among = list(range(len(axes)))
    if match["axis"] is not None:
        names = [axis.name for axis in axes]
        if match["axis"].strip() not in names:
            raise RequestError(
                f"max-gap {text!r}: there is no axis {match['axis'].strip()!r}{nearest(match['axis'], names)}"
            )
        among = [names.index(match["axis"].strip())]
    if unit in {"step", "steps"} or (unit == "" and match["axis"] is None):
        turns = {index: 0.0 if axes[index].period is None else len(axes[index]) / limit for index in among}
        return among, [_along(index, axes, np.arange(len(axes[index])) / limit, turns[index]) for index in among]
    if unit == "":
        axis = axes[among[0]]
        return among, [_along(among[0], axes, axis.coordinates / limit, (axis.period or 0.0) / limit)]
    if unit in _LENGTHS:
        along, columns = _lengths(among, axes, limit * _LENGTHS[unit])
    elif unit in _TIMES:
        along, columns = _times(among, axes, limit * _TIMES[unit])
    else:
        raise RequestError(f"max-gap {text!r}: no unit {match['unit']!r}; {_HOW}")
    if not along:
        units = ", ".join(f"{axes[index].name} ({axes[index].unit or 'no unit'})" for index in among)
        raise RequestError(
            f"max-gap {text!r}: no axis has a unit of this kind: {units}; give grid steps, or AXIS=NUMBER"
        )
    return along, columns


def _lengths(among: Sequence[int], axes: Sequence[Axis], metres: float) -> tuple[list[int], list[_Column]]:
    """Positions in space over a length in metres: degrees as points of a sphere, other axes by their units."""
    along = [index for index in among if axes[index].unit in _LENGTHS]
    columns = [_along(index, axes, axes[index].coordinates * _LENGTHS[axes[index].unit] / metres) for index in along]
    latitude = next((index for index in among if is_latitude(axes[index])), None)
    longitude = next((index for index in among if is_longitude(axes[index])), None)
    if latitude is None and longitude is None:
        return along, columns
    degrees = (
        np.zeros(1) if index is None else _along(index, axes, axes[index].coordinates).values
        for index in (latitude, longitude)
    )
    # An arc of this length has this chord.
    scale = _EARTH_RADIUS / (2 * _EARTH_RADIUS * np.sin(min(metres / (2 * _EARTH_RADIUS), np.pi / 2)))
    columns += [_Column(scale * part) for part in on_sphere(*degrees)]
    return [*along, *(index for index in (latitude, longitude) if index is not None)], columns


def _times(among: Sequence[int], axes: Sequence[Axis], seconds: float) -> tuple[list[int], list[_Column]]:
    units = {index: _spelled(axes[index].unit.partition(" since ")[0].strip()) for index in among}
    along = [index for index in among if units[index] in _TIMES]
    return along, [_along(index, axes, axes[index].coordinates * _TIMES[units[index]] / seconds) for index in along]


def _spelled(unit: str) -> str:
    return _SPELLINGS.get(unit.lower(), unit.lower())


def _along(index: int, axes: Sequence[Axis], values: FloatArray, period: float = 0.0) -> _Column:
    """A vector along one axis, to be broadcast over the others."""
    return _Column(values.reshape([-1 if axis == index else 1 for axis in range(len(axes))]), period)
