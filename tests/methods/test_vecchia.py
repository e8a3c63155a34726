"""The likelihood of near neighbours against the exact one, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import Matern

from fieldbench_methods.correlation import CORRELATIONS
from fieldbench_methods.gaussian_process import restricted_likelihood
from fieldbench_methods.local_kriging import propose
from fieldbench_methods.vecchia import likelihood, sample, terms


@pytest.fixture
def scene():
    rng = np.random.default_rng(0)
    return rng.random((30, 3)) * 6, rng.normal(size=(30, 2))


def chain(points, values):
    """Every point given all before it: by the chain rule the density of all, whatever the mean."""
    return [terms(points, values, np.array([index]), np.arange(index)[np.newaxis]) for index in range(1, len(points))]


@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_with_all_earlier_points_as_neighbours_it_is_the_exact_likelihood(kernel, scene):
    points, values = scene
    squares = (points.T[:, :, np.newaxis] - points.T[:, np.newaxis]) ** 2
    points_of = [np.log([1.5, 3.0, 0.7, 0.05]), np.log([4.0, 1.0, 2.0, 0.3])]
    ours = [likelihood(at, kernel, chain(points, values)) for at in points_of]
    exact = [restricted_likelihood(at, kernel, squares, values) for at in points_of]
    assert ours[0][0] - ours[1][0] == pytest.approx(exact[0][0] - exact[1][0], rel=1e-8)
    for one, other in zip(ours, exact, strict=True):
        np.testing.assert_allclose(one[1], other[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_the_gradient(tied, scene):
    points, values = scene
    factors = sample(points, values, np.ones(3), 20, 8, np.random.default_rng(1), tied=tied)
    at = np.log([1.5, 0.05] if tied else [1.5, 3.0, 0.7, 0.05])
    error = check_grad(
        lambda x: likelihood(x, "matern-3/2", factors)[0], lambda x: likelihood(x, "matern-3/2", factors)[1], at
    )
    assert error < 1e-4 * np.linalg.norm(likelihood(at, "matern-3/2", factors)[1])


def test_no_point_is_its_own_neighbour(scene):
    points, values = scene
    for part in sample(points, values, np.ones(3), 30, 8, np.random.default_rng(1)):
        assert (part.towards.sum(axis=0) > 0).all()


def test_what_is_proposed_is_near_the_covariance_that_drew_the_values():
    rng = np.random.default_rng(1)
    points = np.argwhere(rng.random((30, 30)) < 0.8).astype(float)
    lengths, nugget = np.array([2.0, 6.0]), 0.05
    covariance = Matern(lengths, nu=1.5)(points) + nugget * np.eye(len(points))
    values = 40 + np.linalg.cholesky(covariance) @ rng.normal(size=(len(points), 10))
    found, wider = propose(["matern-3/2"], points, values, 1000, rng)
    np.testing.assert_allclose(found.lengths, lengths, rtol=0.2)
    assert found.nugget == pytest.approx(nugget, rel=0.4)
    np.testing.assert_allclose(wider.lengths, 4 * found.lengths)
