"""Targets that share neighbours: all are predicted, and hardly otherwise than each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

from fieldbench_methods.correlation import Covariance
from fieldbench_methods.local_kriging import predict
from fieldbench_methods.neighbourhood import systems


def scattered(n, shape, seed=0):
    rng = np.random.default_rng(seed)
    grid = np.argwhere(np.ones(shape, dtype=bool)).astype(float)
    at = np.zeros(len(grid), dtype=bool)
    at[rng.choice(len(grid), n, replace=False)] = True
    return grid[at], grid[~at]


@pytest.mark.parametrize("n", [40, 400, 5000])
def test_every_target_is_in_one_group(n):
    points, targets = scattered(n, (80, 90))
    seen = np.zeros(len(targets), dtype=int)
    for batch in systems(points, targets, 16, lambda r: np.exp(-r), 0):
        for group in batch.targets:
            seen[np.unique(group)] += 1
    assert (seen == 1).all()


def test_a_group_is_predicted_as_scipy_does_from_its_neighbours():
    points, targets = scattered(300, (60, 60))
    values = np.random.default_rng(1).normal(size=(300, 1))
    for batch in systems(points, targets, 20, lambda r: r**3, 1):
        found = batch.predict(values)
        for group, neighbours, ours in list(zip(batch.targets, batch.neighbours, found, strict=True))[:3]:
            scipys = RBFInterpolator(points[neighbours], values[neighbours], kernel="cubic")(targets[group])
            np.testing.assert_allclose(ours, scipys, atol=1e-4 * np.ptp(scipys))


def test_sharing_changes_little():
    points, targets = scattered(600, (100, 100))
    values = (np.sin(points[:, :1] / 9) + np.cos(points[:, 1:] / 7)).astype(float)
    covariance = Covariance("matern-3/2", np.array([10.0, 10.0]), 1e-6, np.ones(1))
    some = targets[::97]
    shared = predict(covariance, points, values, targets, 32)
    alone = [predict(covariance, points, values, one[np.newaxis], 32) for one in some]
    truth = np.sin(some[:, 0] / 9) + np.cos(some[:, 1] / 7)
    errors = [
        np.sqrt(np.mean((found - truth) ** 2)) for found in (shared[0][::97, 0], np.array([a[0, 0] for a, _ in alone]))
    ]
    assert errors[0] < 1.3 * errors[1] + 1e-3
    assert np.corrcoef(shared[1][::97], [b[0] for _, b in alone])[0, 1] > 0.95


def test_a_target_beside_many_points_sees_more_of_them_than_the_nearest():
    """The 64 nearest of them lie in a strip a fiftieth as wide as all; the slope must not be left to that."""
    points, target = np.random.default_rng(2).random((5000, 2)), np.array([[1.5, 0.5]])
    nearest = points[np.argsort(np.linalg.norm(points - target, axis=1))[:64], 0]
    (batch,) = systems(points, target, 64, lambda r: r**2 * np.log(np.where(r > 0, r, 1)), 1)
    assert np.ptp(nearest) < 0.1
    assert np.ptp(points[batch.neighbours[0], 0]) > 0.2
