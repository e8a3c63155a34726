"""Clouds: the gaps of real pictures, laid over another field."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

import fieldbench
from fieldbench import Axis, DataPath, FloatArray, Mask, Observation, located, parameter, read, withhold_like_gaps
from fieldbench_datasets.geography import horizontal, time_axis


class Clouds(fieldbench.Sampler):
    """Transplanted clouds, clouds:FILE: what is missing in one of the file's pictures hides that part of the field.

    A file has pictures over latitude and longitude (or its first two axes beside time), missing values where there
    were clouds; what is missing in all pictures is land and hides nothing. Each time of the field gets one picture,
    at a random position where pictures are larger than the field. Without a file the clouds are the gaps of the field
    itself at other times, so that what is known on one day is covered as by another day's clouds.

    The rate is met on average. Of all ways to favour clearer or cloudier pictures it takes the least: a picture
    is drawn with a chance proportional to exp(tilt x share that it leaves visible). At the pictures' own mean share,
    which the message about an impossible rate names, all are as likely, and masks keep the share of real clouds.
    """

    name = "clouds"
    revision = "1"

    path: DataPath | None = parameter(None, "file with pictures; none: the gaps of the field itself at other times")
    variable: str | None = parameter(None, "name of the file's variable; none if there is but one")

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        field = _pictures(valid, axes)
        clear = _windows(self._clear(field), field.shape[1:], str(self), rng)
        weights = field.sum(axis=(1, 2)) / max(1, field.sum())
        with np.errstate(invalid="ignore"):
            visible = np.einsum("tij,sij->ts", field, clear, dtype=float) / field.sum(axis=(1, 2))[:, np.newaxis]
        # A picture does not hide the day that it was taken on, since that day is known nowhere else.
        sea = field.any(axis=0)
        own = np.array([[bool((one == other & sea).all() and (one != sea).any()) for other in clear] for one in field])
        allowed = np.isfinite(visible) & ~own
        chances = self._chances(visible, allowed, weights, rate)
        picked = np.array([rng.choice(len(clear), p=row) for row in chances])
        return _spread(clear[picked], valid.shape, axes) & valid

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """Entries in gaps as deep as the clouds."""
        missing = observation.valid & ~observation.mask
        return withhold_like_gaps(observation.mask, missing, share, rng)

    def _clear(self, field: Mask) -> Mask:
        """Pictures, True = no cloud, shape (pictures, rows, columns)."""
        clear = field if self.path is None else _of_file(located(self.path), self.variable)
        land = ~clear.any(axis=0)
        if (clear | land).all():
            source = "the field" if self.path is None else self.path.partition("#")[0]
            raise fieldbench.RequestError(f"{self.name}: {source} has no clouds; give a file that has: clouds:FILE")
        return np.asarray(clear | land)

    def _chances(self, visible: FloatArray, allowed: Mask, weights: FloatArray, rate: float) -> FloatArray:
        """The chance of each picture at each time, shape (times, pictures), so that ``rate`` is met on average.

        Raises:
            RequestError: if even the clearest pictures show less, or the cloudiest more.
        """
        # A time at which the field exists nowhere needs no picture; any will do.
        allowed = allowed | ~allowed.any(axis=1, keepdims=True)
        visible = np.where(allowed, np.nan_to_num(visible), 0.0)

        def chances(tilt: float) -> FloatArray:
            exponent = np.where(allowed, tilt * visible, -np.inf)
            found = np.exp(exponent - exponent.max(axis=1, keepdims=True))
            return np.asarray(found / found.sum(axis=1, keepdims=True))

        def mean(tilt: float) -> float:
            return float(weights @ (chances(tilt) * visible).sum(axis=1))

        steepest = 1e4
        low, high = mean(-steepest), mean(steepest)
        if not low <= rate <= high:
            raise fieldbench.RequestError(
                f"{self.name}: its pictures leave a share {low:.4f} to {high:.4f} visible, {mean(0):.4f} on average; "
                f"use a rate among these"
            )
        from scipy.optimize import brentq

        return chances(brentq(lambda tilt: mean(tilt) - rate, -steepest, steepest))


def _pictures(valid: Mask, axes: Sequence[Axis]) -> Mask:
    """Where a field exists at each time at any of the further axes, shape (times, rows, columns)."""
    plane, time = horizontal(axes), time_axis(axes)
    kept = plane if time is None else (time, *plane)
    others = tuple(index for index in range(valid.ndim) if index not in kept)
    whole = valid.any(axis=others, keepdims=True).transpose(*kept, *others)
    return np.asarray(whole.reshape(-1, *(valid.shape[index] for index in plane)))


def _spread(pictures: Mask, shape: tuple[int, ...], axes: Sequence[Axis]) -> Mask:
    """The inverse of :func:`_pictures`, the same along the further axes."""
    plane, time = horizontal(axes), time_axis(axes)
    kept = plane if time is None else (time, *plane)
    others = tuple(index for index in range(len(shape)) if index not in kept)
    sizes = [shape[index] for index in kept] + [1] * len(others)
    return np.asarray(pictures.reshape(sizes).transpose(np.argsort((*kept, *others))))


def _windows(clear: Mask, size: tuple[int, ...], name: str, rng: np.random.Generator) -> Mask:
    """A window of each picture, of the field's size, at a random position."""
    room = np.subtract(clear.shape[1:], size)
    if (room < 0).any():
        given, needed = ("x".join(map(str, shape)) for shape in (clear.shape[1:], size))
        raise fieldbench.RequestError(f"{name}: its pictures have {given} points; the field needs {needed}, or more")
    corners = rng.integers(0, room + 1, size=(len(clear), 2))
    return np.array([picture[i : i + size[0], j : j + size[1]] for picture, (i, j) in zip(clear, corners, strict=True)])


def _of_file(file: Path, variable: str | None) -> Mask:
    return _read(file, file.stat().st_mtime_ns, variable)


@lru_cache(maxsize=2)
def _read(file: Path, modified: int, variable: str | None) -> Mask:
    gridded = read(file, fieldbench.Selector(variable=variable))
    rows, columns = horizontal(gridded.axes)
    pictures = np.moveaxis(np.isfinite(gridded.values), (rows, columns), (-2, -1))
    return np.asarray(pictures.reshape(-1, *pictures.shape[-2:]))
