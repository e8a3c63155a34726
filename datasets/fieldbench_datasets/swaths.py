"""Swaths: what satellites see on orbits of a given inclination and repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import fieldbench
from fieldbench import Axis, FloatArray, Mask, Observation, parameter, withhold_like_gaps
from fieldbench_datasets.geography import KM_PER_DEGREE, LATITUDES, days, horizontal, nearest, time_axis


class Swaths(fieldbench.Sampler):
    """Swaths under satellites on circular orbits, which come back to the same track after ``repeat`` days.

    A satellite passes over the field while it goes north and while it goes south, and measures all grid points within
    its swath, with all further axes. On a time axis (called time; in days, hours, minutes or seconds) a pass measures
    the time nearest to it; without one, all passes of one repeat count. Satellites of random phase are added, their
    passes in random order, until exactly round(rate x positions) are measured; the last pass ends there. A rate is the
    share of positions (and times) measured. Axes without latitude and longitude are taken as km east and north (m
    where the unit says so) around ``latitude``.
    """

    name = "swaths"
    revision = "1"

    inclination: float = parameter(66.04, "angle between orbit and equator (Jason)", unit="degrees", gt=0, lt=180)
    revolutions: int = parameter(127, "revolutions in one repeat (Jason)", ge=1)
    repeat: float = parameter(9.9156, "time after which the track comes back (Jason)", unit="days", gt=0)
    width: float = parameter(0.0, "width of the swath; 0 is a single line of grid points", unit="km", ge=0)
    latitude: float = parameter(30.0, "of the origin of a field in km or m", unit="degrees", gt=-90, lt=90)

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        plane, time = horizontal(axes), time_axis(axes)
        if axes[plane[0]].name not in LATITUDES:
            plane = plane[::-1]  # x, which is east, comes before y
        kept = (*(() if time is None else (time,)), *plane)
        others = tuple(index for index in range(valid.ndim) if index not in kept)
        order = (*kept, *others)
        whole = valid.any(axis=others, keepdims=True).transpose(order)
        places = whole.reshape(-1, *(valid.shape[index] for index in plane))
        wanted = round(rate * int(places.sum()))
        if wanted < 1:
            raise fieldbench.RequestError(f"rate {rate:g} of {places.sum()} positions observes none; raise it")
        moments = np.zeros(1) if time is None else days(axes[time])
        seen = self._seen(places, self._in_degrees([axes[index] for index in plane]), moments, wanted, rng)
        return np.asarray(seen.reshape(whole.shape).transpose(np.argsort(order)) & valid)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Entries in holes as deep as the gaps between swaths."""
        missing = observation.valid & ~observation.mask
        if not missing.any():
            return self.withhold(observation.mask, share, rng)
        return withhold_like_gaps(observation.mask, missing, share, rng)

    def ground_track(self, argument: FloatArray, offset: FloatArray | float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Where the satellite is above, in degrees, when its first ascending node is at longitude 0.

        Args:
            argument: angle along the orbit from that node, in radians; 2 pi more is one revolution later.
            offset: angle across the track, in radians.

        Returns:
            Latitudes and longitudes (any multiple of 360 off), of the broadcast shape.
        """
        tilt = np.radians(self.inclination)
        x = np.cos(argument) * np.cos(offset)
        along = np.sin(argument) * np.cos(offset)
        y = along * np.cos(tilt) - np.sin(offset) * np.sin(tilt)
        z = along * np.sin(tilt) + np.sin(offset) * np.cos(tilt)
        turned = 360 * self._nodal_days / self.revolutions * argument / (2 * np.pi)
        return np.degrees(np.arcsin(np.clip(z, -1, 1))), np.degrees(np.arctan2(y, x)) - turned

    @property
    def _nodal_days(self) -> int:
        """Turns of the earth below the orbit's plane in one repeat: a whole number, since the track comes back."""
        return max(1, round(self.repeat))

    def _in_degrees(self, plane: list[Axis]) -> list[Axis]:
        """Axes of latitude and longitude, the longitude closed, from those north and east."""
        north, east = (axis.coordinates for axis in plane)
        if plane[0].name not in LATITUDES:
            degrees = KM_PER_DEGREE * np.array([1000 if axis.unit == "m" else 1 for axis in plane])
            north = self.latitude + north / degrees[0]
            east = east / degrees[1] / np.cos(np.radians(self.latitude))
        return [Axis("lat", north, "degrees"), Axis("lon", east, "degrees", 360.0)]

    def _seen(
        self, places: Mask, plane: list[Axis], moments: FloatArray, wanted: int, rng: np.random.Generator
    ) -> Mask:
        """A mask over (time, rows, columns) with ``wanted`` of the places."""
        seen = np.zeros(places.shape, dtype=bool)
        flat, count, fruitless = seen.reshape(-1), 0, 0
        while count < wanted:
            before = count
            for entries in self._passes(places.shape, plane, moments, rng):
                _, first = np.unique(entries, return_index=True)
                new = entries[np.sort(first)]
                new = new[places.reshape(-1)[new] & ~flat[new]][: wanted - count]
                flat[new] = True
                count += len(new)
                if count == wanted:
                    return seen
            fruitless = 0 if count > before else fruitless + 1
            if fruitless == 3:
                raise fieldbench.RequestError(
                    f"{self}: satellites reach a share {count / places.sum():.3f} of the field; use a lower rate, "
                    "or an inclination nearer to 90"
                )
        return seen

    def _passes(
        self, shape: tuple[int, ...], plane: list[Axis], moments: FloatArray, rng: np.random.Generator
    ) -> Iterator[NDArray[np.intp]]:
        """Flat indices of what one satellite sees, pass by pass in random order, each in order of time."""
        revolution = self.repeat / self.revolutions
        step = float(np.median(np.diff(moments))) if len(moments) > 1 else self.repeat
        node, phase = rng.uniform(0, 360), rng.uniform(0, revolution)
        passes = 2 * max(1, round(step * len(moments) / revolution))
        finest = np.radians(min(axis.spacing for axis in plane)) / 2
        half = np.arange(-np.pi / 2, np.pi / 2, finest)
        reach = self.width / 2 / KM_PER_DEGREE * np.pi / 180
        across = np.arange(-reach, reach + finest / 2, finest) if reach else np.zeros(1)
        for number in rng.permutation(passes):
            argument = (half + np.pi * number)[:, np.newaxis]
            latitude, longitude = self.ground_track(argument, across)
            rows, inside = nearest(plane[0], latitude)
            columns, also = nearest(plane[1], longitude + node)
            when = moments[0] - step / 2 + phase + np.broadcast_to(argument, latitude.shape) / (2 * np.pi) * revolution
            times = np.clip(np.rint((when - moments[0]) / step), 0, len(moments) - 1).astype(np.intp)
            yield np.ravel_multi_index((times, rows, columns), shape)[inside & also]
