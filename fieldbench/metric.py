"""Metrics: how far an estimate is from the truth, over the entries that count."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fieldbench.errors import one_line
from fieldbench.field import Field, FloatArray, Mask, unchangeable
from fieldbench.hookspecs import hookimpl
from fieldbench.plugin import Plugin, parameter


class Metric(Plugin, ABC):
    """A score of an estimate.

    Attributes:
        lower_is_better: whether smaller values are better.
        has_unit: whether the score is in the field's unit.
    """

    lower_is_better: ClassVar[bool] = True
    has_unit: ClassVar[bool] = False

    @abstractmethod
    def score(self, estimate: FloatArray, truth: FloatArray) -> float:
        """Score vectors of equal length: the entries that count, and nothing else."""

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

    def score(self, estimate: FloatArray, truth: FloatArray) -> float:
        return float(np.sqrt(np.mean((estimate - truth) ** 2)))


class MAE(Metric):
    """Mean absolute error, in the field's unit."""

    name = "mae"
    revision = "1"
    has_unit = True

    def score(self, estimate: FloatArray, truth: FloatArray) -> float:
        return float(np.mean(np.abs(estimate - truth)))


class NMSE(Metric):
    """Relative error: squared error over the squared norm of the truth."""

    name = "nmse"
    revision = "1"

    def score(self, estimate: FloatArray, truth: FloatArray) -> float:
        # Both are brought to the truth's scale first, so that squares neither overflow nor vanish.
        scale = float(np.max(np.abs(truth)))
        if scale == 0:
            return 0.0 if not np.any(estimate) else float("inf")
        return float(np.sum(((estimate - truth) / scale) ** 2) / np.sum((truth / scale) ** 2))


class SLNRE(Metric):
    """Scaled log-domain normalised reconstruction error, for power (paper, section V-B).

    100 ||ln(max(estimate, 0) + floor) - ln(truth + floor)||^2 / ||ln(truth + floor)||^2. The base of the
    logarithm cancels; the floor and the unit of the field do not, so both are part of the result. A field
    brings its own floor (``log_floor``), which holds unless another is asked for.
    """

    name = "slnre"
    revision = "1"

    floor: float = parameter(
        1e-6, "added before the logarithm", gt=0, source="Shrestha, Fu, Hong 2022, released program"
    )

    def score(self, estimate: FloatArray, truth: FloatArray) -> float:
        expected = np.log(np.maximum(truth, 0) + self.floor)  # a noisy measurement may be negative
        error = np.log(np.maximum(estimate, 0) + self.floor) - expected
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


def score_all(
    metrics: list[Metric],
    estimate: FloatArray,
    field: Field,
    mask: Mask,
    note: Callable[[str], None] = lambda what: None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Every applicable metric over all valid entries, and (``name.unobserved``) over the unobserved ones.

    Each metric is given copies, so that it can change nothing but its own score.

    Args:
        metrics: the metrics to compute.
        estimate: array of the field's shape.
        field: the truth.
        mask: True = observed by the method or withheld from it; the rest is unobserved.
        note: told which metric is about to be asked.

    Returns:
        Scores by name, and of each metric without scores what it raised. Where everything is observed there is no
        unobserved score.
    """
    valid = unchangeable(field.valid)
    scopes = {"": valid, ".unobserved": unchangeable(valid & ~mask)}
    scores: dict[str, float] = {}
    errors: dict[str, str] = {}
    for metric in metrics:
        note(f"metric {metric.name}")
        try:
            if applies(metric, field):
                chosen = for_field(metric, field)
                scores |= {
                    f"{metric.name}{suffix}": _number(
                        chosen.score(estimate[entries], field.values[entries].astype(float))
                    )
                    for suffix, entries in scopes.items()
                    if entries.any()
                }
        except Exception as error:  # one metric's mistake is no reason to lose the scores by all others
            errors[metric.name] = one_line(error)
    return scores, errors


def applies(metric: Metric, field: Field) -> bool:
    """Whether a metric's score means anything for a field, of which it is shown a copy."""
    return type(metric).applies_to is Metric.applies_to or bool(metric.applies_to(copy.deepcopy(field)))


def for_field(metric: Metric, field: Field) -> Metric:
    """The metric as it scores a field, of which it is shown a copy."""
    return metric if type(metric).for_field is Metric.for_field else metric.for_field(copy.deepcopy(field))


def _number(score: Any) -> float:
    if isinstance(score, str | bytes):
        raise TypeError(f"score() returned {score!r:.60}; it should return a number")
    return float(score)


@hookimpl
def fieldbench_register_metrics() -> list[type[Metric]]:
    return [RMSE, MAE, NMSE, SLNRE]
