"""Samplers that follow how people measure: sensors at given positions, vehicles along tracks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import fieldbench
from fieldbench import (
    Axis,
    DataPath,
    Fibers,
    FloatArray,
    Mask,
    Observation,
    is_fiber_mask,
    located,
    parameter,
    withhold_like_gaps,
)


class Points(fieldbench.Sampler):
    """Sensors at the positions that a file lists: points:FILE.

    A CSV or Parquet table with one row a sensor and columns named as the field's axes, in their units; or a
    .npy array with one row a sensor and one column for each of the first axes. Along axes that it does not
    mention a sensor measures everything (a mooring all depths, a receiver all frequencies). A sensor observes
    the nearest grid point; those outside the field, by more than half a step, are left out. The rate takes
    a random part of the sensors; one that asks for more than there are is refused, with the rate of them all.
    """

    name = "points"
    revision = "1"

    path: DataPath = parameter(meaning="file with the sensors' positions")

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        named, positions = _positions(located(self.path), axes)
        where = np.unique(_nearest(positions, [axes[index] for index in named]), axis=0)
        sensors = [self._observed(valid, named, index) for index in where]
        sensors = [sensor for sensor in sensors if sensor.size]
        if not sensors:
            raise fieldbench.RequestError(f"{self}: no sensor lies where the field exists")
        total, reached = int(valid.sum()), sum(sensor.size for sensor in sensors)
        count = round(rate * total * len(sensors) / reached)
        if count > len(sensors):
            raise fieldbench.RequestError(
                f"{self}: its {len(sensors)} sensors observe a share {_floor(reached / total)} of the field; "
                f"use that rate for all of them, or less"
            )
        if count < 1:
            least = -(-reached // len(sensors)) / total
            raise fieldbench.RequestError(f"{self}: rate {rate:g} observes none; use at least {least:.2g}")
        mask = np.zeros(valid.shape, dtype=bool)
        for index in rng.choice(len(sensors), size=count, replace=False):
            mask.flat[sensors[index]] = True
        return mask

    def withhold(self, mask: Mask, share: float, rng: np.random.Generator) -> Mask:
        if is_fiber_mask(mask):
            return Fibers().withhold(mask, share, rng)
        return super().withhold(mask, share, rng)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Whole fibers where sensors measure everything along the last axis, single entries elsewhere."""
        named, _ = _positions(located(self.path), observation.axes)
        if observation.ndim - 1 not in named:
            return Fibers().withhold(observation.mask, share, rng)
        return self.withhold(observation.mask, share, rng)

    @staticmethod
    def _observed(valid: Mask, named: list[int], index: NDArray[np.intp]) -> NDArray[np.intp]:
        """Flat indices of the valid entries that a sensor at ``index`` along the named axes observes."""
        fiber: list[int | slice] = [slice(None)] * valid.ndim
        for dimension, position in zip(named, index, strict=True):
            fiber[dimension] = int(position)
        entries = np.arange(valid.size).reshape(valid.shape)[tuple(fiber)]
        return np.asarray(entries[valid[tuple(fiber)]]).ravel()


