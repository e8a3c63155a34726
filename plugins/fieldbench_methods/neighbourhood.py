"""Prediction at many targets, each from its nearest points alone: one small kernel system a target.

The approximation that keeps splines and kriging affordable where there are too many points for one
system. Systems are solved in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray

#: A function of distance, applied elementwise.
Kernel: TypeAlias = Callable[[FloatArray], FloatArray]

# Relative to the kernel. Neighbours on a plane leave a polynomial's slope across it undetermined; this
# weight on its coefficients picks the smallest slope there and changes nothing visible elsewhere.
_RIDGE = 1e-9
_BATCH_BYTES = 2**20


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


@dataclass(frozen=True)
class Systems:
    """The bordered kernel systems of a batch of b targets with k neighbours, for any smoothing.

    Attributes:
        targets, neighbours: as in :class:`Predictor`.
        scale: what the kernel was divided by, shape (b, 1), so that it balances the polynomials.
        matrices: scaled kernel between neighbours, bordered by the polynomials, shape (b, k + p, k + p).
        towards: scaled kernel towards the target, and the polynomials there, shape (b, k + p).
    """

    targets: slice
    neighbours: NDArray[np.intp]
    scale: FloatArray
    matrices: FloatArray
    towards: FloatArray

    def solve(self, smoothing: float = 0.0) -> Predictor:
        """The weights for this smoothing, which is added to the kernel's diagonal (0 interpolates)."""
        k, matrices = self.neighbours.shape[1], self.matrices
        if smoothing:
            matrices = matrices.copy()
            matrices[:, np.arange(k), np.arange(k)] += smoothing / self.scale
        solution = np.linalg.solve(matrices, self.towards[..., np.newaxis])[..., 0]
        explained = self.scale[:, 0] * np.sum(solution * self.towards, axis=1)
        return Predictor(self.targets, self.neighbours, solution[:, :k], explained)


def nearest_points(tree: Any, targets: FloatArray, count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` points of a k-d tree nearest to each target, shape (m, count), nearest first.

    Of a tree of fewer points, all of them.
    """
    _, found = tree.query(targets, k=np.arange(1, min(count, tree.n) + 1))
    return found


def systems(
    points: FloatArray, targets: FloatArray, count: int, kernel: Kernel, degree: int, *, skip_self: bool = False
) -> Iterator[Systems]:
    """The systems of all targets, batch by batch; what is held at once does not grow with their number.

    Args:
        points: shape (n, d).
        targets: shape (m, d).
        count: neighbours of each target, at most; k is this or the number of points.
        kernel: conditionally positive definite of order ``degree`` + 1.
        degree: of the polynomials that are reproduced: 0 constants, 1 linear ones.
        skip_self: every target is one of the points (distance 0) and is left out of its neighbours, which
            makes its prediction a leave-one-out prediction.
    """
    from scipy.spatial import cKDTree

    tree, exponents = cKDTree(points), _exponents(points.shape[1], degree)
    k = min(count, len(points) - skip_self)
    size = k + len(exponents)
    batch = max(1, _BATCH_BYTES // (8 * size * size))
    for start in range(0, len(targets), batch):
        part = slice(start, min(start + batch, len(targets)))
        neighbours = nearest_points(tree, targets[part], k + skip_self)[:, int(skip_self) :]
        offsets = points[neighbours] - targets[part, np.newaxis]
        towards = kernel(np.linalg.norm(offsets, axis=-1))
        matrices = np.zeros((len(offsets), size, size))
        between = matrices[:, :k, :k]
        between[:] = kernel(_distances(offsets))
        scale = np.maximum(np.abs(between).max(axis=(1, 2)), np.abs(towards).max(axis=1))[:, np.newaxis]
        scale[scale == 0] = 1.0
        between /= scale[..., np.newaxis]
        radius = np.maximum(np.abs(offsets).max(axis=(1, 2), keepdims=True), 1.0)
        polynomials = _monomials(offsets / radius, exponents)
        matrices[:, :k, k:], matrices[:, k:, :k] = polynomials, np.swapaxes(polynomials, 1, 2)
        matrices[:, np.arange(k, size), np.arange(k, size)] = -_RIDGE
        at_target = _monomials(np.zeros((len(offsets), 1, points.shape[1])), exponents)[:, 0]
        yield Systems(part, neighbours, scale, matrices, np.concatenate([towards / scale, at_target], axis=1))


def _distances(offsets: FloatArray) -> FloatArray:
    """Distances between the k neighbours of each target, shape (b, k, k), axis by axis to stay in cache."""
    squares = sum((along[:, :, np.newaxis] - along[:, np.newaxis]) ** 2 for along in np.moveaxis(offsets, -1, 0))
    return np.sqrt(squares)


def _exponents(dimensions: int, degree: int) -> list[tuple[int, ...]]:
    """The monomials of at most this degree, each as the list of axes that it multiplies."""
    return [axes for total in range(degree + 1) for axes in combinations_with_replacement(range(dimensions), total)]


def _monomials(coordinates: FloatArray, exponents: list[tuple[int, ...]]) -> FloatArray:
    if not exponents:
        return np.empty((*coordinates.shape[:-1], 0))
    return np.stack([coordinates[..., list(axes)].prod(axis=-1) for axes in exponents], axis=-1)
