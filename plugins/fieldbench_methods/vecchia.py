"""A likelihood of near neighbours, for more points than one covariance matrix can hold.

Vecchia's approximation (Katzfuss and Guinness 2021): the product of the densities of some values, each given
its nearest neighbours alone. With all earlier points as neighbours it is the exact likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray
from fieldbench_methods.correlation import CORRELATIONS
from fieldbench_methods.neighbourhood import nearest_points, tree_of

#: Subsets that neighbours are sought in, each with a quarter of the points of the one before.
_LEVELS = 4
_BATCH_BYTES = 2**20


@dataclass(frozen=True)
class Terms:
    """Factors of the likelihood: m values, each given those of its k neighbours.

    Attributes:
        squares: squared distances along each axis between the neighbours, shape (d, m, k, k).
        towards: the same between each point and its neighbours, shape (d, m, k).
        values: at the points, shape (m, c); each column has its own mean and variance.
        given: at their neighbours, shape (m, k, c).
    """

    squares: FloatArray
    towards: FloatArray
    values: FloatArray
    given: FloatArray


def terms(
    points: FloatArray, values: FloatArray, at: NDArray[np.intp], neighbours: NDArray[np.intp], *, tied: bool = False
) -> Terms:
    """The factors of the points ``at`` (m,), given ``neighbours`` (m, k); ``tied`` axes count as one.

    Args:
        points: shape (n, d).
        values: shape (n, c).
        at: indices of points, shape (m,).
        neighbours: indices of each one's neighbours, shape (m, k).
        tied: whether all axes share one length scale.
    """
    near = np.moveaxis(points[neighbours], -1, 0)
    squares = (near[..., :, np.newaxis] - near[..., np.newaxis, :]) ** 2
    towards = (near - points[at].T[:, :, np.newaxis]) ** 2
    if tied:
        squares, towards = squares.sum(axis=0, keepdims=True), towards.sum(axis=0, keepdims=True)
    return Terms(squares, towards, values[at], values[neighbours])


def sample(
    points: FloatArray,
    values: FloatArray,
    lengths: FloatArray,
    count: int,
    neighbours: int,
    rng: np.random.Generator,
    *,
    tied: bool = False,
) -> list[Terms]:
    """About ``count`` factors at random points, whose neighbours are the nearest in ever thinner random subsets.

    Neighbours among all points show the short scales, those in a sixty-fourth of them the long ones.

    Args:
        points, values: shapes (n, d) and (n, c).
        lengths: of the metric of nearness.
        count: number of factors, at most.
        neighbours: of each factor, at most.
        rng: chooses points and subsets.
        tied: whether all axes have one length scale in common.
    """
    order = rng.permutation(len(points))
    sizes = [len(points) // 4**level for level in range(_LEVELS)]
    sizes = [size for size in sizes if size > 2 * neighbours] or sizes[:1]
    batch = max(1, _BATCH_BYTES // (8 * neighbours**2))
    made = []
    for size in sizes:
        subset = points[order[:size]] / lengths
        tree, chosen = tree_of(subset), rng.permutation(size)[: count // len(sizes)]
        for start in range(0, len(chosen), batch):
            part = chosen[start : start + batch]
            near = nearest_points(tree, subset[part], min(neighbours, size - 1) + 1)[:, 1:]
            made.append(terms(points, values, order[part], order[near], tied=tied))
    return made


def likelihood(logarithms: FloatArray, kernel: str, factors: Sequence[Terms]) -> tuple[float, FloatArray]:
    """The negative restricted log likelihood (up to a constant), with the variance of each column at its best.

    The mean is unknown: each value is predicted by ordinary kriging from its neighbours.

    Args:
        logarithms: of the d length scales and the nugget.
        kernel: name of the correlation function.
        factors: of the likelihood.

    Returns:
        The value, and its gradient with respect to ``logarithms``.
    """
    parts = [_standardised(logarithms, kernel, part) for part in factors]
    variances, errors, slopes, error_slopes = (np.concatenate(part) for part in zip(*parts, strict=True))
    columns, shares = errors.shape[1], errors / variances[:, np.newaxis]
    spread = np.mean(errors * shares, axis=0)
    value = 0.5 * columns * float(np.log(variances).sum()) + 0.5 * len(errors) * float(np.log(spread).sum())
    gradient = 0.5 * columns * (slopes / variances[:, np.newaxis]).sum(axis=0)
    gradient += np.einsum("mc,mcp->p", shares / spread, error_slopes)
    gradient -= 0.5 * ((shares**2 / spread).sum(axis=1) @ slopes)
    return value, gradient


def _standardised(
    logarithms: FloatArray, kernel: str, part: Terms
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Kriging variances (m,) and errors (m, c), and their derivatives by the logarithms, (m, p) and (m, c, p)."""
    squared, nugget = np.exp(2 * logarithms[:-1]), float(np.exp(logarithms[-1]))
    correlation, k = CORRELATIONS[kernel], part.towards.shape[2]
    between = np.sqrt(np.tensordot(1 / squared, part.squares, axes=1))
    towards = np.sqrt(np.tensordot(1 / squared, part.towards, axes=1))
    m, columns = part.values.shape
    system = np.ones((m, k + 1, k + 1))
    system[:, :k, :k] = correlation.value(between)
    system[:, np.arange(k), np.arange(k)] += nugget
    system[:, k, k] = 0
    right = np.zeros((m, k + 1, 1 + columns))
    right[:, :k, 0], right[:, k, 0], right[:, :k, 1:] = correlation.value(towards), 1, part.given
    solved = np.linalg.solve(system, right)
    weights, dual = solved[:, :k, 0], solved[:, :k, 1:]
    variances = 1 + nugget - (solved[..., 0] * right[..., 0]).sum(axis=1)
    errors = part.values - np.einsum("mk,mkc->mc", weights, part.given)

    slope_between, slope_towards = correlation.slope(between), correlation.slope(towards)
    slopes, error_slopes = np.empty((m, len(logarithms))), np.empty((m, columns, len(logarithms)))
    for axis, square in enumerate(squared):
        along = (((slope_between * part.squares[axis]) @ weights[..., np.newaxis])[..., 0]) / square
        across = slope_towards * part.towards[axis] / square
        slopes[:, axis] = ((along - 2 * across) * weights).sum(axis=1)
        error_slopes[..., axis] = np.einsum("mkc,mk->mc", dual, along - across)
    slopes[:, -1] = nugget * (1 + (weights**2).sum(axis=1))
    error_slopes[..., -1] = nugget * np.einsum("mkc,mk->mc", dual, weights)
    return variances, errors, slopes, error_slopes
