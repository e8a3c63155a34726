"""A field completed tile by tile."""

from __future__ import annotations

import numpy as np
import pytest

import fieldbench
from fieldbench import Axis, Estimate, NullReport, Observation, as_estimate
from fieldbench_methods.tiles import Tiles


def complete(spec, seen):
    return as_estimate(fieldbench.make(spec).complete(seen))


def observation(shape=(30, 20), rate=0.4, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) < rate
    return Observation(np.where(mask, rng.normal(size=shape), np.nan), mask)


@pytest.mark.parametrize("name", ["nearest", "kriging", "thin-plate"])
def test_one_tile_is_the_whole_field(name):
    seen = observation()
    whole, tiled = complete(name, seen), complete(f"{name}+tiles[size=30]", seen)
    np.testing.assert_allclose(tiled.mean, whole.mean, rtol=1e-12)
    if whole.deviation is not None:
        np.testing.assert_allclose(tiled.deviation, whole.deviation, rtol=1e-12)


def test_where_one_tile_alone_reaches_it_is_that_tile_completed_alone():
    seen = observation((30,), 0.6)
    tiled = complete("linear+tiles[size=10,least=1]", seen).mean  # tiles at 0, 5, 10, 15, 20
    first, last = (complete("linear", seen.part((box,))).mean for box in (slice(10), slice(20, 30)))
    np.testing.assert_allclose(tiled[:5], first[:5])
    np.testing.assert_allclose(tiled[25:], last[5:])


def test_between_two_tiles_is_their_weighted_mean():
    seen = observation((15,), 0.6)
    tiled = complete("nearest+tiles[size=10,least=1]", seen).mean  # tiles at 0 and 5
    one, other = (complete("nearest", seen.part((box,))).mean for box in (slice(10), slice(5, 15)))
    ramp = np.array([1, 2, 3, 4, 5, 5, 4, 3, 2, 1.0])
    expected = (ramp[5:] * one[5:] + ramp[:5] * other[:5]) / (ramp[5:] + ramp[:5])
    np.testing.assert_allclose(tiled[5:10], expected)


def test_a_quantile_that_every_tile_has_is_their_weighted_mean():
    class Ends(fieldbench.Method):
        """A mean of zero, and quantiles that depend on where a tile lies; the upper one in some tiles alone."""

        name = "ends"

        def complete(self, observation, *, seed, device, report):
            start = observation.axes[0].coordinates[0]
            ends = {0.05: np.full(observation.shape, -start), 0.95: np.ones(observation.shape)}
            return Estimate(np.zeros(observation.shape), quantiles=ends if start else {0.05: ends[0.05]})

    made = Tiles(size=10, least=1).complete(Ends(), observation((15,), 0.6), seed=0, device="cpu", report=NullReport())
    ramp = np.array([1, 2, 3, 4, 5, 5, 4, 3, 2, 1.0])
    assert set(made.quantiles) == {0.05}
    np.testing.assert_allclose(made.quantiles[0.05][5:10], -5 * ramp[:5] / (ramp[5:] + ramp[:5]))
    np.testing.assert_allclose(made.quantiles[0.05][[0, 14]], [0, -5])


def test_a_tile_with_little_in_it_looks_further():
    mask = np.zeros((24, 24), dtype=bool)
    mask[:4, :4] = True
    values = np.where(mask, 7.0, np.nan)
    np.testing.assert_allclose(complete("kriging+tiles[size=6]", Observation(values, mask)).mean, 7.0)


def test_local_fits_follow_a_field_that_changes_its_scale():
    """Smooth on the left, rough on the right: one length scale for both is right for neither."""
    rng = np.random.default_rng(4)
    x, y = np.meshgrid(np.arange(64.0), np.arange(32.0), indexing="ij")
    truth = np.where(x < 32, np.sin(x / 9) + np.cos(y / 8), np.sin(x * 1.1) * np.cos(y * 1.3))
    mask = rng.random(truth.shape) < 0.35
    seen = Observation(np.where(mask, truth + 0.05 * rng.normal(size=truth.shape), np.nan), mask)

    def error(spec):
        return np.sqrt(np.mean((complete(spec, seen).mean - truth)[~mask & (x < 28)] ** 2))

    assert error("kriging+tiles[size=32]") < 0.8 * error("kriging")


def test_land_has_no_tile_of_its_own():
    seen = observation((40, 10), 0.5)
    valid = np.ones(seen.shape, dtype=bool)
    valid[20:] = False
    here = Observation(seen.values, seen.mask & valid, valid=valid)
    assert np.isfinite(complete("biharmonic+tiles[size=8]", here).mean).all()


def test_a_closed_axis_that_is_cut_is_open():
    axes = (Axis("longitude", np.arange(0.0, 360, 10), "degrees", period=360.0), Axis.regular("depth", 4))
    seen = Observation(np.ones((36, 4)), np.ones((36, 4), dtype=bool), axes)
    whole, cut = seen.part((slice(0, 36), slice(2))), seen.part((slice(3, 30), slice(4)))
    assert (whole.axes[0].period, cut.axes[0].period) == (360.0, None)
    assert cut.axes[0].coordinates.tolist() == list(range(30, 300, 10))
