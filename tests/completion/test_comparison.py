"""What decides between candidates."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fieldbench import Estimate, Observation
from fieldbench.completion.bench import FitResult
from fieldbench.completion.comparison import CandidateComparison, mean_of, rank
from fieldbench.completion.validation import Validation


class Errs:
    """A bench of methods that are wrong by a known amount in each fold, of a field that is zero."""

    width = 1

    def __init__(self, errors: dict[str, list[float]], seconds: float | dict[str, float]) -> None:
        self._errors, self._seconds, self._fits = errors, seconds, Counter[str]()

    def pointwise(self, method: str) -> bool:
        return False

    def fit(self, method: str, seen: Observation, seed: int, *, limit: float) -> FitResult:
        errors = self._errors[method]
        seconds = self._seconds if isinstance(self._seconds, float) else self._seconds[method]
        if seconds > limit:
            return FitResult(None, limit, limit, "took too long", late=True)
        error = errors[self._fits[method] % len(errors)]
        self._fits[method] += 1
        return FitResult(Estimate(np.full(seen.shape, error)), seconds, seconds)


def comparison_of(
    errors: dict[str, list[float]],
    seconds: float | dict[str, float] = 0.001,
    corner: bool = False,
    budget: float = 60.0,
    told: list[str] | None = None,
) -> CandidateComparison:
    mask = np.random.default_rng(0).random((20, 20)) < 0.5
    if corner:
        mask[6:] = mask[:, 6:] = False
    observation = Observation(np.where(mask, 0.0, np.nan), mask)
    validation = Validation(observation, 0.1, 3, np.random.default_rng(1))
    bench, watch = Errs(errors, seconds), [] if told is None else told
    return CandidateComparison(bench, observation, validation, 0, budget, watch.append, lambda work: None)  # type: ignore[arg-type]


def compared(errors: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """Ratio and expected error of each method, best first."""
    comparison = comparison_of(errors)
    return {made.method: (made.ratio, made.expected) for made in sorted(comparison.run(list(errors)), key=rank)}


def test_one_bad_fold_of_eight_does_not_decide() -> None:
    made = compared({"steady": [0.2], "mostly better": [0.1, 0.1, 0.1, 1.0, 0.1, 0.1, 0.1, 0.1]})
    assert list(made) == ["mostly better", "steady"]
    # Errors are raised by a part of the least over all folds, that of `steady`.
    raised = np.hypot([0.2, 0.1, 1.0], 0.1 * 0.2)
    assert made["steady"][0] == pytest.approx(raised[0] / (raised[1] ** 7 * raised[2]) ** (1 / 8))
    # What is promised of it is a root mean square, the bad fold with it.
    assert made["mostly better"][1] == pytest.approx(np.sqrt((7 * 0.1**2 + 1.0**2) / 8), rel=0.05)


def test_better_in_all_folds_is_better() -> None:
    made = compared({"worse": [0.3, 3.0, 0.6], "better": [0.1, 1.0, 0.2]})
    assert list(made) == ["better", "worse"]
    assert made["worse"][0] == pytest.approx(3, rel=0.1)


def test_a_slow_one_that_leads_is_measured_to_the_end_before_the_next_slow_one() -> None:
    errors = {"quick": [0.2], "other": [0.3], "slow": [0.1, 0.9, 0.9]}
    comparison = comparison_of(errors, {"quick": 0.001, "other": 20.0, "slow": 12.0})
    ranked = sorted(comparison.run(["quick", "slow", "other"]), key=rank)
    assert ranked[0].method == "quick"
    assert [len(made.errors) for made in ranked if made.method == "slow"] == [3]


def test_one_good_fold_does_not_beat_three() -> None:
    """There is time for one slow fit only."""
    errors = {"quick": [0.2], "slow": [0.15, 0.9, 0.9]}
    comparison = comparison_of(errors, {"quick": 0.001, "slow": 30.0})
    first, second = sorted(comparison.run(["quick", "slow"]), key=rank)
    assert (first.method, first.ratio, len(second.errors)) == ("quick", 1.0, 1)
    assert second.ratio == pytest.approx(3**0.5 * 0.15 / 0.2, rel=0.05)
    # As if it had all folds, its error is three quarters of the other's.
    assert second.expected == pytest.approx(0.15, rel=0.05)


def test_the_leader_goes_on_before_the_others_use_up_the_time() -> None:
    errors = {"good": [0.2], "fair": [0.21], "best": [0.1]}
    made = comparison_of(errors, {"good": 1.5, "fair": 1.5, "best": 1.6}, budget=9.0).run(list(errors))
    assert {candidate.method: len(candidate.errors) for candidate in made} == {"good": 1, "fair": 1, "best": 3}


def test_who_is_late_is_tried_again_with_several_times_as_much() -> None:
    told: list[str] = []
    comparison_of({"late": [0.1], "quick": [0.2]}, {"late": 100.0, "quick": 0.5}, told=told).run(["late", "quick"])
    first, second, *_ = (float(line.split()[-2]) for line in told if line.startswith("late: not done in"))
    assert second >= 4 * first


def test_errors_beyond_all_numbers_are_compared() -> None:
    made = compared({"endless": [np.inf], "one": [1.0], "half": [0.5]})
    assert list(made) == ["half", "one", "endless"]


def test_folds_that_are_predicted_exactly_do_not_decide() -> None:
    """Days without rain are zero; who is good at rain is the better one."""
    made = compared({"dry": [0.0, 1.0], "rain": [0.01, 0.1]})
    assert list(made) == ["rain", "dry"]
    assert np.isfinite(made["dry"][0])


def test_candidates_that_can_hardly_be_told_apart_are_averaged() -> None:
    """One is too high, the other too low, now by more and now by less."""
    comparison = comparison_of({"high": [0.3, 0.1], "low": [-0.1, -0.31], "far": [0.9]})
    ranked = sorted(comparison.run(["high", "low", "far"]), key=rank)
    chosen = comparison.best(ranked)
    assert chosen == ("high", "low")
    made = comparison.mean(chosen, ranked)
    assert made.method == "mean of high, low"
    assert made.errors == pytest.approx([0.1, 0.105] * 4)
    assert (
        made.expected
        == comparison.promise(chosen).expected
        == pytest.approx(np.sqrt((0.1**2 + 0.105**2) / 2), rel=0.01)
    )
    assert made.ratio < ranked[0].ratio == 1


@pytest.mark.parametrize(
    "errors",
    [
        {"a": [0.10, 0.11], "b": [0.12, 0.13]},  # better in every fold
        {"a": [0.1, 0.2], "b": [0.1, 0.2]},  # the same twice
        {"a": [np.inf], "b": [np.inf]},
        {"a": [0.0], "b": [0.0]},
    ],
)
def test_the_best_one_stands_alone_where_it_can_be_told(errors: dict[str, list[float]]) -> None:
    comparison = comparison_of(errors)
    assert len(comparison.best(sorted(comparison.run(list(errors)), key=rank))) == 1


def test_all_but_the_hopeless_are_averaged_where_nothing_can_be_checked() -> None:
    """Errors within an observed corner do not tell who is the best far from it."""
    errors = {"a": [0.10, 0.11], "b": [0.12, 0.13], "c": [0.13, 0.14], "d": [0.25, 0.26], "far": [0.9]}
    for corner, chosen in ((False, ("a",)), (True, ("a", "b", "c", "d"))):
        comparison = comparison_of(errors, corner=corner)
        assert comparison.best(sorted(comparison.run(list(errors)), key=rank)) == chosen


def test_a_mean_is_not_taken_where_its_fits_would_take_too_long() -> None:
    """Three folds of both take all of 60 s but the tenth that is kept for a mean, and one more fit does not fit in."""
    errors = {"high": [0.3, 0.1], "low": [-0.1, -0.31]}
    for seconds, chosen in ((0.001, 2), (9.0, 1)):
        comparison = comparison_of(errors, seconds)
        ranked = sorted(comparison.run(list(errors)), key=rank)
        assert len(ranked[0].errors) >= 3
        assert len(comparison.best(ranked)) == chosen


def test_power_is_averaged_by_its_logarithm() -> None:
    made = mean_of([Estimate(np.array([1.0]), np.array([0.1])), Estimate(np.array([100.0]))], 0.0)
    assert made.mean == pytest.approx(10)
    assert made.in_domain(0.0).spread() == pytest.approx(0.1, rel=0.01)
