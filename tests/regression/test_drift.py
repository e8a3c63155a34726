"""What counts as drift, and what is chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fieldbench.errors import RequestError
from fieldbench.regression import drift
from fieldbench.regression.drift import compare
from fieldbench.regression.reference import Scores


def jittered(scores: Scores, spread: float, shift: float, seed: int) -> Scores:
    """Every score times 1 + shift + noise."""
    rng = np.random.default_rng(seed)
    frame = scores.frame.copy()
    factor = 1 + shift + spread * rng.normal(size=len(frame))
    frame["score"] *= factor
    frame["unobserved"] *= factor
    return Scores(frame, scores.origin)


def test_equal_scores_have_not_moved(make) -> None:
    found = compare(make(), make())
    assert not found.failed
    assert found.findings == ()
    assert (found.paired, found.unpaired) == (32, 0)


def test_float_noise_raises_no_alarm_and_a_shift_does(make) -> None:
    reference = make()
    # Checks in which nothing moved: 1 % of them may raise a false alarm.
    alarms = sum(compare(reference, jittered(reference, 0.03, 0.0, seed)).failed for seed in range(1000, 1012))
    assert alarms <= stats.binom.ppf(0.999, 12, drift.ALPHA)
    found = compare(reference, jittered(reference, 0.03, 0.1, 1000))
    assert found.failed
    assert {(item.measure, item.direction) for item in found.findings} == {
        ("rmse", "worse"),
        ("rmse.unobserved", "worse"),
    }


def test_a_change_within_the_margin_does_not_count_however_sure(make) -> None:
    reference = make()
    assert not compare(reference, jittered(reference, 1e-6, 0.5 * drift.ERROR_MARGIN, 1000)).failed
    assert compare(reference, jittered(reference, 1e-6, 2 * drift.ERROR_MARGIN, 1000)).failed


def test_better_fails_too(make) -> None:
    reference = make()
    found = compare(reference, jittered(reference, 0.03, -0.3, 1000))
    assert found.failed
    assert {item.direction for item in found.findings} == {"better"}


def test_more_of_a_score_may_be_better(make) -> None:
    reference = make(**{"higher is better": "rmse"})
    found = compare(reference, jittered(reference, 0.03, -0.3, 1000))
    assert {item.direction for item in found.findings} == {"worse"}


def test_a_shift_on_one_dataset_is_said_to_be_there(make, changed) -> None:
    reference = make(["tap"], trials=6)
    here = reference.frame["dataset"] == "sea"
    rng = np.random.default_rng(1000)
    factor = np.where(here, 1.4 + 0.02 * rng.normal(size=len(here)), 1.0)
    run = changed(reference, score=reference.frame["score"] * factor)
    where = {item.where for item in compare(reference, run).findings}
    assert where
    assert all(place.startswith("sea") for place in where)


def test_one_trial_that_goes_astray_is_found(make, changed) -> None:
    reference = make()
    found = compare(reference, changed(reference, 5, score=50.0))
    assert [(item.method, item.trials) for item in found.findings] == [("tap", 1)]
    # Two independent trials of spread 10 % lie further apart than this more often than not.
    assert not compare(reference, changed(reference, 5, score=lambda value: 1.05 * value)).failed


@pytest.mark.parametrize(("factor", "moved"), [(1 + 1e-11, False), (1 + 1e-8, True)])
def test_exact_methods_are_compared_to_their_last_digit(make, changed, factor, moved) -> None:
    reference = make(["nearest"], rtol=1e-9)
    found = compare(reference, changed(reference, 3, unobserved=lambda value: factor * value))
    assert found.failed is moved
    assert [item.measure for item in found.findings] == ["rmse.unobserved"] * moved


@pytest.mark.parametrize(("factor", "moved"), [(1.04, False), (1.06, True)])
def test_a_method_of_few_digits_has_its_own_tolerance(make, changed, factor, moved) -> None:
    reference = make(["tap"], rtol=0.05)
    found = compare(reference, changed(reference, 3, score=lambda value: factor * value))
    assert found.failed is moved


def test_a_wide_tolerance_hides_no_shift_of_the_mean(make) -> None:
    reference = make(["tap"], rtol=0.05)
    found = compare(reference, jittered(reference, 1e-6, 0.03, 1000))
    assert {item.direction for item in found.findings} == {"worse"}


def test_a_trial_that_now_raises_fails_the_check(make, changed) -> None:
    reference = make()
    run = changed(reference, 3, status="failed", score=np.nan, unobserved=np.nan)
    (finding,) = compare(reference, run).findings
    assert (finding.measure, finding.before, finding.after) == ("failures", "0", "1")
    assert not compare(run, reference).failed  # it has been mended


def test_one_timeout_may_be_the_machines_fault_but_not_all_of_a_dataset(make, changed) -> None:
    reference = make(["tap"])
    once = changed(reference, 0, status="timeout", score=np.nan, unobserved=np.nan)
    assert not compare(reference, once).failed
    everywhere = changed(reference, reference.frame["dataset"] == "sea", status="timeout", score=np.nan)
    found = compare(reference, everywhere)
    assert found.failed
    assert {item.measure for item in found.findings} == {"failures"}


def test_more_memory_fails_and_less_does_not(make, changed) -> None:
    reference = make()
    rng = np.random.default_rng(1000)
    noise = np.exp(0.05 * rng.normal(size=len(reference.frame)))
    more = changed(reference, memory_mib=450 * noise)
    assert {item.measure for item in compare(reference, more).findings} == {"memory"}
    assert compare(reference, more).failed
    assert not compare(more, reference).failed
    assert not compare(reference, changed(reference, memory_mib=300 * noise)).failed


@pytest.mark.parametrize(("slots", "counts"), [("1", True), ("2", False)])
def test_slower_counts_only_where_trials_had_the_machine_to_themselves(make, changed, slots, counts) -> None:
    reference = make(slots=slots)
    slower = changed(reference, cost=6.0)
    found = compare(reference, slower)
    assert {item.measure for item in found.findings} == {"time"}
    assert found.failed is counts
    assert not compare(slower, reference).failed


def test_memory_and_time_of_another_device_are_not_compared(make, changed) -> None:
    reference = make(slots="1")
    assert not compare(reference, changed(reference, device="cuda", memory_mib=9000.0, cost=50.0)).failed


def test_another_seed_is_compared_by_distribution(make) -> None:
    reference = make(trials=8)
    same = make(rng=1001, seed=7, trials=8)
    found = compare(reference, same)
    assert (found.paired, found.unpaired) == (0, 64)
    assert not found.failed
    worse = make(draw=lambda rng: 1.3 * float(np.exp(0.1 * rng.normal())), rng=1001, seed=7, trials=8)
    found = compare(reference, worse)
    assert {item.direction for item in found.findings} == {"worse"}
    assert found.failed


def test_failures_of_another_seed_are_counted(make, changed) -> None:
    reference, other = make(), make(seed=7)
    broken = changed(other, other.frame["dataset"] == "sea", status="failed", score=np.nan, unobserved=np.nan)
    found = compare(reference, broken)
    assert {(item.measure, item.before) for item in found.findings} == {("failures", "0")}
    assert found.failed


def test_nothing_in_common_is_an_error_and_not_a_pass(make) -> None:
    with pytest.raises(RequestError, match="no trial of what was run"):
        compare(make(["tap"]), make(["mine"]))


def test_what_was_left_out_is_said(make) -> None:
    found = compare(make(["tap", "tnn"]), make(["tap", "mine"]))
    assert "16 trials of the reference are not in this run." in found.notes
    assert "16 trials of this run are not in the reference." in found.notes


def test_the_paired_test_is_students_against_a_margin() -> None:
    values = np.array([0.02, 0.05, 0.03, 0.07, 0.01])
    above = stats.ttest_1samp(values, 0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(values, -0.01, alternative="less").pvalue
    # The two tails of the null hypothesis's nearer edge: the farther edge's lies on the other side.
    farther = stats.t.sf((values.mean() + 0.01) / stats.sem(values), 4)
    assert below == pytest.approx(1 - farther)
    found = drift._beyond(float(values.mean()), drift._standard_error(values), 4, 0.01)
    assert found == pytest.approx(above + farther)


def test_the_unpaired_test_of_one_cell_is_welchs() -> None:
    rng = np.random.default_rng(1000)
    old, new = rng.normal(10, 1, 7), rng.normal(11, 2, 9)
    cell = {"method": "tap", "dataset": "sea", "sampler": "random", "noise": "none", "select": "final", "rate": 0.1}
    frames = [pd.DataFrame([{**cell, "score": value} for value in values]) for values in (old, new)]
    scales = pd.Series({tuple(cell.values()): 1.0})
    tested = drift._welch(*frames, scales, "score")
    assert tested is not None
    shift, error, freedom = tested
    expected = stats.ttest_ind(new, old, equal_var=False)
    assert shift / error == pytest.approx(expected.statistic)
    assert freedom == pytest.approx(expected.df)
