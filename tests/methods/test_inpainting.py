"""Inpainting against dense minimisation, harmonic functions and linear trends."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Observation, RequestError
from fieldbench_methods import smoothness
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.smoothness import Energy, minimise
from tests.methods.fields import complete, observe, smooth

METHODS = [Harmonic(), Biharmonic()]


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
    x, scale = rng.normal(size=shape), rng.random(len(shape)) + 0.5
    value = x.ravel() @ (Energy(np.ones(shape, dtype=bool), bends).matrix(scale) @ x.ravel())
    weights = scale**-2
    tie_break = 1e-6 * membrane(x, weights) if bends else 0.0
    assert value == pytest.approx(expected(x, weights) + tie_break, rel=1e-10)


def dense_minimiser(energy, scale, observed, values):
    dense, at = energy.matrix(scale).toarray(), observed.ravel()
    return np.linalg.solve(dense[~at][:, ~at], -dense[~at][:, at] @ values)


@pytest.mark.parametrize("shape", [(12,), (6, 5), (4, 5, 4), (12, 11, 13)])
@pytest.mark.parametrize("bends", [False, True])
def test_the_minimiser_is_that_of_dense_least_squares(shape, bends):
    rng = np.random.default_rng(1)
    observed, scale = rng.random(shape) < 0.4, tuple(rng.random(len(shape)) + 0.5)
    values, everywhere = rng.normal(size=(int(observed.sum()), 2)), np.ones(shape, dtype=bool)
    energy = Energy(everywhere, bends)
    found = minimise(energy, scale, everywhere, observed, values)
    np.testing.assert_allclose(found, dense_minimiser(energy, scale, observed, values), atol=1e-5)


@pytest.mark.parametrize("count", [3, 12, 120])
@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("bends", [False, True])
def test_neither_few_entries_nor_an_offset_keep_it_from_the_minimum(count, offset, bends):
    shape, scale, rng = (12, 10, 11), (0.5, 1.0, 1.4), np.random.default_rng(7)
    at, everywhere = np.zeros(np.prod(shape), dtype=bool), np.ones(shape, dtype=bool)
    at[rng.choice(at.size, count, replace=False)] = True
    values, energy = rng.normal(size=(count, 1)), Energy(everywhere, bends)
    expected = dense_minimiser(energy, scale, at, values)
    found = minimise(energy, scale, everywhere, at.reshape(shape), values + offset) - offset
    assert np.abs(found - expected).max() < 1e-5 * np.ptp(expected)


@pytest.mark.parametrize("bends", [False, True])
@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (0.25, 1.0, 1.0), (4.0, 1.0, 2.0)])
def test_large_gaps_take_few_steps(bends, scale, monkeypatch):
    """From neighbour to neighbour alone it would take as many steps as a gap is wide, or the square of that."""
    monkeypatch.setattr(smoothness, "MOST_STEPS", 60)
    field, everywhere = smooth((10, 40, 40)), np.ones((10, 40, 40), dtype=bool)
    mask = np.random.default_rng(0).random(field.shape) < 0.02
    mask[:, 10:30, 10:30] = False
    energy = Energy(everywhere, bends)
    field[~mask] = minimise(energy, scale, everywhere, mask, field[mask][:, np.newaxis])[:, 0]
    slopes = energy.matrix(scale) @ field.ravel()
    assert np.linalg.norm(slopes[~mask.ravel()]) < 1e-4 * np.linalg.norm(slopes[mask.ravel()])


@pytest.mark.parametrize("method", [Harmonic(axis_scale=(1.0, 1.0)), Biharmonic(axis_scale=(1.0, 1.0))])
def test_what_lies_across_land_has_no_say(method):
    """Two seas that no water connects: changing one leaves the other as it is."""
    field, mask = smooth((12, 13)), np.random.default_rng(3).random((12, 13)) < 0.4
    valid = np.ones(field.shape, dtype=bool)
    valid[:, 6] = False
    other = field.copy()
    other[:, 7:] += 5
    one, another = (complete(method, Observation(values, mask & valid, valid=valid)) for values in (field, other))
    np.testing.assert_allclose(another[:, :6], one[:, :6], atol=1e-9)


def test_a_sea_without_any_observation_has_the_mean():
    field, valid = smooth((12, 13)), np.ones((12, 13), dtype=bool)
    valid[:, 6] = False
    mask = valid & (np.random.default_rng(3).random((12, 13)) < 0.4)
    mask[:, 7:] = False
    estimate = complete(Biharmonic(axis_scale=(1.0, 1.0)), Observation(field, mask, valid=valid))
    np.testing.assert_allclose(estimate[:, 7:], field[mask].mean(), rtol=1e-9)


def test_a_field_too_large_for_the_memory_is_refused_before_it_begins():
    observation = Observation(np.zeros((1, 1, 1)), np.ones((1, 1, 1), dtype=bool))
    assert Biharmonic().applicable(observation) is None
    mask = np.zeros((300, 300, 300), dtype=bool)
    mask[::2, ::3, ::5] = True
    reason = Biharmonic().applicable(Observation(np.zeros(mask.shape, dtype=np.float32), mask))
    assert "GiB for 27,000,000 entries" in reason
    assert "thin-plate" in reason


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axis", [0, 1])
def test_an_axis_of_length_one_adds_nothing(method, axis):
    flat = observe(smooth((9, 8)))
    deep = Observation(np.expand_dims(flat.values, axis), np.expand_dims(flat.mask, axis))
    one, other = (
        complete(method.model_copy(update={"axis_scale": (1.0,) * observation.ndim}), observation)
        for observation in (flat, deep)
    )
    np.testing.assert_allclose(np.squeeze(other, axis), one, rtol=1e-9)


@pytest.mark.parametrize("scale", [None, (1.0, 1.0, 1.0)])
def test_a_minimum_that_was_not_reached_is_no_estimate(scale, monkeypatch):
    monkeypatch.setattr(smoothness, "MOST_STEPS", 3)
    with pytest.raises(RequestError, match=r"not found in 3 steps.*axis_scale that differs less"):
        complete(Biharmonic(axis_scale=scale), observe(smooth((14, 12, 11)), 0.2))


@pytest.mark.parametrize("shape", [(15, 14), (9, 8, 7)])
def test_harmonic_functions_are_reproduced_inside_their_boundary(shape):
    grids = np.indices(shape)
    field = (grids[0] ** 2 - grids[1] ** 2 + 3 * grids[-1]).astype(float)  # the discrete Laplacian vanishes
    mask = np.ones(shape, dtype=bool)
    mask[(slice(1, -1),) * len(shape)] = False
    estimate = complete(Harmonic(axis_scale=(1.0,) * len(shape)), Observation(field, mask))
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
    weighted = method.model_copy(update={"axis_scale": (1.0, 2.0)})
    estimate = complete(weighted, Observation(np.where(mask, power, np.nan), mask, log_floor=1e-6))
    for band in range(4):
        logs = np.log10(power[..., band] + 1e-6)
        alone = complete(weighted, Observation(np.where(mask[..., band], logs, np.nan), mask[..., band]))
        np.testing.assert_allclose(np.log10(estimate[..., band] + 1e-6), alone, atol=1e-7)


@pytest.mark.parametrize("kind", [Harmonic, Biharmonic])
def test_a_field_that_varies_along_one_axis_gets_an_unequal_scale(kind):
    field = np.broadcast_to(np.random.default_rng(3).normal(size=(1, 24)), (24, 24)).copy()
    observation = observe(field, 0.3)
    chosen, equal = (complete(kind(axis_scale=scale), observation) for scale in (None, (1.0, 1.0)))
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
