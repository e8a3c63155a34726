"""One scale an axis: given to every method that works with distances, or learned on withheld entries."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fieldbench import Axis, Observation
from fieldbench.errors import RequestError
from fieldbench_methods.axis_scale import search
from fieldbench_methods.inpainting import Biharmonic, Harmonic
from fieldbench_methods.interpolation import InverseDistance, Nearest
from fieldbench_methods.kriging import Kriging
from fieldbench_methods.splines import RadialBasis, ThinPlate
from tests.methods.fields import complete, observe

SCALED = [Nearest, InverseDistance, ThinPlate, RadialBasis, Harmonic, Biharmonic, Kriging]
LEARNING = [Nearest, InverseDistance, ThinPlate, Harmonic, Biharmonic]


def days():
    """Maps that change little from day to day: one day counts for less than one step in space."""
    rng, (day, x, y) = np.random.default_rng(1), np.indices((8, 24, 24)).astype(float)
    waves = zip(0.3 * rng.normal(size=(12, 2)), rng.random((12, 2)) * 6, strict=True)
    return sum(np.cos(one @ [x.ravel(), y.ravel()] + phase[0] + 0.01 * day.ravel()) for one, phase in waves).reshape(
        day.shape
    )


@pytest.mark.parametrize("kind", SCALED)
def test_twice_the_scale_is_the_same_as_twice_the_spacing(kind):
    """Distances alone matter: a field of every second row, and all its rows with the odd ones missing."""
    grid = np.indices((9, 8)).astype(float)
    field = np.sin(grid[0] / 2) + np.cos(grid[1] / 3)
    one = complete(kind(axis_scale=(2.0, 1.0)), observe(field))
    other = complete(kind(axis_scale=(1.0, 0.5)), observe(field))
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert np.abs(one - complete(kind(axis_scale=(1.0, 4.0)), observe(field))).max() > 1e-3


def test_the_nearest_entry_is_that_in_the_scaled_metric():
    field, mask = np.array([[1.0, 0, 2], [0, 0, 0], [3, 0, 0]]), np.zeros((3, 3), dtype=bool)
    mask[0, 0] = mask[2, 0] = mask[0, 2] = True
    observation = Observation(field, mask)
    assert complete(Nearest(axis_scale=(1.0, 3.0)), observation)[1, 1] in (1, 3)
    assert complete(Nearest(axis_scale=(1.0, 3.0)), observation)[2, 2] == 2
    assert complete(Nearest(axis_scale=(3.0, 1.0)), observation)[2, 2] == 3


@pytest.mark.parametrize("kind", LEARNING)
def test_a_day_is_not_taken_for_a_grid_step(kind):
    field = days()
    observation = observe(field, 0.3)
    learned, equal = (
        np.sqrt(np.mean((complete(kind(axis_scale=scale), observation) - field) ** 2)) for scale in (None, (1.0,) * 3)
    )
    assert learned < 0.85 * equal


@pytest.mark.parametrize("kind", [Nearest, InverseDistance, ThinPlate, RadialBasis])
def test_a_real_depth_axis_makes_no_method_worse_than_indices_do(kind):
    """Profiles of 40 stations on levels that lie close above and far apart below, as those of the field's change do."""
    rng = np.random.default_rng(0)
    depths = 2.0 * 1.2 ** np.arange(32)
    station, level = np.meshgrid(np.arange(40.0), np.arange(32.0), indexing="ij")
    field = np.sin(level / 4) + np.cos(station / 6 + level / 9)
    mask = rng.random(field.shape) < 0.15
    errors = []
    for axis in (Axis.regular("level", 32), Axis("depth", depths, "m")):
        observation = Observation(np.where(mask, field, np.nan), mask, (Axis.regular("station", 40), axis))
        errors.append(np.sqrt(np.mean((complete(kind(), observation) - field) ** 2)))
    assert errors[1] <= 1.01 * errors[0]


def test_the_search_finds_the_least_error():
    def error(scale):
        a, b, c = 2 * np.log2(scale)
        return (a - b - 5) ** 2 + (b - c + 2) ** 2 + 1.0

    assert search(error, 1, 4) == (1.0,)
    assert error(search(error, 3, 4)) == pytest.approx(1.0)


def test_the_search_stays_moderate_where_the_error_is_flat():
    assert search(lambda scale: 1.0 - 0.01 * np.log2(scale[0] / scale[1]), 2, 6, 0.02) == (1.0, 1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_are_positive_and_finite(scale):
    with pytest.raises(ValidationError, match=r"greater than 0|finite number"):
        Harmonic(axis_scale=(scale, 1.0, 1.0))


@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.parametrize("count", [1, 4])
def test_a_wrong_number_is_refused_before_any_trial(kind, count):
    with pytest.raises(ValueError, match="give 3 numbers, one for each axis"):
        kind(axis_scale=(1.0,) * count).check_shape((6, 5, 4))


@pytest.mark.parametrize("kind", SCALED)
def test_one_less_suits_whole_fibers_alone(kind):
    method, field = kind(axis_scale=(1.0, 2.0)), np.random.default_rng(0).normal(size=(6, 5, 4))
    method.check_shape(field.shape)
    fibers = np.zeros(field.shape, dtype=bool)
    fibers[::2, ::2] = True
    assert np.isfinite(complete(method, Observation(field, fibers))).all()
    with pytest.raises(RequestError, match="give 3 numbers, one for each axis"):
        complete(method, observe(field))
