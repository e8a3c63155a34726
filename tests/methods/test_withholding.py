"""What methods withhold to choose their settings: fibers where fibers are observed, as far as they exist."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import uniform_filter

from fieldbench import NullReport, Observation, as_estimate
from fieldbench_methods import dineof, withholding
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.lrtc import LRTC, solve
from fieldbench_methods.self_supervised import complete
from fieldbench_methods.tv import TotalVariation
from fieldbench_methods.withholding import Imitation, box, error, imitations, withhold, withhold_lines

SHAPE = (8, 7, 6)


def columns(depths, rate=0.5, axis=2):
    """Whole columns over a sea floor, along any axis; ``depths``: of how many entries a column may consist."""
    rng = np.random.default_rng(1)
    valid = np.arange(SHAPE[2]) < rng.integers(*depths, size=(*SHAPE[:2], 1), endpoint=True)
    mask = valid & (rng.random((*SHAPE[:2], 1)) < rate)
    valid, mask = (np.moveaxis(part, 2, axis) for part in (valid, mask))
    return Observation(rng.normal(size=mask.shape), mask, valid=valid)


def by_rng(observation, share, seed):
    return withhold(observation.mask, share, np.random.default_rng(seed), observation.valid)


def are_whole(withheld, observation, axis=2):
    """Whether each column is withheld as far as it was observed, or not at all."""
    return np.array_equal(withheld, withheld.any(axis=axis, keepdims=True) & observation.mask)


@pytest.mark.parametrize(
    ("choose", "axis"), [(by_rng, 2), (withhold_lines, 2), (withhold_lines, 0), (withhold_lines, 1)]
)
@pytest.mark.parametrize("depths", [(1, 6), (6, 6), (3, 5)])
def test_whole_columns_are_withheld(choose, axis, depths):
    observation = columns(depths, axis=axis)
    withheld = choose(observation, 0.25, 3)
    assert are_whole(withheld, observation, axis)
    assert withheld.any(axis=axis).sum() == round(0.25 * observation.mask.any(axis=axis).sum())


@pytest.mark.parametrize("choose", [by_rng, withhold_lines])
def test_single_entries_are_withheld_where_single_ones_are_missing(choose):
    observation = columns((1, 6))
    mask = observation.mask.copy()
    mask[tuple(np.argwhere(mask)[0])] = False  # it exists, and is not observed
    withheld = choose(observation.replaced(observation.values, mask), 0.25, 3)
    assert withheld.sum() == round(0.25 * mask.sum())


def test_all_that_exists_is_withheld_entry_by_entry_for_total_variation():
    observation = columns((1, 6), rate=2.0)
    assert withhold_lines(observation, 0.25, 3).sum() == round(0.25 * observation.mask.sum())


@pytest.mark.parametrize(
    ("module", "method"),
    [
        (withholding, Harmonic()),
        (withholding, Biharmonic()),
        (dineof, dineof.Dineof(iterations=2)),
        (solve, LRTC(iterations=2)),
    ],
)
def test_methods_say_where_the_field_exists(module, method, monkeypatch):
    observation, seen = columns((1, 6)), []

    def watched(*arguments):
        seen.append(withhold(*arguments))
        return seen[-1]

    monkeypatch.setattr(module, "withhold", watched)
    made = method.complete(observation)
    assert np.isfinite(as_estimate(made).mean).all()
    assert [are_whole(withheld, observation) for withheld in seen] == [True]


def test_a_weight_of_total_variation_is_chosen_on_whole_columns():
    observation, seen = columns((1, 6)), []

    def fit(problems, device, share):
        seen.extend(problem.mask for problem in problems)
        return [np.zeros(SHAPE) for _ in problems]

    complete(fit, [observation], [0], "cpu", [NullReport()], "auto", TotalVariation())
    withheld = observation.mask & ~seen[0]
    assert withheld.any()
    assert are_whole(withheld, observation)


def test_the_last_axis_of_columns_teaches_dineof_nothing(monkeypatch):
    tried = set()

    def watched(values, mask, withheld, axis, *rest):
        tried.add(axis)
        return 1.0, 1

    monkeypatch.setattr(dineof, "best_modes", watched)
    dineof.Dineof(iterations=2).complete(columns((3, 5)), seed=0, device="cpu", report=NullReport())
    assert tried == {0, 1}


def clouded(shape=(12, 30, 30)):
    """Maps with a cloud of a third of their area each, somewhere else every day."""
    rng, observed = np.random.default_rng(4), np.ones(shape, dtype=bool)
    for day in observed:
        x, y = rng.integers(0, 13, size=2)
        day[x : x + 17, y : y + 17] = False
    return observed


def test_scattered_gaps_are_imitated_by_single_entries_alone():
    observed = np.random.default_rng(0).random((30, 30)) < 0.3
    (only,) = imitations(observed, ~observed, 50, np.random.default_rng(1))
    assert only.weight == 1
    assert len(only.validation) == 50


@pytest.mark.parametrize("observed", [clouded(), np.repeat(np.arange(12) % 3 > 0, 900).reshape(12, 30, 30)])
def test_clouds_and_missing_maps_are_imitated_by_copies_of_themselves(observed):
    trials = imitations(observed, ~observed, 600, np.random.default_rng(1))
    assert sum(trial.weight for trial in trials) == pytest.approx(1)
    assert sum(trial.weight for trial in trials[1:]) > 0.5
    at = np.flatnonzero(observed)
    for trial in trials:
        assert not np.intersect1d(trial.kept, trial.validation).size
        assert observed.ravel()[at[trial.validation]].all()
    # Whoever is judged in a copy of a cloud has fewer observed entries around than in a clear sky.
    around = [kept_nearby(observed, trial) for trial in trials]
    assert max(around[1:]) < 0.8 * around[0]


def kept_nearby(observed, trial):
    kept = np.zeros(observed.size)
    kept[np.flatnonzero(observed)[trial.kept]] = 1
    sums = uniform_filter(kept.reshape(observed.shape), 5, mode="constant")
    return sums.ravel()[np.flatnonzero(observed)[trial.validation]].mean()


def test_the_error_is_a_geometric_mean_of_those_of_the_imitations():
    values = np.array([[0.0], [2.0], [0.0], [8.0]])
    trials = [Imitation(np.array([0]), np.array([1]), 0.25), Imitation(np.array([2]), np.array([3]), 0.75)]
    found = error(trials, np.zeros((4, 2)), values, lambda points, some, targets: some)
    assert found == pytest.approx(2**0.25 * 8**0.75)


def test_a_box_has_the_share_of_gaps_of_the_field():
    observed = np.ones((40, 60), dtype=bool)
    observed[:, ::2] = False
    part = box(observed, ~observed, 0.25, np.random.default_rng(0))
    assert observed[part].shape == (20, 30)
    assert observed[part].mean() == pytest.approx(0.5)
    assert observed[box(observed, ~observed, 2.0, np.random.default_rng(0))].shape == observed.shape
