"""A Gaussian process of unknown mean: its likelihood, its fit and its predictions, by one system of all points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray, Mask
from fieldbench_methods.correlation import CORRELATIONS, Covariance

#: Length scales are sought between these, in grid steps and in extents of the observed positions.
SHORTEST_STEPS, LONGEST_EXTENTS = 0.3, 20.0
#: Nuggets are sought between these, relative to the variance; the least one keeps systems well-conditioned.
LEAST_NUGGET, LARGEST_NUGGET = 1e-8, 10.0
#: Positions on which several starting points of the fit are compared before the best is refined.
_COARSE = 300
#: Scaled values that differ by no more than this are one value, apart from rounding.
_CONSTANT = 1e-12
_CHUNK = 2**22


def restricted_likelihood(
    logarithms: FloatArray, kernel: str, squares: FloatArray, values: FloatArray
) -> tuple[float, FloatArray]:
    """The negative restricted log likelihood (up to a constant), means and variances profiled out.

    Args:
        logarithms: of the d length scales and the nugget.
        kernel: name of the correlation function.
        squares: squared distances along each axis, shape (d, n, n).
        values: shape (n, c); columns are independent, each with its own mean and variance.

    Returns:
        The value, and its gradient with respect to ``logarithms``.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.linalg.lapack import dpotri

    lengths, nugget = np.exp(logarithms[:-1]), float(np.exp(logarithms[-1]))
    n, columns = values.shape
    scaled = squares / (lengths**2)[:, np.newaxis, np.newaxis]
    distance = np.sqrt(scaled.sum(axis=0))
    correlation = CORRELATIONS[kernel]
    factor = cho_factor(correlation.value(distance) + nugget * np.eye(n), lower=True)
    inverse, _ = dpotri(factor[0], lower=True)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T

    weights = cho_solve(factor, np.ones(n))
    residuals, total = values - (weights @ values) / weights.sum(), float(weights.sum())
    solved = cho_solve(factor, residuals)
    variances = np.einsum("nc,nc->c", residuals, solved) / (n - 1)
    log_determinant = 2 * float(np.log(np.diag(factor[0])).sum())
    value = 0.5 * columns * (log_determinant + np.log(total)) + 0.5 * (n - 1) * float(np.log(variances).sum())

    sensitivity = columns * (inverse - np.outer(weights, weights) / total) - (solved / variances) @ solved.T
    along = sensitivity * correlation.slope(distance)
    gradient = [0.5 * float(np.vdot(along, axis)) for axis in scaled]
    return value, np.array([*gradient, 0.5 * nugget * float(np.trace(sensitivity))])


def varying(values: FloatArray) -> Mask:
    """Which columns of scaled values (n, c) are not constant, shape (c,)."""
    return np.ptp(values, axis=0) > _CONSTANT


def fit(
    kernel: str, points: FloatArray, values: FloatArray, most: int, rng: np.random.Generator, *, tied: bool = False
) -> tuple[Covariance, float]:
    """The covariance of largest restricted likelihood on at most ``most`` of the points, chosen at random.

    Starts from three length scales on few points, then refines the best of them on all that are allowed.
    Columns that happen to be constant on the chosen points (rain, sea ice) have no say in it.

    Args:
        kernel: name of the correlation function.
        points: shape (n, d), n >= 3.
        values: shape (n, c), none of the columns constant.
        most: largest number of points to use.
        rng: chooses the points.
        tied: whether all axes have one length scale in common.

    Returns:
        The covariance, and its negative log likelihood on the points used.
    """
    order = rng.permutation(len(points))

    def best_of(starts: list[FloatArray], count: int) -> tuple[FloatArray, float]:
        chosen = np.sort(_varied(order, values, count))
        telling = np.compress(varying(values[chosen]), values[chosen], axis=1)
        squares = (points[chosen].T[:, :, np.newaxis] - points[chosen].T[:, np.newaxis]) ** 2
        if tied:
            squares = squares.sum(axis=0, keepdims=True)
        return most_likely(lambda at: restricted_likelihood(at, kernel, squares, telling), starts, bounds)

    extents = np.maximum(np.ptp(points, axis=0), 1.0)
    extents = extents.max(keepdims=True) if tied else extents
    bounds = search_bounds(extents)
    starts = [np.log([*(share * extents), nugget]) for share, nugget in ((0.5, 1e-4), (0.2, 1e-2), (0.05, 1e-1))]
    found, value = best_of(starts, min(_COARSE, most))
    if min(most, len(points)) > _COARSE:
        found, value = best_of([found], most)
    lengths, nugget = np.exp(found[:-1]), float(np.exp(found[-1]))
    chosen = _varied(order, values, most)
    return Covariance(kernel, lengths, nugget, variances_of(kernel, lengths, nugget, points, values, chosen)), value


