"""The iterations of low-rank tensor completion, on scaled values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray, Mask, NullReport, Observation, Report
from fieldbench_methods.scaling import fit_scaling
from fieldbench_methods.withholding import withhold

#: From scaled values and mask to one pair an iteration, without end: the estimate, of full shape and equal to
#: the observed values at observed entries, and the norm by which its low-rank twins still differ from it
#: (0 where the algorithm does not ask for agreement).
Iteration: TypeAlias = Callable[[FloatArray, Mask], Iterator[tuple[FloatArray, float]]]


@dataclass(frozen=True)
class Stopping:
    """When to stop: after ``iterations``, or when nothing changes or differs by more than ``tolerance`` (relative)."""

    iterations: int
    tolerance: float


def complete(observation: Observation, iteration: Iteration, limits: Stopping, report: Report) -> FloatArray:
    """Iterate to the limits; unobserved entries are first set to 0, so that nothing in them can matter.

    Args:
        observation: to be completed.
        iteration: yields estimates, with what they still differ by.
        limits: when it ends.
        report: told of the estimates.
    """
    scaling, mask = fit_scaling(observation), observation.mask
    current = np.where(mask, scaling.forward(observation.filled(1.0)), 0.0)
    enough = limits.tolerance * float(np.linalg.norm(current))
    for step, (estimate, gap) in enumerate(iteration(current, mask), start=1):
        change = float(np.linalg.norm(estimate - current))
        current = estimate
        if report.due(step):
            report(step, scaling.inverse(current), change=change)
        if step == limits.iterations or max(change, gap) <= enough:
            break
    return scaling.inverse(current)


def choose_tubes(
    observation: Observation, candidates: Sequence[tuple[int, ...]], limits: Stopping, seed: int
) -> tuple[int, ...]:
    """The tube axes with the smallest error at a fifth of the observed entries (or fibers), withheld.

    Args:
        observation: to be completed.
        candidates: sets of axes.
        limits: of each candidate's iteration.
        seed: chooses what is withheld.
    """
    withheld = withhold(observation.mask, 0.2, np.random.default_rng(seed), observation.valid)
    if withheld is None:
        return candidates[0]
    visible, scaling = observation.without(withheld), fit_scaling(observation)
    truth = scaling.forward(observation.values[withheld])

    def error(tube: tuple[int, ...]) -> float:
        estimate = complete(visible, tsvd(tube), limits, NullReport())
        return float(np.mean((scaling.forward(estimate[withheld]) - truth) ** 2))

    return min(candidates, key=error)


def tsvd(tube: tuple[int, ...], rho: float = 1.0) -> Iteration:
    """ADMM for the tensor nuclear norm with tubes along ``tube`` (Zhang et al. 2014, section 3.2).

    Args:
        tube: all axes but two.
        rho: weight of the augmented term; it sets the speed, not the solution.
    """

    def iterate(values: FloatArray, mask: Mask) -> Iterator[tuple[FloatArray, float]]:
        estimate, dual = values.copy(), np.zeros_like(values)
        while True:
            low_rank = shrink_tubes(estimate + dual, tube, 1 / rho)
            estimate = np.where(mask, values, low_rank - dual)
            dual += estimate - low_rank
            yield estimate, float(np.linalg.norm(estimate - low_rank))

    return iterate


def silrtc(alpha: float, beta: float) -> Iteration:
    """Block coordinate descent with one auxiliary matrix an unfolding (Liu et al. 2013, algorithm 1)."""

    def iterate(values: FloatArray, mask: Mask) -> Iterator[tuple[FloatArray, float]]:
        estimate = values
        while True:
            shrunk = [shrink_unfolding(estimate, mode, alpha / beta) for mode in range(values.ndim)]
            estimate = np.where(mask, values, np.mean(shrunk, axis=0))
            yield estimate, 0.0

    return iterate


def halrtc() -> Iteration:
    """ADMM for equally weighted nuclear norms of the unfoldings (Liu et al. 2013, algorithm 4).

    The penalty leaves half of the largest singular value at first, and stays: raising it as the paper
    does ends sooner, but before the minimum is reached.
    """

    def iterate(values: FloatArray, mask: Mask) -> Iterator[tuple[FloatArray, float]]:
        order = values.ndim
        unfoldings = [np.moveaxis(values, mode, 0).reshape(values.shape[mode], -1) for mode in range(order)]
        strength = max(float(np.linalg.norm(unfolding, 2)) for unfolding in unfoldings) or 1.0
        penalty = 2 / (order * strength)
        estimate, duals = values, [np.zeros_like(values) for _ in range(order)]
        while True:
            twins = [
                shrink_unfolding(estimate + dual / penalty, mode, 1 / (order * penalty))
                for mode, dual in enumerate(duals)
            ]
            mean = sum(twin - dual / penalty for twin, dual in zip(twins, duals, strict=True)) / order
            estimate = np.where(mask, values, mean)
            gaps = [estimate - twin for twin in twins]
            duals = [dual + penalty * gap for dual, gap in zip(duals, gaps, strict=True)]
            yield estimate, max(float(np.linalg.norm(gap)) for gap in gaps)

    return iterate


def shrink_unfolding(tensor: FloatArray, mode: int, threshold: float) -> FloatArray:
    """The tensor with the singular values of its mode unfolding lowered by ``threshold``, not below 0.

    Args:
        tensor: of any shape.
        mode: axis of the unfolding's rows.
        threshold: at least 0, in the tensor's unit.
    """
    first = np.moveaxis(tensor, mode, 0)
    shrunk = _shrink(first.reshape(len(first), -1), threshold)
    return np.moveaxis(shrunk.reshape(first.shape), 0, mode)


def shrink_tubes(tensor: FloatArray, tube: tuple[int, ...], threshold: float) -> FloatArray:
    """Singular value thresholding of the t-SVD: of every frontal slice after an FFT along the tubes.

    The proximal map of the tensor nuclear norm, which is the sum of all these singular values over the
    number of slices (the unnormalised FFT multiplies squared norms by that number, too).

    Args:
        tensor: of any shape.
        tube: axes of the tubes; a matrix has none.
        threshold: at least 0, in the tensor's unit.
    """
    if not tube:
        return _shrink(tensor, threshold)
    # Of a real tensor the slices of opposite frequencies are conjugate; half of them suffices.
    spectrum = np.moveaxis(np.fft.rfftn(tensor, axes=tube), tube, range(len(tube)))
    slices = spectrum.reshape(-1, *spectrum.shape[-2:])
    shrunk = np.moveaxis(_shrink(slices, threshold).reshape(spectrum.shape), range(len(tube)), tube)
    return np.fft.irfftn(shrunk, s=[tensor.shape[axis] for axis in tube], axes=tube)


def _shrink(matrices: NDArray[Any], threshold: float) -> NDArray[Any]:
    left, values, right = np.linalg.svd(matrices, full_matrices=False)
    return (left * np.maximum(values - threshold, 0)[..., np.newaxis, :]) @ right
