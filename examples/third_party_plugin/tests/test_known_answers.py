"""Polynomials that are found, and the law of their errors."""

import numpy as np
import pytest
from scipy.stats import kstest

from fieldbench import Observation
from fieldbench_trend import Trend

SHAPES = [(30,), (9, 8), (6, 5, 4), (4, 3, 4, 3)]


def polynomial(shape, rng):
    """A polynomial of degree 2 of the indices, with every term of that degree."""
    points = np.indices(shape).reshape(len(shape), -1)
    square = rng.normal(size=(len(shape), len(shape)))
    values = np.einsum("in,ij,jn->n", points, square, points) + rng.normal(size=len(shape)) @ points + 7.0
    return values.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_polynomial_of_that_degree_is_found(shape):
    rng = np.random.default_rng(0)
    field = polynomial(shape, rng)
    observation = Observation(field, rng.random(shape) < 0.6)
    found = Trend(degree=2).complete(observation)
    np.testing.assert_allclose(found.mean, field, rtol=1e-8, atol=1e-8 * np.abs(field).max())
    rough = Trend(degree=1).complete(observation)
    assert np.abs(rough.mean - field).max() > 1e-3 * np.abs(field).max()


def test_degree_0_is_the_mean_with_its_standard_error():
    rng = np.random.default_rng(1)
    values = rng.normal(3.0, 2.0, size=(10, 10))
    mask = rng.random(values.shape) < 0.5
    found, seen = Trend(degree=0).complete(Observation(values, mask)), values[mask]
    np.testing.assert_allclose(found.mean, seen.mean())
    np.testing.assert_allclose(found.deviation, seen.std(ddof=1) / np.sqrt(seen.size))


def test_errors_over_deviations_have_student_s_law():
    rng, truth = np.random.default_rng(2), polynomial((6, 5), np.random.default_rng(3))
    mask = rng.random(truth.shape) < 0.5
    errors = []
    for _ in range(400):
        found = Trend().complete(Observation(truth + rng.normal(size=truth.shape), mask))
        errors.append((found.mean - truth)[0, 0] / found.deviation[0, 0])
    assert kstest(errors, "t", args=(mask.sum() - 6,)).pvalue > 1e-3


def test_fewer_points_than_terms_are_fitted_all_the_same():
    mask = np.zeros((5, 5), dtype=bool)
    mask[1, 2] = mask[3, 4] = True
    values = np.arange(25.0).reshape(5, 5)
    found = Trend(degree=3).complete(Observation(values, mask))
    np.testing.assert_allclose(found.mean[mask], values[mask], rtol=1e-10)
