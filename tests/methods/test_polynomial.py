"""A polynomial is found again, and what it leaves over is kriged."""

from __future__ import annotations

import numpy as np
import pytest

import fieldbench
from fieldbench import Axis, Observation, as_estimate

AXES = (Axis("x", [0.0, 1.0, 2.5, 4.0, 7.0, 8.0, 9.0, 11.0]), Axis.regular("y", 9, 0.5), Axis.regular("z", 1))


def complete(spec, seen):
    return as_estimate(fieldbench.make(spec).complete(seen)).mean


def fields():
    return np.meshgrid(*(axis.coordinates for axis in AXES), indexing="ij")


def observed(field, rate=0.5, **about):
    mask = np.random.default_rng(0).random(field.shape) < rate
    return Observation(np.where(mask, field, np.nan), mask, AXES, **about)


@pytest.mark.parametrize(
    ("degree", "field"),
    [
        (0, lambda x, y, z: 3.0 + 0 * x),
        (1, lambda x, y, z: 2 * x - y + 5),
        (2, lambda x, y, z: x * y - y**2 + 1),
        (3, lambda x, y, z: x**3 - 2 * x * y**2 + y),
    ],
)
def test_a_polynomial_is_found_again_on_uneven_coordinates(degree, field):
    truth = field(*fields())
    np.testing.assert_allclose(complete(f"polynomial[degree={degree}]", observed(truth)), truth, atol=1e-8)


def test_it_is_the_least_squares_fit():
    truth = np.random.default_rng(1).normal(size=(8, 9, 1))
    seen = observed(truth)
    x, y, _ = fields()
    columns = np.stack([np.ones_like(x), x, y], axis=-1)
    expected = columns @ np.linalg.lstsq(columns[seen.mask], truth[seen.mask], rcond=None)[0]
    np.testing.assert_allclose(complete("polynomial", seen), expected, atol=1e-10)


def test_power_is_a_polynomial_in_decibels():
    x, y, _ = fields()
    truth = 10 ** (0.1 * x - 0.2 * y) - 1e-6
    np.testing.assert_allclose(complete("polynomial", observed(truth, log_floor=1e-6)), truth, rtol=1e-8)


def test_fewer_observations_than_terms_are_kept():
    truth = np.random.default_rng(2).normal(size=(8, 9, 1))
    mask = np.zeros(truth.shape, dtype=bool)
    mask[2, 3], mask[5, 1] = True, True
    made = complete("polynomial[degree=4]", Observation(np.where(mask, truth, np.nan), mask, AXES))
    np.testing.assert_allclose(made[mask], truth[mask], atol=1e-8)


def test_kriging_with_a_drift_extrapolates_a_slope():
    """Far from all observations kriging comes back to the mean, and kriging with a drift goes on along the slope."""
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.arange(40.0), np.arange(12.0), indexing="ij")
    truth = 0.5 * x + np.sin(y) + 0.05 * rng.normal(size=x.shape)
    mask = (x < 24) & (rng.random(x.shape) < 0.5)
    seen = Observation(np.where(mask, truth, np.nan), mask)

    def error(spec):
        return np.sqrt(np.mean((complete(spec, seen) - truth)[x > 30] ** 2))

    assert error("kriging+residual[of=polynomial]") < 1.5 < error("kriging[lengths=3x3,nugget=0.01]")
