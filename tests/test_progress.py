"""The account of a run while it works, with a clock that stands still unless told."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from fieldbench.plan import Plan, Request
from fieldbench.progress import Progress, in_words
from fieldbench.records import Cell, Trial
from fieldbench.registry import Registry, Sources


class Clock:
    """A clock that is put forward by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def plan() -> Plan:
    request = Request(methods=["nearest", "thin-plate"], datasets="radiomap1", rates=[0.1, 0.2], trials=10)
    return Plan(request, Registry(Sources()))


@pytest.fixture(scope="module")
def asked(plan: Plan) -> dict[Cell, int]:
    return dict.fromkeys(plan.cells, 10)


@pytest.fixture
def trials(plan: Plan) -> dict[tuple[str, float], Iterator[Trial]]:
    listed = list(plan)
    return {
        (method, rate): iter([trial for trial in listed if (trial.cell.method, trial.cell.rate) == (method, rate)])
        for method in ("nearest", "thin-plate")
        for rate in (0.1, 0.2)
    }


def test_counts_and_means(asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]) -> None:
    progress = Progress(asked, {"radiomap1": "slnre"})
    for score in (0.1, math.nan, 0.2, 0.6):
        progress.add(next(trials["nearest", 0.1]).cell, "ok", {"slnre": score, "rmse": 9.0}, 1.0)
    progress.add(next(trials["thin-plate", 0.2]).cell, "failed", {}, None)
    progress.add(next(trials["thin-plate", 0.2]).cell, "not-applicable", {}, None)
    assert (progress.done, progress.failed, progress.left, progress.total) == (6, 1, 34, 40)
    ((cell, average),) = progress.means().items()
    assert (cell.method, cell.dataset, cell.rate) == ("nearest", "radiomap1", 0.1)
    assert (average.mean, average.count) == (pytest.approx(0.3), 3), "the trial without a score is left out"
    assert average.uncertainty == pytest.approx(2 * np.std([0.1, 0.2, 0.6], ddof=1) / math.sqrt(3))


def test_a_running_mean_never_pools_rates(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    progress = Progress(asked, {"radiomap1": "slnre"})
    for rate, score in ((0.1, 1.0), (0.2, 5.0), (0.1, 3.0)):
        progress.add(next(trials["nearest", rate]).cell, "ok", {"slnre": score}, 1.0)
    assert [(cell.rate, average.mean) for cell, average in progress.means().items()] == [(0.1, 2.0), (0.2, 5.0)]
    assert [cell.rate for cell in progress.means(most=1)] == [0.1], "the one that changed last"
    assert progress.varying() == ["rate"]


def test_no_time_is_given_before_every_method_was_measured(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    progress = Progress(asked, {}, clock=Clock())
    assert progress.seconds_left() is None
    progress.add(next(trials["nearest", 0.1]).cell, "ok", {}, 1.0)
    assert progress.seconds_left() is None
    progress.add(next(trials["thin-plate", 0.1]).cell, "ok", {}, 2.0)
    assert progress.seconds_left() is not None


def test_time_to_go_is_what_remains_of_each_cell_over_the_slots(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    progress = Progress(asked, {}, slots=2, clock=Clock())
    progress.remember(next(trials["nearest", 0.1]).cell, "ok", {}, 1.0)
    progress.remember(next(trials["nearest", 0.2]).cell, "ok", {}, 3.0)
    progress.remember(next(trials["thin-plate", 0.1]).cell, "ok", {}, 10.0)  # stands for its other rate, too
    expected = 9 * 1.0 + 9 * 3.0 + 9 * 10.0 + 10 * 10.0
    assert progress.work_left() == pytest.approx(expected)
    assert progress.seconds_left() == pytest.approx(expected / 2)


def test_time_to_go_counts_what_trials_cost_besides_the_method(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    clock = Clock()
    progress = Progress(asked, {}, clock=clock)
    for key in trials:
        clock.now += 3.0  # each trial takes 3 s though its method takes 1 s
        progress.add(next(trials[key]).cell, "ok", {}, 1.0)
    assert progress.seconds_left() == pytest.approx(36 * 3.0)
    clock.now += 0.5
    assert progress.seconds_left() == pytest.approx(36 * 3.0 - 0.5)


def test_the_longest_trial_bounds_the_time_however_many_slots(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    progress = Progress(asked, {}, slots=1000, clock=Clock())
    progress.remember(next(trials["nearest", 0.1]).cell, "ok", {}, 1.0)
    progress.remember(next(trials["thin-plate", 0.1]).cell, "ok", {}, 50.0)
    assert progress.seconds_left() == pytest.approx(50.0)


def test_a_method_that_never_applies_costs_nothing(
    asked: dict[Cell, int], trials: dict[tuple[str, float], Iterator[Trial]]
) -> None:
    progress = Progress(asked, {}, clock=Clock())
    progress.remember(next(trials["nearest", 0.1]).cell, "ok", {}, 1.0)
    progress.remember(next(trials["thin-plate", 0.1]).cell, "not-applicable", {}, None)
    assert progress.work_left() == pytest.approx(19.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "measuring"),
        (-1, "0 s"),
        (59.4, "59 s"),
        (60, "1 min 0 s"),
        (200, "3 min 20 s"),
        (1790, "30 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words
