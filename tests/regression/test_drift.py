"""What counts as drift, and what is chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fieldbench.errors import RequestError
from fieldbench.regression.drift import ALPHA, ERROR_MARGIN, compare, exceeds
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
    assert found.findings == ()
    assert (found.paired, found.exact) == (32, 0)


def test_float_noise_raises_no_alarm_and_a_shift_does(make) -> None:
    reference = make()
    # Checks in which nothing moved: 1 % of them may raise a false alarm.
    alarms = sum(bool(compare(reference, jittered(reference, 0.03, 0.0, seed)).findings) for seed in range(1000, 1012))
    assert alarms <= stats.binom.ppf(0.999, 12, ALPHA)
    found = compare(reference, jittered(reference, 0.03, 0.1, 1000))
    assert found.findings
    assert {(item.measure, item.direction) for item in found.findings} == {
        ("rmse", "worse"),
        ("rmse.unobserved", "worse"),
    }


def test_a_change_within_the_margin_does_not_count_however_sure(make) -> None:
    reference = make()
    assert not compare(reference, jittered(reference, 1e-6, 0.5 * ERROR_MARGIN, 1000)).findings
    assert compare(reference, jittered(reference, 1e-6, 2 * ERROR_MARGIN, 1000)).findings


def test_better_fails_too(make) -> None:
    reference = make()
    found = compare(reference, jittered(reference, 0.03, -0.3, 1000))
    assert found.findings
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
    assert all(setting.startswith("sea") for setting in where)


@pytest.mark.parametrize(("factor", "moved"), [(1 + 1e-11, False), (1 + 1e-8, True)])
def test_exact_methods_are_compared_to_their_last_digit(make, changed, factor, moved) -> None:
    reference = make(["nearest"], rtol=1e-9)
    found = compare(reference, changed(reference, 3, unobserved=lambda value: factor * value))
    assert bool(found.findings) is moved
    assert [item.measure for item in found.findings] == ["rmse.unobserved"] * moved


@pytest.mark.parametrize(("factor", "moved"), [(1.04, False), (1.06, True)])
def test_a_method_of_few_digits_has_its_own_tolerance(make, changed, factor, moved) -> None:
    reference = make(["tap"], rtol=0.05)
    found = compare(reference, changed(reference, 3, score=lambda value: factor * value))
    assert bool(found.findings) is moved


def test_a_wide_tolerance_hides_no_shift_of_the_mean(make) -> None:
    reference = make(["tap"], rtol=0.05)
    found = compare(reference, jittered(reference, 1e-6, 0.03, 1000))
    assert {item.direction for item in found.findings} == {"worse"}


def test_a_trial_that_now_raises_fails_the_check(make, changed) -> None:
    reference = make()
    run = changed(reference, 3, status="failed", score=np.nan, unobserved=np.nan)
    (finding,) = compare(reference, run).findings
    assert (finding.measure, finding.before, finding.after) == ("failures", "0", "1")
    assert not compare(run, reference).findings  # it has been mended


def test_one_timeout_may_be_the_machines_fault_but_not_all_of_a_dataset(make, changed) -> None:
    reference = make(["tap"])
    once = changed(reference, 0, status="timeout", score=np.nan, unobserved=np.nan)
    assert not compare(reference, once).findings
    everywhere = changed(reference, reference.frame["dataset"] == "sea", status="timeout", score=np.nan)
    found = compare(reference, everywhere)
    assert found.findings
    assert {item.measure for item in found.findings} == {"failures"}


def test_more_memory_fails_and_less_does_not(make, changed) -> None:
    reference = make()
    rng = np.random.default_rng(1000)
    noise = np.exp(0.05 * rng.normal(size=len(reference.frame)))
    more = changed(reference, memory_mib=600 * noise)
    assert {item.measure for item in compare(reference, more).findings} == {"memory"}
    assert compare(reference, more).findings
    assert not compare(more, reference).findings
    assert not compare(reference, changed(reference, memory_mib=300 * noise)).findings


@pytest.mark.parametrize(
    ("before", "after", "fails"),
    [(128, 306, False), (128, 420, True), (1400, 1700, False), (1400, 1850, True)],  # MiB; 306 is with torch loaded
)
def test_what_other_methods_load_in_a_worker_is_no_growth(make, changed, before, after, fails) -> None:
    reference = make()
    noise = np.exp(0.03 * np.random.default_rng(1000).normal(size=len(reference.frame)))
    old, new = (changed(reference, memory_mib=size) for size in (before, after * noise))
    assert bool(compare(old, new).findings) is fails


def test_nothing_in_common_is_an_error_and_not_a_pass(make) -> None:
    with pytest.raises(RequestError, match="no trial of what was run"):
        compare(make(["tap"]), make(["mine"]))


def test_what_was_left_out_is_said(make) -> None:
    found = compare(make(["tap", "tnn"]), make(["tap", "mine"]))
    assert "16 trials of the reference are not in this run." in found.notes
    assert "16 trials of this run are not in the reference." in found.notes


NOWHERE = float("nan")


@pytest.mark.parametrize("rtol", [NOWHERE, 1e-9], ids=["statistical", "exact"])
@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (1.0, NOWHERE, True),
        (1.0, np.inf, True),
        (np.inf, 1.0, True),
        (NOWHERE, np.inf, True),
        (np.inf, -np.inf, True),
        (np.inf, np.inf, False),
        (NOWHERE, NOWHERE, False),
    ],
)
def test_a_score_that_is_no_number_has_moved_unless_it_was_the_same_before(make, changed, rtol, before, after, moved):
    reference = make(["tap"], rtol=rtol)
    found = compare(changed(reference, 3, score=before), changed(reference, 3, score=after))
    assert [(item.measure, item.trials) for item in found.findings] == [("rmse", 1)] * moved


def test_a_method_that_scores_nothing_at_all_any_more_has_moved(make, changed) -> None:
    reference = make(["tap"])
    found = compare(reference, changed(reference, score=np.nan, unobserved=np.nan))
    assert sum(item.trials for item in found.findings) == 2 * len(reference.frame)
    without = changed(reference, reference.frame["dataset"] == "sea", score=np.nan)
    assert not compare(without, without).findings


def test_another_seed_is_refused_and_named(make) -> None:
    with pytest.raises(RequestError, match=r"no trial of what was run \(tap, tnn; seed 7\)"):
        compare(make(), make(seed=7))


def test_a_trial_that_did_not_apply_and_now_raises_fails_the_check(make, changed) -> None:
    refused = changed(make(), 3, status="not-applicable", score=np.nan, unobserved=np.nan)
    (finding,) = compare(refused, changed(refused, 3, status="failed")).findings
    assert (finding.measure, finding.change) == ("failures", "now failed")
    assert not compare(refused, refused).findings


def test_another_metric_is_a_change_and_its_scores_are_not_compared(make, changed) -> None:
    reference = make(["tap"])
    (finding,) = compare(reference, changed(reference, metric="nmse", score=lambda value: value**2)).findings
    assert (finding.measure, finding.before, finding.after, finding.direction) == ("metric", "rmse", "nmse", "changed")


def test_several_metrics_of_which_more_is_better_turn_together(make, changed) -> None:
    reference = make(["tap"], trials=8, **{"higher is better": "psnr, ssim"})
    reference.frame["metric"] = np.where(reference.frame["dataset"] == "sea", "psnr", "ssim")
    rng = np.random.default_rng(1000)
    noise = 1 + 0.01 * rng.normal(size=len(reference.frame))
    more, less = (changed(reference, score=reference.frame["score"] * factor * noise) for factor in (1.4, 1 / 1.4))
    for run, direction in ((more, "better"), (less, "worse")):
        found = compare(reference, run).findings
        assert {(item.measure, item.direction) for item in found} == {("psnr", direction), ("ssim", direction)}


def test_one_of_many_methods_may_time_out_once(make, changed) -> None:
    # 1 - 0.999^100 = 10 % of runs of 100 trials have a time-out, if one trial in a thousand has.
    reference = make([f"method-{number}" for number in range(50)], trials=2)
    one_cell = (reference.frame["dataset"] == "sea") & (reference.frame["noise"] == "none")
    reference = Scores(reference.frame[one_cell].reset_index(drop=True), reference.origin)
    once = changed(reference, 0, status="timeout", score=np.nan, unobserved=np.nan)
    assert not compare(reference, once).findings


def test_trials_too_few_to_tell_are_said_to_be(make, changed) -> None:
    reference = make(["tap"], trials=1)
    reference = Scores(reference.frame.iloc[:1], reference.origin)
    found = compare(reference, changed(reference, score=100.0))
    assert not found.findings
    assert "Too few trials to tell whether these have moved: tap." in found.notes
    assert not any("Too few" in note for note in compare(make(), make()).notes)


def test_trials_without_scores_are_not_called_compared(make, changed) -> None:
    failed = changed(make(), slice(0, 9), status="failed", score=np.nan, unobserved=np.nan)
    found = compare(failed, failed)
    assert (found.paired, found.exact) == (22, 0)
    assert "10 pairs of trials have no scores to compare." in found.notes


def test_what_another_device_keeps_from_being_compared_is_said(make, changed) -> None:
    reference = make()
    notes = compare(reference, changed(reference, device="cuda")).notes
    assert notes == ("32 trials ran on another device; their memory is not compared.",)


def test_the_paired_test_is_students_against_a_margin() -> None:
    values = np.array([0.02, 0.05, 0.03, 0.07, 0.01])
    above = stats.ttest_1samp(values, 0.01, alternative="greater").pvalue
    below = stats.ttest_1samp(values, -0.01, alternative="less").pvalue
    # The two tails of the null hypothesis's nearer edge: the farther edge's lies on the other side.
    farther = stats.t.sf((values.mean() + 0.01) / stats.sem(values), 4)
    assert below == pytest.approx(1 - farther)
    assert exceeds(values, 0.01) == pytest.approx(above + farther)
