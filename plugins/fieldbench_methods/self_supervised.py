"""What TAP, MHTAP and TNN share: from observations to problems on the scaled field, and back.

These methods are trained on one observation and nothing else. How they are trained is theirs; what comes
before and after is here: scaling, the total variation modifier with the choice of its weight, and reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldbench import FloatArray, Mask, NullReport, Observation, Report, RequestError
from fieldbench_methods.scaling import Scaling, fit_scaling
from fieldbench_methods.tv import TotalVariation
from fieldbench_methods.tv.penalty import Smoothness
from fieldbench_methods.withholding import withhold_lines

SEARCH_SHARE, SEARCH_EPOCHS = 0.2, 0.25
"""A weight is chosen on this share of the observed entries, after this share of the epochs."""


class Relay:
    """Passes scaled estimates on to a report, in the field's unit, with ``constants`` among the diagnostics."""

    def __init__(self, report: Report, scaling: Scaling, **constants: float) -> None:
        self._report, self._scaling, self._constants = report, scaling, constants

    @property
    def threads(self) -> int:
        """CPU threads that the trial may use now."""
        return threads_of(self._report)

    def due(self, step: int) -> bool:
        return self._report.due(step)

    def __call__(self, step: int, estimate: FloatArray, support: float | None) -> None:
        diagnostics = self._constants if support is None else {"support": support, **self._constants}
        self._report(step, self._scaling.inverse(estimate), **diagnostics)


class Unheard(NullReport):
    """Wants no estimate, for trainings whose estimates are not the trial's; it shares the trial's threads."""

    def __init__(self, report: Report) -> None:
        self._report = report

    @property
    def threads(self) -> int:  # type: ignore[override]
        return threads_of(self._report)


def threads_of(report: Report) -> int:
    """CPU threads that a trial may use now; one where somebody's own report does not say."""
    return getattr(report, "threads", 1)


@dataclass(frozen=True, eq=False)
class Problem:
    """One trial on the scaled field.

    Attributes:
        target: scaled values of the field's shape, 0 at unobserved entries.
        mask: True = observed.
        seed: of weights and dropout.
        listener: told of scaled estimates that are due.
        smoothness: the penalty, or None.
    """

    target: FloatArray
    mask: Mask
    seed: int
    listener: Relay
    smoothness: Smoothness | None = None


def observed_lines(mask: Mask) -> NDArray[np.intp] | None:
    """The observed lines along the last axis, if the mask consists of whole ones and has others; else None."""
    lines = mask[..., 0].ravel()
    if mask.ndim == 1 or lines.all() or (mask != mask[..., :1]).any():
        return None
    return np.flatnonzero(lines)


class Fitting(Protocol):
    """How a method trains: problems of one shape, for a share of its epochs, to scaled estimates."""

    def __call__(self, problems: Sequence[Problem], device: str, share: float) -> list[FloatArray]: ...


def complete(
    fit: Fitting,
    observations: Sequence[Observation],
    seeds: Sequence[int],
    device: str,
    reports: Sequence[Report],
    transform: str,
    variation: TotalVariation | None,
) -> list[ArrayLike]:
    """Estimates in the unit of the observations, in their order.

    Args:
        fit: trains a network for each problem.
        observations: of one shape.
        seeds: one for each observation.
        device: where they are trained.
        reports: one listener for each observation.
        transform: of the values before the fit.
        variation: penalty of the loss, or None.
    """
    scalings = [fit_scaling(observation, transform) for observation in observations]
    weights: Sequence[float | None] = [None] * len(observations)
    if variation is not None:
        weights = _weights(fit, observations, seeds, device, reports, transform, variation)
    problems = [
        _problem(observation, scaling, seed, report, variation, weight)
        for observation, scaling, seed, report, weight in zip(
            observations, scalings, seeds, reports, weights, strict=True
        )
    ]
    estimates = fit(problems, device, 1.0)
    return [scaling.inverse(estimate) for scaling, estimate in zip(scalings, estimates, strict=True)]


def _problem(
    observation: Observation,
    scaling: Scaling,
    seed: int,
    report: Report,
    variation: TotalVariation | None,
    weight: float | None,
) -> Problem:
    target = np.where(observation.mask, scaling.forward(observation.filled(0.0)), 0.0)
    if variation is None or weight is None:
        return Problem(target, observation.mask, seed, Relay(report, scaling))
    smoothness = Smoothness(variation.form, variation.along(observation.ndim), weight)
    return Problem(target, observation.mask, seed, Relay(report, scaling, tv_weight=weight), smoothness)


def _weights(
    fit: Fitting,
    observations: Sequence[Observation],
    seeds: Sequence[int],
    device: str,
    reports: Sequence[Report],
    transform: str,
    variation: TotalVariation,
) -> list[float]:
    """For each observation the weight that was given, or the candidate whose shorter training predicts best.

    What is predicted are observed entries that the training does not see. All trainings of all observations
    are one batch.
    """
    if variation.weight is not None:
        return [variation.weight] * len(observations)
    problems, unobserved, wanted = [], [], []
    for observation, seed, report in zip(observations, seeds, reports, strict=True):
        try:
            unobserved.append(withhold_lines(observation, SEARCH_SHARE, seed))
        except ValueError as error:
            raise RequestError(f"tv: {error}, as in +tv[weight={variation.candidates[2]}]") from error
        training = observation.without(unobserved[-1])
        scaling = fit_scaling(training, transform)
        wanted.append(scaling.forward(observation.filled(0.0))[unobserved[-1]])
        quiet = Unheard(report)
        problems += [_problem(training, scaling, seed, quiet, variation, weight) for weight in variation.candidates]
    estimates = fit(problems, device, SEARCH_EPOCHS)
    chosen, count = [], len(variation.candidates)
    for index, (entries, values) in enumerate(zip(unobserved, wanted, strict=True)):
        own = estimates[index * count : (index + 1) * count]
        errors = [float(np.mean((estimate[entries] - values) ** 2)) for estimate in own]
        chosen.append(variation.candidates[int(np.argmin(errors))])
    return chosen
