"""Stations: positions that are fixed for all times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator

import fieldbench
from fieldbench import Axis, Mask, Observation, RandomEntries, parameter
from fieldbench_datasets.geography import time_axis

Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]


class Stations(fieldbench.Sampler):
    """Stations at random fixed positions, each of which measures at all times.

    Exactly round(rate x positions) positions are chosen, uniformly at random among those where the field exists at
    any time. A rate is the share of positions with a station. ``along=level`` or ``along=(time,level)`` names other
    axes along which a station measures everything; without it, that is the axis called time, or else the last.
    """

    name = "stations"
    revision = "1"

    along: Names = parameter((), "axes along which a station measures everything; none: time, or else the last axis")

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        measured = self._measured(axes)
        positions = np.asarray(valid.any(axis=measured, keepdims=True))
        return RandomEntries().draw(positions, (), rate, rng) & valid

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Whole stations."""
        mask = observation.mask
        positions = np.asarray(mask.any(axis=self._measured(observation.axes), keepdims=True))
        return RandomEntries().withhold(positions, share, rng) & mask

    def _measured(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        names = [axis.name for axis in axes]
        for name in self.along:
            if name not in names:
                raise fieldbench.RequestError(f"{self}: the field has no axis {name!r}; it has {', '.join(names)}")
        if self.along:
            return tuple(names.index(name) for name in self.along)
        time = time_axis(axes)
        return (len(axes) - 1 if time is None else time,)
