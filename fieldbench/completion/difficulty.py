"""How hard entries are to predict: the kriging variance of a covariance fitted to pairs of observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldbench.field import Axis, FloatArray, Mask, Observation
from fieldbench.gap_holdout import one_sided

_ANCHORS = 1500
_PARTNERS = 12
_NEIGHBOURS = 20
#: Largest power of a covariance. That of very smooth fields has variances that nobody's errors reach.
_SMOOTHEST = 1.5
#: Entries of a box in which neighbours are looked for; a field of fewer is one box.
_BOX = 400_000
_BOXES = 6
#: Observed entries among which those on either side are looked for.
_AROUND = 1000
#: Part of the extent of what is observed beyond which an entry outside of it is far.
_FAR = 0.25


@dataclass(frozen=True, eq=False)
class StableCovariance:
    """A stable covariance, exp(-r ** power), and a nugget beside it; both together are 1 at distance 0.

    Attributes:
        steps: what one grid step counts along each axis, as a part of the correlation length.
        power: in (0, 2).
        nugget: part of the variance that is not continuous.
    """

    steps: FloatArray
    power: float
    nugget: float

    def __call__(self, square: FloatArray) -> FloatArray:
        """The covariance at squared distances; of an entry with itself the nugget is to be added."""
        return np.asarray((1 - self.nugget) * np.exp(-(square ** (self.power / 2))))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some entries of a field, indices of shape (n, d), and the box in which their neighbours are looked for."""

    box: tuple[slice, ...]
    at: NDArray[np.intp]


def positions(axes: Sequence[Axis], indices: NDArray[np.intp]) -> FloatArray:
    """Coordinates of entries in mean grid steps, shape (n, d), from indices of that shape."""
    return np.stack([axis.coordinates[indices[:, i]] / axis.spacing for i, axis in enumerate(axes)], axis=1)


def fit(observation: Observation, rng: np.random.Generator) -> StableCovariance:
    """The covariance under which differences between pairs of observations, near and far, are likeliest."""
    from scipy.optimize import minimize
    from scipy.spatial import cKDTree

    at = _inside(observation.mask, sample(observation.mask, 1, rng)[0].box)
    values = np.asarray(observation.values[tuple(at.T)], dtype=float)
    if observation.log_floor is not None:
        values = np.log(np.maximum(values, 0) + observation.log_floor)
    order = observation.ndim
    spread = float(values.std())
    if len(at) < 8 or spread == 0:
        return StableCovariance(np.full(order, 0.1), 1.0, 0.0)
    points = positions(observation.axes, at)
    anchors = rng.choice(len(at), min(_ANCHORS, len(at)), replace=False)
    near = cKDTree(points).query(points[anchors], min(_PARTNERS + 1, len(at)))[1][:, 1:]
    far = rng.integers(len(at), size=(len(anchors), _PARTNERS))
    partners = np.concatenate([near, far], axis=1)
    apart = np.abs(points[anchors, np.newaxis] - points[partners]).reshape(-1, order)
    square = ((values[anchors, np.newaxis] - values[partners]) ** 2).ravel() / spread**2
    distinct = apart.any(axis=1)
    apart, square = apart[distinct], np.maximum(square[distinct], 1e-12)
    sizes = np.array([np.ptp(points[:, axis]) + 1 for axis in range(order)])

    def unlikely(x: FloatArray) -> float:
        lengths, power, sill, nugget = np.exp(x[:order]), 2 / (1 + np.exp(-x[order])), np.exp(x[-2]), np.exp(x[-1])
        distance = ((apart / lengths) ** 2).sum(axis=1)
        half = nugget + sill * -np.expm1(-(distance ** (power / 2)))
        # Differences of a Gaussian field: their square is twice this, times chi squared.
        return float(np.mean(np.log(half) + 0.5 * square / half)) + 0.01 * float(((x[:order] - middle) ** 2).mean())

    middle = np.log(np.maximum(sizes / 6, 1.0))
    bounds = [*((np.log(0.2), np.log(20 * size)) for size in sizes), (-3, 4.6), (-5, 5), (-14, 1)]
    start = [*middle, 0.5, 0.0, -6.0]
    found = minimize(unlikely, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 80})
    x = found.x
    sill, nugget = float(np.exp(x[-2])), float(np.exp(x[-1]))
    return StableCovariance(
        1 / np.exp(x[:order]), min(float(2 / (1 + np.exp(-x[order]))), _SMOOTHEST), nugget / (sill + nugget)
    )


