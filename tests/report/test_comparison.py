"""Paired comparisons against scipy, statsmodels-free known answers and hand-made cases."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fieldbench.errors import RequestError
from fieldbench.report.comparison import compare, fewest_for_ranks, holm
from fieldbench.report.factors import SPECS
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.statistics import detectable

METADATA = RunMetadata(
    order=("a", "b", "c"), headline={"sea": "rmse", "map": "gain"}, units={"sea": "m/s"}, higher_is_better=("gain",)
)


def records(scores: dict[str, list[float | None]], **setting: object) -> pd.DataFrame:
    """Rows of one setting: a list of scores by trial for each method, None for a failed trial."""
    fixed = {"dataset": "sea", "sampler": "random", "noise": "none", "select": "final", "rate": 0.1, "seed": 0}
    fixed.update(setting)
    metric = METADATA.headline[str(fixed["dataset"])]
    rows = [
        {**fixed, "method": method, "trial": trial, "status": "ok" if score is not None else "failed",
         "device": "cpu", "error": "", "key": f"{method}{trial}{fixed}", metric: math.nan if score is None else score}
        for method, listed in scores.items()
        for trial, score in enumerate(listed)
    ]  # fmt: skip
    return pd.DataFrame(rows).astype(dict.fromkeys(SPECS, "category"))


def both(*frames: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True).astype(dict.fromkeys(SPECS, "category"))


def test_ten_trials_are_compared_as_scipy_does() -> None:
    rng = np.random.default_rng(5)
    hard = rng.random(10)
    a, b = 0.5 + hard, 0.6 + hard + 0.1 * rng.standard_normal(10)
    (group,) = compare(records({"b": list(b), "a": list(a)}), METADATA).groups
    (pair,) = group.pairs
    assert (pair.better, pair.worse, pair.count, pair.test) == ("a", "b", 10, "wilcoxon")
    assert pair.wins == int((a < b).sum())
    assert pair.difference == pytest.approx((b - a).mean())
    interval = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (pair.low, pair.high) == pytest.approx((interval.low, interval.high))
    assert pair.p == pytest.approx(stats.wilcoxon(b, a).pvalue)


def test_few_trials_get_a_paired_t_since_ranks_could_never_reach_five_per_cent() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [1.5, 2.4, 3.6, 4.5, 5.5]
    (pair,) = compare(records({"a": a, "b": b}), METADATA).groups[0].pairs
    assert pair.test == "t"
    assert pair.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert stats.wilcoxon(a, b, method="exact").pvalue > 0.05


def test_pairing_takes_out_what_makes_trials_hard() -> None:
    hard = np.array([0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0])
    (pair,) = compare(records({"a": list(hard), "b": list(hard + 1 + hard / 1000)}), METADATA).groups[0].pairs
    assert pair.wins == 8
    assert pair.significant
    assert stats.ttest_ind(hard, hard + 1 + hard / 1000).pvalue > 0.9  # unpaired, nothing would be seen


def test_the_sentence_can_be_quoted() -> None:
    a = [0.5] * 10
    b = [0.62, 0.64, 0.60, 0.66, 0.58, 0.70, 0.54, 0.63, 0.61, 0.49]
    comparison = compare(records({"a": a, "b": b}), METADATA)
    half = stats.t.ppf(0.975, 9) * np.std(np.array(b) - 0.5, ddof=1) / math.sqrt(10)
    expected = f"a beats b on 9 of 10 trials, by 0.107 m/s [{0.107 - half:.3f}, {0.107 + half:.3f}] (sea, rate 10 %)."
    assert comparison.sentence == expected
    assert expected in str(comparison)


def test_a_higher_score_wins_where_higher_is_better() -> None:
    (pair,) = compare(records({"a": [1.0, 2.0], "b": [3.0, 4.5]}, dataset="map"), METADATA).groups[0].pairs
    assert (pair.better, pair.wins, pair.difference) == ("b", 2, 2.25)


def test_failed_and_infinite_trials_leave_their_pair_out_and_are_counted() -> None:
    frame = records({"a": [1.0, None, 3.0, 4.0], "b": [2.0, 2.5, math.inf, 6.0]})
    comparison = compare(frame, METADATA)
    (pair,) = comparison.groups[0].pairs
    assert (pair.count, pair.missing, pair.difference) == (2, 2, 1.5)
    assert any("2 pairs are left out" in note for note in comparison.notes)


def test_a_method_without_any_finished_trial_takes_part_in_no_pair() -> None:
    comparison = compare(records({"a": [1.0, 2.0], "b": [None, math.inf], "c": [2.0, 3.0]}), METADATA)
    (group,) = comparison.groups
    assert [(pair.better, pair.worse) for pair in group.pairs] == [("a", "c")]
    assert (group.methods, group.unranked) == (("a", "c"), ("b",))
    assert "not ranked: b in 1 of 1 setting" in str(comparison)
    assert comparison.ranks().settings == 0


def test_failing_on_hard_trials_does_not_win() -> None:
    scores = {"a": [1.0, None, None, 1.1], "b": [1.2, 5.0, 6.0, 1.4], "c": [2.2, 5.5, 6.7, 2.3]}
    comparison = compare(both(*(records(scores, rate=rate) for rate in (0.1, 0.2))), METADATA)
    for group in comparison.groups:
        assert (group.methods, group.unranked) == (("b", "c"), ("a",))
        assert group.means == pytest.approx((np.mean(scores["b"]), np.mean(scores["c"])))
        assert group.sentence.startswith("b is ahead of c on 4 of 4 trials")
    assert comparison.sentence.startswith("b has the best mean in 2 of 2 settings; for example, b is ahead of c")
    assert comparison.ranks().settings == 0
    assert "not ranked: a in 2 of 2 settings" in str(comparison)
    without = compare(records({name: scores[name] for name in "ab"}), METADATA)
    assert without.sentence == "only b has a score on every trial (sea, rate 10 %)."


def test_trials_that_not_every_method_has_ended_decide_nothing_yet() -> None:
    frame = records({"a": [1.0, 1.0, 9.0], "b": [2.0, 2.0, 0.0]})
    (group,) = compare(frame[(frame["method"] == "a") | (frame["trial"] < 2)], METADATA).groups
    assert (group.methods, group.means, group.unranked) == (("a", "b"), (1.0, 2.0), ())
    (group,) = compare(frame[(frame["method"] == "a") == (frame["trial"] < 2)], METADATA).groups
    assert group.sentence == "no trial has ended for all methods"


def test_a_setting_without_scores_leaves_the_others_theirs() -> None:
    good = records({"a": [1.0, 2.0], "b": [2.0, 3.0]})
    lost = records({"a": [None, None], "b": [None, None]}, dataset="map").drop(columns="gain")
    first, second = compare(both(good, lost), METADATA).groups
    assert (first.metric, first.sentence) == ("gain", "no method has a score on every trial")
    assert (second.metric, second.methods) == ("rmse", ("a", "b"))


def test_equal_scores_are_ties_and_no_win() -> None:
    (pair,) = compare(records({"a": [1.0] * 7, "b": [1.0] * 7}), METADATA).groups[0].pairs
    assert (pair.wins, pair.ties, pair.p) == (0, 7, 1.0)
    assert pair.sentence("m/s") == "a and b tie on 7 trials"
    (pair,) = compare(records({"a": [1.0, 3.0, 2.0], "b": [3.0, 1.0, 2.0]}), METADATA).groups[0].pairs
    assert pair.sentence("m/s") == "a and b tie on the mean of 3 trials"
    some = [1.0, 1.0, 2.0, 2.1, 2.2, 2.1, 1.9, 2.3, 2.4]
    (pair,) = compare(records({"a": [1.0] * 9, "b": some}), METADATA).groups[0].pairs
    assert pair.sentence("m/s").startswith("a beats b on 7 of 9 trials (2 ties), by 0.89")


def test_a_shared_first_rank_is_called_shared() -> None:
    tied = records({"a": [1.0, 3.0], "b": [3.0, 1.0], "c": [4.0, 4.0]}, rate=0.1)
    won = records({"a": [2.0, 3.0], "b": [1.0, 1.0], "c": [4.0, 4.0]}, rate=0.2)
    comparison = compare(both(tied, won), METADATA)
    assert comparison.sentence.startswith("b has the best mean in 2 of 2 settings (shared in 1); for example, ")
    assert comparison.groups[0].first == ("a", "b")
    (row,) = [line for line in str(comparison).splitlines() if re.match(r"a +b +tie ", line)]
    assert "1/2" in row


def test_one_trial_gives_a_difference_but_neither_interval_nor_test() -> None:
    (pair,) = compare(records({"a": [1.0], "b": [1.25]}), METADATA).groups[0].pairs
    assert pair.test == "none"
    assert math.isnan(pair.low)
    assert math.isnan(pair.corrected)
    assert math.isnan(pair.detectable)
    expected = "a is ahead of b on 1 of 1 trial, by 0.25 m/s, which may be chance (a test needs 5 trials)"
    assert pair.sentence("m/s") == expected


def test_a_lead_whose_interval_reaches_zero_is_not_called_a_win() -> None:
    (pair,) = compare(records({"a": [1.0, 1.0, 1.0], "b": [2.0, 2.5, 0.9]}), METADATA).groups[0].pairs
    assert pair.low < 0 < pair.difference
    assert pair.sentence("m/s").startswith("a is ahead of b on 2 of 3 trials, by 0.8")
    assert ", which may be chance" in pair.sentence("m/s")
    (pair,) = compare(records({"a": [1.0] * 5, "b": [2.0, 2.5, 0.9, 0.8, 1.1]}), METADATA).groups[0].pairs
    assert pair.sentence("m/s").endswith(", which may be chance")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_fewer_than_five_trials_carry_no_test_and_say_so(count: int) -> None:
    comparison = compare(records({"a": [1.0] * count, "b": list(2.0 + 1e-9 * np.arange(count))}), METADATA)
    (pair,) = comparison.groups[0].pairs
    assert pair.test == "none"
    assert not pair.significant
    assert "a is ahead of b" in comparison.sentence
    assert "which may be chance (a test needs 5 trials)" in comparison.sentence
    assert "fewer than 5 trials carry no test; run 5 or more (--trials)" in str(comparison)
    assert "beats" in compare(records({"a": [1.0] * 5, "b": [2.0, 2.1, 2.2, 2.1, 2.0]}), METADATA).sentence


def test_all_pairs_of_all_settings_are_corrected_together_and_so_are_their_intervals() -> None:
    rng = np.random.default_rng(3)
    frames, p, width = [], [], []
    for rate in (0.1, 0.2):
        scores = {name: list(shift + rng.random(6)) for name, shift in (("a", 0.0), ("b", 0.4), ("c", 0.5))}
        frames.append(records(scores, rate=rate))
        for one, other in itertools.combinations("abc", 2):
            tested = stats.ttest_rel(scores[one], scores[other])
            p.append(tested.pvalue)
            width.append(np.ptp(tested.confidence_interval(1 - 0.05 / 6)))
    pairs = [pair for group in compare(both(*frames), METADATA).groups for pair in group.pairs]
    assert sorted(pair.corrected for pair in pairs) == pytest.approx(sorted(holm(p)))
    assert sorted(pair.high - pair.low for pair in pairs) == pytest.approx(sorted(width))
    assert "Holm's correction over all 6 tests" in str(compare(both(*frames), METADATA))


def test_a_baseline_is_tested_against_each_other_method_and_against_them_alone() -> None:
    rng = np.random.default_rng(4)
    scores = {name: list(rng.random(6) + shift) for name, shift in zip("abc", (0.5, 0.0, 1.0), strict=True)}
    comparison = compare(records(scores), METADATA, baseline="a")
    (group,) = comparison.groups
    assert [{pair.better, pair.worse} for pair in group.pairs] == [{"a", "b"}, {"a", "c"}]
    p = [stats.ttest_rel(scores["a"], scores[other]).pvalue for other in "bc"]
    assert [pair.corrected for pair in group.pairs] == pytest.approx(holm(p))
    assert {"a", "b"} <= set(group.sentence.split())
    assert comparison.ranks().methods == ("b", "a", "c")
    with pytest.raises(RequestError, match="the baseline 'd' is not in this run; there are: a, b, c"):
        compare(records(scores), METADATA, baseline="d")


@pytest.mark.parametrize(("count", "together"), [(3, 1), (5, 1), (10, 45), (6, 190)])
def test_the_detectable_difference_is_found_in_four_of_five_simulated_runs(count: int, together: int) -> None:
    rng = np.random.default_rng(count)
    drawn = rng.normal(detectable(2.0, count, together), 2.0, (20_000, count))
    found = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05 / together
    assert found.mean() == pytest.approx(0.8, abs=0.01)  # 3.5 standard errors of 20,000 draws


@pytest.mark.parametrize("count", [5, 9], ids=["paired t", "signed ranks"])
def test_alike_methods_are_seldom_told_apart(count: int) -> None:
    """Three methods without a difference: of 100 runs at most 5 % may call any pair significant, 13 with luck."""
    rng = np.random.default_rng(count)
    hard = rng.lognormal(0, 0.5, (100, 1, count))  # some trials are harder for all
    drawn = hard * rng.lognormal(0, 0.1, (100, 3, count))
    wrong = 0
    for run in drawn:
        comparison = compare(records({name: list(scores) for name, scores in zip("abc", run, strict=True)}), METADATA)
        wrong += any(pair.significant for pair in comparison.groups[0].pairs)
    assert {pair.test for pair in comparison.groups[0].pairs} == {"t" if count == 5 else "wilcoxon"}
    assert wrong <= stats.binom.ppf(0.999, 100, 0.05)


def test_what_a_run_could_have_found_stands_beside_each_pair() -> None:
    b = [1.2, 1.1, 1.4, 1.0, 1.3]
    comparison = compare(records({"a": [1.0] * 5, "b": b}), METADATA)
    (pair,) = comparison.groups[0].pairs
    assert pair.detectable == pytest.approx(1.682 * np.std(b, ddof=1), rel=1e-3)  # 1.682: statsmodels' TTestPower
    assert "smallest difference that these trials find in four of five cases" in str(comparison)
    (row,) = [line for line in str(comparison).splitlines() if line.startswith("a ")][-1:]
    assert row.split()[-1] == f"{pair.detectable:.2f}"


@pytest.mark.parametrize("pairs", [1, 3, 6, 45])
def test_ranks_are_used_only_where_they_can_reach_five_per_cent_after_correction(pairs: int) -> None:
    enough = fewest_for_ranks(pairs)
    best = {n: stats.wilcoxon(np.arange(1.0, n + 1), method="exact").pvalue for n in (enough - 1, enough)}
    assert best[enough] * pairs < 0.05 < best[enough - 1] * pairs


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1 gives .02 .03 .06 .04, made non-decreasing.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    with_gap = holm([0.02, math.nan, 0.5])
    assert with_gap[0] == pytest.approx(0.04)
    assert math.isnan(with_gap[1])
    assert with_gap[2] == 0.5


def test_averaging_over_rates_keeps_trials_as_the_unit() -> None:
    low = records({"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 5.0]}, rate=0.1)
    high = records({"a": [0.5, 1.0, 1.5], "b": [0.5, 1.0, None]}, rate=0.2)
    (group,) = compare(both(low, high), METADATA, average=["rate"]).groups
    (pair,) = group.pairs
    assert "rate" not in group.setting
    assert (pair.count, pair.missing) == (2, 1)  # the third trial of b is incomplete
    assert (group.methods, group.unranked) == (("a",), ("b",))
    assert compare(both(low, high), METADATA, average=["rate", "rate"]).averaged == ("rate",)
    assert pair.difference == pytest.approx(np.mean([0.5, 1.0]))


def test_ranks_over_settings_are_scipy_s() -> None:
    rng = np.random.default_rng(1)
    frames = [
        records({name: [float(rng.random())] for name in "abc"}, rate=rate, dataset=dataset)
        for rate in (0.1, 0.2, 0.3)
        for dataset in ("sea", "map")
    ]
    comparison = compare(both(*frames), METADATA)
    ranks = comparison.ranks()
    signs = np.array([1 if "sea" in title else -1 for title in comparison.scores.index])
    values = comparison.scores.to_numpy() * signs[:, None]
    expected = dict(zip("abc", stats.rankdata(values, axis=1).mean(axis=0), strict=True))
    assert dict(zip(ranks.methods, ranks.means, strict=True)) == pytest.approx(expected)
    assert list(ranks.means) == sorted(ranks.means)
    assert ranks.friedman == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)


def test_wrong_requests_are_refused() -> None:
    frame = records({"a": [1.0], "b": [2.0]})
    with pytest.raises(RequestError, match="at least two methods"):
        compare(records({"a": [1.0]}), METADATA)
    with pytest.raises(RequestError, match="cannot average over 'dataset'"):
        compare(frame, METADATA, average=["dataset"])
    with pytest.raises(RequestError, match="unknown metric 'rsme'; did you mean 'rmse'"):
        compare(frame, METADATA, metric="rsme")
    with pytest.raises(RequestError, match=r"unknown metric 'worst'; there are: nmse, rmse$"):
        compare(frame.assign(nmse=0.5), METADATA, metric="worst")
    for column in ("method", "status", "error", "device", "trial", "rate", "machine", "slots", "timed"):
        with pytest.raises(RequestError, match=f"unknown metric '{column}'"):
            compare(frame, METADATA, metric=column)


def test_of_a_metric_with_a_target_the_nearer_score_is_better() -> None:
    frame = pd.DataFrame(
        [
            {"method": name, "dataset": "d", "sampler": "random", "noise": "none", "select": "final", "rate": 0.1,
             "trial": trial, "seed": 0, "status": "ok", "seconds": 1.0, "timed": "alone", "machine": "m", "slots": 1,
             "coverage90": score + 0.001 * trial}
            for name, score in (("wide", 1.0), ("right", 0.89), ("narrow", 0.6))
            for trial in range(3)
        ]
    )  # fmt: skip
    found = compare(frame, RunMetadata(headline={"d": "coverage90"}, targets={"coverage90": 0.9}))
    assert found.groups[0].methods == ("right", "wide", "narrow")
    assert found.groups[0].metric == "|coverage90 - 0.9|"
