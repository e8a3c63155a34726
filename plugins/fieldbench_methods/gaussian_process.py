"""A Gaussian process of unknown mean: its likelihood, its fit, and its predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldbench import Estimate, FloatArray, Mask, Observation, RequestError
from fieldbench_methods.neighbourhood import systems
from fieldbench_methods.scattered import Scattered, scatter

if TYPE_CHECKING:
    from fieldbench_methods.kriging import Kriging

#: Length scales are sought between these, in grid steps and in extents of the observed positions.
SHORTEST_STEPS, LONGEST_EXTENTS = 0.3, 20.0
#: Nuggets are sought between these, relative to the variance; the least one keeps systems well-conditioned.
LEAST_NUGGET, LARGEST_NUGGET = 1e-8, 10.0
#: Positions on which several starting points of the fit are compared before the best is refined.
_COARSE = 300
#: Scaled values that differ by no more than this are one value, apart from rounding.
_CONSTANT = 1e-12
_CHUNK = 2**22


@dataclass(frozen=True)
class Correlation:
    """A correlation function of distance r in length scales.

    Attributes:
        value: the correlation, 1 at r = 0.
        slope: -value'(r) / r, from which derivatives with respect to length scales follow.
    """

    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]


_ROOT3, _ROOT5 = np.sqrt(3.0), np.sqrt(5.0)

CORRELATIONS = {
    "exponential": Correlation(
        lambda r: np.exp(-r),
        # At r = 0 it is only ever multiplied by a squared distance of 0.
        lambda r: np.exp(-r) / np.where(r > 0, r, 1.0),
    ),
    "matern-3/2": Correlation(lambda r: (1 + _ROOT3 * r) * np.exp(-_ROOT3 * r), lambda r: 3 * np.exp(-_ROOT3 * r)),
    "matern-5/2": Correlation(
        lambda r: (1 + _ROOT5 * r + 5 / 3 * r**2) * np.exp(-_ROOT5 * r),
        lambda r: 5 / 3 * (1 + _ROOT5 * r) * np.exp(-_ROOT5 * r),
    ),
    "squared-exponential": Correlation(lambda r: np.exp(-(r**2) / 2), lambda r: np.exp(-(r**2) / 2)),
}


@dataclass(frozen=True)
class Covariance:
    """A fitted covariance: variance times (correlation + nugget at distance 0).

    Attributes:
        kernel: name of the correlation function.
        lengths: length scales in grid steps, shape (d,).
        nugget: variance of the noise over that of the field.
        variances: variance of the field, one a column of values, shape (c,).
    """

    kernel: str
    lengths: FloatArray
    nugget: float
    variances: FloatArray

    def correlate(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Correlation of the field between positions (n, d) and (m, d), shape (n, m), without the nugget."""
        from scipy.spatial.distance import cdist

        return CORRELATIONS[self.kernel].value(cdist(one / self.lengths, other / self.lengths))


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


def fit(kernel: str, points: FloatArray, values: FloatArray, most: int, rng: np.random.Generator) -> Covariance:
    """The covariance of largest restricted likelihood on at most ``most`` of the points, chosen at random.

    Starts from three length scales on few points, then refines the best of them on all that are allowed.
    Columns that happen to be constant on the chosen points (rain, sea ice) have no say in it.

    Args:
        kernel: name of the correlation function.
        points: shape (n, d), n >= 3.
        values: shape (n, c), none of the columns constant.
        most: largest number of points to use.
        rng: chooses the points.
    """
    from scipy.optimize import minimize

    order = rng.permutation(len(points))
    extents = np.maximum(np.ptp(points, axis=0), 1.0)
    bounds = [(np.log(SHORTEST_STEPS), np.log(LONGEST_EXTENTS * extent)) for extent in extents]
    bounds.append((np.log(LEAST_NUGGET), np.log(LARGEST_NUGGET)))

    def best_of(starts: list[FloatArray], count: int) -> FloatArray:
        chosen = np.sort(_varied(order, values, count))
        telling = np.compress(varying(values[chosen]), values[chosen], axis=1)
        squares = (points[chosen].T[:, :, np.newaxis] - points[chosen].T[:, np.newaxis]) ** 2
        inside = [np.clip(start, *np.transpose(bounds)) for start in starts]
        found = [
            minimize(
                restricted_likelihood,
                start,
                args=(kernel, squares, telling),
                jac=True,
                bounds=bounds,
                method="L-BFGS-B",
                options={"maxiter": 60, "ftol": 1e-6},
            )
            for start in inside
        ]
        return min(found, key=lambda result: result.fun).x

    starts = [np.log([*(share * extents), nugget]) for share, nugget in ((0.5, 1e-4), (0.2, 1e-2), (0.05, 1e-1))]
    found = best_of(starts, min(_COARSE, most))
    if min(most, len(points)) > _COARSE:
        found = best_of([found], most)
    lengths, nugget = np.exp(found[:-1]), float(np.exp(found[-1]))
    chosen = _varied(order, values, most)
    return Covariance(kernel, lengths, nugget, _variances(kernel, lengths, nugget, points, values, chosen))


