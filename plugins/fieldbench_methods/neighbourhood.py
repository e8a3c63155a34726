"""Prediction at many targets, each from its nearest points alone: one small kernel system for targets close together.

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
Indices: TypeAlias = NDArray[np.intp]

# Relative to the kernel. Neighbours on a plane leave a polynomial's slope across it undetermined; this
# weight on its coefficients picks the smallest slope there and changes nothing visible elsewhere.
_RIDGE = 1e-9
_BATCH_BYTES = 2**20
#: Targets that are grouped at once; what grouping holds grows with their number.
_PART = 2**20
#: Targets share neighbours if none is farther from their middle than this times the reach of half the neighbours.
_SHARED = 0.3
#: With this many points a neighbour or more, an eighth of the neighbours each are sought in one of 16 and 256 points.
_MANY, _THINNED = 64, (256, 16)


@dataclass(frozen=True)
class Systems:
    """The bordered kernel systems of a batch of b groups of targets with k neighbours, for any smoothing.

    Attributes:
        targets: indices of the targets of each group, shape (b, g); a smaller group repeats its first target.
        neighbours: indices of each group's neighbours among the points, shape (b, k).
        scale: what the kernel was divided by, shape (b, 1, 1), so that it balances the polynomials.
        matrices: scaled kernel between neighbours, bordered by the polynomials, shape (b, k + p, k + p).
        towards: scaled kernel towards the targets, and the polynomials there, shape (b, k + p, g).
    """

    targets: Indices
    neighbours: Indices
    scale: FloatArray
    matrices: FloatArray
    towards: FloatArray

    def predict(self, values: FloatArray, smoothing: float = 0.0) -> FloatArray:
        """Predictions (b, g, c) from values (n, c) at all points; ``smoothing`` is added to the kernel's diagonal."""
        return self._towards(np.linalg.solve(self._smoothed(smoothing), self._right(values)))

    def posterior(self, values: FloatArray, smoothing: float = 0.0) -> tuple[FloatArray, FloatArray]:
        """Predictions as :meth:`predict` has them, and what the neighbours explain of the variance, shape (b, g).

        For a covariance kernel the variance of a prediction is the variance of the field minus this.
        """
        right = np.concatenate([self._right(values), self.towards], axis=2)
        solution = np.linalg.solve(self._smoothed(smoothing), right)
        columns = values.shape[1]
        explained = self.scale[:, 0] * np.sum(solution[..., columns:] * self.towards, axis=1)
        return self._towards(solution[..., :columns]), np.asarray(explained)

    def _right(self, values: FloatArray) -> FloatArray:
        k, size = self.neighbours.shape[1], self.matrices.shape[1]
        right = np.zeros((len(self.targets), size, values.shape[1]))
        right[:, :k] = values[self.neighbours]
        return right

    def _towards(self, solution: FloatArray) -> FloatArray:
        return np.asarray(np.swapaxes(self.towards, 1, 2) @ solution)

    def _smoothed(self, smoothing: float) -> FloatArray:
        if not smoothing:
            return self.matrices
        k, matrices = self.neighbours.shape[1], self.matrices.copy()
        matrices[:, np.arange(k), np.arange(k)] += smoothing / self.scale[:, :, 0]
        return matrices


def tree_of(points: FloatArray) -> Any:
    """A k-d tree; on grid points the sliding midpoint rule builds it several times as fast as medians do."""
    from scipy.spatial import cKDTree

    return cKDTree(points, balanced_tree=False, compact_nodes=False)


def nearest_points(tree: Any, targets: FloatArray, count: int) -> Indices:
    """Indices of the ``count`` points of a k-d tree nearest to each target, shape (m, count), nearest first.

    Of a tree of fewer points, all of them.

    Args:
        tree: scipy's.
        targets: shape (m, d).
        count: of points for each target.
    """
    _, found = tree.query(targets, k=np.arange(1, min(count, tree.n) + 1))
    return np.asarray(found)


def systems(
    points: FloatArray, targets: FloatArray, count: int, kernel: Kernel, degree: int, *, skip_self: bool = False
) -> Iterator[Systems]:
    """The systems of all targets, batch by batch; what is held at once does not grow with their number.

    Targets that lie close together, compared with their distance to the points, share a system.

    Args:
        points: shape (n, d).
        targets: shape (m, d).
        count: neighbours of each system, at most; k is this or the number of points.
        kernel: conditionally positive definite of order ``degree`` + 1.
        degree: of the polynomials that are reproduced: 0 constants, 1 linear ones.
        skip_self: every target is one of the points (distance 0) and is left out of its neighbours, which
            makes its prediction a leave-one-out prediction; each has its own system.
    """
    near, exponents = _Near(points, count, skip_self=skip_self), _exponents(points.shape[1], degree)
    for start in range(0, len(targets), _PART):
        part = np.arange(start, min(start + _PART, len(targets)))
        groups = _single(near, targets, part) if skip_self else _grouped(near, targets, part)
        for group, neighbours in groups:
            yield _system(points, targets, group, neighbours, kernel, exponents)


