"""Metrics: how good an estimate is against the truth, over the entries that count."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from fieldbench.errors import one_line
from fieldbench.estimate import Estimate, in_domain
from fieldbench.field import Field, FloatArray, Mask, unchangeable
from fieldbench.hookspecs import hookimpl
from fieldbench.plugin import Plugin, parameter
from fieldbench.scores import crps_members, crps_normal, crps_quantiles, effective_resolution, power_of_two, surprise

Score: TypeAlias = float | Mapping[str, float] | None
"""A number, several numbers by name, or None where there is nothing to score."""


class Metric(Plugin, ABC):
    """A score of an estimate.

    >>> class Worst(Metric):
    ...     '''Largest absolute error, in the field's unit.'''
    ...
    ...     name = "worst"
    ...     has_unit = True
    ...
    ...     def score(self, estimate, truth, where, mask):
    ...         return float(np.abs(estimate.mean - truth.values)[where].max())
    >>> everywhere = np.ones(2, dtype=bool)
    >>> Worst().score(Estimate(np.array([1.0, 4.0])), Field(np.array([1.0, 2.0])), everywhere, ~everywhere)
    2.0

    Attributes:
        lower_is_better: whether smaller values are better.
        target: the value that is best, where more and less than it are both worse.
        has_unit: whether the score is in the field's unit.
        logarithmic: whether fields with a ``log_floor`` are scored by their logarithm, so that the score has no unit.
        scope: which entries count: ``both`` scores all valid entries, and as ``name.unobserved`` the unobserved
            ones; ``unobserved`` scores these alone, ``valid`` all, each under the metric's own name.
    """

    lower_is_better: ClassVar[bool] = True
    target: ClassVar[float | None] = None
    has_unit: ClassVar[bool] = False
    logarithmic: ClassVar[bool] = False
    scope: ClassVar[Literal["both", "valid", "unobserved"]] = "both"

    @abstractmethod
    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> Score:
        """Score an estimate.

        Args:
            estimate: arrays of the field's shape, read-only, in double precision.
            truth: the field with its axes; its values are in double precision.
            where: boolean array, True = the entry counts.
            mask: boolean array, True = observed by the method, or withheld from it.

        Returns:
            A number; or several by name, which ``name.key`` keeps apart; or None where this estimate or field has
            nothing to score, and then nothing is kept.
        """

    def rank(self, score: float) -> float:
        """A number that is the smaller, the better the score is."""
        if self.target is not None:
            return abs(score - self.target)
        return score if self.lower_is_better else -score

    def applies_to(self, field: Field) -> bool:
        """Whether the score means anything for such a field."""
        return True

    def for_field(self, field: Field) -> Metric:
        """The metric as it scores this field: itself, unless a parameter left alone is the field's to say."""
        return self


class RMSE(Metric):
    """Root mean squared error, in the field's unit (paper, section V-A)."""

    name = "rmse"
    revision = "1"
    has_unit = True

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float:
        return float(np.sqrt(np.mean((estimate.mean[where] - truth.values[where]) ** 2)))


class MAE(Metric):
    """Mean absolute error, in the field's unit."""

    name = "mae"
    revision = "1"
    has_unit = True

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float:
        return float(np.mean(np.abs(estimate.mean[where] - truth.values[where])))


class NMSE(Metric):
    """Relative error: squared error over the squared norm of the truth."""

    name = "nmse"
    revision = "1"

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float:
        mean, values = estimate.mean[where], truth.values[where]
        # Both are brought to the truth's scale first, so that squares neither overflow nor vanish.
        scale = float(np.max(np.abs(values)))
        if scale == 0:
            return 0.0 if not np.any(mean) else float("inf")
        return float(np.sum(((mean - values) / scale) ** 2) / np.sum((values / scale) ** 2))


class SLNRE(Metric):
    """Scaled log-domain normalised reconstruction error, for power (paper, section V-B).

    100 ||ln(max(estimate, 0) + floor) - ln(truth + floor)||^2 / ||ln(truth + floor)||^2. The base of the
    logarithm cancels; the floor and the unit of the field do not, so both are part of the result. A field
    brings its own floor (``log_floor``), which holds unless another is asked for.
    """

    name = "slnre"
    revision = "1"
    logarithmic = True

    floor: float = parameter(
        1e-6, "added before the logarithm", gt=0, source="Shrestha, Fu, Hong 2022, released program"
    )

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float:
        expected = in_domain(truth.values[where], self.floor)  # a noisy measurement may be negative
        error = in_domain(estimate.mean[where], self.floor) - expected
        norm = float(np.sum(expected**2))
        if norm == 0:  # every entry of the truth is 1 - floor
            return 0.0 if not np.any(error) else float("inf")
        return 100 * float(np.sum(error**2)) / norm

    def applies_to(self, field: Field) -> bool:
        return field.log_floor is not None

    def for_field(self, field: Field) -> Metric:
        if field.log_floor is None or "floor" in self.model_fields_set:
            return self
        return self.model_copy(update={"floor": field.log_floor})


