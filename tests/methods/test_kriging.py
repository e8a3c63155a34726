"""Kriging against scikit-learn and against the kriging equations written out, its likelihood, its spread."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from fieldbench import Axis, Observation
from fieldbench_methods import gaussian_process, local_kriging
from fieldbench_methods.correlation import CORRELATIONS, Covariance
from fieldbench_methods.gaussian_process import fit, predict, restricted_likelihood
from fieldbench_methods.kriging import Kriging
from tests.methods.fields import observe, smooth

SKLEARN = {
    "exponential": lambda lengths: Matern(lengths, nu=0.5),
    "matern-3/2": lambda lengths: Matern(lengths, nu=1.5),
    "matern-5/2": lambda lengths: Matern(lengths, nu=2.5),
    "squared-exponential": RBF,
}
SHAPE = (8, 7, 5)


def with_deviation(method, observation, seed=0):
    made = method.complete(observation, seed=seed)
    return made.mean, made.spread()


def run(method, observation, seed=0):
    return with_deviation(method, observation, seed)[0]


@pytest.fixture
def scene():
    rng = np.random.default_rng(0)
    return rng.random((30, 3)) * 6, rng.normal(size=(30, 2)), rng.random((12, 3)) * 6


@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_correlations_are_scikit_learns(kernel, scene):
    points, _, targets = scene
    lengths = np.array([1.5, 3.0, 0.7])
    ours = Covariance(kernel, lengths, 0.1, np.ones(1)).correlate(points, targets)
    np.testing.assert_allclose(ours, SKLEARN[kernel](lengths)(points, targets), atol=1e-12)


@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_with_its_mean_known_the_prediction_is_scikit_learns(kernel, scene):
    """scikit-learn knows no unknown mean: it is given ours, and must then predict the same."""
    points, values, targets = scene
    lengths, nugget = np.array([1.5, 3.0, 0.7]), 0.05
    ours, _ = predict(Covariance(kernel, lengths, nugget, np.ones(2)), points, values, targets)
    correlation = SKLEARN[kernel](lengths)(points) + nugget * np.eye(30)
    weights = np.linalg.solve(correlation, np.ones(30))
    mean = weights @ values / weights.sum()
    model = GaussianProcessRegressor(SKLEARN[kernel](lengths), alpha=nugget, optimizer=None).fit(points, values - mean)
    np.testing.assert_allclose(ours, model.predict(targets) + mean, atol=1e-8)


@pytest.mark.parametrize("predict", [predict, partial(local_kriging.predict, neighbours=30)])
def test_prediction_and_variance_solve_the_ordinary_kriging_system(predict, scene):
    points, values, targets = scene
    lengths, nugget = np.array([1.5, 3.0, 0.7]), 0.05
    covariance = Covariance("matern-3/2", lengths, nugget, np.ones(2))
    ours, unexplained = predict(covariance, points, values, targets)
    kernel = SKLEARN["matern-3/2"](lengths)
    system = np.ones((31, 31))
    system[:30, :30], system[30, 30] = kernel(points) + nugget * np.eye(30), 0
    right = np.vstack([kernel(points, targets), np.ones(12)])
    solution = np.linalg.solve(system, right)
    np.testing.assert_allclose(ours, solution[:30].T @ values, atol=1e-6)
    np.testing.assert_allclose(unexplained, 1 - np.sum(solution * right, axis=0), atol=1e-6)


@pytest.mark.parametrize("kernel", CORRELATIONS)
def test_the_gradient_of_the_likelihood(kernel, scene):
    points, values, _ = scene
    squares = (points.T[:, :, np.newaxis] - points.T[:, np.newaxis]) ** 2
    at = np.log([1.5, 3.0, 0.7, 0.05])
    args = (kernel, squares, values)
    error = check_grad(
        lambda x: restricted_likelihood(x, *args)[0], lambda x: restricted_likelihood(x, *args)[1], at, epsilon=1e-6
    )
    assert error < 1e-3 * np.linalg.norm(restricted_likelihood(at, *args)[1])


def test_the_restricted_likelihood_is_that_of_contrasts(scene):
    """By definition: the Gaussian likelihood of n - 1 contrasts that do not see the mean, at the best variance."""
    points, values, _ = scene
    contrasts = np.linalg.svd(np.ones((30, 1)))[0][:, 1:]
    squares = (points.T[:, :, np.newaxis] - points.T[:, np.newaxis]) ** 2

    def by_definition(lengths, nugget):
        covariance = contrasts.T @ (SKLEARN["matern-3/2"](lengths)(points) + nugget * np.eye(30)) @ contrasts
        total = 0.0
        for column in (contrasts.T @ values).T:
            variance = column @ np.linalg.solve(covariance, column) / 29
            total -= multivariate_normal(cov=variance * covariance).logpdf(column)
        return total

    one, other = ([1.5, 3.0, 0.7], 0.05), ([4.0, 1.0, 2.0], 0.3)
    ours = [
        restricted_likelihood(np.log([*lengths, nugget]), "matern-3/2", squares, values)[0]
        for lengths, nugget in (one, other)
    ]
    assert ours[0] - ours[1] == pytest.approx(by_definition(*one) - by_definition(*other), rel=1e-8)


def test_the_fit_finds_the_covariance_that_drew_the_values():
    rng = np.random.default_rng(1)
    points = np.argwhere(rng.random((18, 18)) < 0.8).astype(float)
    lengths, nugget, variance = np.array([2.0, 6.0]), 0.05, 9.0
    covariance = variance * (Matern(lengths, nu=1.5)(points) + nugget * np.eye(len(points)))
    values = 40 + np.linalg.cholesky(covariance) @ rng.normal(size=(len(points), 30))
    found, _ = fit("matern-3/2", points, values, 1000, rng)
    np.testing.assert_allclose(found.lengths, lengths, rtol=0.1)
    assert found.nugget == pytest.approx(nugget, rel=0.2)
    assert np.mean(found.variances) == pytest.approx(variance, rel=0.2)


def test_a_column_that_few_points_see_constant_has_no_say_in_the_fit_but_a_variance():
    """Rain, sea ice, noise-floored power: one entry differs, and the points of the likelihood may all miss it."""
    rng = np.random.default_rng(8)
    points = np.argwhere(rng.random((14, 14)) < 0.9).astype(float)
    usual = np.sin(points @ [[0.5, 0.3], [0.2, 0.6]])
    missed = np.random.default_rng(0).permutation(len(points))[60]
    spike = np.zeros((len(points), 1))
    spike[missed] = 0.8
    one, other = (
        fit("matern-3/2", points, values, 60, np.random.default_rng(0))[0]
        for values in (usual, np.hstack([usual, spike]))
    )
    np.testing.assert_array_equal(other.lengths, one.lengths)
    assert other.nugget == one.nugget
    np.testing.assert_allclose(other.variances, [*one.variances, 0.64 / len(points)], rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_single_entry_that_differs_is_kriged(seed):
    field = np.zeros((15, 15))
    field[7, 4] = 5.0
    mask = np.random.default_rng(seed).random(field.shape) < 0.8
    mask[7, 4] = True
    estimate, deviation = with_deviation(Kriging(fit=50), Observation(np.where(mask, field, np.nan), mask), seed)
    assert np.abs(estimate[:, 12:]).max() < 0.1  # eight steps away
    assert np.unravel_index(estimate.argmax(), field.shape) == (7, 4)
    assert np.isfinite(deviation).all()
    assert (deviation[~mask] > 0).all()


@pytest.mark.parametrize("most", [50, 200, 310, 340])
def test_the_likelihood_is_computed_on_as_many_positions_as_are_allowed(most, monkeypatch):
    sizes = []

    def counted(logarithms, kernel, squares, values):
        sizes.append(len(values))
        return float(logarithms @ logarithms), 2 * logarithms

    monkeypatch.setattr(gaussian_process, "restricted_likelihood", counted)
    points = np.random.default_rng(9).random((330, 2)) * 20
    fit("matern-3/2", points, points @ [[1.0], [2.0]], most, np.random.default_rng(0))
    assert max(sizes) == min(most, 330)


def test_the_spread_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(2)
    grid = np.indices((22, 22)).reshape(2, -1).T.astype(float)
    field = (np.linalg.cholesky(Matern([3.0, 5.0], nu=1.5)(grid) + 1e-9 * np.eye(484)) @ rng.normal(size=484)) * 5
    field = field.reshape(22, 22)
    observation = observe(field, 0.25)
    estimate, deviation = with_deviation(Kriging(), observation)
    standardised = ((estimate - field) / deviation)[~observation.mask]
    assert 0.8 < np.sqrt(np.mean(standardised**2)) < 1.25
    assert deviation[observation.mask].max() < np.median(deviation[~observation.mask])


def test_local_kriging_approaches_the_exact_one():
    observation = observe(smooth((14, 12, 8)), 0.3)
    exact, local = run(Kriging(), observation), run(Kriging(exact=1), observation)
    assert np.sqrt(np.mean((exact - local) ** 2)) < 0.02 * np.std(exact)


def test_near_neighbours_move_a_prediction_by_far_less_than_it_is_off():
    rng, grid = np.random.default_rng(7), np.indices((11, 11, 11)).reshape(3, -1).T.astype(float)
    covariance = Covariance("matern-3/2", np.array([3.0, 4.0, 5.0]), 1e-6, np.ones(1))
    field = np.linalg.cholesky(covariance.correlate(grid, grid) + 1e-6 * np.eye(1331)) @ rng.normal(size=(1331, 1))
    at = rng.random(1331) < 0.25
    exact, _ = predict(covariance, grid[at], field[at], grid[~at])
    local, _ = local_kriging.predict(covariance, grid[at], field[at], grid[~at], 64)
    assert 0 < np.linalg.norm(exact - local) < np.linalg.norm(exact - field[~at]) / 4


def test_fibers_share_geometry_in_the_log_domain():
    power = 10 ** (smooth((9, 8, 4)) - 4)
    mask = np.zeros(power.shape, dtype=bool)
    mask[np.random.default_rng(3).random((9, 8)) < 0.4] = True
    observation = Observation(np.where(mask, power, np.nan), mask, log_floor=1e-6)
    estimate, deviation = with_deviation(Kriging(), observation)
    positions = np.argwhere(mask[..., 0]).astype(float)
    logs = np.log10(power[mask[..., 0]] + 1e-6)
    found, _ = fit("matern-3/2", positions, logs, 1500, np.random.default_rng(0))
    grid = np.indices((9, 8)).reshape(2, -1).T.astype(float)
    expected, _ = predict(found, positions, logs, grid)
    np.testing.assert_allclose(np.log10(estimate + 1e-6), expected.reshape(power.shape), atol=1e-3)
    assert (deviation >= 0).all()
    assert (deviation[~mask] > 0).all()


@pytest.mark.parametrize("exact", [4000, 1])
@pytest.mark.parametrize("observed", [np.s_[2, 3, 1], np.s_[2, :2, 1], np.s_[2, :, 1], np.s_[:, 3, :]])
def test_degenerate_geometry(observed, exact):
    mask = np.zeros(SHAPE, dtype=bool)
    mask[observed] = True
    field = smooth(SHAPE)
    estimate, deviation = with_deviation(Kriging(exact=exact), Observation(field, mask))
    assert np.isfinite(estimate).all()
    np.testing.assert_allclose(estimate[mask], field[mask], atol=0.02)
    assert (deviation is None) == (mask.sum() < 3)


def test_a_constant_field_stays_constant_and_has_no_deviation():
    constant = np.full(SHAPE, -3.25)
    estimate, deviation = with_deviation(Kriging(), observe(constant))
    np.testing.assert_allclose(estimate, constant)
    assert deviation is None


@pytest.mark.parametrize("shape", [(40,), (12, 11), (5, 4, 4, 3)])
def test_any_order(shape):
    field = smooth(shape)
    estimate = run(Kriging(), observe(field, 0.5))
    assert np.sqrt(np.mean((estimate - field) ** 2)) < 0.2 * np.std(field)


def test_one_length_scale_in_common_where_the_scale_of_the_axes_is_given():
    """Twice the scale along an axis is the same field on positions twice as far apart."""
    rng = np.random.default_rng(1)
    points = np.argwhere(rng.random((18, 18)) < 0.8).astype(float)
    covariance = Matern([3.0, 6.0], nu=1.5)(points) + 0.05 * np.eye(len(points))
    values = np.linalg.cholesky(covariance) @ rng.normal(size=(len(points), 30))
    found, _ = fit("matern-3/2", points * [2.0, 1.0], values, 1000, rng, tied=True)
    np.testing.assert_allclose(found.lengths, [6.0], rtol=0.1)


def test_a_field_that_is_smooth_in_the_index_is_kriged_by_index():
    """Levels of a mixed layer: their distance in metres says little, their order all."""
    depths = np.array([0.0, 1, 2, 3, 4, 200, 400, 600, 800, 1000])
    x, level = np.meshgrid(np.arange(14.0), np.arange(10.0), indexing="ij")
    field, mask = np.sin(x / 3) + np.sin(level), np.random.default_rng(0).random((14, 10)) < 0.5
    observed = np.where(mask, field, np.nan)
    by_index, by_depth = (
        run(Kriging(), Observation(observed, mask, axes))
        for axes in ((), (Axis.regular("x", 14), Axis("depth", depths, "m")))
    )
    np.testing.assert_allclose(by_depth, by_index, atol=1e-9)


def test_noise_is_smoothed_where_neighbours_are_used_and_little_noise_leaves_what_was_observed():
    rng, field = np.random.default_rng(3), smooth((40, 40))
    noisy = observe(field + 0.3 * rng.normal(size=field.shape), 0.5)
    made = Kriging(exact=1).complete(noisy)
    estimate, deviation = made.mean, made.deviation
    assert np.std((estimate - field)[noisy.mask]) < 0.15
    assert (deviation[noisy.mask] > 0).all()
    clean = observe(field, 0.5)
    np.testing.assert_allclose(run(Kriging(exact=1), clean)[clean.mask], field[clean.mask], atol=1e-3)


def test_the_spread_of_local_kriging_covers_the_truth_under_clouds_too():
    rng = np.random.default_rng(5)
    grid = np.indices((40, 40)).reshape(2, -1).T.astype(float)
    drawn = np.linalg.cholesky(Matern([4.0, 8.0], nu=1.5)(grid) + 1e-9 * np.eye(1600)) @ rng.normal(size=1600)
    field, mask = drawn.reshape(40, 40), rng.random((40, 40)) < 0.9
    mask[10:20, 5:15] = mask[25:33, 22:35] = False
    made = Kriging(exact=1).complete(Observation(field, mask))
    estimate, deviation = made.mean, made.deviation
    standardised = ((estimate - field) / deviation)[~mask]
    assert 0.5 < np.sqrt(np.mean(standardised**2)) < 1.6