class _Near:
    """The points nearest to a target, and where there are many some of those around, nearest in random subsets.

    In a large gap beside dense points all the nearest may lie on one side, and what a system makes of them alone
    is far off.
    """

    def __init__(self, points: FloatArray, count: int, *, skip_self: bool) -> None:
        self._skip = int(skip_self)
        count = min(count, len(points) - self._skip)
        order, far = np.random.default_rng(0).permutation(len(points)), []
        if not skip_self and len(points) >= _MANY * count:
            for one_of in _THINNED:
                subset, order = np.split(order, [len(points) // one_of])
                far.append((subset, min(count // 8, len(subset))))
        near = count - sum(part for _, part in far)
        # Sorted, so that ties between neighbours do not depend on the permutation.
        self._trees = [(index, tree_of(points[index]), part) for index, part in [(np.sort(order), near), *far]]
        self.count = count

    def of(self, targets: FloatArray) -> tuple[FloatArray, Indices]:
        """The distance that half of the nearest lie within, shape (m,), and indices of all, shape (m, count)."""
        found = []
        for index, tree, part in self._trees:
            distances, near = tree.query(targets, k=np.arange(1 + self._skip, part + self._skip + 1))
            found.append((distances, index[near]))
        nearest = found[0][0]
        return nearest[:, max(0, nearest.shape[1] // 2 - 1)], np.concatenate([near for _, near in found], axis=1)


def _system(
    points: FloatArray,
    targets: FloatArray,
    group: Indices,
    neighbours: Indices,
    kernel: Kernel,
    exponents: list[tuple[int, ...]],
) -> Systems:
    b, k = neighbours.shape
    size = k + len(exponents)
    centre = targets[group[:, :1]]
    offsets, towards_targets = points[neighbours] - centre, targets[group] - centre
    towards = kernel(_distances(offsets, towards_targets))
    matrices = np.zeros((b, size, size))
    between = matrices[:, :k, :k]
    between[:] = kernel(_distances(offsets, offsets))
    scale = np.maximum(np.abs(between).max(axis=(1, 2)), np.abs(towards).max(axis=(1, 2)))[:, np.newaxis, np.newaxis]
    scale[scale == 0] = 1.0
    between /= scale
    radius = np.maximum(np.abs(offsets).max(axis=(1, 2), keepdims=True), 1.0)
    polynomials = _monomials(offsets / radius, exponents)
    matrices[:, :k, k:], matrices[:, k:, :k] = polynomials, np.swapaxes(polynomials, 1, 2)
    matrices[:, np.arange(k, size), np.arange(k, size)] = -_RIDGE
    at_targets = np.swapaxes(_monomials(towards_targets / radius, exponents), 1, 2)
    return Systems(group, neighbours, scale, matrices, np.concatenate([towards / scale, at_targets], axis=1))


def _single(near: _Near, targets: FloatArray, part: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Each target by itself, in batches, with its neighbours."""
    batch = max(1, _BATCH_BYTES // (8 * near.count**2))
    for start in range(0, len(part), batch):
        some = part[start : start + batch]
        yield some[:, np.newaxis], near.of(targets[some])[1]


def _grouped(near: _Near, targets: FloatArray, part: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Groups of targets that lie close together, of about the same size in a batch, with their neighbours.

    Cells are halved until each is small against the distance of its neighbours, or holds one target.
    """
    size = 2 * _SHARED * float(near.of(targets[part[:: max(1, len(part) // 1000)]])[0].max())
    while len(part):
        order, starts = _cells(targets[part], size)
        part = part[order]
        counts = np.diff(np.append(starts, len(part)))
        where, owner = targets[part], np.repeat(np.arange(len(starts)), counts)
        centres = np.add.reduceat(where, starts, axis=0) / counts[:, np.newaxis]
        radii = np.sqrt(np.maximum.reduceat(((where - centres[owner]) ** 2).sum(axis=1), starts))
        left = np.ones(len(starts), dtype=bool)
        for batch in _by_size(counts, near.count):
            reach, neighbours = near.of(centres[batch])
            fits = (radii[batch] <= _SHARED * reach) | (counts[batch] == 1)
            accepted = batch[fits]
            left[accepted] = False
            if len(accepted):
                members = np.arange(counts[accepted].max())
                members = np.where(members < counts[accepted, np.newaxis], members, 0)
                yield part[starts[accepted, np.newaxis] + members], neighbours[fits]
        part, size = part[left[owner]], size / 2


def _cells(where: FloatArray, size: float) -> tuple[Indices, Indices]:
    """An order that puts targets of one cubic cell together, and where each cell starts in it."""
    if size == 0:
        return np.arange(len(where)), np.arange(len(where))
    cells = np.floor((where - where.min(axis=0)) / size).astype(np.int64)
    number = np.ravel_multi_index(tuple(cells.T), tuple(cells.max(axis=0) + 1))
    order = np.argsort(number, kind="stable")
    number = number[order]
    return order, np.flatnonzero(np.append(True, number[1:] != number[:-1]))


def _by_size(counts: Indices, k: int) -> Iterator[Indices]:
    """Groups in batches, by falling size so that little of a batch is padding."""
    order = np.argsort(-counts, kind="stable")
    start = 0
    while start < len(order):
        each = 8 * k * (k + int(counts[order[start]]))
        stop = start + max(1, _BATCH_BYTES // each)
        yield order[start:stop]
        start = stop


def _distances(one: FloatArray, other: FloatArray) -> FloatArray:
    """Distances between the offsets of each group, (b, k, d) and (b, g, d), axis by axis to stay in cache."""
    pairs = zip(np.moveaxis(one, -1, 0), np.moveaxis(other, -1, 0), strict=True)
    return np.sqrt(sum((along[:, :, np.newaxis] - across[:, np.newaxis]) ** 2 for along, across in pairs))


def _exponents(dimensions: int, degree: int) -> list[tuple[int, ...]]:
    """The monomials of at most this degree, each as the list of axes that it multiplies."""
    return [axes for total in range(degree + 1) for axes in combinations_with_replacement(range(dimensions), total)]


def _monomials(coordinates: FloatArray, exponents: list[tuple[int, ...]]) -> FloatArray:
    if not exponents:
        return np.empty((*coordinates.shape[:-1], 0))
    return np.stack([coordinates[..., list(axes)].prod(axis=-1) for axes in exponents], axis=-1)
