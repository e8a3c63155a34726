"""Scores of uncertainty against quadrature, pairwise sums and known answers, and what a record keeps of them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from fieldbench import Estimate, Field
from fieldbench.metric import (
    CRPS,
    MAE,
    NLL,
    Coverage50,
    Coverage90,
    Coverage95,
    Metric,
    Resolution,
    SpreadSkill,
    Width90,
    score_all,
)  # fmt: skip
from fieldbench.scores import crps_members, crps_normal, crps_quantiles, surprise

OF_UNCERTAINTY: list[Metric] = [CRPS(), Coverage50(), Coverage90(), Coverage95(), Width90(), SpreadSkill(), NLL()]

numbers = st.floats(-5, 5)
deviations = st.floats(0.01, 5)


def scores(estimate: Estimate, truth: np.ndarray, **about: Any) -> dict[str, float]:
    """All scores of uncertainty where nothing is observed."""
    found, errors = score_all(OF_UNCERTAINTY, estimate, Field(truth, **about), np.zeros(truth.shape, dtype=bool))
    assert errors == {}
    return found


def scene(deviation: float = 1.0, size: int = 100_000) -> dict[str, float]:
    """Scores of a mean of 0 for a standard normal truth."""
    truth = np.random.default_rng(0).normal(size=size)
    return scores(Estimate(np.zeros(size), np.full(size, deviation)), truth)


@given(numbers, deviations, numbers)
@settings(deadline=None, max_examples=50)
def test_the_normal_score_is_the_integral_of_its_definition(mean: float, deviation: float, truth: float) -> None:
    def below(x: float) -> float:
        return float(stats.norm.cdf(x, mean, deviation) ** 2)

    def above(x: float) -> float:
        return float(stats.norm.sf(x, mean, deviation) ** 2)

    low, high = min(truth, mean) - 9 * deviation, max(truth, mean) + 9 * deviation
    expected = quad(below, low, truth, limit=200)[0] + quad(above, truth, high, limit=200)[0]
    found = crps_normal(*(np.array([x]) for x in (mean, deviation, truth)))
    assert found[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_deviation_of_zero_leaves_the_absolute_error() -> None:
    found = crps_normal(np.array([1.0, 2.0]), np.zeros(2), np.array([3.0, 2.0]))
    np.testing.assert_array_equal(found, [2.0, 0.0])


@given(st.lists(numbers, min_size=2, max_size=9), numbers)
@settings(deadline=None)
def test_the_score_of_members_is_its_sum_over_pairs(members: list[float], truth: float) -> None:
    count = len(members)
    pairs = sum(abs(one - other) for one, other in combinations(members, 2))
    expected = np.mean([abs(member - truth) for member in members]) - pairs / (count * (count - 1))
    found = crps_members(np.sort(members)[:, np.newaxis], np.array([truth]))
    assert found[0] == pytest.approx(expected, abs=1e-12)


def test_three_members_score_on_average_as_the_distribution_that_they_are_drawn_from() -> None:
    rng = np.random.default_rng(1)
    members, truth = rng.normal(size=(3, 400_000)), rng.normal(size=400_000)
    # E|X - Y| - E|X - X'| / 2 of standard normal variables; the standard error here is about 0.001.
    assert crps_members(np.sort(members, axis=0), truth).mean() == pytest.approx(1 / np.sqrt(np.pi), abs=0.005)


@given(numbers, deviations, numbers)
@settings(deadline=None, max_examples=50)
def test_many_quantiles_score_as_the_distribution(mean: float, deviation: float, truth: float) -> None:
    levels = (np.arange(2000) + 0.5) / 2000
    quantiles = dict(zip(levels, stats.norm.ppf(levels, mean, deviation)[:, np.newaxis], strict=True))
    expected = crps_normal(*(np.array([x]) for x in (mean, deviation, truth)))[0]
    assert crps_quantiles(quantiles, np.array([truth]))[0] == pytest.approx(expected, rel=2e-3, abs=2e-3)


@given(numbers, deviations, numbers)
@settings(deadline=None)
def test_the_surprise_is_scipys(mean: float, deviation: float, truth: float) -> None:
    found = surprise(*(np.array([x]) for x in (mean, deviation, truth)))
    assert found[0] == pytest.approx(-stats.norm.logpdf(truth, mean, deviation))


@given(
    st.lists(numbers, min_size=1, max_size=30), deviations, st.sampled_from([Coverage50(), Coverage90(), Coverage95()])
)
@settings(deadline=None)
def test_coverage_counts_what_lies_within_the_interval(truth: list[float], deviation: float, metric: Any) -> None:
    low, high = stats.norm.interval(metric.level, 0.0, deviation)
    expected = np.mean([low <= y <= high for y in truth])
    estimate = Estimate(np.zeros(len(truth)), np.full(len(truth), deviation))
    assert scores(estimate, np.array(truth))[metric.name] == pytest.approx(expected)


@given(st.lists(st.tuples(numbers, deviations, numbers), min_size=1, max_size=20))
@settings(deadline=None)
def test_spread_over_skill_and_width_are_sums_over_entries(entries: list[tuple[float, float, float]]) -> None:
    mean, deviation, truth = (np.array(part) for part in zip(*entries, strict=True))
    found = scores(Estimate(mean, deviation), truth)
    squares = sum((m - y) ** 2 for m, _, y in entries)
    if squares:
        assert found["spread-skill"] == pytest.approx((sum(s**2 for _, s, _ in entries) / squares) ** 0.5)
    widths = [stats.norm.ppf(0.95, m, s) - stats.norm.ppf(0.05, m, s) for m, s, _ in entries]
    assert found["width90"] == pytest.approx(sum(widths) / len(widths))


def test_what_is_right_scores_as_it_should() -> None:
    found = scene()
    assert found["crps"] == pytest.approx(1 / np.sqrt(np.pi), rel=0.01)
    assert found["coverage50"] == pytest.approx(0.5, abs=0.005)
    assert found["coverage90"] == pytest.approx(0.9, abs=0.005)
    assert found["coverage95"] == pytest.approx(0.95, abs=0.005)
    assert found["width90"] == pytest.approx(2 * stats.norm.ppf(0.95))
    assert found["spread-skill"] == pytest.approx(1.0, rel=0.01)
    assert found["nll"] == pytest.approx(stats.norm.entropy(), rel=0.01)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_deviation_halved_or_doubled_is_seen_by_every_score(factor: float) -> None:
    right, wrong = scene(), scene(factor)
    for metric in OF_UNCERTAINTY:
        if metric.target is not None:
            assert abs(wrong[metric.name] - metric.target) > abs(right[metric.name] - metric.target) + 0.04
    assert wrong["crps"] > 1.05 * right["crps"]
    assert wrong["nll"] > right["nll"] + 0.2
    assert wrong["width90"] == pytest.approx(factor * right["width90"])


def test_members_are_as_spread_as_they_are_wrong() -> None:
    rng = np.random.default_rng(2)
    centre = rng.normal(size=(1, 50_000))
    members, truth = centre + rng.normal(size=(5, 50_000)), centre[0] + rng.normal(size=50_000)
    found = scores(Estimate(members.mean(axis=0), members=members), truth)
    # Members and truth are drawn alike, so that an honest score says 1 however few members there are.
    assert found["spread-skill"] == pytest.approx(1.0, rel=0.02)


def test_an_interval_of_members_is_interpolated_between_their_order() -> None:
    members = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    low, high = Estimate(np.array([3.0]), members=members).interval(0.8) or (np.nan, np.nan)
    assert (low[0], high[0]) == pytest.approx((1.0, 5.0))  # levels .1 and .9 are (k - 1/2) / 5 of the first and last


def test_quantiles_make_the_interval_that_they_are_for_and_no_other() -> None:
    quantiles = {0.05: np.full(4, -1.0), 0.95: np.full(4, 3.0)}
    found = scores(Estimate(np.zeros(4), quantiles=quantiles), np.array([-2.0, 0.0, 1.0, 2.0]))
    assert (found["coverage90"], found["width90"]) == (0.75, 4.0)
    assert not found.keys() & {"coverage50", "coverage95", "spread-skill", "nll"}


def test_of_a_mean_alone_there_is_the_absolute_error_and_nothing_else() -> None:
    truth, mean = np.array([[1.0, 2.0], [3.0, 5.0]]), np.zeros((2, 2))
    mask = np.array([[True, False], [False, False]])
    found, _ = score_all([MAE(), *OF_UNCERTAINTY], Estimate(mean), Field(truth), mask)
    assert found == {"mae": 2.75, "mae.unobserved": pytest.approx(10 / 3), "crps": pytest.approx(10 / 3)}


def test_a_power_is_scored_by_its_logarithm() -> None:
    rng, floor = np.random.default_rng(3), 1e-3
    logs, error = rng.normal(-2, 1, size=3000), rng.normal(size=3000)
    power = np.exp(logs) - floor
    keep = power > 0
    lognormal = Estimate(
        np.exp((logs + 0.3 * error)[keep]) - floor, np.full(keep.sum(), 0.3), distribution="lognormal", floor=floor
    )
    of_power = scores(lognormal, power[keep], log_floor=floor)
    of_logarithm = scores(Estimate((logs + 0.3 * error)[keep], np.full(keep.sum(), 0.3)), logs[keep])
    for name, score in of_logarithm.items():
        assert of_power[name] == pytest.approx(score, abs=0.01)


def test_what_is_certain_has_no_likelihood() -> None:
    assert "nll" not in scores(Estimate(np.zeros(3), np.array([1.0, 0.0, 1.0])), np.ones(3))
    assert "spread-skill" not in scores(Estimate(np.zeros(3), np.ones(3)), np.zeros(3))


def test_no_score_is_nan() -> None:
    for spread in (None, np.zeros(5), np.ones(5)):
        assert np.isfinite(list(scores(Estimate(np.zeros(5), spread), np.zeros(5)).values())).all()


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_spread_over_skill_does_not_depend_on_the_unit(unit: float) -> None:
    rng = np.random.default_rng(6)
    mean, spread, truth = rng.normal(size=20), rng.uniform(0.1, 2, size=20), rng.normal(size=20)
    expected = scores(Estimate(mean, spread), truth)["spread-skill"]
    assert scores(Estimate(unit * mean, unit * spread), unit * truth)["spread-skill"] == pytest.approx(expected)


def test_levels_in_single_precision_are_found() -> None:
    ends = {np.float32(0.05): np.full(4, -1.0), np.float32(0.95): np.full(4, 1.0)}
    made = Estimate(np.zeros(4), quantiles=ends).checked(np.ones(4, dtype=bool))
    assert scores(made, np.zeros(4))["coverage90"] == 1


def test_scoringrules_agrees() -> None:
    referee = pytest.importorskip("scoringrules")
    rng = np.random.default_rng(4)
    mean, spread, truth = rng.normal(size=50), rng.uniform(0.1, 2, size=50), rng.normal(size=50)
    np.testing.assert_allclose(crps_normal(mean, spread, truth), referee.crps_normal(truth, mean, spread))
    members = rng.normal(size=(6, 50))
    expected = referee.crps_ensemble(truth, members.T, estimator="fair")
    np.testing.assert_allclose(crps_members(np.sort(members, axis=0), truth), expected)


def test_resolution_is_kept_axis_by_axis_under_flat_names() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(16, 16)).cumsum(axis=0)
    found, _ = score_all([Resolution()], Estimate(truth), Field(truth), np.zeros((16, 16), dtype=bool))
    assert found == {"resolution.x": 2.0, "resolution.x.finer": 1.0, "resolution.y": 2.0, "resolution.y.finer": 1.0}


@given(numbers, st.sampled_from([0.0, 0.01, 1.0, 5.0]), numbers)
@settings(deadline=None)
def test_the_probability_transform_is_the_distribution_function_at_the_truth(
    mean: float, deviation: float, truth: float
) -> None:
    found = Estimate(np.array([mean]), np.array([deviation])).probability_below(np.array([truth]))
    certain = 0.5 if truth == mean else float(truth > mean)
    expected = stats.norm.cdf(truth, mean, deviation) if deviation else certain
    assert found is not None
    assert found[0] == pytest.approx(expected)


def test_the_probability_transform_of_members_is_their_share_below() -> None:
    members = np.array([[1.0], [2.0], [2.0], [4.0]])
    for truth, expected in ((0.0, 0.0), (2.0, 0.5), (3.0, 0.75), (5.0, 1.0)):
        found = Estimate(np.array([2.0]), members=members).probability_below(np.array([truth]))
        assert found is not None
        assert found[0] == expected
    assert Estimate(np.zeros(2)).probability_below(np.zeros(2)) is None
