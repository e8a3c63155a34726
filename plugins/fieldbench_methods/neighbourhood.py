"""Prediction at many targets, each from its nearest points alone: one small kernel system a target.

The approximation that keeps splines and kriging affordable where there are too many points for one
system. Systems are solved in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
from fieldbench.field import FloatArray
from numpy.typing import NDArray

#: A function of distance, applied elementwise.
Kernel: TypeAlias = Callable[[FloatArray], FloatArray]

# Relative to the kernel. Neighbours on a plane leave a polynomial's slope across it undetermined; this
# weight on its coefficients picks the smallest slope there and changes nothing visible elsewhere.
_RIDGE = 1e-9
_BATCH_BYTES = 2**25


@dataclass(frozen=True)
class Predictor:
    """Weights that turn neighbours' values into predictions, for a batch of b targets with k neighbours.

    Attributes:
        targets: which targets, a slice into their array.
        neighbours: indices of their neighbours among the points, shape (b, k).
        weights: shape (b, k); the prediction is the weighted sum of the neighbours' values.
        explained: shape (b,): weights times kernel plus multipliers times polynomials; for a covariance
            kernel the variance of a prediction is the variance of the field minus this.
    """

    targets: slice
    neighbours: NDArray[np.intp]
    weights: FloatArray
    explained: FloatArray

    def apply(self, values: FloatArray) -> FloatArray:
        """Predictions (b, c) from values (n, c) at all points."""
        return np.einsum("bk,bkc->bc", self.weights, values[self.neighbours])


def nearest_points(
    points: FloatArray, targets: FloatArray, count: int, *, skip_self: bool = False
) -> NDArray[np.intp]:
    """Indices of the ``count`` points nearest to each target, shape (m, count), nearest first.

    With ``skip_self`` every target is one of the points (distance 0, listed first) and is left out, which
    makes its prediction a leave-one-out prediction.
    """
    from scipy.spatial import cKDTree

    count = min(count, len(points) - skip_self)
    _, found = cKDTree(points).query(targets, k=np.arange(1, count + 1 + skip_self))
    return found[:, 1:] if skip_self else found


def predictors(
    points: FloatArray,
    targets: FloatArray,
    neighbours: NDArray[np.intp],
    kernel: Kernel,
    *,
    degree: int,
    smoothing: float,
) -> Iterator[Predictor]:
    """Solve for the weights of each target in turn, batch by batch.

    Args:
        points: shape (n, d).
        targets: shape (m, d).
        neighbours: indices into ``points``, shape (m, k).
        kernel: conditionally positive definite of order ``degree`` + 1.
        degree: of the polynomial that is reproduced: 0 a constant, 1 linear, 2 quadratic, -1 none.
        smoothing: added to the kernel's diagonal (a nugget); 0 interpolates.
    """
    k, exponents = neighbours.shape[1], _exponents(points.shape[1], degree)
    size = k + len(exponents)
    batch = max(1, _BATCH_BYTES // (8 * size * size))
    for start in range(0, len(targets), batch):
        part = slice(start, min(start + batch, len(targets)))
        offsets = points[neighbours[part]] - targets[part, np.newaxis]
        between = kernel(_distances(offsets[:, :, np.newaxis] - offsets[:, np.newaxis]))
        towards = kernel(_distances(offsets))
        radius = np.maximum(np.abs(offsets).max(axis=(1, 2), keepdims=True), 1.0)
        polynomials = _monomials(offsets / radius, exponents)
        at_target = _monomials(np.zeros((len(offsets), 1, points.shape[1])), exponents)[:, 0]

        scale = np.maximum(np.abs(between).max(axis=(1, 2)), np.abs(towards).max(axis=1))
        scale = np.where(scale > 0, scale, 1.0)[:, np.newaxis]
        system = np.zeros((len(offsets), size, size))
        system[:, :k, :k] = (between + smoothing * np.eye(k)) / scale[..., np.newaxis]
        system[:, :k, k:] = polynomials
        system[:, k:, :k] = np.swapaxes(polynomials, 1, 2)
        system[:, k:, k:] = -_RIDGE * np.eye(len(exponents))
        right = np.concatenate([towards / scale, at_target], axis=1)
        solution = np.linalg.solve(system, right[..., np.newaxis])[..., 0]
        explained = scale[:, 0] * np.sum(solution * right, axis=1)
        yield Predictor(part, neighbours[part], solution[:, :k], explained)


def _distances(offsets: FloatArray) -> FloatArray:
    return np.sqrt(np.einsum("...d,...d->...", offsets, offsets))


def _exponents(dimensions: int, degree: int) -> list[tuple[int, ...]]:
    """The monomials of at most this degree, each as the list of axes that it multiplies."""
    return [axes for total in range(degree + 1) for axes in combinations_with_replacement(range(dimensions), total)]


def _monomials(coordinates: FloatArray, exponents: list[tuple[int, ...]]) -> FloatArray:
    if not exponents:
        return np.empty((*coordinates.shape[:-1], 0))
    return np.stack([coordinates[..., list(axes)].prod(axis=-1) for axes in exponents], axis=-1)
