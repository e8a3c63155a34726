"""What methods hold out to choose their settings: fibers where fibers are observed, as far as they exist."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import NullReport, Observation
from fieldbench_methods import dineof, smoothness
from fieldbench_methods.holdout import hold_out
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.lrtc import LRTC, solve
from fieldbench_methods.self_supervised import complete
from fieldbench_methods.tv import TotalVariation
from fieldbench_methods.tv.withholding import withheld

SHAPE = (8, 7, 6)


def columns(depths, rate=0.5, axis=2):
    """Whole columns over a sea floor, along any axis; ``depths``: of how many entries a column may consist."""
    rng = np.random.default_rng(1)
    valid = np.arange(SHAPE[2]) < rng.integers(*depths, size=(*SHAPE[:2], 1), endpoint=True)
    mask = valid & (rng.random((*SHAPE[:2], 1)) < rate)
    valid, mask = (np.moveaxis(part, 2, axis) for part in (valid, mask))
    return Observation(rng.normal(size=mask.shape), mask, valid=valid)


def by_rng(observation, share, seed):
    return hold_out(observation.mask, share, np.random.default_rng(seed), observation.valid)


def are_whole(held, observation, axis=2):
    """Whether each column is held out as far as it was observed, or not at all."""
    return np.array_equal(held, held.any(axis=axis, keepdims=True) & observation.mask)


@pytest.mark.parametrize(("choose", "axis"), [(by_rng, 2), (withheld, 2), (withheld, 0), (withheld, 1)])
@pytest.mark.parametrize("depths", [(1, 6), (6, 6), (3, 5)])
def test_whole_columns_are_held_out(choose, axis, depths):
    observation = columns(depths, axis=axis)
    held = choose(observation, 0.25, 3)
    assert are_whole(held, observation, axis)
    assert held.any(axis=axis).sum() == round(0.25 * observation.mask.any(axis=axis).sum())


@pytest.mark.parametrize("choose", [by_rng, withheld])
def test_single_entries_are_held_out_where_single_ones_are_missing(choose):
    observation = columns((1, 6))
    mask = observation.mask.copy()
    mask[tuple(np.argwhere(mask)[0])] = False  # it exists, and is not observed
    held = choose(observation.replaced(observation.values, mask), 0.25, 3)
    assert held.sum() == round(0.25 * mask.sum())


def test_all_that_exists_is_withheld_entry_by_entry_for_total_variation():
    observation = columns((1, 6), rate=2.0)
    assert withheld(observation, 0.25, 3).sum() == round(0.25 * observation.mask.sum())


@pytest.mark.parametrize(
    ("module", "method"),
    [
        (smoothness, Harmonic()),
        (smoothness, Biharmonic()),
        (dineof, dineof.Dineof(iterations=2)),
        (solve, LRTC(iterations=2)),
    ],
)
def test_methods_say_where_the_field_exists(module, method, monkeypatch):
    observation, seen = columns((1, 6)), []

    def watched(*arguments):
        seen.append(hold_out(*arguments))
        return seen[-1]

    monkeypatch.setattr(module, "hold_out", watched)
    assert np.isfinite(method.complete(observation, seed=0, device="cpu", report=NullReport())).all()
    assert [are_whole(held, observation) for held in seen] == [True]


def test_a_weight_of_total_variation_is_chosen_on_whole_columns():
    observation, seen = columns((1, 6)), []

    def fit(problems, device, share):
        seen.extend(problem.mask for problem in problems)
        return [np.zeros(SHAPE) for _ in problems]

    complete(fit, [observation], [0], "cpu", [NullReport()], "auto", TotalVariation())
    held = observation.mask & ~seen[0]
    assert held.any()
    assert are_whole(held, observation)


def test_the_last_axis_of_columns_teaches_dineof_nothing(monkeypatch):
    tried = set()

    def watched(values, mask, held, axis, *rest):
        tried.add(axis)
        return 1.0, 1

    monkeypatch.setattr(dineof, "best_modes", watched)
    dineof.Dineof(iterations=2).complete(columns((3, 5)), seed=0, device="cpu", report=NullReport())
    assert tried == {0, 1}