class Tracks(fieldbench.Sampler):
    """Vehicles that measure along wandering tracks through the first two axes.

    ``measure=glide`` is a glider: it goes up and down through the third axis as it moves on, one entry a step.
    ``measure=fiber`` is a ship or a car: at each position it measures everything along the other axes.
    Vehicles take turns, turn a little at each step and come back from the border; the mask is full when
    exactly round(rate x entries) entries (glide, in up to 3-D) or round(rate x positions) positions (fiber)
    are observed. A vehicle that finds nothing new for long is set down elsewhere.
    """

    name = "tracks"
    revision = "1"

    vehicles: int = parameter(3, "number of vehicles", ge=1)
    turn: float = parameter(0.2, "standard deviation of the change of course at each step", unit="rad", ge=0)
    slope: float = parameter(1.0, "steps along the third axis for each step along the track (glide)", gt=0)
    measure: Literal["glide", "fiber"] = parameter("glide", "one entry a step, or all along the other axes")

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        if valid.ndim < 2:
            raise fieldbench.RequestError("tracks need a field of at least two dimensions; use the sampler random")
        levels = self._levels(valid.ndim)
        positions: Mask = np.asarray(valid.reshape(*valid.shape[:levels], -1).any(axis=-1))
        wanted = round(rate * positions.sum())
        if wanted < 1:
            raise fieldbench.RequestError(f"rate {rate:g} of {positions.sum()} positions observes none; raise it")
        visited = self._travel(positions, int(wanted), rng)
        return np.asarray(visited.reshape(visited.shape + (1,) * (valid.ndim - levels)) & valid)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Entries in gaps as deep as the gaps between the tracks; whole fibers where fibers were measured."""
        # Of a field that is measured everywhere fibers are withheld too: there are no gaps to imitate.
        mask, valid = observation.mask, observation.valid
        if self._levels(mask.ndim) < mask.ndim or is_fiber_mask(mask, valid):
            return Fibers().withhold(mask, share, rng)
        return withhold_like_gaps(mask, valid & ~mask, share, rng)

    def _levels(self, order: int) -> int:
        """How many axes the tracks run through; along the others everything is measured."""
        return min(order, 3) if self.measure == "glide" else 2

    def _travel(self, positions: Mask, wanted: int, rng: np.random.Generator) -> Mask:
        """A mask of exactly ``wanted`` of the positions, visited one after the other by the vehicles in turn."""
        visited = np.zeros(positions.shape, dtype=bool)
        patience = max(positions.shape)
        tracks = [self._track(positions, visited, rng) for _ in range(self.vehicles)]
        idle = [0] * self.vehicles
        count, turn = 0, 0
        while count < wanted:
            position = next(tracks[turn])
            if positions[position] and not visited[position]:
                visited[position] = True
                count, idle[turn] = count + 1, 0
            else:
                idle[turn] += 1
                if idle[turn] > patience:
                    tracks[turn], idle[turn] = self._track(positions, visited, rng), 0
            turn = (turn + 1) % self.vehicles
        return visited

    def _track(self, positions: Mask, visited: Mask, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
        """The positions of one vehicle, without end, from a random one that exists and is not yet visited."""
        size = np.array(positions.shape)
        new = np.flatnonzero(positions & ~visited)
        start = new[rng.integers(len(new))] if len(new) else 0
        position = np.array(np.unravel_index(start, positions.shape), dtype=float)
        course, dive = rng.uniform(0, 2 * np.pi), rng.choice([-self.slope, self.slope])
        while True:
            yield tuple(int(index) for index in np.clip(np.rint(position), 0, size - 1))
            course += rng.normal(0.0, self.turn)
            step = np.array([np.cos(course), np.sin(course), dive][: len(size)])
            out = (position + step < 0) | (position + step > size - 1)
            step[out] *= -1
            course = np.arctan2(step[1], step[0])
            if len(size) > 2:
                dive = step[2]
            position = np.clip(position + step, 0, size - 1)


def _positions(file: Path, axes: Sequence[Axis]) -> tuple[list[int], FloatArray]:
    """Which axes a file of positions is about, and the positions, shape (sensors, those axes)."""
    named, positions = _read(file, axes)
    if not np.isfinite(positions).all():
        raise fieldbench.RequestError(f"{file.name} has missing or infinite positions; remove those rows")
    return named, positions


def _read(file: Path, axes: Sequence[Axis]) -> tuple[list[int], FloatArray]:
    if file.suffix.lower() == ".npy":
        array = np.atleast_2d(np.load(file, allow_pickle=False))
        if array.ndim != 2 or array.shape[1] > len(axes) or array.dtype.kind not in "fiu":
            raise fieldbench.RequestError(
                f"{file.name} has shape {array.shape}; positions have one row a sensor and at most {len(axes)} columns"
            )
        return list(range(array.shape[1])), array.astype(float)
    import pandas as pd

    table = pd.read_parquet(file) if file.suffix.lower() in (".parquet", ".pq") else pd.read_csv(file)
    named = [index for index, axis in enumerate(axes) if axis.name in table.columns]
    if not named:
        raise fieldbench.RequestError(
            f"{file.name} has the columns {', '.join(map(str, table.columns))}; name them as the field's axes: "
            + ", ".join(axis.name for axis in axes)
        )
    return named, table[[axes[index].name for index in named]].to_numpy(dtype=float)


def _nearest(positions: FloatArray, axes: Sequence[Axis]) -> NDArray[np.intp]:
    """Indices of the nearest grid points, shape (sensors, axes); sensors outside the field are left out."""
    inside = np.ones(len(positions), dtype=bool)
    indices = np.zeros(positions.shape, dtype=np.intp)
    for column, axis in enumerate(axes):
        points, given = axis.coordinates, positions[:, column]
        indices[:, column] = np.abs(points[np.newaxis, :] - given[:, np.newaxis]).argmin(axis=1)
        margin = axis.spacing / 2
        inside &= (given >= points.min() - margin) & (given <= points.max() + margin)
    return indices[inside]


def _floor(share: float) -> str:
    """A share with four digits, never more than it is."""
    digits = 4 - int(np.ceil(np.log10(share)))
    return f"{np.floor(share * 10**digits) / 10**digits:.6g}"
