"""Thin-plate and other polyharmonic splines against scipy called directly, and where splines are delicate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.special import xlogy

from fieldbench import Axis, Observation
from fieldbench_methods import polyharmonic
from fieldbench_methods.polyharmonic import choose, leave_one_out, posterior, predict
from fieldbench_methods.splines import RadialBasis, ThinPlate
from tests.methods.fields import complete, observe, smooth

SHAPE = (7, 6, 5)


@pytest.mark.parametrize("shape", [(12, 9), SHAPE, (4, 5, 3, 4)])
@pytest.mark.parametrize("smoothing", [0.0, 0.7])
def test_thin_plate_is_scipys(shape, smoothing):
    observation = observe(smooth(shape), 0.3)
    spline = RBFInterpolator(observation.indices, observation.observed, kernel="thin_plate_spline", smoothing=smoothing)
    expected = spline(np.indices(shape).reshape(len(shape), -1).T.astype(float)).reshape(shape)
    method = ThinPlate(smoothing=smoothing, axis_scale=(1.0,) * len(shape))
    np.testing.assert_allclose(complete(method, observation), expected, atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "thin_plate_spline", "cubic"])
@pytest.mark.parametrize("smoothing", [0.0, 0.7])
def test_local_splines_are_scipys(kernel, smoothing):
    rng = np.random.default_rng(1)
    points, targets, values = rng.random((60, 3)) * 10, rng.random((25, 3)) * 10, rng.normal(size=(60, 2))
    # Target by target, since those that lie close together share their neighbours.
    ours = np.concatenate(
        [
            predict(points, values, one, kernel=kernel, smoothing=smoothing, exact=1, neighbours=20)
            for one in np.split(targets, 25)
        ]
    )
    scipys = RBFInterpolator(points, values, neighbors=20, kernel=kernel, smoothing=smoothing)(targets)
    np.testing.assert_allclose(ours, scipys, atol=1e-6)


def test_the_memory_of_local_splines_does_not_grow_with_what_is_unobserved():
    rng = np.random.default_rng(1)
    points, values, many = rng.random((400, 2)) * 20, rng.normal(size=(400, 1)), rng.random((40_000, 2)) * 20

    def peak(targets):
        tracemalloc.start()
        predict(points, values, targets, kernel="linear", smoothing=0, exact=1, neighbours=64)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(many[:1000])  # imports
    # The estimate and the order of the targets are some numbers each; their neighbours would be 64 more.
    assert peak(many) - peak(many[:10_000]) < 32 * 8 * 30_000


def test_fibers_are_splined_bin_by_bin_in_the_log_domain():
    power = 10 ** (smooth((8, 7, 4)) - 4)
    mask = np.zeros(power.shape, dtype=bool)
    mask[np.random.default_rng(2).random((8, 7)) < 0.4] = True
    observation = Observation(np.where(mask, power, np.nan), mask, log_floor=1e-6)
    positions = np.argwhere(mask[..., 0])
    spline = RBFInterpolator(positions, np.log10(power[mask[..., 0]] + 1e-6), kernel="thin_plate_spline")
    expected = 10 ** spline(np.indices((8, 7)).reshape(2, -1).T.astype(float)).reshape(power.shape) - 1e-6
    np.testing.assert_allclose(complete(ThinPlate(), observation), np.maximum(expected, 0), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("exact", [4000, 1])
def test_linear_fields_are_reproduced(exact):
    x, y, z = np.indices(SHAPE)
    field = 2.0 * x - 3.0 * y + 0.5 * z + 4
    estimate = complete(ThinPlate(exact=exact), observe(field, 0.3))
    np.testing.assert_allclose(estimate, field, atol=1e-5)


@pytest.mark.parametrize("exact", [4000, 1])
@pytest.mark.parametrize("observed", [np.s_[2, 3, 1], np.s_[2, :, 1], np.s_[:, 3, :], np.s_[:1, :2, 0]])
def test_points_on_a_line_or_plane_make_a_field_constant_across_it(observed, exact):
    mask = np.zeros(SHAPE, dtype=bool)
    mask[observed] = True
    field = smooth(SHAPE)
    estimate = complete(ThinPlate(exact=exact, neighbours=12), Observation(field, mask))
    np.testing.assert_allclose(estimate[mask], field[mask], atol=1e-9)
    on_hull = np.broadcast_to(np.expand_dims(estimate[:, 3, :], 1), SHAPE)
    if mask[:, 3, :].all():
        np.testing.assert_allclose(estimate, on_hull, atol=1e-9)
    assert np.isfinite(estimate).all()


def test_neighbours_on_one_plane_of_many_still_give_a_finite_spline():
    mask = np.ones((20, 12, 12), dtype=bool)
    mask[2:] = False
    mask[19, 0, 0] = True
    field = smooth(mask.shape)
    estimate = complete(ThinPlate(exact=1, neighbours=16), Observation(field, mask))
    assert np.abs(estimate).max() < 10 * np.abs(field).max()


def test_a_complete_observation_is_the_estimate():
    field = smooth(SHAPE)
    np.testing.assert_allclose(complete(ThinPlate(), observe(field, rate=2.0)), field, rtol=1e-12)


def test_irregular_axes_keep_their_proportions():
    depths = np.array([0.0, 5.0, 10.0, 20.0, 50.0, 100.0])
    x, _ = np.meshgrid(np.arange(8.0), depths, indexing="ij")
    field = x + 0.1 * depths
    mask = np.random.default_rng(0).random(field.shape) < 0.4
    axes = (Axis.regular("x", 8), Axis("depth", depths, "m"))
    # A trend that is linear in depth is linear to the spline only if it knows the depths.
    estimate = complete(ThinPlate(), Observation(np.where(mask, field, np.nan), mask, axes))
    np.testing.assert_allclose(estimate, field, atol=1e-8)


@pytest.mark.parametrize("kernel", ["linear", "thin_plate_spline", "cubic"])
def test_leave_one_out_error_is_that_of_refitting(kernel):
    rng = np.random.default_rng(3)
    points, values = rng.random((25, 2)) * 5, rng.normal(size=(25, 3))
    errors = []
    for index in range(25):
        kept = np.arange(25) != index
        spline = RBFInterpolator(points[kept], values[kept], kernel=kernel, smoothing=0.2)
        errors.append(np.sum((spline(points[index : index + 1])[0] - values[index]) ** 2))
    ours = leave_one_out(points, values, np.arange(25), kernel=kernel, smoothings=[0.2], neighbours=64)[0]
    assert ours == pytest.approx(np.mean(errors), rel=1e-5)


def test_noise_asks_for_smoothing_and_a_smooth_field_does_not():
    rng = np.random.default_rng(4)
    points = rng.random((150, 2)) * 12
    clean = np.sin(points[:, :1] / 3) + np.cos(points[:, 1:] / 4)
    candidates = (0.0, 0.1, 1.0, 10.0)
    _, without = choose(points, clean, ["thin_plate_spline"], candidates, 64, rng)
    _, noisy = choose(points, clean + 0.3 * rng.normal(size=clean.shape), ["thin_plate_spline"], candidates, 64, rng)
    assert without == 0.0
    assert noisy > 0.0


def test_the_judges_are_the_only_randomness(monkeypatch):
    """Few validation choose now this kernel and smoothing, now that; if all positions judge, the seed picks nothing."""
    field = smooth(SHAPE) + 0.2 * np.random.default_rng(8).normal(size=SHAPE)
    observation, method = observe(field, rate=0.5), RadialBasis(exact=1, neighbours=8)

    def estimates(validation, seeds):
        monkeypatch.setattr(polyharmonic, "VALIDATION_POINTS", validation)
        return {complete(method, observation, seed=seed).tobytes() for seed in seeds}

    assert len(estimates(5, [4, 4])) == 1
    assert len(estimates(5, range(4))) > 1
    assert len(estimates(observation.mask.sum(), range(4))) == 1


def rough(positions):
    """Plane waves of random directions, whose amplitudes fall off with their frequency, at positions (n, 3)."""
    rng = np.random.default_rng(5)
    vectors, phases = rng.normal(size=(60, 3)) * np.geomspace(0.1, 2, 60)[:, np.newaxis], rng.random(60)
    return np.cos(positions @ vectors.T + 2 * np.pi * phases) @ np.linalg.norm(vectors, axis=1) ** -1.5


def thin_plate_system(points):
    """The bordered matrix of the kernel r^2 log r and of linear polynomials at these points."""
    n, distances = len(points), np.linalg.norm(points[:, np.newaxis] - points, axis=-1)
    matrix = np.zeros((n + 4, n + 4))
    matrix[:n, :n], matrix[:n, n], matrix[:n, n + 1 :] = xlogy(distances**2, distances), 1, points
    matrix[n:, :n] = matrix[:n, n:].T
    return matrix


def test_a_local_spline_is_as_near_to_that_of_all_points_as_its_power_function_allows():
    """|s - s_N|(x) <= P_N(x) |s| (Wendland 2005, Scattered Data Approximation, chapter 11).

    For the local spline s_N interpolates the one through all points, s, at the neighbours N of x. The power
    function P_N follows from the kernel and the positions alone, the seminorm |s| from the values too.
    """
    rng, neighbours = np.random.default_rng(6), 24
    points, targets = rng.random((300, 3)) * 10, rng.random((150, 3)) * 10
    values = rough(points)
    exact, local = (
        predict(
            points,
            values[:, np.newaxis],
            targets,
            kernel="thin_plate_spline",
            smoothing=0,
            exact=most,
            neighbours=neighbours,
        )[:, 0]
        for most in (300, 299)
    )
    matrix = thin_plate_system(points)
    coefficients = np.linalg.solve(matrix, np.append(values, np.zeros(4)))[:300]
    seminorm = np.sqrt(coefficients @ matrix[:300, :300] @ coefficients)
    for target, difference in zip(targets, np.abs(exact - local), strict=True):
        distances = np.linalg.norm(points - target, axis=1)
        nearest = np.argsort(distances)[:neighbours]
        towards = np.concatenate([xlogy(distances[nearest] ** 2, distances[nearest]), [1.0], target])
        power = np.sqrt(-np.linalg.solve(thin_plate_system(points[nearest]), towards) @ towards)
        assert 0 < difference <= power * seminorm


def test_the_local_approximation_moves_the_estimate_by_far_less_than_it_is_off():
    """An approximation does no harm if what it changes is small beside the distance to the truth."""
    shape = (11, 11, 11)
    field = rough(np.indices(shape).reshape(3, -1).T).reshape(shape)
    observation = observe(field, rate=0.25, seed=7)
    exact, local = (complete(ThinPlate(exact=most), observation) for most in (4000, 1))
    moved, off = (np.linalg.norm(one[~observation.mask]) for one in (exact - local, exact - field))
    assert 0 < moved < off / 4


def test_the_deviation_of_a_piecewise_linear_spline_is_that_of_a_brownian_bridge():
    """The spline of the kernel -r on a line is the mean of Brownian motion between the values that it is pinned to."""
    rng = np.random.default_rng(9)
    points = np.sort(rng.random(30))[:, np.newaxis] * 50
    values, targets = rng.normal(size=(30, 2)).cumsum(axis=0), rng.uniform(points[0], points[-1], (200, 1))
    how = {"kernel": "linear", "smoothing": 0.0, "exact": 1, "neighbours": 64}
    mean, found = posterior(points, values, targets, **how, rng=rng)
    np.testing.assert_allclose(mean[:, 0], np.interp(targets[:, 0], points[:, 0], values[:, 0]), atol=1e-8)
    at = points[:, 0]

    def bridge(x, before, after):
        return (x - before) * (after - x) / (after - before)

    after = np.searchsorted(at, targets[:, 0])
    shape = bridge(targets[:, 0], at[after - 1], at[after])
    # Each value left out, over the bridge between its neighbours; at the ends over a free path.
    inner = at[1:-1]
    drawn = values[:-2] + (values[2:] - values[:-2]) * ((inner - at[:-2]) / (at[2:] - at[:-2]))[:, np.newaxis]
    ratios = (values[1:-1] - drawn) ** 2 / bridge(inner, at[:-2], at[2:])[:, np.newaxis]
    ends = [(values[0] - values[1]) ** 2 / (at[1] - at[0]), (values[-1] - values[-2]) ** 2 / np.ptp(at[-2:])]
    variances = (ratios.sum(axis=0) + np.sum(ends, axis=0)) / 30
    np.testing.assert_allclose(found**2, shape[:, np.newaxis] * variances, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_deviation_is_the_limit_of_a_process_whose_plane_nobody_knows(smoothing):
    """The kernel with a trend of huge variance is a covariance, whose conditional variance is textbook algebra."""
    rng = np.random.default_rng(10)
    points, targets, values = rng.random((25, 2)) * 6, rng.random((40, 2)) * 6, rng.normal(size=(25, 1))
    how = {"kernel": "cubic", "smoothing": smoothing, "exact": 100, "neighbours": 64}
    mean, found = posterior(points, values, targets, **how, rng=rng)
    np.testing.assert_array_equal(mean, predict(points, values, targets, **how))
    every = np.concatenate([points, targets])
    distances = np.linalg.norm(every[:, np.newaxis] - every, axis=-1)
    trend = np.column_stack([np.ones(len(every)), every])
    covariance = distances**3 + 1e7 * trend @ trend.T
    among, towards = covariance[:25, :25] + smoothing * np.eye(25), covariance[:25, 25:]
    expected = np.diag(covariance)[25:] - np.einsum("nm,nm->m", towards, np.linalg.solve(among, towards))
    ratio = found[:, 0] ** 2 / expected  # the variance of the process, the same everywhere
    np.testing.assert_allclose(ratio, np.median(ratio), rtol=1e-3)


@pytest.mark.parametrize("method", [ThinPlate(), RadialBasis(), ThinPlate(exact=1), ThinPlate(smoothing=0.1)])
def test_its_deviation_is_as_large_as_its_error(method):
    from fieldbench_datasets.gaussian_field import GaussianField

    rng, squares, variances, within = np.random.default_rng(11), [], [], []
    for _ in range(6):
        field = GaussianField(shape=(20, 20), lengths=(4.0,)).draw(rng).values
        observation = Observation(field, rng.random(field.shape) < 0.3)
        made = method.complete(observation)
        unobserved = ~observation.mask
        error = (made.mean - field)[unobserved]
        squares.append(np.mean(error**2))
        variances.append(np.mean(made.deviation[unobserved] ** 2))
        within.append(np.mean(np.abs(error) < 1.645 * made.deviation[unobserved]))
    assert np.mean(variances) / np.mean(squares) == pytest.approx(1.0, abs=0.35)
    assert np.mean(within) == pytest.approx(0.9, abs=0.04)


def test_an_interpolant_is_sure_of_what_it_goes_through_and_a_smoother_is_not():
    observation = observe(smooth(SHAPE) + 0.2 * np.random.default_rng(12).normal(size=SHAPE), 0.3)
    exact, smoothed = (method.complete(observation) for method in (ThinPlate(), ThinPlate(smoothing=1.0)))
    assert not exact.deviation[observation.mask].any()
    assert exact.deviation[~observation.mask].all()
    assert smoothed.deviation.all()


def test_what_cannot_be_left_out_has_no_deviation():
    field, mask = smooth(SHAPE), np.zeros(SHAPE, dtype=bool)
    mask.flat[:5] = True
    assert ThinPlate().complete(Observation(field, mask)).deviation is None
