"""Swaths: what satellites see on orbits of a given inclination and repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import fieldbench
from fieldbench import Axis, FloatArray, Mask, Observation, parameter, withhold_like_gaps
from fieldbench_datasets.geography import LATITUDES, horizontal, time_axis

#: Length of a degree of latitude.
KM_PER_DEGREE = 111.2


class Swaths(fieldbench.Sampler):
    """Swaths under satellites on circular orbits whose tracks repeat: passes that go north and passes that go south.

    A pass measures every grid point within half a width of its track, along all further axes, at one time if the field
    has a time axis. The tracks of one repeat are equally spaced in longitude, from a random one on; those over the
    field are passed once, in random order, and then those of another satellite on such an orbit, until exactly
    round(rate x positions) positions (and times) are measured. The last pass ends there. Axes that are not latitude
    and longitude are taken as km east and north (m where the unit says so) around ``latitude``.
    """

    name = "swaths"
    revision = "1"

    inclination: float = parameter(66.04, "angle between orbit and equator (Jason)", unit="degrees", gt=0, lt=180)
    revolutions: int = parameter(127, "revolutions in one repeat (Jason)", ge=1)
    repeat: float = parameter(9.9156, "time after which the track comes back (Jason)", unit="days", gt=0)
    width: float = parameter(0.0, "width of the swath; 0 is a line of grid points", unit="km", ge=0)
    latitude: float = parameter(30.0, "of the origin of a field in km or m", unit="degrees", gt=-90, lt=90)

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        plane, time = horizontal(axes), time_axis(axes)
        if axes[plane[0]].name not in LATITUDES:
            plane = plane[::-1]  # x, which is east, comes before y
        kept = (*(() if time is None else (time,)), *plane)
        others = tuple(index for index in range(valid.ndim) if index not in kept)
        whole = valid.any(axis=others, keepdims=True).transpose(*kept, *others)
        positions = whole.reshape(-1, *(valid.shape[index] for index in plane))
        wanted = round(rate * int(positions.sum()))
        if wanted < 1:
            raise fieldbench.RequestError(f"rate {rate:g} of {positions.sum()} positions observes none; raise it")
        north, east = self._in_degrees([axes[index] for index in plane])
        reached = positions[:, np.abs(np.sin(np.radians(north))) < np.sin(np.radians(self.inclination))].sum()
        if wanted > reached:
            raise fieldbench.RequestError(
                f"{self}: only a share {reached / positions.sum():.3f} of the field lies below the orbit; "
                "use a lower rate, or an inclination nearer to 90"
            )
        seen = np.zeros(positions.shape, dtype=bool)
        while wanted:
            for rows, columns in self._passes(north, east, rng):
                when = int(rng.integers(len(positions)))
                new = positions[when, rows, columns] & ~seen[when, rows, columns]
                rows, columns = rows[new][:wanted], columns[new][:wanted]
                seen[when, rows, columns] = True
                wanted -= len(rows)
        return np.asarray(seen.reshape(whole.shape).transpose(np.argsort((*kept, *others))) & valid)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Entries in holes as deep as the gaps between swaths."""
        return withhold_like_gaps(observation.mask, observation.valid & ~observation.mask, share, rng)

    def ground_track(self, latitude: FloatArray, northward: bool) -> FloatArray:
        """Longitudes of a pass relative to where it crosses the equator, in degrees; NaN where it never comes.

        Args:
            latitude: in degrees, any shape.
            northward: whether the satellite goes north.
        """
        tilt = np.radians(self.inclination)
        sine = np.sin(np.radians(latitude)) / np.sin(tilt)
        argument = np.arcsin(np.where(np.abs(sine) <= 1, sine, np.nan))
        east = np.degrees(np.arctan2(np.cos(tilt) * np.sin(argument), np.cos(argument)))
        turned = 360 * max(1, round(self.repeat)) / self.revolutions * np.degrees(argument) / 360
        return np.asarray(east - turned if northward else turned - east)

    def _passes(
        self, north: FloatArray, east: FloatArray, rng: np.random.Generator
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """What one satellite measures of a field: rows and columns of each pass, in the order in which it flies.

        Args:
            north, east: latitudes of the rows and longitudes of the columns, in degrees.
            rng: the only source of randomness.
        """
        step = float(np.abs(np.diff(east)).mean()) if len(east) > 1 else 1.0
        least = np.maximum(step, self.width / KM_PER_DEGREE / np.cos(np.radians(north)))[:, np.newaxis] / 2
        spacing, passes = 360 / self.revolutions, []
        for northward in (True, False):
            track = self.ground_track(north, northward)[:, np.newaxis]
            # A track is slanted; what lies between its points in neighbouring rows is measured as well.
            slant = np.abs(np.gradient(track, axis=0)) / 2 if len(north) > 1 else np.zeros_like(track)
            half = np.fmax(least, slant)
            # Nodes of the tracks that meet the field; a satellite none of whose tracks do measures nothing of it.
            low, high = east.min() - np.nanmax(track + half), east.max() - np.nanmin(track - half)
            high = min(high, low + 360)
            nodes = np.arange(low + rng.uniform(0, min(spacing, high - low)), high, spacing)
            passes += [(northward, track + node, half) for node in nodes]
        for number in rng.permutation(len(passes)):
            northward, track, half = passes[number]
            rows, columns = np.nonzero(np.abs((east - track + 180) % 360 - 180) <= half)
            order = np.argsort(north[rows] if northward else -north[rows], kind="stable")
            yield rows[order], columns[order]

    def _in_degrees(self, plane: list[Axis]) -> tuple[FloatArray, FloatArray]:
        """Latitudes and longitudes of rows and columns."""
        north, east = (axis.coordinates for axis in plane)
        if plane[0].name not in LATITUDES:
            degrees = KM_PER_DEGREE * np.array([1000 if axis.unit == "m" else 1 for axis in plane])
            north = self.latitude + north / degrees[0]
            east = east / degrees[1] / np.cos(np.radians(self.latitude))
        return north, east
