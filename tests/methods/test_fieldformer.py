"""TAP and MHTAP: geometry, SparseMax, tensorization and the plain network, against definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorly
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from fieldbench_methods.fieldformer import randomness
from fieldbench_methods.fieldformer.design import Design
from fieldbench_methods.fieldformer.geometry import Geometry, guideline
from fieldbench_methods.fieldformer.methods import MHTAP, TAP
from fieldbench_methods.fieldformer.network import TensorAttention
from fieldbench_methods.fieldformer.sparsemax import newton_threshold, sorted_sparsemax, sparsemax
from fieldbench_methods.fieldformer.tucker import expand

SOUND_SPEED, RADIO_MAP = (20, 20, 20), (51, 51, 64)


@pytest.mark.parametrize(
    ("method", "shape", "count"),
    [
        # Appendices I and J give 12K, 132K, 180K and 1.5M; these are the sizes of their arrays, added up.
        (TAP(), SOUND_SPEED, 2 * 64 * 64 + 3 * 20 * 81),
        (MHTAP(), SOUND_SPEED, 2 * 8 * 125 * 64 + 3 * 20 * 72),
        (TAP(), RADIO_MAP, 2 * 288 * 288 + 2 * 51 * 100 + 64 * 64),
        (MHTAP(), RADIO_MAP, 2 * 4 * 648 * 288 + 2 * 51 * 98 + 64 * 64),
    ],
)
def test_published_parameter_counts(method, shape, count):
    assert method.design(shape).parameter_count == count


@pytest.mark.parametrize("method", [TAP(), MHTAP()], ids=["tap", "mhtap"])
def test_training_is_by_default_as_published(method):
    """The learning rate of appendix I; of what it leaves out, the numbers of the released program."""
    published = {"learning_rate": 4e-3, "epochs": 5000, "weight_decay": 0.01, "dropout": 0.3, "core_dropout": 0.3}
    assert {name: getattr(method, name) for name in published} == published


def test_cubes_are_those_of_section_iii_b():
    field = np.random.default_rng(0).random((7, 6, 5))
    window, stride = (3, 2, 2), (2, 2, 1)
    geometry = Geometry(field.shape, window, stride, (1, 1, 1))
    cubes = geometry.extract(field)
    j1, j2, j3 = geometry.counts
    assert geometry.counts == (3, 3, 4)
    for n in range(j1 * j2 * j3):
        m1, m2, m3 = n // (j2 * j3), (n % (j2 * j3)) // j3, n % j3
        cube = field[
            m1 * stride[0] : m1 * stride[0] + window[0],
            m2 * stride[1] : m2 * stride[1] + window[1],
            m3 * stride[2] : m3 * stride[2] + window[2],
        ]
        np.testing.assert_array_equal(cubes[n], cube.ravel())


@pytest.mark.parametrize(
    ("shape", "window", "stride", "heads"),
    [
        ((7, 6, 5), (3, 2, 2), (2, 2, 1), (1, 1, 1)),
        ((7, 6, 5), (3, 2, 2), (2, 2, 1), (2, 1, 3)),
        ((9, 8), (3, 2), (2, 1), (1, 2)),
        ((4, 5, 3, 4), (2, 2, 1, 2), (1, 2, 1, 2), (2, 1, 1, 2)),
    ],
)
def test_tensorization_is_that_of_appendix_a(shape, window, stride, heads):
    geometry = Geometry(shape, window, stride, heads)
    order, h, n = len(shape), geometry.head_count, geometry.cubes
    attention = np.arange(n * h * n).reshape(n, h * n)
    # Appendix A takes the maps head by head (h N x N) and interleaves heads, rows and columns mode by mode.
    head_by_head = attention.reshape(n, h, n).transpose(1, 0, 2)
    axes = [axis for mode in range(order) for axis in (mode, order + mode, 2 * order + mode)]
    expected = head_by_head.reshape(*heads, *geometry.counts, *geometry.counts).transpose(axes)
    core = np.empty(geometry.core_shape, dtype=int)
    core.ravel()[geometry.positions] = attention
    np.testing.assert_array_equal(core, expected.reshape(geometry.core_shape))


def test_a_core_entry_relates_the_cubes_it_should():
    geometry = Geometry((6, 6, 6), (2, 2, 2), (2, 2, 2), (1, 1, 1))
    j1, j2, j3 = geometry.counts
    positions = geometry.positions
    for n1, n2, n3 in itertools.product(*(range(size) for size in geometry.core_shape)):
        row = (n1 // j1) * j2 * j3 + (n2 // j2) * j3 + n3 // j3
        column = (n1 % j1) * j2 * j3 + (n2 % j2) * j3 + n3 % j3
        assert positions[row, column] == np.ravel_multi_index((n1, n2, n3), geometry.core_shape)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=4))
def test_guideline_follows_appendix_l(shape):
    window, stride = guideline(tuple(shape), limit=10**12)
    geometry = Geometry(tuple(shape), window, stride, (1,) * len(shape))
    for size, k, s, core in zip(shape, window, stride, geometry.core_shape, strict=True):
        assert k <= max(1, size // 3)
        assert s <= max(1, k // 2)
        assert core > size or size == 1


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 150), min_size=1, max_size=4))
def test_guideline_keeps_to_its_limit(shape):
    window, stride = guideline(tuple(shape), limit=500)
    geometry = Geometry(tuple(shape), window, stride, (1,) * len(shape))
    assert 1 <= geometry.cubes <= 500


def test_guideline_is_not_used_where_the_paper_says():
    assert TAP().geometry(SOUND_SPEED).cubes == 729
    assert MHTAP().geometry(SOUND_SPEED).core_shape == (72, 72, 72)
    assert TAP().geometry(RADIO_MAP).core_shape == (100, 100, 64)
    assert MHTAP().geometry(RADIO_MAP).core_shape == (98, 98, 64)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (TAP(window=9), "window 9 is larger than axis 1"),
        (TAP(window=(2, 2)), "window has 2 values, the field is 3-D"),
        (TAP(stride=(1, 0, 1)), "at least 1 along axis 1"),
        (MHTAP(heads=(2, 2)), "heads has 2 values"),
    ],
)
def test_contradictions_with_the_shape_are_named(method, message):
    with pytest.raises(ValueError, match=message):
        method.check_shape((10, 8, 9))


def on_the_simplex(row):
    """The projection of a vector onto the probability simplex, from its optimality condition."""
    threshold = brentq(lambda tau: np.maximum(row - tau, 0).sum() - 1, row.min() - 1, row.max(), xtol=1e-15)
    return np.maximum(row - threshold, 0)


rows = st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=40)


@settings(deadline=None, max_examples=60)
@given(rows)
def test_sparsemax_projects_onto_the_simplex(row):
    scores = torch.tensor(row, dtype=torch.float64)
    expected = on_the_simplex(np.array(row))
    np.testing.assert_allclose(sorted_sparsemax(scores).numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(sparsemax(scores).numpy(), expected, atol=1e-12)


def test_newton_stops_in_time_on_long_rows():
    generator = torch.Generator().manual_seed(0)
    for spread in (1e-3, 0.02, 0.3, 3.0):
        scores = spread * torch.randn(50, 4000, generator=generator, dtype=torch.float64)
        weights = (scores - newton_threshold(scores)).clamp(min=0)
        np.testing.assert_allclose(weights.sum(-1).numpy(), 1, atol=1e-12)


def test_sparsemax_gradient():
    scores = torch.randn(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    assert torch.autograd.gradcheck(sparsemax, scores)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_expansion_is_tensorlys(order):
    generator = np.random.default_rng(order)
    core, field = (2, 3, 4, 2)[:order], (3, 2, 5, 4)[:order]
    tensor = generator.standard_normal((2, *core))
    factors = [generator.standard_normal((2, size, rank)) for size, rank in zip(field, core, strict=True)]
    result = expand(torch.from_numpy(tensor), [torch.from_numpy(factor) for factor in factors]).numpy()
    for index in range(2):
        expected = tensorly.tenalg.multi_mode_dot(tensor[index], [factor[index] for factor in factors])
        np.testing.assert_allclose(result[index], expected, atol=1e-12)


def small_design(**changes):
    geometry = Geometry((5, 4), (2, 2), (1, 2), changes.pop("heads", (1, 1)))
    settings = {"dropout": 0.3, "core_dropout": 0.3, "activation": "sparsemax", "output": "tanh"} | changes
    return Design(geometry, latent=3, score_scale=0.7, **settings)


@pytest.mark.parametrize("step", [None, 3])
@pytest.mark.parametrize("changes", [{}, {"heads": (2, 1)}, {"activation": "softmax"}, {"output": "identity"}])
def test_network_gradient(changes, step):
    design = small_design(**changes)
    cubes = torch.randn(2, design.geometry.cubes, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    network = TensorAttention(design, cubes, seeds=[1, 2], epochs=5)
    weights = [
        torch.from_numpy(np.stack(pair)).double() for pair in zip(design.initial(1), design.initial(2), strict=True)
    ]
    weights = [weight.requires_grad_() for weight in weights]
    step_tensor = None if step is None else torch.tensor([step])
    assert torch.autograd.gradcheck(lambda *given: network(given, step_tensor)[0], weights, fast_mode=True)


def test_scores_are_cosines_and_an_empty_cube_has_none():
    design = small_design(dropout=0.0, core_dropout=0.0, activation="softmax")
    cubes = np.random.default_rng(0).standard_normal((1, design.geometry.cubes, 4))
    cubes[0, 2] = 0
    query, key, *_ = design.initial(0)
    network = TensorAttention(design, torch.from_numpy(cubes), seeds=[0], epochs=1)
    with torch.no_grad():
        attention = network.attention(
            torch.from_numpy(query[None]).double(), torch.from_numpy(key[None]).double(), torch.tensor([0])
        )
    q, k = cubes[0] @ query[:, 0], cubes[0] @ key[:, 0]
    lengths = np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(k, axis=1)[None, :]
    cosines = np.divide(q @ k.T, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    expected = np.exp(0.7 * cosines)
    np.testing.assert_allclose(attention[0].numpy(), expected / expected.sum(1, keepdims=True), atol=1e-6)


def test_weights_are_drawn_from_the_released_law():
    design = TAP().design(SOUND_SPEED)
    query, _, factor, *_ = design.initial(3)
    for weights, fan in ((query, 64), (factor, 81)):
        bound = 1 / np.sqrt(fan)
        assert np.abs(weights).max() <= bound
        # The variance of U(-a, a) is a^2 / 3; 1620 or more draws know it to a few per cent.
        assert weights.var() == pytest.approx(bound**2 / 3, rel=0.1)


def keep(seed, step, stream, count=40000, probability=0.3):
    keys = randomness.dropout_keys(seed, np.array([step]), stream).astype(np.int64)
    return randomness.kept(torch.from_numpy(keys), count, probability)[0].numpy()


def test_dropout_has_its_probability_and_no_pattern():
    first = keep(0, 0, randomness.SCORES)
    # Five standard deviations of a binomial share of 40,000.
    tolerance = 5 * np.sqrt(0.3 * 0.7 / first.size)
    assert abs(first.mean() - 0.7) < tolerance
    for other in (keep(1, 0, randomness.SCORES), keep(0, 1, randomness.SCORES), keep(0, 0, randomness.CORE)):
        assert abs((first & other).mean() - 0.49) < 5 * np.sqrt(0.49 * 0.51 / first.size)
    for lag in (1, 2, 8, 64, 729):
        assert abs((first[lag:] & first[:-lag]).mean() - 0.49) < 6 * np.sqrt(0.49 * 0.51 / first.size)


def test_dropout_of_a_trial_does_not_depend_on_the_batch():
    keys = np.concatenate([randomness.dropout_keys(seed, np.array([4]), 0) for seed in (5, 6, 7)]).astype(np.int64)
    together = randomness.kept(torch.from_numpy(keys), 1000, 0.3)
    alone = randomness.kept(torch.from_numpy(keys[1:2]), 1000, 0.3)
    assert torch.equal(together[1], alone[0])
