"""Selection: which reported estimate counts under each rule, and what the rule may look at."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench.estimate import Estimate
from fieldbench.field import Field
from fieldbench.metric import RMSE, Metric
from fieldbench.selection import RULES, Final, Holdout, Oracle, Recorder, Selection

TRUTH = Field(np.zeros((2, 4)))
MASK = np.array([[True, True, True, True], [False, False, False, False]])
WITHHELD = np.array([[True, False, False, False], [False, False, False, False]])
MEASURED = np.where(MASK, 0.1, np.nan)  # the noise is 0.1 everywhere


def constant(value: float) -> np.ndarray:
    return np.full((2, 4), value)


def recorder(rule: Selection, metric: Metric | None = None, withheld: np.ndarray | None = None) -> Recorder:
    return Recorder(rule, metric or RMSE(), TRUTH, withheld, MEASURED)


def test_final_takes_what_the_method_returns() -> None:
    record = recorder(Final())
    record(100, Estimate(constant(0.0)), {})
    chosen, diagnostics = record.choose(Estimate(constant(5.0)))
    np.testing.assert_array_equal(chosen.mean, constant(5.0))
    assert "selected_step" not in diagnostics


def test_oracle_takes_the_estimate_nearest_the_truth() -> None:
    record = recorder(Oracle())
    for step, value in [(25, 3.0), (50, 1.0), (75, 2.0)]:
        record(step, Estimate(constant(value)), {})
    chosen, diagnostics = record.choose(Estimate(constant(2.5)))
    np.testing.assert_array_equal(chosen.mean, constant(1.0))
    assert diagnostics["selected_step"] == 50
    assert diagnostics["curve"] == {"step": [25, 50, 75], "rmse": [3.0, 1.0, 2.0]}


def test_holdout_looks_at_withheld_measurements_only() -> None:
    # At step 25 the estimate is perfect but for the withheld entry; at 50 it is poor but fits that entry.
    perfect, fitting = constant(0.0), constant(7.0)
    perfect[0, 0], fitting[0, 0] = 3.0, 0.1
    record = recorder(Holdout(), withheld=WITHHELD)
    record(25, Estimate(perfect), {})
    record(50, Estimate(fitting), {})
    chosen, diagnostics = record.choose(Estimate(perfect))
    np.testing.assert_array_equal(chosen.mean, fitting)
    assert diagnostics["selected_step"] == 50
    assert diagnostics["curve"]["withheld"] == pytest.approx([2.9, 0.0])


@pytest.mark.parametrize("rule", [Oracle(), Holdout()])
def test_the_final_estimate_competes_and_wins_ties(rule: Selection) -> None:
    record = recorder(rule, withheld=WITHHELD if rule.withholds else None)
    record(25, Estimate(constant(1.0)), {})
    assert record.choose(Estimate(constant(0.5)))[1]["selected_step"] == "final"
    assert record.choose(Estimate(constant(1.0)))[1]["selected_step"] == "final"


@pytest.mark.parametrize("rule", [Oracle(), Holdout()])
def test_a_method_that_reports_nothing_has_its_final_estimate(rule: Selection) -> None:
    chosen, diagnostics = recorder(rule, withheld=WITHHELD if rule.withholds else None).choose(Estimate(constant(4.0)))
    np.testing.assert_array_equal(chosen.mean, constant(4.0))
    assert diagnostics == {"selected_step": "final"}


def test_an_estimate_that_is_not_finite_is_never_chosen() -> None:
    record = recorder(Oracle())
    record(25, Estimate(constant(np.nan)), {})
    record(50, Estimate(constant(2.0)), {})
    assert record.choose(Estimate(constant(3.0)))[1]["selected_step"] == 50


def test_an_estimate_with_a_hole_is_never_chosen_however_well_it_fits() -> None:
    record = recorder(Holdout(), withheld=WITHHELD)
    holed = constant(0.1)
    holed[-1, -1] = np.nan
    record(25, Estimate(holed), {})
    record(50, Estimate(constant(0.2)), {})
    chosen, diagnostics = record.choose(Estimate(constant(3.0)))
    assert diagnostics["selected_step"] == 50
    np.testing.assert_array_equal(chosen.mean, constant(0.2))


def test_a_metric_for_which_higher_is_better_is_maximised() -> None:
    class Score(Metric):
        """Ten minus the error."""

        name = "score"
        lower_is_better = False

        def score(self, estimate: Estimate, truth: Field, where: np.ndarray, mask: np.ndarray) -> float:
            return float(10 - np.abs(estimate.mean - truth.values)[where].max())

    record = recorder(Oracle(), Score())
    for step, value in [(25, 3.0), (50, 1.0), (75, 2.0)]:
        record(step, Estimate(constant(value)), {})
    assert record.choose(Estimate(constant(4.0)))[1]["selected_step"] == 50


def test_reports_are_copied() -> None:
    record = recorder(Oracle())
    estimate = constant(1.0)
    record(25, Estimate(estimate), {})
    estimate[:] = 9.0
    np.testing.assert_array_equal(record.choose(Estimate(constant(2.0)))[0].mean, constant(1.0))


def test_diagnostics_become_curves() -> None:
    record = recorder(Final())
    record(0, Estimate(constant(1.0)), {"loss": 0.5})
    record(100, Estimate(constant(0.5)), {"loss": 0.25})
    assert record.choose(Estimate(constant(0.0)))[1]["curve"]["loss"] == [0.5, 0.25]


def test_curves_belong_together_where_a_diagnostic_is_reported_at_some_steps_only() -> None:
    record = recorder(Final())
    for step, diagnostics in ((0, {}), (100, {"support": 0.5}), (200, {}), (300, {"support": 0.25, "loss": 7.0})):
        record(step, Estimate(constant(1.0)), diagnostics)
    curve = record.choose(Estimate(constant(0.0)))[1]["curve"]
    assert curve["step"] == [0, 100, 200, 300]
    np.testing.assert_array_equal(curve["support"], [np.nan, 0.5, np.nan, 0.25])
    np.testing.assert_array_equal(curve["loss"], [np.nan, np.nan, np.nan, 7.0])


def test_entries_that_do_not_exist_do_not_count() -> None:
    valid = np.ones((2, 4), dtype=bool)
    valid[1, 3] = False
    record = Recorder(Oracle(), RMSE(), Field(np.zeros((2, 4)), valid=valid), None, MEASURED)
    wild = constant(0.5)
    wild[1, 3] = 1e6
    record(25, Estimate(wild), {})
    assert record.choose(Estimate(constant(1.0)))[1]["selected_step"] == 25


def test_only_the_oracle_peeks() -> None:
    assert {name for name, rule in RULES.items() if rule.uses_truth} == {"oracle"}
    assert {name for name, rule in RULES.items() if rule.withholds} == {"holdout"}
