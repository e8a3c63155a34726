"""Drifters: buoys that measure where the current takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import fieldbench
from fieldbench import Axis, FloatArray, Mask, Observation, parameter, withhold_like_gaps
from fieldbench_datasets.geography import horizontal, time_axis


class Drifters(fieldbench.Sampler):
    """Drifters that measure once at each time, wherever they have drifted to in the horizontal plane.

    Each is set down at a random position and time that nobody has measured yet. Its velocity is an Ornstein-Uhlenbeck
    process: normal, of standard deviation ``speed`` along both axes, forgotten over ``memory``. It ends when it
    leaves the field, runs aground, or the field ends. Drifters are added until exactly round(rate x positions) pairs
    of position and time are measured, the last one in part; at each all further axes are measured. A rate is the share
    of those pairs. Time is the axis called time, or else the last.
    """

    name = "drifters"
    revision = "1"

    speed: float = parameter(1.0, "standard deviation of each velocity component", unit="grid steps a time step", ge=0)
    memory: float = parameter(5.0, "time over which a drifter keeps its velocity", unit="time steps", gt=0)

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        time, plane = self._dimensions(axes)
        others = tuple(index for index in range(valid.ndim) if index not in (time, *plane))
        whole = np.asarray(valid.any(axis=others, keepdims=True))
        order = (time, *plane, *others)
        positions = whole.transpose(order).reshape(*(valid.shape[index] for index in order[:3]))
        wanted = round(rate * int(positions.sum()))
        if wanted < 1:
            raise fieldbench.RequestError(
                f"rate {rate:g} of {positions.sum()} positions and times observes none; raise it"
            )
        visited = self._drift(positions, wanted, rng)
        spread = visited.reshape(visited.shape + (1,) * len(others)).transpose(np.argsort(order))
        return np.asarray(spread & valid)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Entries in gaps as deep as the gaps between drifters."""
        missing = observation.valid & ~observation.mask
        return withhold_like_gaps(observation.mask, missing, share, rng)

    def _dimensions(self, axes: Sequence[Axis]) -> tuple[int, tuple[int, int]]:
        if len(axes) < 3:
            raise fieldbench.RequestError("drifters need two horizontal axes and time; use the sampler random")
        time = time_axis(axes)
        if time is not None:
            return time, horizontal(axes)
        return len(axes) - 1, horizontal(axes[:-1])

    def _drift(self, positions: Mask, wanted: int, rng: np.random.Generator) -> Mask:
        """A mask over (time, horizontal plane) with ``wanted`` of the positions."""
        visited = np.zeros(positions.shape, dtype=bool)
        count = 0
        while count < wanted:
            time, *start = np.unravel_index(rng.choice(np.flatnonzero(positions & ~visited)), positions.shape)
            steps = self.displacements(positions.shape[0] - int(time), rng)
            for moment, position in enumerate(np.rint(np.array(start) + steps).astype(int), start=int(time)):
                if not self._afloat(positions[moment], position):
                    break
                count += not visited[moment, position[0], position[1]]
                visited[moment, position[0], position[1]] = True
                if count == wanted:
                    break
        return visited

    @staticmethod
    def _afloat(positions: Mask, position: NDArray[np.int_]) -> bool:
        inside = (position >= 0).all() and (position < positions.shape).all()
        return bool(inside and positions[tuple(position)])

    def displacements(self, times: int, rng: np.random.Generator) -> FloatArray:
        """How far a drifter is from where it was set down, shape (times, 2), in grid steps; the first row is 0."""
        kept = np.exp(-1 / self.memory)
        velocity = rng.normal(0.0, self.speed, 2)
        path = np.zeros((times, 2))
        for time in range(1, times):
            path[time] = path[time - 1] + velocity
            velocity = kept * velocity + rng.normal(0.0, self.speed * np.sqrt(1 - kept**2), 2)
        return path
