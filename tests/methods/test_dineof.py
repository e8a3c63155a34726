"""DINEOF against numpy's SVD, on fields of known rank, and where imputation is delicate."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Observation, RequestError
from fieldbench_methods.dineof import Dineof, ModeStopping, best_modes, error_variance, truncate, truncations
from tests.methods.fields import complete, observe


def of_rank(rank, shape=(9, 8, 14), seed=0):
    """A field that has ``rank`` modes when the last axis makes the columns, and full rank along the others."""
    rng = np.random.default_rng(seed)
    return np.tensordot(rng.normal(size=(*shape[:-1], rank)), rng.normal(size=(rank, shape[-1])), axes=1)


@pytest.mark.parametrize("shape", [(9, 5), (5, 9)])
@pytest.mark.parametrize("modes", [1, 3, 5])
def test_truncation_is_that_of_the_svd(shape, modes):
    matrix = np.random.default_rng(0).normal(size=shape)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    expected = (left[:, :modes] * values[:modes]) @ right[:modes]
    np.testing.assert_allclose(truncate(matrix, modes), expected, atol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_settled_entries_are_what_the_truncated_svd_of_the_filled_matrix_says(axis):
    field = of_rank(3)
    mask = observe(field, 0.7).mask
    filled = next(truncations(field, mask, axis, ModeStopping(1e-12, 5000)))
    np.testing.assert_array_equal(filled[mask], field[mask])
    mean = field[mask].mean()
    matrix = np.moveaxis(filled - mean, axis, -1).reshape(-1, field.shape[axis])
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    one_mode = np.moveaxis(
        values[0] * np.outer(left[:, 0], right[0]).reshape(np.moveaxis(field, axis, -1).shape), -1, axis
    )
    np.testing.assert_allclose((filled - mean)[~mask], one_mode[~mask], atol=1e-8)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_number_of_modes_and_the_axis_are_found(rank):
    field = np.moveaxis(of_rank(rank), -1, 1)
    field -= field.mean()
    observation = observe(field, 0.7)
    chosen = complete(Dineof(tolerance=1e-6, iterations=1000), observation)
    known = complete(Dineof(axis=1, tolerance=1e-6, iterations=1000), observation)
    np.testing.assert_array_equal(chosen, known)
    assert np.linalg.norm(known - field) < 0.2 * np.linalg.norm(field)


def test_a_given_number_of_modes_is_used_and_judged():
    field = of_rank(2)
    observation = observe(field, 0.7)
    withheld = observe(field, 0.1, seed=1).mask & observation.mask
    limits = ModeStopping(1e-3, 50)
    error, modes = best_modes(field, observation.mask, withheld, 2, 2, limits)
    fields = list(truncations(field, observation.mask & ~withheld, 2, limits))
    assert modes == 2
    assert error == pytest.approx(np.mean((fields[1] - field)[withheld] ** 2))
    assert best_modes(field, observation.mask, withheld, 2, None, limits)[0] <= error


def test_fibers_are_unfolded_along_an_axis_that_teaches_something():
    rng = np.random.default_rng(4)
    field = np.einsum("i,j,k->ijk", *(rng.random(size) + 0.5 for size in (9, 8, 6)))
    mask = np.zeros(field.shape, dtype=bool)
    mask[rng.random((9, 8)) < 0.6] = True
    estimate = complete(Dineof(), Observation(field, mask))
    along_bins = complete(Dineof(axis=2), Observation(field, mask))
    np.testing.assert_allclose(along_bins[~mask], field[mask].mean())
    assert np.linalg.norm(estimate - field) < 0.5 * np.linalg.norm(along_bins - field)


@pytest.mark.parametrize("observed", [np.s_[1, 2, 3], np.s_[1, 2, 2:4], np.s_[:]])
def test_few_entries_and_all_entries(observed):
    field = of_rank(2)
    mask = np.zeros(field.shape, dtype=bool)
    mask[observed] = True
    estimate = complete(Dineof(), Observation(field, mask))
    np.testing.assert_allclose(estimate[mask], field[mask], rtol=1e-12)
    assert np.isfinite(estimate).all()


@pytest.mark.parametrize("shape", [(14, 12), (6, 5, 4, 7)])
def test_other_orders(shape):
    field = of_rank(1, shape)
    estimate = complete(Dineof(), observe(field, 0.8))
    assert np.linalg.norm(estimate - field) < 0.3 * np.linalg.norm(field)


def test_what_does_not_fit_is_refused():
    observation = observe(of_rank(2), 0.7)
    with pytest.raises(RequestError, match="axis=3: the field has axes 0 to 2"):
        complete(Dineof(axis=3), observation)
    with pytest.raises(RequestError, match="modes=9: a matrix of this field has only 8"):
        complete(Dineof(modes=9), observation)
    assert "at least 2" in Dineof().applicable(observe(np.ones(20)))


def test_the_error_field_is_that_of_optimal_interpolation_by_the_functions():
    """As the conditional variance of a Gaussian vector, column by column (Beckers et al. 2006)."""
    field = of_rank(4, (6, 5, 9)) * np.linspace(0.2, 1, 9)
    mask = observe(field, 0.5).mask
    noise = 0.7
    found = error_variance(field, mask, 2, 2, noise)
    matrix, seen = (part.reshape(-1, 9) for part in (field - field[mask].mean(), mask))
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    covariance = (left[:, :2] * values[:2] ** 2 / 9) @ left[:, :2].T + noise * np.eye(30)
    of_signal = covariance - noise * np.eye(30)
    for column in range(9):
        there = seen[:, column]
        gain = of_signal[:, there] @ np.linalg.inv(covariance[np.ix_(there, there)])
        expected = np.diag(of_signal) - np.einsum("mo,mo->m", gain, of_signal[:, there]) + noise
        np.testing.assert_allclose(found.reshape(-1, 9)[:, column], expected, rtol=1e-8)


def test_its_deviation_is_as_large_as_its_error():
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        field = of_rank(2, seed=seed) + 0.3 * rng.normal(size=(9, 8, 14))
        observation = observe(field, 0.6, seed)
        made = Dineof(axis=2).complete(observation)
        unobserved = ~observation.mask
        ratios.append(np.mean(made.deviation[unobserved] ** 2) / np.mean((made.mean - field)[unobserved] ** 2))
        assert not made.deviation[observation.mask].any()
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.25)


def test_with_nothing_to_withhold_it_says_nothing_of_its_error():
    field, mask = of_rank(2), np.zeros((9, 8, 14), dtype=bool)
    mask[1, 2, 3] = True
    made = Dineof().complete(Observation(field, mask))
    assert made.deviation is None