class _OfUncertainty(Metric):
    """Scores vectors in the field's own domain: its unit, or ln(x + log_floor) where the field has a floor."""

    logarithmic: ClassVar[bool] = True
    scope: ClassVar[Literal["both", "valid", "unobserved"]] = "unobserved"

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float | None:
        floor = truth.log_floor
        return self.score_entries(estimate.entries(where, floor), in_domain(truth.values[where], floor))

    @abstractmethod
    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float | None:
        """Score vectors of n entries; the estimate's distribution is ``normal``."""


class CRPS(_OfUncertainty):
    """Continuous ranked probability score at unobserved entries: the error of a whole distribution.

    Of a stated deviation the closed form, else of members the fair form, else of quantiles twice their mean loss. Of
    a mean alone it is the mean absolute error, so that every method has it. (Gneiting and Raftery 2007.)
    """

    name = "crps"
    revision = "1"
    has_unit = True

    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float:
        if estimate.deviation is not None:
            return float(crps_normal(estimate.mean, estimate.deviation, truth).mean())
        if estimate.members is not None:
            return float(crps_members(estimate.ranked, truth).mean())
        if estimate.quantiles is not None:
            return float(crps_quantiles(estimate.quantiles, truth).mean())
        return float(np.mean(np.abs(estimate.mean - truth)))


class _Coverage(_OfUncertainty):
    level: ClassVar[float]

    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float | None:
        ends = estimate.interval(self.level)
        return None if ends is None else float(np.mean((ends[0] <= truth) & (truth <= ends[1])))


class Coverage50(_Coverage):
    """Share of unobserved entries within the central interval of probability 0.5."""

    name = "coverage50"
    revision = "1"
    level = target = 0.5


class Coverage90(_Coverage):
    """Share of unobserved entries within the central interval of probability 0.9."""

    name = "coverage90"
    revision = "1"
    level = target = 0.9


class Coverage95(_Coverage):
    """Share of unobserved entries within the central interval of probability 0.95."""

    name = "coverage95"
    revision = "1"
    level = target = 0.95


class Width90(_OfUncertainty):
    """Mean width of the central interval of probability 0.9 at unobserved entries; of two that cover, the narrower."""

    name = "width90"
    revision = "1"
    has_unit = True

    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float | None:
        ends = estimate.interval(0.9)
        return None if ends is None else float(np.mean(ends[1] - ends[0]))


class SpreadSkill(_OfUncertainty):
    """Stated over actual error: the root of mean variance over mean squared error; 1 is right, below it is too sure.

    Of M members whose mean is the estimate, a share 1/M of the variance is taken off the squared error, as so much of
    it is the chance of the draw.
    """

    name = "spread-skill"
    revision = "1"
    target = 1.0

    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float | None:
        spread = estimate.spread()
        if spread is None:
            return None
        errors = estimate.mean - truth
        scale = power_of_two(spread, errors)
        variance, error = (float(np.mean((part / scale) ** 2)) for part in (spread, errors))
        if estimate.deviation is None:
            error -= variance / len(estimate.members)
        return float(np.sqrt(variance / error)) if error > 0 else None


class NLL(_OfUncertainty):
    """Mean negative logarithm of the stated normal density of the truth at unobserved entries.

    There is none where a deviation is 0, as what is sure has no density.
    """

    name = "nll"
    revision = "1"

    def score_entries(self, estimate: Estimate, truth: FloatArray) -> float | None:
        spread = estimate.spread()
        if spread is None or not spread.all():
            return None
        return float(surprise(estimate.mean, spread, truth).mean())


