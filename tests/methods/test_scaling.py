"""Scaling: only the observed entries count, and the way back is the inverse."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Observation
from fieldbench.errors import RequestError
from fieldbench_methods.scaling import fit_scaling

SHAPE = (6, 5)


def observe(field, log_floor=None, unobserved=np.nan):
    mask = np.arange(field.size).reshape(field.shape) % 3 == 0
    return Observation(np.where(mask, field, unobserved), mask, log_floor=log_floor)


def test_linear_divides_by_the_largest_observed_magnitude():
    field = np.arange(30.0).reshape(SHAPE) - 28
    scaling = fit_scaling(observe(field))
    # Entry 0 is observed and holds -28.
    np.testing.assert_allclose(scaling.forward(field), field / 28)
    np.testing.assert_allclose(scaling.inverse(scaling.forward(field)), field)


def test_log_is_standardised_by_mean_and_three_deviations():
    field = 10.0 ** -np.linspace(1, 6, 30).reshape(SHAPE)
    observation = observe(field, log_floor=1e-6)
    scaling = fit_scaling(observation)
    scaled = scaling.forward(observation.observed)
    assert scaled.mean() == pytest.approx(0, abs=1e-12)
    assert scaled.std() == pytest.approx(1 / 3)
    np.testing.assert_allclose(scaling.inverse(scaling.forward(field)), field, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(scaling.forward(field) * scaling.scale + scaling.shift, np.log10(field + 1e-6))


def test_power_is_never_negative():
    scaling = fit_scaling(observe(10.0 ** -np.linspace(1, 6, 30).reshape(SHAPE), log_floor=1e-6))
    assert (scaling.inverse(np.linspace(-3, 3, 50)) >= 0).all()
    assert scaling.inverse(np.array([-50.0]))[0] == 0


def test_power_beyond_all_numbers_is_the_largest_there_is():
    scaling = fit_scaling(observe(10.0 ** -np.linspace(1, 6, 30).reshape(SHAPE), log_floor=1e-6))
    np.testing.assert_allclose(scaling.inverse(np.array([1e3, 1e300])), 1e300)
    assert scaling.inverse(np.array([-1e3, -1e300])).tolist() == [0, 0]


@pytest.mark.parametrize("log_floor", [None, 1e-6])
@pytest.mark.parametrize("value", [0.0, 3.5, 1e-12])
def test_a_constant_field_survives(value, log_floor):
    field = np.full(SHAPE, value)
    scaling = fit_scaling(observe(field, log_floor))
    assert np.isfinite(scaling.forward(field)).all()
    np.testing.assert_allclose(scaling.inverse(scaling.forward(field)), field, rtol=1e-6, atol=1e-18)


@pytest.mark.parametrize("log_floor", [None, 1e-6])
def test_unobserved_entries_do_not_count(log_floor):
    field = np.abs(np.sin(np.arange(30.0))).reshape(SHAPE)
    assert fit_scaling(observe(field, log_floor)) == fit_scaling(observe(field, log_floor, unobserved=1e6))


def test_log_needs_a_floor_and_linear_can_be_forced():
    field = np.arange(1.0, 31.0).reshape(SHAPE)
    with pytest.raises(RequestError, match="no log_floor"):
        fit_scaling(observe(field), "log")
    assert fit_scaling(observe(field, 1e-6), "linear").floor is None
