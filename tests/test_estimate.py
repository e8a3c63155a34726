"""Estimates: what is refused, how an interval and a spread come about, and the domain of power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fieldbench import Estimate
from fieldbench.estimate import MOST_ARRAYS

SHAPE = (2, 3)
EVERYWHERE = np.ones(SHAPE, dtype=bool)
MEAN = np.arange(6.0).reshape(SHAPE)
ONE = np.ones(SHAPE)


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (Estimate(np.ones(6)), "returned shape (6,); the field has (2, 3)"),
        (Estimate(np.full(SHAPE, np.nan)), "NaN or infinite"),
        (Estimate(MEAN * 1j), "complex"),
        (Estimate(MEAN, 1.0), "its deviation has shape ()"),
        (Estimate(MEAN, -ONE), "negative"),
        (Estimate(MEAN, np.inf * ONE), "its deviation has NaN or infinite entries"),
        (Estimate(MEAN, members=[MEAN]), "1 members; an ensemble has 2 to"),
        (Estimate(MEAN, members=[MEAN] * (MOST_ARRAYS + 1)), "members; an ensemble has 2 to"),
        (Estimate(MEAN, members=[MEAN, np.ones(3)]), "a member has shape (3,)"),
        (Estimate(MEAN, quantiles={0.0: MEAN}), "give up to"),
        (Estimate(MEAN, quantiles=[MEAN, MEAN]), "not fields by level"),  # type: ignore[arg-type]
        (Estimate(MEAN, quantiles={"low": MEAN}), "not fields by level"),  # type: ignore[dict-item]
        (Estimate(MEAN, quantiles={0.1: MEAN, 0.9: MEAN - ONE}), "quantile 0.1 lies above its quantile 0.9"),
        (Estimate(MEAN, ONE, distribution="poisson"), "it is normal or lognormal"),  # type: ignore[arg-type]
        (Estimate(MEAN, ONE, distribution="lognormal", floor=-1.0), "floor"),
    ],
)
def test_what_no_score_can_use_is_refused(estimate: Estimate, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        estimate.checked(EVERYWHERE)


def test_what_is_said_where_the_field_does_not_exist_is_not_looked_at() -> None:
    valid = EVERYWHERE.copy()
    valid[0, 0] = False
    odd = np.where(valid, ONE, -np.inf)
    assert Estimate(np.where(valid, MEAN, np.nan), odd).checked(valid).deviation is not None


def test_the_interval_of_a_deviation_is_that_of_its_distribution() -> None:
    low, high = Estimate(MEAN, 2 * ONE).interval(0.9) or (MEAN, MEAN)
    np.testing.assert_allclose(low, stats.norm.ppf(0.05, MEAN, 2.0))
    np.testing.assert_allclose(high, stats.norm.ppf(0.95, MEAN, 2.0))


def test_the_interval_of_a_lognormal_is_scipys_less_the_floor() -> None:
    floor = 1e-6
    estimate = Estimate(MEAN + 1, 0.5 * ONE, distribution="lognormal", floor=floor)
    low, high = estimate.interval(0.9) or (MEAN, MEAN)
    for level, end in ((0.05, low), (0.95, high)):
        np.testing.assert_allclose(end, stats.lognorm.ppf(level, 0.5, scale=MEAN + 1 + floor) - floor)
    carried = estimate.in_domain(floor)
    np.testing.assert_allclose(carried.mean, np.log(MEAN + 1 + floor))
    np.testing.assert_allclose(carried.deviation, 0.5)
    np.testing.assert_allclose(
        estimate.spread(), (MEAN + 1 + floor) * np.sinh(0.5)
    )  # half of what lies between e^-0.5 and e^0.5


def test_a_normal_of_small_deviation_is_carried_to_logarithms_by_its_slope() -> None:
    carried = Estimate(MEAN + 1, 1e-4 * ONE).in_domain(0.5)
    np.testing.assert_allclose(carried.deviation, 1e-4 / (MEAN + 1.5), rtol=1e-6)


def test_an_estimate_can_be_taken_at_some_entries_or_in_a_block() -> None:
    members = np.stack([MEAN, MEAN + 1])
    estimate = Estimate(MEAN, ONE, members, {0.1: MEAN - 1, 0.9: MEAN + 1})
    some = estimate.at(MEAN > 3)
    np.testing.assert_array_equal(some.mean, [4, 5])
    np.testing.assert_array_equal(some.members, [[4, 5], [5, 6]])
    np.testing.assert_array_equal(some.quantiles[0.9], [5, 6])
    block = estimate.at((slice(1, 2), slice(0, 2)))
    np.testing.assert_array_equal(block.members, members[:, 1:2, 0:2])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.99])
def test_quantiles_of_members_are_numpys_of_hazen(level: float) -> None:
    members = np.random.default_rng(0).normal(size=(9, *SHAPE))
    low, high = Estimate(MEAN, members=members).interval(level) or (MEAN, MEAN)
    np.testing.assert_allclose(low, np.quantile(members, (1 - level) / 2, axis=0, method="hazen"))
    np.testing.assert_allclose(high, np.quantile(members, (1 + level) / 2, axis=0, method="hazen"))