def sample(entries: Mask, number: int, rng: np.random.Generator) -> list[Sample]:
    """At most about ``number`` of the entries; of a large field, from boxes around a few of them.

    Args:
        entries: those to choose from, True = may be chosen.
        number: how many are wanted.
        rng: chooses.
    """
    if entries.size <= _BOX:
        everything = tuple(slice(0, size) for size in entries.shape)
        return [Sample(everything, _some(np.argwhere(entries), number, rng))]
    centres = rng.choice(np.flatnonzero(entries), _BOXES)
    boxes = [_around(entries.shape, centre) for centre in np.stack(np.unravel_index(centres, entries.shape), axis=1)]
    return [Sample(box, _some(_inside(entries, box), number // _BOXES, rng)) for box in boxes]


def _inside(entries: Mask, box: tuple[slice, ...]) -> NDArray[np.intp]:
    """Indices of the entries in a box, shape (n, d)."""
    return np.asarray(np.argwhere(entries[box]) + [part.start for part in box])


def _some(at: NDArray[np.intp], number: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """All of these indices, or as many of them at random if there are more."""
    return at if len(at) <= number else rng.choice(at, number, replace=False)


def extrapolated(
    covariance: StableCovariance,
    axes: Sequence[Axis],
    observed: Mask,
    samples: Sequence[Sample],
    rng: np.random.Generator,
) -> Mask:
    """For each entry whether it is far outside of what is observed, on one side of all observations nearby.

    Args:
        covariance: tells which entries are far away.
        axes: of the field.
        observed: mask of the field's shape, True = observed.
        samples: the entries to be judged.
        rng: chooses among many observations in a box.
    """
    found = []
    for part in samples:
        points = positions(axes, _some(_inside(observed, part.box), _AROUND, rng)) * covariance.steps
        targets = positions(axes, part.at) * covariance.steps
        alone = np.ones(len(targets), dtype=bool)
        if len(points):
            chunks = np.array_split(targets, max(1, len(targets) // 500))
            nearest = np.concatenate(
                [np.sqrt(((points - chunk[:, np.newaxis]) ** 2).sum(axis=2).min(axis=1)) for chunk in chunks]
            )
            alone = np.concatenate([one_sided(chunk, points) for chunk in chunks])
            alone &= nearest > _FAR * float(np.ptp(points, axis=0).max())
        found.append(alone)
    return np.concatenate(found)


def variances(
    covariance: StableCovariance, axes: Sequence[Axis], observed: Mask, samples: Sequence[Sample]
) -> FloatArray:
    """Kriging variance of entries from the nearest observed ones, in parts of the field's variance, as a vector.

    Args:
        covariance: of the field.
        axes: of the field.
        observed: mask of the field's shape, True = observed.
        samples: the entries to be predicted.
    """
    from scipy.spatial import cKDTree

    found: list[FloatArray] = []
    for part in samples:
        points = positions(axes, _inside(observed, part.box)) * covariance.steps
        if not len(points):
            found.append(np.ones(len(part.at)))
            continue
        targets = positions(axes, part.at) * covariance.steps
        number = min(_NEIGHBOURS, len(points))
        chosen = cKDTree(points).query(targets, number)[1].reshape(len(targets), number)
        found.append(_kriging(covariance, targets, points[chosen]))
    return np.concatenate(found)


def _kriging(covariance: StableCovariance, targets: FloatArray, near: FloatArray) -> FloatArray:
    """Variance of ordinary kriging, in parts of the whole variance: targets (n, d), neighbours (n, k, d)."""
    result = np.empty(len(targets))
    for start in range(0, len(targets), 500):
        some, to = near[start : start + 500], targets[start : start + 500]
        between = covariance(((some[:, :, np.newaxis] - some[:, np.newaxis]) ** 2).sum(axis=3))
        index = np.arange(between.shape[1])
        between[:, index, index] = 1.0 + 1e-9
        right = np.stack([covariance(((some - to[:, np.newaxis]) ** 2).sum(axis=2)), np.ones(some.shape[:2])], axis=2)
        solved = np.linalg.solve(between, right)
        explained, sums = (right[..., 0] * solved[..., 0]).sum(axis=1), solved.sum(axis=1)
        result[start : start + 500] = 1 - explained + (1 - sums[:, 0]) ** 2 / np.maximum(sums[:, 1], 1e-12)
    return np.maximum(result, 1e-9)


def _around(shape: tuple[int, ...], centre: NDArray[np.intp]) -> tuple[slice, ...]:
    part = min(1.0, _BOX / float(np.prod(shape)))
    edges = np.minimum(shape, np.maximum(8, np.ceil(part ** (1 / len(shape)) * np.array(shape)))).astype(int)
    start = np.clip(centre - edges // 2, 0, np.array(shape) - edges)
    return tuple(slice(int(low), int(low + edge)) for low, edge in zip(start, edges, strict=True))
