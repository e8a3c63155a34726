"""Floors of datasets against other ways to the same, and against kriging."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from fieldbench import Observation
from fieldbench.judging import floor_scores
from fieldbench.records import Cell, Trial
from fieldbench.registry import Registry
from fieldbench_datasets.gaussian_field import KERNELS, GaussianField
from fieldbench_datasets.radiomap import RadioMap, RadioMap1
from fieldbench_methods.kriging import Kriging

SETTINGS = [
    {"shape": (9, 7), "lengths": (3.0, 1.5), "kernel": "exponential"},
    {"shape": (5, 6, 4), "lengths": (2.0,), "kernel": "matern-3/2", "nugget": 0.2},
    {"shape": (4, 3, 4, 3), "lengths": (1.0, 2.0, 1.0, 1.5), "kernel": "matern-5/2", "variance": 3.0},
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_floor_of_a_gaussian_field_is_its_conditional_mean(setting):
    dataset, rng = GaussianField(**setting), np.random.default_rng(0)
    field = dataset.draw(rng)
    mask = rng.random(field.shape) < 0.3
    found = dataset.floor(field, Observation(field.values, mask))
    grid = np.indices(field.shape).reshape(field.values.ndim, -1).T / dataset.scales
    distance = np.sqrt(((grid[:, np.newaxis] - grid) ** 2).sum(axis=-1))
    whole = dataset.variance * (KERNELS[dataset.kernel](distance) + dataset.nugget * np.eye(len(grid)))
    seen = mask.ravel()
    expected = whole[:, seen] @ linalg.solve(whole[np.ix_(seen, seen)], field.values[mask], assume_a="pos")
    np.testing.assert_allclose(found.mean.ravel(), expected, atol=1e-8)


def test_kriging_with_the_covariance_given_meets_it():
    dataset, rng = GaussianField(shape=(10, 9, 3), lengths=(3.0, 2.0, 1.0)), np.random.default_rng(1)
    field = dataset.draw(rng)
    observation = Observation(field.values, rng.random(field.shape) < 0.3)
    given = Kriging(kernel=dataset.kernel, lengths=dataset.lengths, nugget=0.0, variance=1.0, mean=0.0)
    made = given.complete(observation)
    np.testing.assert_allclose(made.mean, dataset.floor(field, observation).mean, atol=1e-6)


def test_a_floor_knows_how_large_the_noise_is():
    dataset, rng = GaussianField(shape=(20, 20)), np.random.default_rng(2)
    field = dataset.draw(rng)
    observation = Observation(field.values + 0.5 * rng.normal(size=field.shape), rng.random(field.shape) < 0.5)
    near = dataset.posterior(observation, 0.5).mean
    np.testing.assert_allclose(dataset.floor(field, observation).mean, near, atol=0.05)


def test_what_would_fill_the_memory_has_no_floor():
    dataset, rng = GaussianField(shape=(200, 200)), np.random.default_rng(3)
    field = dataset.draw(rng)
    assert dataset.floor(field, Observation(field.values, rng.random(field.shape) < 0.5)) is None


def scores(dataset: str, rate: float, number: int = 0, *, sampler: str = "", noise: str = "none") -> dict[str, float]:
    registry = Registry()
    sampler = sampler or registry.dataset(dataset).default_sampler
    return floor_scores(Trial(Cell("nearest", dataset, sampler, noise, "final", rate), 0, number, ""), registry)


def test_only_normal_noise_and_none_allow_a_floor():
    assert set(scores("gaussian-field[shape=8x8]", 0.2)) == {"rmse", "rmse.unobserved"}
    assert scores("gaussian-field[shape=8x8]", 0.2, noise="gaussian[sigma=0.2]")
    assert scores("gaussian-field[shape=8x8]", 0.2, noise="laplacian[sigma=0.2]") == {}
    assert scores("ssf-synthetic[shape=4x4x4]", 0.2) == {}


def test_the_floor_of_one_emitter_is_the_conditional_median_of_its_lognormal():
    dataset, rng = (
        RadioMap(emitters=1, grid=(9, 8), bins=24, decorrelation=6.0, log_floor=1e-30),
        np.random.default_rng(4),
    )
    field = dataset.draw(rng)
    losses, spectra, paths = field.latent
    field_again = np.einsum("rij,rk->ijk", losses, spectra)
    np.testing.assert_array_equal(field.values, field_again)
    mask = np.zeros(field.shape, dtype=bool)
    mask[rng.random(field.shape[:2]) < 0.3] = True
    found = dataset.floor(field, Observation(field.values, mask)).mean
    grid = np.indices((9, 8)).reshape(2, -1).T
    correlation = np.exp(-np.linalg.norm(grid[:, np.newaxis] - grid, axis=-1) / 6.0)
    seen, shadow = mask[..., 0].ravel(), np.log(losses / paths).ravel()
    known = correlation[:, seen] @ linalg.solve(correlation[np.ix_(seen, seen)], shadow[seen])
    bin_with_power = int(np.argmax(spectra[0]))
    expected = paths.ravel() * np.exp(known) * spectra[0, bin_with_power]
    np.testing.assert_allclose(found[..., bin_with_power].ravel(), expected, rtol=1e-8)


def test_a_radio_map_has_a_floor_by_whole_fibers_without_noise():
    small = "radiomap[emitters=2,grid=9x9,bins=24]"
    assert scores(small, 0.2)["slnre"] > 0
    assert scores(small, 0.2, sampler="random") == {}
    assert scores(small, 0.2, noise="gaussian[sigma=0.001]") == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "elsewhere", "kriging"), [(0.05, 0.099, 0.148), (0.1, 0.061, 0.068), (0.2, 0.039, 0.041)]
)
def test_the_floor_of_radio_map_1_is_what_was_measured_elsewhere_within_its_spread_over_maps(rate, elsewhere, kriging):
    # The mean of six other maps, with the factors and the emitters' positions given, and what kriging reached on them.
    found = [scores("radiomap1", rate, number)["slnre"] for number in range(24)]
    assert abs(np.mean(found) - elsewhere) < 2 * np.std(found, ddof=1)
    assert np.mean(found) < kriging


def test_a_map_without_shadowing_is_known_whole():
    dataset, rng = RadioMap1(grid=(9, 9), bins=24, emitters=2, eta=0.0), np.random.default_rng(5)
    field = dataset.draw(rng)
    mask = np.zeros(field.shape, dtype=bool)
    mask[::3, ::3] = True
    np.testing.assert_allclose(dataset.floor(field, Observation(field.values, mask)).mean, field.values, rtol=1e-9)
