"""Polyharmonic splines: interpolants of scattered points that are smooth and have no length scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fieldbench import Estimate, FloatArray, Observation
from fieldbench_methods.axis_scale import AxisScale, arranged
from fieldbench_methods.neighbourhood import Kernel, systems
from fieldbench_methods.scattered import Scattered, within_hull

#: Observed positions whose leave-one-out errors choose between kernels and smoothings.
VALIDATION_POINTS = 500

#: Neighbours of a prediction that validation an axis scale; more cost more than they tell.
_LEARNING_NEIGHBOURS = 32

#: Smoothings to choose from. Kernels of a unit step are about 1, so these span noise-free to very noisy.
SMOOTHINGS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

#: scipy's names, with the degree of the polynomial that each needs.
DEGREES = {"linear": 0, "thin_plate_spline": 1, "cubic": 1}


def kernel_of(name: str) -> Kernel:
    """The kernel, with the sign that makes it conditionally positive definite (as scipy has it)."""
    kernels: dict[str, Kernel] = {
        "linear": lambda r: -r,
        "thin_plate_spline": lambda r: r**2 * np.log(np.where(r > 0, r, 1.0)),
        "cubic": lambda r: r**3,
    }
    return kernels[name]


def leave_one_out(
    points: FloatArray,
    values: FloatArray,
    validation: NDArray[np.intp],
    *,
    kernel: str,
    smoothings: Sequence[float],
    neighbours: int,
) -> FloatArray:
    """Mean squared errors of predicting each judge (an index into ``points``) from its nearest other points.

    Args:
        points: shape (n, d).
        values: shape (n, c).
        validation: indices of the points that are predicted.
        kernel: name of the spline.
        smoothings: those to be tried.
        neighbours: from which a point is predicted.

    Returns:
        One error for each smoothing.
    """
    points, _ = within_hull(points, points)
    errors = np.zeros(len(smoothings))
    for batch in systems(points, points[validation], neighbours, kernel_of(kernel), DEGREES[kernel], skip_self=True):
        truth = values[validation[batch.targets]]
        for index, smoothing in enumerate(smoothings):
            errors[index] += np.sum((batch.predict(values, smoothing) - truth) ** 2)
    return errors / len(validation)


def choose(
    points: FloatArray,
    values: FloatArray,
    kernels: Sequence[str],
    smoothings: Sequence[float],
    neighbours: int,
    rng: np.random.Generator,
) -> tuple[str, float]:
    """The kernel and smoothing of the smallest leave-one-out error; the first of each if nothing can be left out.

    Args:
        points: shape (n, d).
        values: shape (n, c).
        kernels: those to be tried.
        smoothings: those to be tried.
        neighbours: from which a point is predicted.
        rng: chooses the points that are predicted.
    """
    if len(points) < 3:
        return kernels[0], smoothings[0]
    validation = np.sort(rng.permutation(len(points))[:VALIDATION_POINTS])
    errors = np.array(
        [
            leave_one_out(points, values, validation, kernel=kernel, smoothings=smoothings, neighbours=neighbours)
            for kernel in kernels
        ]
    )
    best, smoothest = divmod(int(np.argmin(errors)), len(smoothings))
    return kernels[best], smoothings[smoothest]


def predict(
    points: FloatArray,
    values: FloatArray,
    targets: FloatArray,
    *,
    kernel: str,
    smoothing: float,
    exact: int,
    neighbours: int,
) -> FloatArray:
    """The spline through ``values`` (n, c) at ``points`` (n, d), at ``targets`` (m, d); shape (m, c).

    Up to ``exact`` points one system holds all of them (scipy's RBFInterpolator); beyond, each target is
    predicted from its ``neighbours`` nearest points. Points that lie on a line or plane make a field that
    is constant across it.

    Args:
        points: shape (n, d).
        values: shape (n, c).
        targets: shape (m, d).
        kernel: name of the spline.
        smoothing: 0 passes through the values.
        exact: largest number of points that one system holds.
        neighbours: of a target, beyond that.
    """
    points, targets = within_hull(points, targets)
    if points.shape[1] == 0 or len(targets) == 0:
        return np.repeat(values[:1], len(targets), axis=0)
    degree = DEGREES[kernel]
    if len(points) <= exact:
        from scipy.interpolate import RBFInterpolator

        return RBFInterpolator(points, values, kernel=kernel, smoothing=smoothing, degree=degree)(targets)
    estimate = np.empty((len(targets), values.shape[1]))
    for batch in systems(points, targets, neighbours, kernel_of(kernel), degree):
        estimate[batch.targets] = batch.predict(values, smoothing)
    return estimate


def posterior(
    points: FloatArray,
    values: FloatArray,
    targets: FloatArray,
    *,
    kernel: str,
    smoothing: float,
    exact: int,
    neighbours: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray | None]:
    """A spline as :func:`predict` has it, and how far it may be off: both of the Gaussian process whose mean it is.

    The kernel is the process' generalised covariance, and ``smoothing`` the variance of its noise (Wahba 1983). How
    large both are is told by leave-one-out errors at up to ``VALIDATION_POINTS`` points, over what the posterior says
    of them there; that stays right on average where the field is rougher or smoother than the kernel. The deviation is
    that given the nearest points, which is slightly wider than that given all, and costs far less where there are many.

    Args:
        points: observed positions, shape (n, d).
        values: at them, shape (n, c).
        targets: positions, shape (m, d).
        kernel: name of the spline.
        smoothing: variance of the noise, in that of the kernel.
        exact: largest number of points that one system holds.
        neighbours: of a target that count.
        rng: picks the points that are left out.

    Returns:
        The spline at the targets, and its standard deviation there, without noise, both of shape (m, c); None in place
        of the latter with too few points to leave one out.
    """
    inside, projected = within_hull(points, targets)
    degree, own = DEGREES[kernel], kernel_of(kernel)

    def spline() -> FloatArray:
        return predict(points, values, targets, kernel=kernel, smoothing=smoothing, exact=exact, neighbours=neighbours)

    if inside.shape[1] == 0 or len(inside) < degree * inside.shape[1] + 3:
        return spline(), None
    variances = np.zeros(values.shape[1])
    validation = np.sort(rng.permutation(len(inside))[:VALIDATION_POINTS])
    for batch in systems(inside, inside[validation], neighbours, own, degree, skip_self=True):
        found, explained = batch.posterior(values, smoothing)
        errors = found - values[validation[batch.targets]]
        expected = np.maximum(smoothing - explained, np.finfo(float).tiny)
        variances += np.sum(errors**2 / expected[..., np.newaxis], axis=(0, 1)) / len(validation)
    estimate: FloatArray = np.empty((len(projected), values.shape[1]))
    unexplained = np.empty(len(projected))
    for batch in systems(inside, projected, neighbours, own, degree):
        estimate[batch.targets], explained = batch.posterior(values, smoothing)
        unexplained[batch.targets] = np.maximum(-explained, 0.0)
    if len(points) <= exact:
        estimate = spline()
    return estimate, np.sqrt(unexplained[:, np.newaxis] * variances)


def complete(data: Scattered, kernel: str, smoothing: float, exact: int, neighbours: int, seed: int) -> Estimate:
    """Complete a field with one spline and its deviation; with smoothing, the observed entries are smoothed too.

    The seed picks the positions whose leave-one-out errors say how large the deviation is.

    Args:
        data: the observation as points.
        kernel: name of the spline.
        smoothing: 0 keeps the observed entries.
        exact: largest number of points that one system holds.
        neighbours: of a target, beyond that, and for its deviation.
        seed: of the positions.
    """
    found, unsure = posterior(
        data.points,
        data.values,
        data.targets if smoothing == 0 else np.concatenate([data.points, data.targets]),
        kernel=kernel,
        smoothing=smoothing,
        exact=exact,
        neighbours=neighbours,
        rng=np.random.default_rng(seed),
    )
    if smoothing == 0:  # it goes through every observed value
        found = np.concatenate([data.values, found])
        unsure = None if unsure is None else np.concatenate([np.zeros(data.values.shape), unsure])
    count = len(data.points)
    mean = data.everywhere(found[:count], found[count:])
    return data.scaling.estimate(mean, None if unsure is None else data.everywhere(unsure[:count], unsure[count:]))


def arrange(observation: Observation, axis_scale: AxisScale, kernel: str, smoothing: float, seed: int) -> Scattered:
    """The observation in the metric that was given, or that a spline of near neighbours learns.

    Args:
        observation: to be completed.
        axis_scale: of the axes as given; learned where None.
        kernel: name of the spline.
        smoothing: of the spline.
        seed: chooses the positions that are withheld.
    """

    def local(points: FloatArray, values: FloatArray, targets: FloatArray) -> FloatArray:
        return predict(
            points, values, targets, kernel=kernel, smoothing=smoothing, exact=0, neighbours=_LEARNING_NEIGHBOURS
        )

    return arranged(observation, axis_scale, local, seed)[0]


def chosen(
    data: Scattered, kernel: str | None, smoothing: float | None, neighbours: int, seed: int
) -> tuple[str, float]:
    """Kernel and smoothing as given, or chosen where they are None; the seed picks the validation points.

    Args:
        data: the observation as points.
        kernel: name of the spline, or None.
        smoothing: of the spline, or None.
        neighbours: from which a point is predicted.
        seed: chooses the points that are predicted.
    """
    kernels = list(DEGREES) if kernel is None else [kernel]
    smoothings = SMOOTHINGS if smoothing is None else [smoothing]
    return choose(data.points, data.values, kernels, smoothings, neighbours, np.random.default_rng(seed))
