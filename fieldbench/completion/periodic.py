"""Closed axes, such as longitudes around the earth: a method sees the other side of the seam beside its ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fieldbench.completion.bench import FitResult
from fieldbench.field import Axis, Observation

#: The share of a closed axis that is repeated beyond each of its ends.
_SHARE = 1 / 4


def fitted(fit: Callable[[Observation], FitResult], observation: Observation) -> FitResult:
    """Fit a method to a field with its closed axes continued beyond both ends, and cut its estimate back."""
    if all(axis.period is None for axis in observation.axes):
        return fit(observation)
    continued, inside = around(observation)
    made = fit(continued)
    return made if made.made is None else replace(made, made=made.made.at(inside))


def around(observation: Observation) -> tuple[Observation, tuple[slice, ...]]:
    """An observation that goes on beyond the ends of its closed axes, and where the original lies in it."""
    values, mask, valid = observation.values, observation.mask, observation.valid
    axes, inside = [], []
    for dimension, axis in enumerate(observation.axes):
        taken, continued, start = _continued(axis)
        values, mask = np.take(values, taken, dimension), np.take(mask, taken, dimension)
        valid = np.take(valid, taken, dimension)
        axes.append(continued)
        inside.append(slice(start, start + len(axis)))
    return replace(observation, values=values, mask=mask, valid=valid, axes=tuple(axes)), tuple(inside)


def _continued(axis: Axis) -> tuple[NDArray[np.intp], Axis, int]:
    """Positions to take, the axis that they make (an open one), and where its first own position is among them."""
    size = len(axis)
    own = np.arange(size)
    if axis.period is None:
        return own, axis, 0
    turn = axis.period if size < 2 or axis.coordinates[-1] > axis.coordinates[0] else -axis.period
    more = max(1, round(_SHARE * size))
    # Where the first and the last coordinate are one position (0 and 360 degrees), the seam has no step of its own.
    same = int(size > 1 and np.isclose(axis.coordinates[-1], axis.coordinates[0] + turn))
    before, after = own[size - more - same : size - same], own[same : more + same]
    coordinates = (axis.coordinates[before] - turn, axis.coordinates, axis.coordinates[after] + turn)
    return (
        np.concatenate([before, own, after]),
        replace(axis, coordinates=np.concatenate(coordinates), period=None),
        more,
    )