def search_bounds(extents: FloatArray) -> FloatArray:
    """Bounds of the logarithms of length scales and nugget, shape (p, 2), for positions of these extents."""
    lengths = [(np.log(SHORTEST_STEPS), np.log(LONGEST_EXTENTS * extent)) for extent in extents]
    return np.array([*lengths, (np.log(LEAST_NUGGET), np.log(LARGEST_NUGGET))])


def most_likely(
    objective: Callable[[FloatArray], tuple[float, FloatArray]], starts: list[FloatArray], bounds: FloatArray
) -> tuple[FloatArray, float]:
    """The least of a negative log likelihood (value and gradient) found from several starts, and its position first.

    Args:
        objective: value and gradient at a vector of shape (p,).
        starts: vectors of that shape.
        bounds: lowest and highest value of each entry, shape (p, 2).
    """
    from scipy.optimize import minimize

    found = [
        minimize(
            objective,
            np.clip(start, *bounds.T),
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": 60, "ftol": 1e-6},
        )
        for start in starts
    ]
    best = min(found, key=lambda result: result.fun)
    return best.x, float(best.fun)


def predict(
    covariance: Covariance, points: FloatArray, values: FloatArray, targets: FloatArray, *, mean: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Ordinary kriging, and simple kriging where the mean is known, with one system that holds all points.

    Args:
        covariance: of the values.
        points: observed positions in grid steps, shape (n, d).
        values: shape (n, c).
        targets: positions to predict, shape (m, d).
        mean: of the values, where it is known.

    Returns:
        Predictions at the targets, shape (m, c), and their variances over the field's, shape (m,).
    """
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    estimate, unexplained = np.empty((len(targets), values.shape[1])), np.zeros(len(targets))
    factor = cho_factor(covariance.correlate(points, points) + covariance.nugget * np.eye(len(points)), lower=True)
    weights = cho_solve(factor, np.ones(len(points)))
    centre = weights @ values / weights.sum() if mean is None else np.full(values.shape[1], mean)
    solved = cho_solve(factor, values - centre)
    step = max(1, _CHUNK // len(points))
    for start in range(0, len(targets), step):
        towards = covariance.correlate(points, targets[start : start + step])
        estimate[start : start + step] = centre + towards.T @ solved
        explained = (solve_triangular(factor[0], towards, lower=True) ** 2).sum(axis=0)
        unknown_mean = (1 - weights @ towards) ** 2 / weights.sum() if mean is None else 0.0
        unexplained[start : start + step] = np.maximum(1 - explained + unknown_mean, 0)
    return estimate, unexplained


def _varied(order: NDArray[np.intp], values: FloatArray, count: int) -> NDArray[np.intp]:
    """The first ``count`` of an order of positions; a tenth of others if no column of values varies among those."""
    chosen = order[:count]
    if varying(values[chosen]).any():
        return chosen
    different = order[(np.abs(values[order] - values[chosen[0]]) > _CONSTANT).any(axis=1)][: max(1, count // 10)]
    return np.concatenate([chosen[: count - len(different)], different])


def variances_of(
    kernel: str, lengths: FloatArray, nugget: float, points: FloatArray, values: FloatArray, chosen: NDArray[np.intp]
) -> FloatArray:
    """The restricted estimate of each column's variance, shape (c,).

    It is made from the chosen points; a column that is constant on them has its variance over all points.

    Args:
        kernel: name of the covariance.
        lengths: length scales, shape (d,).
        nugget: variance of the noise, over the field's.
        points: shape (n, d).
        values: shape (n, c).
        chosen: indices of points.
    """
    from scipy.linalg import cho_factor, cho_solve

    covariance = Covariance(kernel, lengths, nugget, np.ones(values.shape[1]))
    points, some = points[chosen], values[chosen]
    factor = cho_factor(covariance.correlate(points, points) + nugget * np.eye(len(points)), lower=True)
    weights = cho_solve(factor, np.ones(len(points)))
    residuals = some - weights @ some / weights.sum()
    variances = np.einsum("nc,nc->c", residuals, cho_solve(factor, residuals)) / (len(points) - 1)
    return np.where(varying(some), variances, values.var(axis=0, ddof=1))
