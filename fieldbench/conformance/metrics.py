"""Checks of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fieldbench.conformance.check import NotChecked, fail, no_error
from fieldbench.conformance.general import NamedCheck, named, unmodified
from fieldbench.estimate import Estimate
from fieldbench.field import Field, FloatArray, Mask
from fieldbench.metric import Metric

_TOLERANCE = 1e-9
_SHAPE = (20, 24)


def of_metric(metric: Metric) -> Iterator[NamedCheck]:
    """The checks of a metric."""
    yield from named([_returns_a_number, _other_entries_change_nothing, _inputs_unmodified, _applies_to], metric)
    if metric.target is None:
        yield from named([_truth_is_best], metric)


def _scene(share: float = 1.0, deviation: bool = True) -> tuple[Estimate, Field, Mask, Mask]:
    """A positive truth that is smooth along both axes, an estimate off it by a tenth and this share of that, and masks.

    It is as sure as it is right. All entries but the last columns count; a third is observed.
    """
    rng = np.random.default_rng(1)
    walks = rng.normal(size=_SHAPE).cumsum(axis=0).cumsum(axis=1)
    truth = np.exp(walks / np.abs(walks).max())
    mean = truth * (1 + share * 0.2 * rng.normal(size=_SHAPE))
    where = np.zeros(_SHAPE, dtype=bool)
    where[:, :-2] = True
    spread = 0.2 * max(share, 0.01) * truth
    return Estimate(mean, spread if deviation else None), Field(truth), where, rng.random(_SHAPE) < 1 / 3


def _scores(metric: Metric, estimate: Estimate, truth: Field, where: Mask, mask: Mask) -> dict[str, float]:
    """All numbers of a metric by name; of a single one the name is empty."""
    found: Any = None
    with no_error(f"scoring a field of shape {_SHAPE} by {metric}", "returns a number"):
        found = metric.score(estimate, truth, where, mask)
    if found is None:
        return {}
    named = found if isinstance(found, Mapping) else {"": found}
    for key, score in named.items():
        if not isinstance(key, str) or not isinstance(score, float | int) or isinstance(score, bool):
            fail(
                f"scoring a field by {metric}",
                f"it returned {found!r}",
                "returns a float, floats by name or None",
            )
        if not np.isfinite(score):
            fail(f"scoring a field by {metric}", f"it returned {found!r}", "returns finite numbers")
    return {key: float(score) for key, score in named.items()}


def _returns_a_number(metric: Metric) -> None:
    of_mean, of_both = (_scores(metric, *_scene(deviation=told)) for told in (False, True))
    if not of_mean and not of_both:
        fail(
            f"scoring an estimate with a deviation, and one without, by {metric}",
            "there is no score",
            "returns a number, and None only where the estimate lacks what it scores",
        )


def _truth_is_best(metric: Metric) -> None:
    perfect, near, far = (_scores(metric, *_scene(share)) for share in (0.0, 0.5, 1.0))
    for key in perfect.keys() & near.keys() & far.keys():
        ranks = [metric.rank(scores[key]) for scores in (perfect, near, far)]
        if ranks != sorted(ranks) or ranks[0] == ranks[2]:
            shown = ", ".join(f"{scores[key]:.4g}" for scores in (perfect, near, far))
            fail(
                f"scoring by {metric} the truth, an estimate near it and one twice as far off",
                f"the scores are {shown}, with lower_is_better = {metric.lower_is_better}",
                "ranks them in this order and says by lower_is_better which way is better",
            )


def _other_entries_change_nothing(metric: Metric) -> None:
    estimate, truth, where, mask = _scene()

    def spoilt(array: FloatArray) -> FloatArray:
        return np.where(where, array, np.nan)

    other = replace(estimate, mean=spoilt(estimate.mean), deviation=spoilt(estimate.deviation))
    first = _scores(metric, estimate, truth, where, mask)
    second = _scores(metric, other, Field(spoilt(truth.values), valid=where), where, mask)
    if first.keys() != second.keys() or any(
        abs(first[key] - second[key]) > _TOLERANCE * max(abs(first[key]), abs(second[key])) for key in first
    ):
        fail(
            f"scoring by {metric} with NaN at entries that do not count",
            f"the scores are {first} and {second}",
            "looks only at entries where its argument `where` is True",
        )


def _inputs_unmodified(metric: Metric) -> None:
    estimate, truth, where, mask = _scene()
    arrays = {"the mean": estimate.mean, "the deviation": estimate.deviation, "where": where, "the mask": mask}
    with unmodified(f"scoring by {metric}", arrays):
        if not _scores(metric, estimate, truth, where, mask):
            raise NotChecked("it has no score for such an estimate")


def _applies_to(metric: Metric) -> None:
    for floor in (None, 1e-6):
        answer = metric.applies_to(Field(np.ones((3, 4)), log_floor=floor))
        if not isinstance(answer, bool):
            fail(f"asking {metric} whether it applies to a field", f"it answered {answer!r}", "answers True or False")
