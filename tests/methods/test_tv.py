"""Total variation: definition against loops, gradient against autograd, and the choice of the weight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from fieldbench import NullReport, Observation
from fieldbench.errors import RequestError
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.self_supervised import complete
from fieldbench_methods.tnn import TNN
from fieldbench_methods.tv import TotalVariation
from fieldbench_methods.tv.penalty import FORMS, Smoothness, variation, variation_gradient
from fieldbench_methods.withholding import withhold_lines


def random_field(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def second_order_by_loops(x):
    """Appendix K of the paper, slice by slice, squared once."""
    total = 0.0
    for k in range(x.shape[2]):
        for i, j in itertools.product(range(1, x.shape[0] - 1), range(1, x.shape[1] - 1)):
            dx = x[i + 1, j, k] - 2 * x[i, j, k] + x[i - 1, j, k]
            dy = x[i, j + 1, k] - 2 * x[i, j, k] + x[i, j - 1, k]
            dxy = (x[i + 1, j + 1, k] - x[i + 1, j - 1, k] - x[i - 1, j + 1, k] + x[i - 1, j - 1, k]) / 4
            total += np.sqrt(dx**2 + dy**2 + 2 * dxy**2)
    return total / x.size


def test_second_order_is_appendix_k():
    field = random_field((5, 6, 3))
    computed = variation(torch.from_numpy(field[None]), "second-order", (0, 1))
    assert computed.item() == pytest.approx(second_order_by_loops(field))


def test_first_order_and_squared_by_numpys_differences():
    field = random_field((5, 6, 3))
    batch = torch.from_numpy(field[None])
    first = sum(np.abs(np.diff(field, axis=axis)).sum() for axis in range(3)) / field.size
    squared = sum((np.diff(field, n=2, axis=axis) ** 2).sum() for axis in (0, 2)) / field.size
    assert variation(batch, "first-order", (0, 1, 2)).item() == pytest.approx(first)
    assert variation(batch, "squared", (0, 2)).item() == pytest.approx(squared)


SHAPES = [
    ((7,), (0,)),
    ((5, 6), (0, 1)),
    ((5, 6), (1,)),
    ((4, 5, 6), (0, 1)),
    ((4, 5, 6), (2, 0)),
    ((4, 3, 4, 5), (0, 1, 3)),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_gradient_is_autograds(form, shape, axes):
    field = random_field(shape, seed=1)
    batch = torch.from_numpy(field[None]).requires_grad_()
    (expected,) = torch.autograd.grad(variation(batch, form, axes).sum(), batch)
    np.testing.assert_allclose(variation_gradient(field, form, axes), expected[0].numpy(), atol=1e-12)


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("shape", "axes"), [*SHAPES, ((9, 20), (0, 1)), ((2, 6, 5), (0, 1)), ((3, 7, 1), (2, 1))])
def test_the_pull_on_a_network_is_autograds(form, shape, axes, bounded):
    pytest.importorskip("numba")
    from fieldbench_methods.tv.slope import Pull

    pull = Pull(shape, bounded, Smoothness(form, axes, 0.3))
    for seed in (1, 2):  # again: nothing is left of the time before
        field = random_field(shape, seed).astype(np.float32)
        field.reshape(-1)[:3] = 0
        batch = torch.from_numpy(field.astype(float)[None]).requires_grad_()
        penalty = 0.3 * variation(batch.tanh() if bounded else batch, form, axes).sum()
        expected = torch.autograd.grad(penalty, batch)[0][0].numpy() + 1.5
        slope = np.full(shape, 1.5, np.float32)
        pull.add_to(slope, field)
        np.testing.assert_allclose(slope, expected, atol=2e-6)


def test_definition_passes_gradcheck():
    batch = torch.from_numpy(random_field((2, 4, 4, 3))).requires_grad_()
    for form in FORMS:
        assert torch.autograd.gradcheck(lambda given, form=form: variation(given, form, (0, 1)), batch, fast_mode=True)


@pytest.mark.parametrize("form", FORMS)
def test_a_flat_field_is_pulled_nowhere(form):
    batch = torch.full((1, 4, 5, 3), 2.5, requires_grad=True)
    (slope,) = torch.autograd.grad(variation(batch, form, (0, 1)).sum(), batch)
    assert torch.equal(slope, torch.zeros_like(slope))
    assert not variation_gradient(np.full((4, 5, 3), 2.5), form, (0, 1)).any()


def test_a_plane_has_no_second_order_variation():
    x, y = np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij")
    plane = torch.from_numpy((2 * x - 3 * y)[None])
    for form in ("second-order", "squared"):
        assert variation(plane, form, (0, 1)).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_axes_too_short_for_a_difference_do_not_count(form):
    field = random_field((1, 2, 6))
    batch = torch.from_numpy(field[None])
    assert variation(batch, form, (0,)).item() == 0
    assert not variation_gradient(field, form, (0,)).any()


def test_axes_by_default_and_by_hand():
    assert TotalVariation().along(3) == (0, 1)
    assert TotalVariation().along(1) == (0,)
    assert TotalVariation(form="squared").along(4) == (0, 1, 2, 3)
    assert TotalVariation(axes=2).along(3) == (2,)
    for axes in ((0, 3), (1, 1), ()):
        with pytest.raises(ValueError, match="different numbers from 0 to 2"):
            (TAP() + TotalVariation(axes=axes)).check_shape((20, 20, 20))


def observing(mask, valid=None):
    return Observation(np.zeros(mask.shape), mask, valid=valid)


def test_whole_fibers_are_withheld_from_fibers():
    mask = np.zeros((6, 7, 5), dtype=bool)
    mask[np.random.default_rng(0).random((6, 7)) < 0.5] = True
    withheld = withhold_lines(observing(mask), 0.2, seed=1)
    lines = withheld.any(axis=2)
    np.testing.assert_array_equal(withheld, np.repeat(lines[:, :, None], 5, axis=2))
    assert lines.sum() == round(0.2 * mask[:, :, 0].sum())
    assert not (withheld & ~mask).any()


def test_single_entries_are_withheld_from_scattered_ones():
    mask = np.random.default_rng(0).random((6, 7, 5)) < 0.3
    withheld = withhold_lines(observing(mask), 0.2, seed=1)
    assert withheld.sum() == round(0.2 * mask.sum())
    assert not (withheld & ~mask).any()
    assert not np.array_equal(withheld, withhold_lines(observing(mask), 0.2, seed=2))


@pytest.mark.parametrize("shape", [(3, 4), (1, 12, 14), (12, 14, 1), (1, 7)])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_single_entries_are_withheld_where_everything_is_observed(shape, share):
    withheld = withhold_lines(observing(np.ones(shape, dtype=bool)), share, seed=1)
    assert withheld.sum() == round(share * withheld.size)


def test_the_weight_that_predicts_withheld_entries_best_is_taken():
    mask = np.random.default_rng(0).random((6, 7, 5)) < 0.5
    observation = Observation(np.where(mask, 1.0, np.nan), mask)
    modifier = TotalVariation()
    best, used = modifier.candidates[3], []

    def fit(problems, device, share):
        used.append([(problem.smoothness.weight, int(problem.mask.sum()), share) for problem in problems])
        return [np.ones(mask.shape) + abs(problem.smoothness.weight - best) for problem in problems]

    complete(fit, [observation], [0], "cpu", [NullReport()], "auto", modifier)
    search, final = used
    assert [weight for weight, *_ in search] == list(modifier.candidates)
    assert {count for _, count, _ in search} == {int(mask.sum()) - round(0.2 * mask.sum())}
    assert final == [(best, int(mask.sum()), 1.0)]


class Last:
    """A report that keeps the diagnostics of the last step."""

    def due(self, step):
        return True

    def __call__(self, step, estimate, **diagnostics):
        self.diagnostics = diagnostics


@pytest.mark.parametrize("method", [TNN(epochs=2), TAP(epochs=2, window=3, stride=2)])
def test_the_weight_is_reported(method):
    mask = np.random.default_rng(0).random((6, 7, 5)) < 0.5
    observation, report = Observation(np.where(mask, random_field(mask.shape), np.nan), mask), Last()
    (method + TotalVariation(weight=0.25)).complete(observation, seed=0, device="cpu", report=report)
    assert report.diagnostics["tv_weight"] == 0.25


def test_too_few_entries_to_choose_a_weight():
    mask = np.zeros((20, 20, 20), dtype=bool)
    mask[3, 4, 5] = True
    observation = Observation(np.where(mask, 1.0, np.nan), mask)
    with pytest.raises(RequestError, match=r"too little is observed.*\+tv\[weight="):
        (TAP(epochs=1) + TotalVariation()).complete(observation)


@pytest.mark.parametrize("method", [TAP(epochs=150), MHTAP(epochs=150, heads=(1, 2, 1)), TNN(epochs=400)])
def test_it_smooths_every_method(method):
    grids = np.meshgrid(*(np.linspace(0, 1, 9),) * 3, indexing="ij")
    field = np.sin(3 * grids[0]) + grids[1] * grids[2]
    mask = np.random.default_rng(0).random(field.shape) < 0.3
    observation = Observation(np.where(mask, field, np.nan), mask)
    rough = []
    for modified in (method, method + TotalVariation(weight=0.3)):
        estimate = np.asarray(modified.complete(observation))
        rough.append(variation(torch.from_numpy(estimate[None]), "second-order", (0, 1)).item())
    assert rough[1] < 0.7 * rough[0]


def test_the_chosen_weight_is_the_same_with_companions():
    field = random_field((8, 7, 6))
    observations = []
    for seed in (0, 1):
        mask = np.random.default_rng(seed).random(field.shape) < 0.4
        observations.append(Observation(np.where(mask, field, np.nan), mask))
    method = TNN(epochs=12) + TotalVariation()
    together = method.complete_batch(observations, seeds=[4, 5], device="cpu", reports=[NullReport()] * 2)
    alone = method.complete(observations[1], seed=5)
    np.testing.assert_array_equal(together[1], alone)
