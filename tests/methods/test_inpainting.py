"""Inpainting against dense minimisation, harmonic functions and linear trends."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fieldbench import NullReport, Observation, RequestError
from fieldbench_methods import smoothness
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.smoothness import Energy, choose_weights, minimise

METHODS = [Harmonic(), Biharmonic()]


def smooth(shape):
    grids = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    return sum(np.sin((2 + axis) * grid) for axis, grid in enumerate(grids)) + grids[0] * grids[-1]


def observe(field, rate=0.4, seed=0):
    mask = np.random.default_rng(seed).random(field.shape) < rate
    return Observation(np.where(mask, field, np.nan), mask)


def complete(method, observation, seed=0):
    return method.complete(observation, seed=seed, device="cpu", report=NullReport())


def membrane(x, weights):
    return sum(weight * np.sum(np.diff(x, axis=axis) ** 2) for axis, weight in enumerate(weights))


def plate(x, weights):
    total = sum(weight**2 * np.sum(np.diff(x, 2, axis=axis) ** 2) for axis, weight in enumerate(weights))
    for one in range(x.ndim):
        for other in range(one):
            mixed = np.diff(np.diff(x, axis=one), axis=other)
            total += 2 * weights[one] * weights[other] * np.sum(mixed**2)
    return total


@pytest.mark.parametrize("shape", [(6,), (5, 4), (4, 3, 5), (3, 2, 4, 3)])
@pytest.mark.parametrize(("bends", "expected"), [(False, membrane), (True, plate)])
def test_the_matrix_is_the_sum_of_squared_differences(shape, bends, expected):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=shape), rng.random(len(shape)) + 0.5
    value = x.ravel() @ (Energy(shape, bends).matrix(weights) @ x.ravel())
    tie_break = 1e-6 * membrane(x, weights) if bends else 0.0
    assert value == pytest.approx(expected(x, weights) + tie_break, rel=1e-10)


@pytest.mark.parametrize("shape", [(12,), (6, 5), (4, 5, 4), (12, 11, 13)])
@pytest.mark.parametrize("bends", [False, True])
def test_the_minimiser_is_that_of_dense_least_squares(shape, bends):
    rng = np.random.default_rng(1)
    observed, weights = rng.random(shape) < 0.4, tuple(rng.random(len(shape)) + 0.5)
    values, at = rng.normal(size=(int(observed.sum()), 2)), observed.ravel()
    matrix = Energy(shape, bends).matrix(weights)
    dense = matrix.toarray()
    expected = np.linalg.solve(dense[~at][:, ~at], -dense[~at][:, at] @ values)
    np.testing.assert_allclose(minimise(matrix, observed, values), expected, atol=1e-5)


@pytest.mark.parametrize("count", [3, 12, 120])
@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("bends", [False, True])
def test_neither_few_entries_nor_an_offset_keep_it_from_the_minimum(count, offset, bends):
    shape, weights, rng = (12, 10, 11), (4.0, 1.0, 0.5), np.random.default_rng(7)
    at = np.zeros(np.prod(shape), dtype=bool)
    at[rng.choice(at.size, count, replace=False)] = True
    values, matrix = rng.normal(size=(count, 1)), Energy(shape, bends).matrix(weights)
    dense = matrix.toarray()
    expected = np.linalg.solve(dense[~at][:, ~at], -dense[~at][:, at] @ values)
    found = minimise(matrix, at.reshape(shape), values + offset) - offset  # no difference sees an offset
    assert np.abs(found - expected).max() < 1e-5 * np.ptp(expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_axis_of_length_one_adds_nothing(method, axis):
    flat = observe(smooth((9, 8)))
    deep = Observation(np.expand_dims(flat.values, axis), np.expand_dims(flat.mask, axis))
    one, other = (
        complete(method.model_copy(update={"weights": (1.0,) * observation.ndim}), observation)
        for observation in (flat, deep)
    )
    np.testing.assert_allclose(np.squeeze(other, axis), one, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, (1.0, 1.0, 1.0)])
def test_a_minimum_that_was_not_reached_is_no_estimate(weights, monkeypatch):
    monkeypatch.setattr(smoothness, "_MOST_STEPS", 3)
    with pytest.raises(RequestError, match=r"not found in 3 steps.*weights that differ less"):
        complete(Biharmonic(weights=weights), observe(smooth((14, 12, 11)), 0.2))


@pytest.mark.parametrize("shape", [(15, 14), (9, 8, 7)])
def test_harmonic_functions_are_reproduced_inside_their_boundary(shape):
    grids = np.indices(shape)
    field = (grids[0] ** 2 - grids[1] ** 2 + 3 * grids[-1]).astype(float)  # the discrete Laplacian vanishes
    mask = np.ones(shape, dtype=bool)
    mask[(slice(1, -1),) * len(shape)] = False
    estimate = complete(Harmonic(weights=(1.0,) * len(shape)), Observation(field, mask))
    np.testing.assert_allclose(estimate, field, atol=1e-4)


@pytest.mark.parametrize("shape", [(12, 11), (7, 6, 8)])
def test_linear_trends_are_reproduced_by_bending_alone(shape):
    field = np.tensordot(np.arange(1.0, len(shape) + 1), np.indices(shape), axes=1)
    observation = observe(field, 0.2)
    np.testing.assert_allclose(complete(Biharmonic(), observation), field, atol=0.01)
    assert np.abs(complete(Harmonic(), observation) - field).max() > 1


@pytest.mark.parametrize("method", METHODS)
def test_fibers_are_completed_bin_by_bin_in_the_log_domain(method):
    power = 10 ** (smooth((8, 7, 4)) - 4)
    mask = np.zeros(power.shape, dtype=bool)
    mask[np.random.default_rng(2).random((8, 7)) < 0.4] = True
    weighted = method.model_copy(update={"weights": (1.0, 2.0)})
    estimate = complete(weighted, Observation(np.where(mask, power, np.nan), mask, log_floor=1e-6))
    for band in range(4):
        logs = np.log10(power[..., band] + 1e-6)
        alone = complete(weighted, Observation(np.where(mask[..., band], logs, np.nan), mask[..., band]))
        np.testing.assert_allclose(np.log10(estimate[..., band] + 1e-6), alone, atol=1e-7)


def test_the_search_for_weights_finds_the_least_error():
    def error(weights):
        a, b, c = np.log2(weights)
        return (a - b - 5) ** 2 + (b - c + 2) ** 2 + 1.0

    assert choose_weights(error, 1) == (1.0,)
    assert error(choose_weights(error, 3)) == 1.0


@pytest.mark.parametrize("kind", [Harmonic, Biharmonic])
def test_a_field_that_varies_along_one_axis_gets_unequal_weights(kind):
    field = np.broadcast_to(np.random.default_rng(3).normal(size=(1, 24)), (24, 24)).copy()
    observation = observe(field, 0.3)
    chosen, equal = (complete(kind(weights=weights), observation) for weights in (None, (1.0, 1.0)))
    assert np.linalg.norm(chosen - field) < 0.8 * np.linalg.norm(equal - field)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("observed", [np.s_[2, 3, 1], np.s_[2, :, 1], np.s_[:, 3, :], np.s_[:1, :2, 0], np.s_[:]])
def test_degenerate_geometry(method, observed):
    field = smooth((7, 6, 5))
    mask = np.zeros(field.shape, dtype=bool)
    mask[observed] = True
    estimate = complete(method, Observation(field, mask))
    np.testing.assert_allclose(estimate[mask], field[mask], rtol=1e-9)
    assert np.abs(estimate).max() < 3 * np.abs(field).max()


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_field_stays_constant(method):
    constant = np.full((6, 5, 4), -3.25)
    np.testing.assert_allclose(complete(method, observe(constant, 0.2)), constant, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_scale_equivariance(method, scale):
    one, other = (complete(method, observe(factor * smooth((6, 5, 4)))) for factor in (1.0, scale))
    np.testing.assert_allclose(other / scale, one, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("garbage", [np.nan, 1e6])
def test_what_stands_in_hidden_entries_is_never_read(method, garbage):
    clean = observe(smooth((6, 5, 4)))
    dirty = Observation(np.where(clean.mask, clean.values, garbage), clean.mask)
    np.testing.assert_array_equal(complete(method, dirty), complete(method, clean))


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_are_positive_and_finite(weight):
    with pytest.raises(ValidationError, match=r"greater than 0|finite number"):
        Harmonic(weights=(weight, 1.0, 1.0))


@pytest.mark.parametrize("count", [1, 4])
def test_a_wrong_number_of_weights_is_refused_before_any_trial(count):
    with pytest.raises(ValueError, match="give 3 numbers, one for each axis"):
        Harmonic(weights=(1.0,) * count).check_shape((6, 5, 4))


def test_one_weight_less_suits_whole_fibers_alone():
    method, field = Harmonic(weights=(1.0, 2.0)), smooth((6, 5, 4))
    method.check_shape(field.shape)
    fibers = np.zeros(field.shape, dtype=bool)
    fibers[::2, ::2] = True
    assert np.isfinite(complete(method, Observation(field, fibers))).all()
    with pytest.raises(RequestError, match="give 3 numbers, one for each axis"):
        complete(method, observe(field))
