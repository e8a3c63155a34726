"""The fast CPU engine against the plain torch network that defines it, and what batching and reporting must not do."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
import tensorly
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from fieldbench import NullReport, Observation
from fieldbench_methods.fieldformer import engine as engine_module
from fieldbench_methods.fieldformer import kernels, randomness
from fieldbench_methods.fieldformer.design import Schedule
from fieldbench_methods.fieldformer.engine import Engine
from fieldbench_methods.fieldformer.fit import fit_fast, fit_plain
from fieldbench_methods.fieldformer.geometry import Geometry
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.fieldformer.network import TensorAttention
from fieldbench_methods.fieldformer.sparsemax import sorted_sparsemax
from fieldbench_methods.scaling import Scaling
from fieldbench_methods.self_supervised import Problem, Relay
from fieldbench_methods.tnn import TNN
from fieldbench_methods.tv.penalty import Smoothness, variation

SHAPE = (10, 9, 8)
CASES = {
    "tap": (TAP(window=3, stride=2), SHAPE),
    "no dropout": (TAP(window=3, stride=2, dropout=0, core_dropout=0), SHAPE),
    "raw cosines": (TAP(window=3, stride=2, score_scale=False), SHAPE),
    "odd latent": (TAP(window=3, stride=2, latent=13), SHAPE),
    "wide latent": (TAP(window=3, stride=2, latent=90), SHAPE),
    "softmax": (TAP(window=3, stride=2, activation="softmax"), SHAPE),
    "identity": (TAP(window=3, stride=2, output="identity"), SHAPE),
    "noise for cubes": (TAP(window=3, stride=2, observations=False), SHAPE),
    "mhtap": (MHTAP(window=4, stride=2), SHAPE),
    "mhtap softmax": (MHTAP(window=4, stride=2, heads=(1, 2, 1), activation="softmax"), SHAPE),
    "vector": (TAP(window=3, stride=1), (17,)),
    "matrix": (MHTAP(), (24, 30)),
    "4-D": (MHTAP(window=2, stride=2, heads=(1, 2, 1, 1)), (6, 5, 4, 4)),
}


def smooth(shape):
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    return sum(np.sin((2 + axis) * grid) for axis, grid in enumerate(grids))


def observe(shape, rate=0.3, seed=0):
    field = smooth(shape)
    mask = np.random.default_rng(seed).random(shape) < rate
    return Observation(np.where(mask, field, np.nan), mask)


def problem_of(shape, seed=3, smoothness=None):
    observation = observe(shape)
    # A corner without observations gives cubes that are empty.
    observation = observation.without(np.indices(shape).sum(0) < 5)
    target = observation.filled(0.0) / 3
    return Problem(target, observation.mask, seed, Relay(NullReport(), Scaling(0.0, 1.0)), smoothness)


def plain_gradient(design, cubes, problem, step):
    network = TensorAttention(design, torch.from_numpy(cubes[None]), [problem.seed], epochs=step + 1)
    weights = [torch.from_numpy(array[None]).requires_grad_() for array in design.initial(problem.seed)]
    field = network(weights, torch.tensor([step]))[0]
    mask = torch.tensor(problem.mask)
    loss = (field[0][mask] - torch.from_numpy(problem.target.astype(np.float32))[mask]).square().mean()
    if problem.smoothness is not None:
        loss = (
            loss + problem.smoothness.weight * variation(field, problem.smoothness.form, problem.smoothness.axes).sum()
        )
    return [gradient[0].numpy() for gradient in torch.autograd.grad(loss, weights)]


def agree(results, expected):
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=2e-5 * max(np.abs(wanted).max(), 1e-6))


@pytest.mark.parametrize("shares", [(0.0, 0.0), (2.0, 2.0)], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES)
def test_gradient_is_that_of_the_plain_network(case, shares, monkeypatch):
    method, shape = CASES[case]
    monkeypatch.setattr(engine_module, "DENSE_COSINES", shares[0])
    monkeypatch.setattr(engine_module, "DENSE_CORE", shares[1])
    design, problem = method.design(shape), problem_of(shape)
    cubes = method._cubes(design.geometry, problem)
    engine = Engine(design, cubes, problem, Schedule(1, 1e-3))
    engine.step()
    agree(engine.gradients, plain_gradient(design, cubes, problem, 0))


def observed_at(method, mask):
    """Design, cubes and problem where a smooth field is observed at a mask."""
    problem = replace(problem_of(mask.shape), target=np.where(mask, smooth(mask.shape) / 3, 0.0), mask=mask)
    design = method.design(mask.shape)
    return design, method._cubes(design.geometry, problem), problem


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gradient_with_whole_fibers(axis):
    lines = np.random.default_rng(1).random(SHAPE).take([0], axis) < 0.3
    design, cubes, problem = observed_at(TAP(window=3, stride=2), np.broadcast_to(lines, SHAPE))
    engine = Engine(design, cubes, problem, Schedule(2, 1e-3))
    engine.step()
    agree(engine.gradients, plain_gradient(design, cubes, problem, 0))
    # An evaluation in between, which computes every line, leaves nothing behind.
    engine.estimate()
    engine.step()
    undisturbed = Engine(design, cubes, problem, Schedule(2, 1e-3))
    undisturbed.step()
    undisturbed.step()
    for gradient, expected in zip(engine.gradients, undisturbed.gradients, strict=True):
        np.testing.assert_array_equal(gradient, expected)


def test_gradient_with_few_fibers_of_a_field_of_four_axes():
    method, shape = CASES["4-D"]
    mask = np.broadcast_to(np.random.default_rng(1).random((*shape[:3], 1)) < 0.2, shape)
    design, cubes, problem = observed_at(method, mask)
    engine = Engine(design, cubes, problem, Schedule(1, 1e-3))
    engine.step()
    agree(engine.gradients, plain_gradient(design, cubes, problem, 0))


@pytest.mark.parametrize("form", ["second-order", "first-order", "squared"])
def test_gradient_with_total_variation(form):
    method = TAP(window=3, stride=2)
    problem = problem_of(SHAPE, smoothness=Smoothness(form, (0, 2), 0.4))
    design = method.design(SHAPE)
    cubes = method._cubes(design.geometry, problem)
    engine = Engine(design, cubes, problem, Schedule(1, 1e-3))
    engine.step()
    agree(engine.gradients, plain_gradient(design, cubes, problem, 0))


@pytest.mark.parametrize("case", ["tap", "mhtap", "softmax", "4-D"])
def test_training_is_that_of_the_plain_network(case):
    method, shape = CASES[case]
    design, problem = method.design(shape), problem_of(shape)
    cubes = method._cubes(design.geometry, problem)
    schedule = Schedule(6, 4e-3, 0.01)
    fast = fit_fast(design, cubes, problem, schedule)
    (plain,) = fit_plain(design, [cubes], [problem], schedule, "cpu")
    # Six updates of Adam move an estimate by about 0.05; single precision leaves some 1e-6 between them.
    np.testing.assert_allclose(fast, plain, atol=2e-5)
    assert np.abs(fast).max() > 1e-3


def test_blocks_of_rows_do_not_matter(monkeypatch):
    design, problem = MHTAP(window=3, stride=2).design(SHAPE), problem_of(SHAPE)
    cubes = design.geometry.extract(problem.target).astype(np.float32)
    gradients = []
    for size in (1 << 18, 1000):
        monkeypatch.setattr(engine_module, "BLOCK", size)
        engine = Engine(design, cubes, problem, Schedule(1, 1e-3))
        engine.step()
        gradients.append(engine.gradients)
    agree(*gradients)


def test_the_whole_map_is_never_stored():
    method = TAP(window=2, stride=1)
    design, problem = method.design((14, 14, 14)), problem_of((14, 14, 14))
    engine = Engine(design, method._cubes(design.geometry, problem), problem, Schedule(2, 1e-3))
    engine.step()
    whole = design.geometry.cubes**2
    arrays = [engine._support.columns, engine._support.weights, engine._support.gradient, engine._scores]
    assert max(array.size for array in arrays) < 0.5 * whole


@pytest.mark.parametrize("width", [8, 40, 72, 232])
def test_a_grouped_product_is_numpys(width):
    generator = np.random.default_rng(0)
    # Runs of rows with one pattern, of lengths that 8, 4 and 1 make up; some rows are empty, the last two are full.
    lengths = [8, 1, 21, 4, 3, 2]
    patterns = [generator.random(50) < 0.1, *(generator.random((3, 50)) < 0.2), np.zeros(50, bool), np.ones(50, bool)]
    present = np.repeat(patterns, lengths, axis=0)
    matrix = np.where(present, generator.standard_normal(present.shape), 0).astype(np.float32)
    dense = generator.standard_normal((50, width)).astype(np.float32)
    found = np.full((len(matrix), width), np.nan, np.float32)
    engine_module.GroupedMatrix(matrix).times(dense, found)
    np.testing.assert_allclose(found, matrix.astype(float) @ dense, atol=1e-5)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=40), st.floats(-8, 8, width=32))
def test_threshold_is_sparsemaxs_from_any_start(row, start):
    values = np.array(row, dtype=np.float32)
    threshold = kernels.newton_threshold(values, np.float32(start))
    expected = sorted_sparsemax(torch.tensor(row, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(np.maximum(values - threshold, 0), expected, atol=2e-6)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6), st.floats(0.01, 0.95))
def test_dropout_bits_are_those_of_torch(seed, step, probability):
    keys = randomness.dropout_keys(seed, np.array([step]), randomness.SCORES)
    scores = np.ones((2, 1, 37), dtype=np.float32)
    buffer = np.empty(74, dtype=np.float32)
    limit = np.uint32(randomness.drop_threshold(probability))
    kernels.dropped_row(
        scores, 0, np.uint32(5 * 74), np.float32(1), np.ones(2, np.float32), limit, keys[0, 0], keys[0, 1], buffer
    )
    kept = randomness.kept(torch.from_numpy(keys.astype(np.int64)), 6 * 74, probability)[0, 5 * 74 :]
    np.testing.assert_array_equal(buffer > 0, kept.numpy())


def test_exponential_and_tangent():
    points = np.concatenate([np.linspace(-30, 30, 20001), [-1e6, 1e6, 0.0]]).astype(np.float32)
    assert max(abs(kernels.exponential(x) / np.exp(np.float64(x)) - 1) for x in points[np.abs(points) < 80]) < 5e-7
    assert max(abs(kernels.hyperbolic_tangent(x) - np.tanh(np.float64(x))) for x in points) < 5e-7


def test_sparse_contraction_is_tensorlys():
    geometry = Geometry((6, 5, 7), (2, 2, 3), (2, 1, 2), (1, 1, 1))
    generator = np.random.default_rng(0)
    attention = generator.random((geometry.cubes, geometry.cubes)) * (generator.random((geometry.cubes,) * 2) < 0.2)
    core = np.zeros(geometry.core_shape, np.float32)
    core.ravel()[geometry.positions] = attention
    factors = [
        generator.standard_normal((size, rank)).astype(np.float32)
        for size, rank in zip(geometry.shape, geometry.core_shape, strict=True)
    ]
    layout = engine_module.Layout.of(geometry)
    support = engine_module._Support(geometry.cubes, geometry.cubes)
    rows, columns = np.nonzero(attention)
    support.make_room(0, len(rows))
    support.starts[:] = np.searchsorted(rows, np.arange(geometry.cubes + 1))
    support.columns[: len(rows)] = columns
    support.weights[: len(rows)] = attention[rows, columns]
    tucker = engine_module._Tucker(geometry, layout)
    field = tucker.expand(support, factors, training=False).reshape(tucker.field_shape)
    expected = tensorly.tenalg.multi_mode_dot(core, factors)
    np.testing.assert_allclose(field, expected.transpose(layout.order), rtol=1e-4, atol=1e-4)


def test_adam_is_torchs():
    generator = np.random.default_rng(0)
    weights = generator.standard_normal(50).astype(np.float32)
    reference = torch.from_numpy(weights.copy()).requires_grad_()
    optimiser = torch.optim.AdamW([reference], lr=4e-3, weight_decay=0.01)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for update in range(1, 8):
        gradient = generator.standard_normal(50).astype(np.float32) * 10.0 ** (update - 4)
        reference.grad = torch.from_numpy(gradient)
        optimiser.step()
        kernels.adam(
            weights, gradient.astype(np.float32), mean, square, np.float32(4e-3), np.float32(0.01),
            np.float32(1 - 0.9**update), np.float32(1 - 0.999**update),
        )  # fmt: skip
    np.testing.assert_allclose(weights, reference.detach().numpy(), atol=1e-6)


class Every:
    """A report that wants an estimate after every step, and keeps what it is told."""

    def __init__(self):
        self.told = []

    def due(self, step):
        return True

    def __call__(self, step, estimate, **diagnostics):
        self.told.append((step, np.array(estimate), diagnostics))


@pytest.mark.parametrize("method", [TAP(window=3, stride=2, epochs=5), MHTAP(window=4, stride=2, epochs=5)])
def test_reporting_disturbs_nothing_and_ends_with_the_result(method):
    observation, report = observe(SHAPE), Every()
    quiet = method.complete(observation, seed=1, device="cpu", report=NullReport())
    loud = method.complete(observation, seed=1, device="cpu", report=report)
    np.testing.assert_array_equal(quiet, loud)
    assert [step for step, *_ in report.told] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(report.told[-1][1], loud)
    for _, _, diagnostics in report.told:
        assert 0 < diagnostics["support"] < 1


def test_a_trial_does_not_depend_on_its_companions():
    method = TAP(window=3, stride=2, epochs=4)
    observations = [observe(SHAPE, seed=seed) for seed in (1, 2, 3)]
    together = method.complete_batch(observations, seeds=[1, 2, 3], device="cpu", reports=[NullReport()] * 3)
    alone = method.complete(observations[1], seed=2, device="cpu", report=NullReport())
    np.testing.assert_array_equal(together[1], alone)


@pytest.mark.parametrize("method", [TAP(epochs=3), TNN(epochs=3)])
def test_the_number_of_blas_threads_does_not_matter(method):
    observation = observe((20, 20, 20), rate=0.1)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(method.complete(observation, seed=0, device="cpu", report=NullReport()))
    np.testing.assert_array_equal(*results)


def test_plain_batch_is_its_trials():
    method = MHTAP(window=4, stride=2)
    design = method.design(SHAPE)
    problems = [problem_of(SHAPE, seed) for seed in (1, 2)]
    cubes = [method._cubes(design.geometry, problem) for problem in problems]
    together = fit_plain(design, cubes, problems, Schedule(3, 4e-3), "cpu")
    for index in range(2):
        (alone,) = fit_plain(design, cubes[index : index + 1], problems[index : index + 1], Schedule(3, 4e-3), "cpu")
        np.testing.assert_allclose(together[index], alone, atol=1e-6)


@pytest.mark.parametrize("method", [TAP(window=3, stride=2, epochs=3), MHTAP(window=4, stride=2, epochs=3)])
def test_without_numba_it_still_works(method, monkeypatch):
    observation = observe(SHAPE)
    fast = method.complete(observation, seed=1, device="cpu", report=NullReport())
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "fieldbench_methods.fieldformer.engine")
    plain = method.complete(observation, seed=1, device="cpu", report=NullReport())
    assert "fieldbench_methods.fieldformer.engine" not in sys.modules
    np.testing.assert_allclose(fast, plain, atol=1e-5)


@pytest.mark.parametrize("method", [TAP(window=3, stride=2, epochs=3), MHTAP(window=4, stride=2, epochs=3)])
@pytest.mark.parametrize("fill", [1e6, -3.0])
def test_unobserved_entries_are_not_read(method, fill):
    clean = observe(SHAPE)
    dirty = Observation(np.where(clean.mask, clean.values, fill), clean.mask)
    results = [method.complete(given, seed=1, device="cpu", report=NullReport()) for given in (clean, dirty)]
    np.testing.assert_array_equal(*results)


EDGES = {
    "one entry": (np.full(SHAPE, 2.5), np.arange(720).reshape(SHAPE) == 100),
    "everything": (smooth(SHAPE), np.ones(SHAPE, dtype=bool)),
    "constant": (np.full(SHAPE, -7.0), np.arange(720).reshape(SHAPE) % 5 == 0),
    "zero": (np.zeros(SHAPE), np.arange(720).reshape(SHAPE) % 5 == 0),
    "tiny": (1e-30 * smooth(SHAPE), np.arange(720).reshape(SHAPE) % 5 == 0),
    "huge": (1e30 * smooth(SHAPE), np.arange(720).reshape(SHAPE) % 5 == 0),
    "one outlier": (np.where(np.arange(720).reshape(SHAPE) == 0, 1e12, 1e-9), np.arange(720).reshape(SHAPE) % 5 == 0),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges_end_finite(edge):
    field, mask = EDGES[edge]
    observation = Observation(np.where(mask, field, np.nan), mask)
    for method in (TAP(window=3, stride=2, epochs=20), MHTAP(window=4, stride=2, epochs=20)):
        assert np.isfinite(method.complete(observation, seed=0, device="cpu", report=NullReport())).all()


def test_it_learns_a_field():
    field = smooth(SHAPE)
    observation = observe(SHAPE, rate=0.3)
    estimate = np.asarray(
        TAP(window=3, stride=2, epochs=600).complete(observation, seed=0, device="cpu", report=NullReport())
    )
    error = np.sqrt(np.mean((estimate - field)[~observation.mask] ** 2))
    # The mean of the observed values, the best guess without any structure, is off by the field's deviation.
    assert error < 0.25 * field.std()