class Resolution(Metric):
    """Effective resolution along each axis: the wavelength from which on a map shows the truth.

    There the spectrum of the error is half that of the truth; all longer waves are closer (``resolution.depth``, in
    the axis' unit). Where even the shortest wave is resolved, ``resolution.depth`` is twice the spacing and
    ``resolution.depth.finer`` is 1; where not even the longest is, it is that one and
    ``resolution.depth.coarser`` is 1. Spectra are Welch's with Hann windows, over all lines along the axis that exist
    as a whole; axes need 8 evenly spaced points.
    """

    name = "resolution"
    revision = "1"
    scope: ClassVar[Literal["both", "valid", "unobserved"]] = "valid"

    def score(self, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> dict[str, float] | None:
        floor = truth.log_floor
        expected = in_domain(np.where(where, truth.values, 0.0), floor)
        error = in_domain(np.where(where, estimate.mean, 0.0), floor) - expected
        found: dict[str, float] = {}
        for number, axis in enumerate(truth.axes):
            measured = effective_resolution(error, expected, where, number, axis)
            if measured is not None:
                found |= {f"{axis.name}{flag}": value for flag, value in measured.items()}
        return found or None


def score_all(
    metrics: list[Metric],
    estimate: Estimate,
    field: Field,
    mask: Mask,
    note: Callable[[str], None] = lambda what: None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Every applicable metric, each over the entries of its scope.

    Metrics are given arrays that cannot be written to, so that each can change nothing but its own score.

    Args:
        metrics: the metrics to compute.
        estimate: checked, with arrays of the field's shape.
        field: the truth.
        mask: True = observed by the method or withheld from it; the rest is unobserved.
        note: told which metric is about to be asked.

    Returns:
        Scores by name, and of each metric without scores what it raised. Where everything is observed there is no
        unobserved score.
    """
    shown, truth, mask = estimate.frozen(), doubled(field), unchangeable(mask)
    unobserved = unchangeable(truth.valid & ~mask)
    scores: dict[str, float] = {}
    errors: dict[str, str] = {}
    for metric in metrics:
        note(f"metric {metric.name}")
        try:
            if applies(metric, field):
                chosen = for_field(metric, field)
                found: dict[str, float] = {}
                for name, where in _scopes(metric, truth.valid, unobserved).items():
                    if where.any():
                        made = chosen.score(copy.copy(shown), copy.copy(truth), where, mask)
                        found |= _named(name, made)
                scores |= found
        except Exception as error:  # one metric's mistake is no reason to lose the scores by all others
            errors[metric.name] = one_line(error)
    return scores, errors


def score_one(metric: Metric, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> float:
    """The score by which estimates are chosen.

    Args:
        metric, estimate, truth: what scores what, against what.
        where, mask: as for :meth:`Metric.score`.

    Raises:
        ValueError: if the metric gives no single number.
    """
    score = metric.score(estimate, truth, where, mask)
    if score is None or isinstance(score, Mapping):
        raise ValueError(f"{metric.name} gives no single number for this estimate")
    return _number(score)


def _scopes(metric: Metric, valid: Mask, unobserved: Mask) -> dict[str, Mask]:
    """The entries that a metric scores, by the name that their score has."""
    if metric.scope == "both":
        return {metric.name: valid, f"{metric.name}.unobserved": unobserved}
    return {metric.name: unobserved if metric.scope == "unobserved" else valid}


def doubled(field: Field) -> Field:
    """The field with values in double precision."""
    return field if field.values.dtype == float else replace(field, values=field.values.astype(float))


def applies(metric: Metric, field: Field) -> bool:
    """Whether a metric's score means anything for a field; the metric gets a copy."""
    return type(metric).applies_to is Metric.applies_to or bool(metric.applies_to(copy.deepcopy(field)))


def for_field(metric: Metric, field: Field) -> Metric:
    """The metric as it scores a field; it gets a copy."""
    return metric if type(metric).for_field is Metric.for_field else metric.for_field(copy.deepcopy(field))


def _named(name: str, score: Any) -> dict[str, float]:
    """A score, or several, by the names that a record has them under."""
    if score is None:
        return {}
    if isinstance(score, Mapping):
        return {f"{name}.{key}": _number(value) for key, value in score.items()}
    return {name: _number(score)}


def _number(score: Any) -> float:
    if isinstance(score, str | bytes):
        raise TypeError(f"score() returned {score!r:.60}; it should return a number")
    return float(score)


@hookimpl
def fieldbench_register_metrics() -> list[type[Metric]]:
    return [RMSE, MAE, NMSE, SLNRE, CRPS, Coverage50, Coverage90, Coverage95, Width90, SpreadSkill, NLL, Resolution]
