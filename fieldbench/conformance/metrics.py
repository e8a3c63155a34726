"""Checks of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from fieldbench.conformance.check import fail
from fieldbench.conformance.general import Named
from fieldbench.errors import one_line
from fieldbench.field import Field, FloatArray
from fieldbench.metric import Metric

_TOLERANCE = 1e-9


def of_metric(metric: Metric) -> Iterator[Named]:
    """The checks of a metric."""
    yield "returns-a-number", partial(_returns_a_number, metric)
    yield "truth-is-best", partial(_truth_is_best, metric)
    yield "order-of-entries", partial(_order_of_entries, metric)
    yield "inputs-unmodified", partial(_inputs_unmodified, metric)
    yield "applies-to", partial(_applies_to, metric)


def _vectors() -> tuple[FloatArray, FloatArray]:
    """A positive truth and an estimate 10 to 30 % off it."""
    rng = np.random.default_rng(1)
    truth = np.exp(rng.normal(size=200))
    return truth * rng.uniform(1.1, 1.3, size=200), truth


def _raw(metric: Metric, estimate: FloatArray, truth: FloatArray) -> Any:
    try:
        return metric.score(estimate, truth)
    except Exception as error:
        fail(f"scoring 200 entries by {metric}", one_line(error), "returns a number")


def _score(metric: Metric, estimate: FloatArray, truth: FloatArray) -> float:
    score = _raw(metric, estimate, truth)
    if not isinstance(score, float | int) or isinstance(score, bool) or not np.isfinite(score):
        fail(f"scoring 200 entries by {metric}", f"it returned {score!r}", "returns a finite Python float")
    return float(score)


def _returns_a_number(metric: Metric) -> None:
    estimate, truth = _vectors()
    _score(metric, estimate, truth)


def _truth_is_best(metric: Metric) -> None:
    estimate, truth = _vectors()
    perfect, near, far = (
        _raw(metric, truth + share * (estimate - truth), truth) for share in (0.0, 0.5, 1.0)
    )  # fmt: skip
    ordered = perfect <= near <= far if metric.lower_is_better else perfect >= near >= far
    if not ordered or perfect == far:
        fail(
            f"scoring by {metric} the truth, an estimate near it and one twice as far off",
            f"the scores are {perfect:.4g}, {near:.4g} and {far:.4g}, with lower_is_better = {metric.lower_is_better}",
            "ranks them in this order and says by lower_is_better which way is better",
        )


def _order_of_entries(metric: Metric) -> None:
    estimate, truth = _vectors()
    order = np.random.default_rng(2).permutation(len(truth))
    first, second = _score(metric, estimate, truth), _score(metric, estimate[order], truth[order])
    if abs(first - second) > _TOLERANCE * max(abs(first), abs(second)):
        fail(
            f"scoring the same entries in another order by {metric}",
            f"the scores are {first!r} and {second!r}",
            "does not depend on the order of entries: the vectors hold those that count, wherever they lie",
        )


def _inputs_unmodified(metric: Metric) -> None:
    estimate, truth = _vectors()
    copies = estimate.copy(), truth.copy()
    _raw(metric, estimate, truth)
    if not (np.array_equal(estimate, copies[0]) and np.array_equal(truth, copies[1])):
        fail(f"scoring by {metric}", "the vectors it was given were changed", "works on copies")


def _applies_to(metric: Metric) -> None:
    for floor in (None, 1e-6):
        answer = metric.applies_to(Field(np.ones((3, 4)), log_floor=floor))
        if not isinstance(answer, bool):
            fail(f"asking {metric} whether it applies to a field", f"it answered {answer!r}", "answers True or False")
