"""Nearest, inverse-distance and linear interpolation against scipy and scikit-learn called directly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import griddata
from sklearn.neighbors import KNeighborsRegressor

from fieldbench import Axis, Observation
from fieldbench_methods.interpolation import InverseDistance, Linear, Nearest
from tests.methods.fields import complete, observe

METHODS = [Nearest(), InverseDistance(), Linear()]
SHAPES = [(12, 9), (7, 6, 5), (4, 5, 3, 4)]


def field_of(shape):
    return np.random.default_rng(7).normal(size=shape)


def grid(shape):
    return np.indices(shape).reshape(len(shape), -1).T


@pytest.mark.parametrize("shape", SHAPES)
def test_nearest_takes_a_value_at_the_smallest_distance(shape):
    observation = observe(field_of(shape), 0.3)
    distances = np.linalg.norm(grid(shape)[:, np.newaxis] - observation.indices, axis=-1)
    for estimate, row in zip(
        complete(Nearest(axis_scale=(1.0,) * len(shape)), observation).ravel(), distances, strict=True
    ):
        assert estimate in observation.observed[np.isclose(row, row.min())]


@pytest.mark.parametrize("method", [Nearest(), InverseDistance(neighbours=1)])
def test_what_is_nearest_depends_on_the_depths_of_an_irregular_axis(method):
    depths = np.array([0.0, 1.0, 2.0, 3.0, 100.0])
    axes = (Axis.regular("x", 8), Axis("depth", depths, "m"))
    flat = observe(field_of((8, 5)), 0.3)
    observation = Observation(flat.values, flat.mask, axes)
    # 25 m between two depths.
    coordinates = grid((8, 5)) * [1.0, 0.0] + np.tile(depths / 25, 8)[:, np.newaxis] * [
        0.0,
        1.0,
    ]
    distances = np.linalg.norm(coordinates[:, np.newaxis] - coordinates[flat.mask.ravel()], axis=-1)
    for estimate, row in zip(complete(method, observation).ravel(), distances, strict=True):
        assert np.isclose(observation.observed[np.isclose(row, row.min())], estimate).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("power", [2.0, 4.0])
def test_inverse_distance_is_scikit_learns(shape, power):
    observation = observe(field_of(shape), 0.3)
    count = int(observation.mask.sum())  # all, as which of equally distant ones come first is arbitrary
    model = KNeighborsRegressor(count, weights=lambda distances: distances**-power)
    model.fit(observation.indices, observation.observed)
    unobserved = ~observation.mask
    estimate = complete(InverseDistance(power=power, neighbours=count), observation)
    np.testing.assert_allclose(estimate[unobserved], model.predict(np.argwhere(unobserved)), atol=1e-12)
    np.testing.assert_allclose(estimate[~unobserved], observation.observed, rtol=1e-12)


def test_inverse_distance_with_one_neighbour_is_nearest():
    observation = observe(field_of((9, 8)), 0.3)
    distances = np.linalg.norm(grid((9, 8))[:, np.newaxis] - observation.indices, axis=-1)
    for estimate, row in zip(complete(InverseDistance(neighbours=1), observation).ravel(), distances, strict=True):
        assert np.isclose(observation.observed[np.isclose(row, row.min())], estimate).any()


@pytest.mark.parametrize("shape", SHAPES)
def test_linear_is_scipys_inside_the_hull_and_nearest_outside(shape):
    observation = observe(field_of(shape), 0.3)
    inside = griddata(observation.indices, observation.observed, grid(shape), method="linear").reshape(shape)
    estimate = complete(Linear(), observation)
    hull = np.isfinite(inside)
    assert 0 < hull.sum() < hull.size
    np.testing.assert_allclose(estimate[hull], inside[hull], atol=1e-9)
    distances = np.linalg.norm(grid(shape)[:, np.newaxis] - observation.indices, axis=-1)
    for value, row in zip(estimate[~hull], distances[~hull.ravel()], strict=True):
        assert np.isclose(observation.observed[np.isclose(row, row.min())], value).any()


@pytest.mark.parametrize("method", [InverseDistance(), Linear()])
def test_fibers_are_interpolated_bin_by_bin_in_the_log_domain(method):
    power = 10 ** (field_of((8, 7, 4)) - 4)
    mask = np.zeros(power.shape, dtype=bool)
    mask[np.random.default_rng(2).random((8, 7)) < 0.4] = True
    estimate = complete(method, Observation(np.where(mask, power, np.nan), mask, log_floor=1e-6))
    for band in range(4):
        logs = np.log10(power[..., band] + 1e-6)
        alone = complete(method, Observation(np.where(mask[..., band], logs, np.nan), mask[..., band]))
        np.testing.assert_allclose(np.log10(estimate[..., band] + 1e-6), alone, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("observed", [np.s_[2, 3, 1], np.s_[2, :, 1], np.s_[:, 3, :], np.s_[:1, :2, 0], np.s_[:]])
def test_degenerate_geometry(method, observed):
    field = field_of((7, 6, 5))
    mask = np.zeros(field.shape, dtype=bool)
    mask[observed] = True
    estimate = complete(method, Observation(field, mask))
    np.testing.assert_allclose(estimate[mask], field[mask], rtol=1e-9)
    assert estimate.min() >= field[mask].min() - 1e-9
    assert estimate.max() <= field[mask].max() + 1e-9


def test_linear_along_a_line_is_numpys():
    field = field_of((9, 6, 5))
    mask = np.zeros(field.shape, dtype=bool)
    mask[[0, 3, 4, 8], 2, 2] = True
    expected = np.interp(np.arange(9), [0, 3, 4, 8], field[[0, 3, 4, 8], 2, 2])
    estimate = complete(Linear(), Observation(field, mask))
    np.testing.assert_allclose(estimate, np.broadcast_to(expected[:, np.newaxis, np.newaxis], field.shape), atol=1e-9)