def predict(
    covariance: Covariance,
    points: FloatArray,
    values: FloatArray,
    targets: FloatArray,
    *,
    exact: int,
    neighbours: int,
    spread: bool,
    mean: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Ordinary kriging; simple kriging where the mean is known and one system holds all.

    Returns:
        Predictions at the targets, shape (m, c), and their variances over the field's, shape (m,); the
        latter are only computed where ``spread`` is asked for, and 0 otherwise.
    """
    estimate, unexplained = np.empty((len(targets), values.shape[1])), np.zeros(len(targets))
    if len(points) > exact:
        stretched, wanted = points / covariance.lengths, targets / covariance.lengths
        for batch in systems(stretched, wanted, neighbours, CORRELATIONS[covariance.kernel].value, 0):
            part = batch.solve(covariance.nugget)
            estimate[part.targets] = part.apply(values)
            unexplained[part.targets] = np.maximum(1 - part.explained, 0)
        return estimate, unexplained

    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    factor = cho_factor(covariance.correlate(points, points) + covariance.nugget * np.eye(len(points)), lower=True)
    weights = cho_solve(factor, np.ones(len(points)))
    centre = weights @ values / weights.sum() if mean is None else np.full(values.shape[1], mean)
    solved = cho_solve(factor, values - centre)
    step = max(1, _CHUNK // len(points))
    for start in range(0, len(targets), step):
        towards = covariance.correlate(points, targets[start : start + step])
        estimate[start : start + step] = centre + towards.T @ solved
        if spread:
            explained = (solve_triangular(factor[0], towards, lower=True) ** 2).sum(axis=0)
            unknown_mean = (1 - weights @ towards) ** 2 / weights.sum() if mean is None else 0.0
            unexplained[start : start + step] = np.maximum(1 - explained + unknown_mean, 0)
    return estimate, unexplained


def complete(observation: Observation, settings: Kriging, seed: int) -> Estimate:
    """Complete a field, with its predictive standard deviation; that of power is of its logarithm.

    Where fewer than 3 positions or nothing but one value is observed no covariance can be fitted: the field
    is the mean, of unknown deviation.
    """
    data = scatter(observation)
    varied = varying(data.values)
    if len(data.points) < 3 or not varied.any():
        flat = np.repeat(data.values.mean(axis=0, keepdims=True), len(data.targets), axis=0)
        return Estimate(data.complete(flat))
    values = data.values[:, varied]
    mean = None
    if settings.lengths is None:
        covariance = fit(settings.kernel, data.points, values, settings.fit, np.random.default_rng(seed))
    else:
        covariance, mean = _given(settings, data, values)

    everywhere = np.concatenate([data.points, data.targets])
    found, unexplained = predict(
        covariance,
        data.points,
        values,
        everywhere,
        exact=settings.exact,
        neighbours=settings.neighbours,
        spread=True,
        mean=mean,
    )
    columns = np.repeat(data.values[:1], len(everywhere), axis=0)
    columns[:, varied] = found
    estimate = _laid_out(data, columns)
    columns = np.zeros_like(columns)
    columns[:, varied] = np.sqrt(unexplained[:, np.newaxis] * covariance.variances)
    return data.scaling.estimate(estimate, _laid_out(data, columns))


def _given(settings: Kriging, data: Scattered, values: FloatArray) -> tuple[Covariance, float | None]:
    """The covariance and mean that were given, for scaled values.

    Raises:
        RequestError: if there are not as many length scales as axes.
    """
    axes = data.points.shape[1]
    if len(settings.lengths or ()) not in (1, axes):
        raise RequestError(f"kriging: lengths has {len(settings.lengths or ())} numbers; give 1 or {axes}")
    lengths = np.broadcast_to(np.asarray(settings.lengths, dtype=float), (axes,))
    nugget, scaling = max(settings.nugget or 0.0, LEAST_NUGGET), data.scaling
    if settings.variance is None:
        everything = np.arange(len(values))
        variances = _variances(settings.kernel, lengths, nugget, data.points, values, everything)
    else:
        variances = np.full(values.shape[1], settings.variance / scaling.scale**2)
    mean = None if settings.mean is None else (settings.mean - scaling.shift) / scaling.scale
    return Covariance(settings.kernel, lengths, nugget, variances), mean


def _laid_out(data: Scattered, columns: FloatArray) -> FloatArray:
    """Columns at observed, then at unobserved positions, as an array of the field's shape."""
    return data.everywhere(columns[: len(data.points)], columns[len(data.points) :])


def _varied(order: NDArray[np.intp], values: FloatArray, count: int) -> NDArray[np.intp]:
    """The first ``count`` of an order of positions; a tenth of others if no column of values varies among those."""
    chosen = order[:count]
    if varying(values[chosen]).any():
        return chosen
    different = order[(np.abs(values[order] - values[chosen[0]]) > _CONSTANT).any(axis=1)][: max(1, count // 10)]
    return np.concatenate([chosen[: count - len(different)], different])


def _variances(
    kernel: str, lengths: FloatArray, nugget: float, points: FloatArray, values: FloatArray, chosen: NDArray[np.intp]
) -> FloatArray:
    """The restricted estimate of each column's variance, shape (c,).

    It is made from the chosen points; a column that is constant on them has its variance over all points.
    """
    from scipy.linalg import cho_factor, cho_solve

    covariance = Covariance(kernel, lengths, nugget, np.ones(values.shape[1]))
    points, some = points[chosen], values[chosen]
    factor = cho_factor(covariance.correlate(points, points) + nugget * np.eye(len(points)), lower=True)
    weights = cho_solve(factor, np.ones(len(points)))
    residuals = some - weights @ some / weights.sum()
    variances = np.einsum("nc,nc->c", residuals, cho_solve(factor, residuals)) / (len(points) - 1)
    return np.where(varying(some), variances, values.var(axis=0, ddof=1))
