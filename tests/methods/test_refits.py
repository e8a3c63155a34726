"""Modifiers that have a method fitted several times: what they withhold, ask for and make of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fieldbench
from fieldbench import Estimate, Observation, RequestError
from fieldbench.calibration import Fold, calibrate, calibrated
from fieldbench.execution import Options
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry, Sources
from fieldbench.sampler import RandomEntries
from fieldbench.session import Session
from fieldbench.store.run import read_rows
from fieldbench_methods.conformal import Conformal
from fieldbench_methods.ensemble import Ensemble
from tests.here import run

SHAPE = (40, 50)
DATASET = "ssf-synthetic[shape=8x8x6]"


class Shaken(fieldbench.Method):
    """Zero, moved by its seed."""

    name = "shaken"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return np.full(observation.shape, np.random.default_rng(seed).normal())


def scene(seed=0, floor=None):
    """White noise that is observed at half of its entries, and a fit of a method that knows its mean of 0."""
    rng = np.random.default_rng(seed)
    field = rng.normal(size=SHAPE)
    field = field if floor is None else np.exp(field)
    observation = Observation(field, rng.random(SHAPE) < 0.5, log_floor=floor)
    middle = 0.0 if floor is None else 1.0

    def fit(observation, seed):
        return Estimate(np.full(observation.shape, middle))

    def withhold(share, number):
        return RandomEntries().withhold(observation.mask, share, np.random.default_rng(number))

    return field, observation, fit, withhold


def records(*methods, trials=2, **request):
    registry = Registry(Sources(classes=(Shaken,)))
    plan = Plan(
        Request(methods=list(methods), datasets="ssf-synthetic[shape=8x8x6]", trials=trials, **request), registry
    )
    return {(trial.cell.method, trial.number): run([trial], registry)[0] for trial in plan}


@pytest.mark.parametrize("floor", [None, 1e-6])
def test_intervals_of_independent_entries_cover_as_promised(floor):
    field, observation, fit, withhold = scene(floor=floor)
    made = Conformal(level=0.8).complete(observation, fit, withhold, 0).checked(observation.valid)
    for level in (0.5, 0.8, 0.9, 0.95):
        low, high = made.interval(level)
        share = np.mean(((low <= field) & (field <= high))[~observation.mask])
        # Half a thousand distinct withheld entries and a thousand others: standard errors of at most .03 together.
        assert share == pytest.approx(level, abs=0.06)
    assert made.distribution == ("normal" if floor is None else "lognormal")
    np.testing.assert_allclose(made.deviation, 1.0, atol=0.15)


def test_no_fold_is_fitted_to_what_it_withholds_and_the_mean_stays_the_methods():
    _, observation, fit, withhold = scene()
    asked = []

    def noted(seen, seed):
        asked.append(seen.mask)
        return fit(seen, seed)

    made = Conformal(folds=3, share=0.2).complete(observation, noted, withhold, 0)
    assert len(asked) == 4
    for number, mask in enumerate(asked[:3]):
        np.testing.assert_array_equal(mask, observation.mask & ~withhold(0.2, number))
    np.testing.assert_array_equal(made.mean, fit(observation, 0).mean)


@pytest.mark.parametrize(("share", "folds", "single"), [(0.1, 3, 2), (0.1, 5, 4), (0.15, 5, 4), (0.1, 2, 2)])
def test_the_last_fit_lacks_at_once_what_the_others_lack_up_to_a_third(share, folds, single):
    _, observation, fit, withhold = scene()
    asked = []

    def noted(seen, seed):
        asked.append(observation.mask & ~seen.mask)
        return fit(seen, seed)

    Conformal(folds=folds, share=share).complete(observation, noted, withhold, 0)
    assert len(asked) == folds + 1
    for number, withheld in enumerate(asked[:single]):
        np.testing.assert_array_equal(withheld, withhold(share, number))
    if single < folds:
        some = asked[: int(1 / 3 / share)][:single]
        np.testing.assert_array_equal(asked[single], np.any(some, axis=0))


@pytest.mark.parametrize("power", [0.0, 0.5, 2.0])
def test_intervals_are_those_of_the_fit_on_all_where_errors_fall_with_a_power_of_the_entries(power):
    """Every fit errs by the same pattern, less the more it observes, so that the errors of the last fit are known."""
    _, observation, _, withhold = scene()
    rng = np.random.default_rng(8)
    error, spread = rng.normal(size=SHAPE), np.exp(rng.normal(size=SHAPE))

    def fit(seen, seed):
        return Estimate(observation.filled() + spread * error * float(seen.mask.sum()) ** -power, spread)

    folds = [withhold(0.05, number) for number in range(4)]
    at_once = np.any(folds, axis=0)
    calibration = calibrate(
        fit(observation, 0),
        observation,
        [Fold(fold, fit(observation.without(fold), 0).at(fold)) for fold in folds],
        together=Fold(at_once, fit(observation.without(at_once), 0).at(at_once)),
    )
    assert calibration.exponent is None
    on_all = np.abs(np.concatenate([error[fold] for fold in folds])) * float(observation.mask.sum()) ** -power
    # An entry of two folds counts twice in one mean and once in the other.
    np.testing.assert_allclose(calibration.ratios, np.sort(on_all), rtol=0.01)


def test_the_methods_own_deviation_is_scaled_where_it_has_one():
    field, observation, _, withhold = scene()
    shape = np.linspace(0.5, 2.0, SHAPE[1]) * np.ones(SHAPE)
    observation = observation.replaced(field * shape)

    def fit(seen, seed):
        return Estimate(np.zeros(SHAPE), 5 * shape)  # right in its pattern, five times too large

    made = Conformal().complete(observation, fit, withhold, 0)
    np.testing.assert_allclose(made.deviation / shape, np.median(made.deviation / shape))
    assert np.median(made.deviation / shape) == pytest.approx(1.0, abs=0.15)


def test_errors_that_grow_with_distance_make_wider_intervals_farther_out():
    rng = np.random.default_rng(1)
    field = rng.normal(size=(60, 60)).cumsum(axis=0).cumsum(axis=1)
    mask = rng.random(field.shape) < 0.1
    mask[:20, :20] = False
    mask[0, 0] = True
    observation = Observation(field, mask)

    def fit(seen, seed):
        from fieldbench_methods.interpolation import Nearest

        return Estimate(Nearest().complete(seen, seed=seed, device="cpu", report=fieldbench.NullReport()))

    def withhold(share, number):
        return RandomEntries().withhold(mask, share, np.random.default_rng(number))

    made = Conformal().complete(observation, fit, withhold, 0)
    assert made.deviation[12, 12] > 2 * np.median(made.deviation[30:, 30:])


def test_too_few_withheld_entries_are_said():
    _, observation, fit, _ = scene()
    some = np.zeros(SHAPE, dtype=bool)
    some.flat[np.flatnonzero(observation.mask)[:8]] = True
    with pytest.raises(RequestError, match=r"8 withheld entries .* too few for level=0\.9; raise folds or share"):
        Conformal().complete(observation, fit, lambda share, number: some, 0)
    calibration = calibrate(fit(observation, 0), observation, [Fold(some, fit(observation, 0).at(some))])
    assert set(calibrated(fit(observation, 0), observation, calibration).quantiles) == {0.25, 0.75}


def test_an_ensemble_has_members_of_different_seeds_and_their_mean():
    _, observation, _, withhold = scene()
    seeds = []

    def fit(seen, seed):
        seeds.append(seed)
        return Estimate(np.full(SHAPE, float(len(seeds))))

    made = Ensemble(members=4).complete(observation, fit, withhold, 7)
    assert len(set(seeds)) == 4
    np.testing.assert_array_equal(made.mean, np.full(SHAPE, 2.5))
    np.testing.assert_array_equal(made.members[:, 0, 0], [1, 2, 3, 4])


def test_a_method_without_chance_has_no_ensemble():
    _, observation, fit, withhold = scene()
    with pytest.raises(RequestError, match="every seed gives the same"):
        Ensemble().complete(observation, fit, withhold, 0)


def test_trials_are_scored_with_the_intervals_and_count_every_fit():
    found = records("nearest", "nearest+conformal")
    for number in (0, 1):
        plain, conformal = (found[name, number] for name in ("nearest", "nearest+conformal"))
        assert plain.status == conformal.status == "ok"
        assert conformal.metrics["rmse"] == plain.metrics["rmse"]
        assert conformal.metrics["crps"] != plain.metrics["crps"]
        assert "coverage90" in conformal.metrics
        assert "coverage90" not in plain.metrics
        assert sum(conformal.diagnostics["pit"]) == pytest.approx(1.0, abs=1e-5)
        assert "pit" not in plain.diagnostics
        assert conformal.diagnostics["fits"] == 6


def test_an_ensemble_can_be_calibrated():
    found = records("shaken+ensemble[members=3]+conformal[folds=2,share=0.3]", trials=1)
    (record,) = found.values()
    assert record.status == "ok"
    assert record.diagnostics["fits"] == 9
    assert {"crps", "coverage90", "width90"} <= record.metrics.keys()


def test_what_does_not_go_together_is_refused():
    registry = Registry()
    with pytest.raises(RequestError, match=r"\+conformal stands behind all others; write \+tv before it"):
        registry.method("tap+conformal+tv")
    with pytest.raises(RequestError, match="given twice"):
        registry.method("nearest+conformal+conformal")
    with pytest.raises(RequestError, match="use --select final"):
        Plan(Request(methods="tap+conformal", datasets="ssf-synthetic", select="holdout"), registry)


def test_processes_of_their_own_change_nothing(tmp_path):
    found = fieldbench.run(["nearest+conformal"], DATASET, trials=1, jobs=1, out=tmp_path / "run").frame()
    (expected,) = records("nearest+conformal", trials=1).values()
    assert dict(found.iloc[0][list(expected.metrics)]) == expected.metrics


class Leaves(Shaken):
    """It ends its process the first time that it is fitted."""

    name = "leaves"
    marker: str = fieldbench.parameter("", "a file that is there once it has left")

    def complete(self, observation, *, seed, device, report):
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os._exit(9)
        return super().complete(observation, seed=seed, device=device, report=report)


class Stubborn(fieldbench.Refit):
    """It tries again whatever happens."""

    name = "stubborn"
    revision = "1"

    def complete(self, observation, fit, withhold, seed):
        try:
            return fit(observation, seed)
        except BaseException:
            return fit(observation, seed)


def test_a_trial_whose_method_has_gone_is_over_for_its_modifier_too(tmp_path):
    def rows(folder):
        request = Request(
            methods=[f"leaves[marker={tmp_path / 'left'}]+stubborn", "nearest"], datasets=DATASET, trials=2
        )
        sources, options = Sources(classes=(Leaves, Stubborn)), Options(device="cpu", jobs=1)
        Session(request, sources=sources, options=options, out=tmp_path / folder).run()
        return {row["key"]: row for row in read_rows(tmp_path / folder)}

    found, undisturbed = rows("one"), rows("two")
    assert sorted(row["status"] for row in found.values()) == ["crashed", "ok", "ok", "ok"]
    assert {row["status"] for row in undisturbed.values()} == {"ok"}
    for key, row in found.items():
        if row["status"] == "ok":
            assert row["metrics"] == undisturbed[key]["metrics"]


@pytest.mark.parametrize("alike", [True, False])
def test_a_fiber_is_worth_as_many_errors_as_are_independent(alike):
    rng = np.random.default_rng(3)
    mask = np.zeros((30, 30, 40), dtype=bool)
    mask[rng.random((30, 30)) < 0.4] = True
    values = np.broadcast_to(rng.normal(size=(30, 30, 1)), mask.shape) if alike else rng.normal(size=mask.shape)
    observation, withheld = Observation(values.copy(), mask), np.zeros(mask.shape, dtype=bool)
    withheld[tuple(np.argwhere(mask[..., 0])[:200].T)] = True
    known = Estimate(np.zeros(mask.shape), np.ones(mask.shape))
    calibration = calibrate(known, observation, [Fold(withheld, known.at(withheld))], [np.ones(8000)])
    assert calibration.units == 200
    # The variance of 200 numbers is known to a tenth.
    assert calibration.size == pytest.approx(200 if alike else 8000, rel=0.25)


def test_fibers_that_are_one_value_each_cover_as_promised():
    """Where a fiber says one thing, ten withheld fibers make the interval that ten numbers would make."""
    rng, found = np.random.default_rng(4), []
    for _ in range(400):
        mask = np.zeros((6, 7, 5), dtype=bool)
        mask.reshape(42, 5)[rng.permutation(42)[:21]] = True
        observation = Observation(np.broadcast_to(rng.normal(size=(6, 7, 1)), mask.shape).copy(), mask)
        zero, withheld = Estimate(np.zeros(mask.shape)), np.zeros(mask.shape, dtype=bool)
        withheld[tuple(np.argwhere(mask[..., 0])[:10].T)] = True
        made = calibrated(zero, observation, calibrate(zero, observation, [Fold(withheld, zero.at(withheld))]))
        low, high = made.interval(0.5)
        truth = rng.normal(size=1000)  # exchangeable with what was withheld
        found.append(np.mean((low[0, 0, 0] <= truth) & (truth <= high[0, 0, 0])))
    assert np.mean(found) == pytest.approx(6 / 11, abs=0.03)  # the sixth of ten in order: at least one half


@pytest.mark.parametrize("own", [False, True])
def test_the_scale_that_tells_more_of_the_errors_is_taken(own):
    """A deviation that varies by chance is left aside for the distance; one that errors follow is taken."""
    rng = np.random.default_rng(5)
    pattern = np.exp(rng.normal(size=SHAPE))
    observation = Observation(rng.normal(size=SHAPE) * (pattern if own else 1.0), rng.random(SHAPE) < 0.5)
    withheld = observation.mask & (rng.random(SHAPE) < 0.3)
    known = Estimate(np.zeros(SHAPE), pattern)
    calibration = calibrate(known, observation, [Fold(withheld, known.at(withheld))])
    assert (calibration.exponent is None) == own


@pytest.mark.parametrize(("count", "expected"), [(64, 64 / 4 / 2), (1000, 1000 / 10 / 2)])
def test_less_is_withheld_of_more(count, expected):
    scattered = (7 * np.arange(2000) % 2000).reshape(50, 40)
    observation, shares = Observation(np.zeros((50, 40)), scattered < count), []

    def withhold(share, number):
        shares.append(share)
        return RandomEntries().withhold(observation.mask, share, np.random.default_rng(number))

    Conformal(level=0.5).complete(observation, lambda seen, seed: Estimate(np.ones(seen.shape)), withhold, 0)
    assert shares == [pytest.approx(expected / count)] * 4
