"""Kriging from near neighbours, with a covariance that withheld observations choose.

The likelihood of near neighbours proposes covariances, of several kernels and ranges of scales. A likelihood is only
right if the model is; so the error at observed positions, withheld as the gaps look, decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fieldbench import FloatArray
from fieldbench_methods import vecchia
from fieldbench_methods.correlation import CORRELATIONS, Covariance
from fieldbench_methods.gaussian_process import most_likely, search_bounds
from fieldbench_methods.neighbourhood import systems
from fieldbench_methods.withholding import Imitation, error

#: Kernels to choose from. The smoother ones make ill-conditioned systems and win on few fields.
KERNELS = ("exponential", "matern-3/2", "matern-5/2")
#: Length scales, in extents of the positions, and nuggets that the fit starts from.
_STARTS = ((0.05, 1e-3), (0.2, 1e-2), (0.05, 1e-1))
#: Neighbours of each factor of the likelihood.
_GIVEN = 30
#: Withheld positions, whose error decides.
VALIDATION_POINTS = 1500
#: Length scales are also tried this many times as long as the likelihood has them.
_WIDER = (1.0, 4.0)


def propose(
    kernels: Sequence[str],
    points: FloatArray,
    values: FloatArray,
    most: int,
    rng: np.random.Generator,
    *,
    tied: bool = False,
) -> list[Covariance]:
    """For each kernel the covariance of largest likelihood on short and long scales together, and a wider one.

    Args:
        kernels: names of the correlation functions to try.
        points, values: shapes (n, d) and (n, c), no column constant.
        most: factors of the likelihood, at most.
        rng: chooses them.
        tied: whether all axes have one length scale in common.
    """
    extents = np.maximum(np.ptp(points, axis=0), 1.0)
    largest = extents.max(keepdims=True) if tied else extents
    bounds = search_bounds(largest)
    ones, proposals = np.ones(values.shape[1]), []
    for kernel in kernels:
        starts = [np.log([*(share * largest), nugget]) for share, nugget in _STARTS]
        # Which neighbours are near is a matter of the length scales, so the first fits are guesses.
        for count in (most // 4, most):
            lengths = np.exp(starts[0][:-1])
            factors = vecchia.sample(points, values, lengths, count, _GIVEN, rng, tied=tied)
            found, _ = most_likely(partial(vecchia.likelihood, kernel=kernel, factors=factors), starts, bounds)
            starts = [found]
        lengths, nugget = np.exp(found[:-1]), float(np.exp(found[-1]))
        proposals += [Covariance(kernel, wide * lengths, nugget, ones) for wide in _WIDER]
    return proposals


def choose(
    proposals: Sequence[Covariance],
    trials: Sequence[Imitation],
    points: FloatArray,
    values: FloatArray,
    neighbours: int,
) -> tuple[Covariance, float, float]:
    """The proposal of least error at withheld positions, with the variances that its errors there have.

    Args:
        proposals: covariances to choose from.
        trials: positions that are withheld together, with their weights.
        points: shape (n, d).
        values: shape (n, c).
        neighbours: of each target.

    Returns:
        The covariance, its error, and the mean variance of its predictions in the first trial, over the field's.
    """

    def judged(covariance: Covariance) -> float:
        return error(
            trials, points, values, lambda near, at, to: predict(covariance, near, at, to, neighbours, spread=False)[0]
        )

    errors = [judged(covariance) for covariance in proposals]
    best = proposals[int(np.argmin(errors))]
    variances, unknown = np.zeros(values.shape[1]), []
    for trial in trials:
        estimate, unexplained = predict(
            best, points[trial.kept], values[trial.kept], points[trial.validation], neighbours
        )
        squares = (estimate - values[trial.validation]) ** 2
        unknown.append(float(unexplained.mean()))
        variances += trial.weight * (squares / (unexplained + best.nugget)[:, np.newaxis]).mean(axis=0)
    return replace(best, variances=variances), min(errors), unknown[0]


def predict(
    covariance: Covariance,
    points: FloatArray,
    values: FloatArray,
    targets: FloatArray,
    neighbours: int,
    *,
    spread: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Ordinary kriging of each target from its nearest points in length scales.

    Args:
        covariance: of the field.
        points: shape (n, d).
        values: shape (n, c).
        targets: shape (m, d).
        neighbours: of each target.
        spread: whether variances are wanted.

    Returns:
        Predictions at the targets, shape (m, c), and their variances over the field's, shape (m,); the
        latter are only computed where ``spread`` is asked for, and 0 otherwise.
    """
    estimate, unexplained = np.empty((len(targets), values.shape[1])), np.zeros(len(targets))
    stretched, wanted = points / covariance.lengths, targets / covariance.lengths
    for batch in systems(stretched, wanted, neighbours, CORRELATIONS[covariance.kernel].value, 0):
        if spread:
            estimate[batch.targets], explained = batch.posterior(values, covariance.nugget)
            unexplained[batch.targets] = np.maximum(1 - explained, 0)
        else:
            estimate[batch.targets] = batch.predict(values, covariance.nugget)
    return estimate, unexplained
