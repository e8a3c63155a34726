"""TNN: sizes, the plain network against tensorly, the fast engine against the plain network."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorly
import torch

from fieldbench import NullReport, Observation
from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.scaling import Scaling
from fieldbench_methods.self_supervised import Problem, Relay
from fieldbench_methods.tnn import TNN
from fieldbench_methods.tnn.engine import TNNEngine
from fieldbench_methods.tnn.fit import fit_fast, fit_plain
from fieldbench_methods.tnn.layers import forward
from fieldbench_methods.tv.penalty import Smoothness, variation

SHAPE = (8, 9, 7)


def observe(shape=SHAPE, seed=0, rate=0.4, fibers=False):
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    field = sum(np.sin((2 + axis) * grid) for axis, grid in enumerate(grids))
    drawn = np.random.default_rng(seed).random((*shape[:-1], 1) if fibers else shape) < rate
    mask = np.broadcast_to(drawn, shape)
    return Observation(np.where(mask, field, np.nan), mask)


def problem_of(shape, seed=3, smoothness=None, fibers=False):
    observation = observe(shape, fibers=fibers)
    target = observation.filled(0.0) / 3
    return Problem(target, observation.mask, seed, Relay(NullReport(), Scaling(0.0, 1.0)), smoothness)


@pytest.mark.parametrize(
    ("shape", "sizes", "count"),
    [
        # Appendices I and J, where the second count is rounded to 6.5K.
        ((20, 20, 20), ((5, 5, 5), (10, 10, 10), (20, 20, 20)), 875),
        ((51, 51, 64), ((10, 10, 10), (25, 25, 32), (51, 51, 64)), 6418),
    ],
)
def test_published_networks(shape, sizes, count):
    network = TNN().network(shape)
    assert network.shapes == sizes
    assert network.parameter_count == count


def test_network_is_tensorlys():
    network = TNN().network(SHAPE)
    weights = network.normal(0)
    core, first, second = weights[0], weights[1:4], weights[4:]
    hidden = np.maximum(tensorly.tenalg.multi_mode_dot(core, first), 0)
    expected = np.tanh(tensorly.tenalg.multi_mode_dot(hidden, second))
    result = forward([torch.from_numpy(array[None]) for array in weights])[0].numpy()
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "fibers"),
    [(SHAPE, False), (SHAPE, True), ((9, 8), False), ((9, 8), True), ((5, 4, 6, 5), True), ((11,), False)],
)
@pytest.mark.parametrize("smoothness", [None, Smoothness("second-order", (0,), 0.2)], ids=["plain", "tv"])
def test_gradient_is_that_of_the_plain_network(shape, fibers, smoothness):
    network, problem = TNN().network(shape), problem_of(shape, smoothness=smoothness, fibers=fibers)
    initial = network.normal(1)
    engine = TNNEngine(network, initial, problem, Schedule(1, 1e-3))
    engine.step()
    weights = [torch.from_numpy(array[None]).requires_grad_() for array in initial]
    field = forward(weights)
    mask = torch.tensor(problem.mask)
    loss = (field[0][mask] - torch.tensor(problem.target, dtype=torch.float32)[mask]).square().mean()
    if smoothness is not None:
        loss = loss + smoothness.weight * variation(field, smoothness.form, smoothness.axes).sum()
    for gradient, expected in zip(engine.gradients, torch.autograd.grad(loss, weights), strict=True):
        expected = expected[0].numpy()
        np.testing.assert_allclose(gradient, expected, atol=2e-5 * np.abs(expected).max() + 1e-9)


@pytest.mark.parametrize("share_of_all", [False, True])
@pytest.mark.parametrize("fibers", [False, True], ids=["scattered", "fibers"])
def test_training_is_that_of_the_plain_network(share_of_all, fibers):
    network, problem = TNN().network(SHAPE), problem_of(SHAPE, fibers=fibers)
    schedule = Schedule(20, 4e-3, 0.01, share_of_all)
    fast = fit_fast(network, network.uniform, problem, schedule)
    (plain,) = fit_plain(network, network.uniform, [problem], schedule, "cpu")
    np.testing.assert_allclose(fast, plain, atol=1e-5)


def test_plain_batch_is_its_trials():
    network, problems = TNN().network(SHAPE), [problem_of(SHAPE, seed) for seed in (1, 2)]
    together = fit_plain(network, network.uniform, problems, Schedule(5, 4e-3), "cpu")
    (alone,) = fit_plain(network, network.uniform, problems[1:], Schedule(5, 4e-3), "cpu")
    np.testing.assert_allclose(together[1], alone, atol=1e-6)


def test_a_trial_does_not_depend_on_its_companions():
    method = TNN(epochs=10)
    observations = [observe(seed=seed) for seed in (1, 2, 3)]
    together = method.complete_batch(observations, seeds=[1, 2, 3], device="cpu", reports=[NullReport()] * 3)
    alone = method.complete(observations[2], seed=3)
    np.testing.assert_array_equal(together[2], alone)


def test_initial_weights_of_the_earlier_program():
    core, *factors = TNN().network((51, 51, 64)).normal(0)
    assert core.std() == pytest.approx(1, abs=0.1)
    for factor in factors:
        assert np.abs(factor).max() <= 1
        # The standard normal law truncated to [-1, 1] has variance 1 - 2 phi(1) / (2 Phi(1) - 1) = 0.291.
        assert factor.var() == pytest.approx(0.291, abs=0.06)


def test_both_trainings_learn():
    field = np.nan_to_num(observe(rate=2.0).values)
    observation = observe()
    for method in (TNN(epochs=1500), TNN(training="tnn", epochs=3000)):
        estimate = np.asarray(method.complete(observation))
        error = np.sqrt(np.mean((estimate - field)[observation.mask] ** 2))
        assert error < 0.2 * field.std()


def test_sizes_can_be_chosen_and_contradictions_are_named():
    assert TNN(core=3, hidden=(4, 5, 6)).network(SHAPE).shapes == ((3, 3, 3), (4, 5, 6), SHAPE)
    with pytest.raises(ValueError, match="core has 2 values, the field is 3-D"):
        TNN(core=(2, 2)).check_shape(SHAPE)


@pytest.mark.parametrize("sizes", [{"core": 0}, {"hidden": 0}, {"core": (3, 0, 2)}, {"hidden": (4, 4, -1)}])
def test_a_layer_without_units_is_refused(sizes):
    (name,) = sizes
    with pytest.raises(ValueError, match=f"tnn: {name} must be at least 1 along each axis"):
        TNN(**sizes).check_shape(SHAPE)


def test_without_numba_it_still_works(monkeypatch):
    observation = observe()
    fast = TNN(epochs=5).complete(observation, seed=1)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "fieldbench_methods.tnn.engine")
    plain = TNN(epochs=5).complete(observation, seed=1)
    assert "fieldbench_methods.tnn.engine" not in sys.modules
    np.testing.assert_allclose(fast, plain, atol=1e-5)


@pytest.mark.parametrize("field", [np.full(SHAPE, -3.0), np.zeros(SHAPE), np.full(SHAPE, 1e30), np.full(SHAPE, 1e-30)])
def test_edges_end_finite(field):
    for mask in (np.ones(SHAPE, dtype=bool), np.arange(504).reshape(SHAPE) == 7):
        observation = Observation(np.where(mask, field, np.nan), mask)
        for method in (TNN(epochs=10), TNN(epochs=10, training="tnn")):
            assert np.isfinite(method.complete(observation)).all()
