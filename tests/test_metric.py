"""Metrics against known answers, scikit-learn and each other."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from fieldbench.estimate import Estimate
from fieldbench.field import Field
from fieldbench.metric import MAE, NMSE, RMSE, SLNRE, Metric, score_all

TRUTH = np.random.default_rng(0).normal(size=500)
ESTIMATE = TRUTH + np.random.default_rng(1).normal(size=500)


def score(metric: Metric, estimate: np.ndarray, truth: np.ndarray) -> float:
    """The score of a mean over all entries."""
    everywhere = np.ones(truth.shape, dtype=bool)
    found = metric.score(Estimate(estimate), Field(truth), everywhere, everywhere)
    assert isinstance(found, float)
    return found


def test_rmse_and_mae_agree_with_scikit_learn() -> None:
    assert score(RMSE(), ESTIMATE, TRUTH) == pytest.approx(root_mean_squared_error(TRUTH, ESTIMATE))
    assert score(MAE(), ESTIMATE, TRUTH) == pytest.approx(mean_absolute_error(TRUTH, ESTIMATE))


def test_nmse_is_the_squared_ratio_of_norms() -> None:
    expected = np.linalg.norm(ESTIMATE - TRUTH) ** 2 / np.linalg.norm(TRUTH) ** 2
    assert score(NMSE(), ESTIMATE, TRUTH) == pytest.approx(expected)
    assert score(NMSE(), np.zeros(500), TRUTH) == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_nmse_does_not_depend_on_the_unit(scale: float) -> None:
    assert score(NMSE(), ESTIMATE * scale, TRUTH * scale) == pytest.approx(score(NMSE(), ESTIMATE, TRUTH))


def test_a_truth_of_zeros_is_met_or_missed() -> None:
    assert score(NMSE(), np.zeros(3), np.zeros(3)) == 0
    assert score(NMSE(), np.ones(3), np.zeros(3)) == np.inf


def test_slnre_of_a_constant_factor() -> None:
    # ln of the truth is -2 everywhere; an estimate larger by the factor e^0.5 is off by 0.5: 100 (0.5 / 2)^2.
    floor = 1e-6
    truth = np.full(7, np.exp(-2.0)) - floor
    estimate = np.full(7, np.exp(-1.5)) - floor
    assert score(SLNRE(), estimate, truth) == pytest.approx(100 * 0.25 / 4)


def test_slnre_does_not_depend_on_the_base_of_the_logarithm() -> None:
    truth, estimate = np.exp(TRUTH), np.exp(ESTIMATE)
    decibels = 10 * np.log10(truth + 1e-6)
    error = 10 * np.log10(estimate + 1e-6) - decibels
    assert score(SLNRE(), estimate, truth) == pytest.approx(100 * (error**2).sum() / (decibels**2).sum())


def test_slnre_takes_negative_power_as_none() -> None:
    truth = np.array([0.5, 0.25])
    assert score(SLNRE(), np.array([-3.0, 0.25]), truth) == score(SLNRE(), np.array([0.0, 0.25]), truth)
    assert np.isfinite(score(SLNRE(), truth, np.array([-1e-3, 0.25])))


def test_slnre_of_a_truth_without_logarithm() -> None:
    one = np.full(3, 1 - 1e-6)
    assert score(SLNRE(), one, one) == 0
    assert score(SLNRE(), 2 * one, one) == np.inf


def test_slnre_uses_the_fields_floor_unless_another_is_asked_for() -> None:
    field = Field(np.exp(TRUTH), log_floor=1e-3)
    assert score(SLNRE().for_field(field), np.exp(ESTIMATE), field.values) == pytest.approx(
        score(SLNRE(floor=1e-3), np.exp(ESTIMATE), field.values)
    )
    assert SLNRE(floor=1e-6).for_field(field) == SLNRE(floor=1e-6)
    assert RMSE().for_field(field) == RMSE()


@pytest.mark.parametrize("metric", [RMSE(), MAE(), NMSE(), SLNRE()])
def test_a_perfect_estimate_scores_zero_and_lower_is_better(metric: RMSE | MAE | NMSE | SLNRE) -> None:
    truth = np.exp(TRUTH)
    assert score(metric, truth, truth) == 0
    near, far = score(metric, truth * 1.01, truth), score(metric, truth * 1.1, truth)
    assert 0 < near < far
    assert metric.lower_is_better


def test_only_metrics_in_the_fields_unit_scale_with_it() -> None:
    for metric in (RMSE(), MAE(), NMSE()):
        ratio = score(metric, 3 * ESTIMATE, 3 * TRUTH) / score(metric, ESTIMATE, TRUTH)
        assert ratio == pytest.approx(3 if metric.has_unit else 1)


def test_scores_are_over_all_entries_and_over_unobserved_ones() -> None:
    field = Field(np.zeros((2, 2)))
    mask = np.array([[True, False], [False, True]])
    scores, _ = score_all([RMSE(), MAE()], Estimate(np.array([[0.0, 3.0], [4.0, 0.0]])), field, mask)
    assert scores["rmse"] == pytest.approx(2.5)  # sqrt(25 / 4)
    assert scores["rmse.unobserved"] == pytest.approx(np.sqrt(12.5))
    assert (scores["mae"], scores["mae.unobserved"]) == (1.75, 3.5)


def test_entries_that_do_not_exist_are_never_scored() -> None:
    valid = np.array([[True, True], [False, True]])
    field = Field(np.array([[1.0, 2.0], [np.nan, 4.0]]), valid=valid)
    mask = np.array([[True, False], [False, False]])
    estimate = np.array([[1.0, 2.0], [np.nan, 7.0]])
    scores, _ = score_all([RMSE()], Estimate(estimate), field, mask)
    assert scores == {"rmse": pytest.approx(np.sqrt(3)), "rmse.unobserved": pytest.approx(np.sqrt(4.5))}


def test_with_everything_observed_there_is_no_unobserved_score() -> None:
    field = Field(np.ones((2, 2)))
    assert set(score_all([RMSE()], Estimate(np.ones((2, 2))), field, np.ones((2, 2), dtype=bool))[0]) == {"rmse"}


def test_slnre_is_for_fields_with_a_logarithm() -> None:
    mask = np.array([[True, False]])
    assert "slnre" not in score_all([SLNRE()], Estimate(np.ones((1, 2))), Field(np.ones((1, 2))), mask)[0]
    assert "slnre" in score_all([SLNRE()], Estimate(np.ones((1, 2))), Field(np.ones((1, 2)), log_floor=1e-6), mask)[0]


def test_single_precision_fields_are_scored_in_double() -> None:
    truth = np.full((100, 100), 1e4, dtype=np.float32)
    estimate = truth.astype(float) + 1e-4
    mask = np.zeros((100, 100), dtype=bool)
    assert score_all([RMSE()], Estimate(estimate), Field(truth), mask)[0]["rmse"] == pytest.approx(1e-4, rel=1e-6)


def test_a_metric_that_raises_costs_its_own_scores_alone() -> None:
    class Raises(RMSE):
        name = "raises"

        def score(self, estimate, truth, where, mask):
            raise ZeroDivisionError("no")

    class Text(RMSE):
        name = "text"

        def score(self, estimate, truth, where, mask):
            return "about 3"

    mask = np.array([[True, False]])
    scores, errors = score_all([Raises(), RMSE(), Text()], Estimate(np.ones((1, 2))), Field(np.zeros((1, 2))), mask)
    assert scores == {"rmse": 1.0, "rmse.unobserved": 1.0}
    assert errors["raises"] == "ZeroDivisionError: no"
    assert "'about 3'" in errors["text"]


def test_a_metric_can_change_nothing_but_its_own_score() -> None:
    class Vandal(RMSE):
        name = "vandal"

        def applies_to(self, field):
            field.values.setflags(write=True)
            field.values[:] = 0
            return True

        def score(self, estimate, truth, where, mask):
            object.__setattr__(truth, "values", 0 * truth.values)
            object.__setattr__(estimate, "mean", truth.values)
            return 0.0

    field, estimate = Field(np.full((2, 2), 3.0)), np.ones((2, 2))
    scores, _ = score_all([Vandal(), RMSE()], Estimate(estimate), field, np.eye(2, dtype=bool))
    assert (scores["vandal"], scores["rmse"]) == (0.0, 2.0)
    assert (field.values == 3).all()
    assert (estimate == 1).all()
