"""A field completed slice by slice equals its slices completed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench import Axis, Observation, as_estimate
from fieldbench.errors import RequestError
from fieldbench.identity import cell_identity
from fieldbench.records import Cell
from fieldbench.registry import Registry
from fieldbench_methods.interpolation import Nearest
from fieldbench_methods.slices import Slices

REGISTRY = Registry()
AXES = (Axis.regular("x", 7), Axis.regular("y", 6), Axis.regular("time", 5))


def observation(empty=()):
    rng = np.random.default_rng(0)
    mask = rng.random((7, 6, 5)) < 0.5
    mask[:, :, list(empty)] = False
    return Observation(rng.normal(size=mask.shape), mask, AXES)


def complete(text, seen):
    return as_estimate(REGISTRY.method(text).complete(seen)).mean


@pytest.mark.parametrize("axis", ["time", "2"])
@pytest.mark.parametrize("name", ["nearest", "thin-plate", "kriging", "biharmonic", "tucker-als[ranks=2]"])
def test_slices_are_completed_by_themselves(name, axis):
    seen = observation()
    whole = complete(f"{name}+slices[axis={axis}]", seen)
    for day in range(5):
        alone = Observation(seen.values[..., day], seen.mask[..., day], AXES[:2])
        np.testing.assert_array_equal(whole[..., day], complete(name, alone))


def test_a_deviation_is_that_of_the_slices():
    seen = observation()
    method = REGISTRY.method("kriging+slices[axis=time]")
    deviation = method.complete(seen).deviation
    alone = Observation(seen.values[..., 1], seen.mask[..., 1], AXES[:2])
    expected = REGISTRY.method("kriging").complete(alone).deviation
    np.testing.assert_array_equal(deviation[..., 1], expected)


def test_a_slice_without_observations_lies_between_its_neighbours():
    estimate = complete("nearest+slices[axis=time]", observation(empty=(0, 2, 3)))
    np.testing.assert_array_equal(estimate[..., 0], estimate[..., 1])
    np.testing.assert_allclose(estimate[..., 2], (2 * estimate[..., 1] + estimate[..., 4]) / 3)
    np.testing.assert_allclose(estimate[..., 3], (estimate[..., 1] + 2 * estimate[..., 4]) / 3)


def test_a_slice_where_the_field_does_not_exist_is_left_out():
    seen, valid = observation(), np.ones((7, 6, 5), dtype=bool)
    valid[..., 4] = False
    assert np.isfinite(
        complete("biharmonic+slices[axis=2]", Observation(seen.values, seen.mask & valid, AXES, valid=valid))
    ).all()


def test_text_form_and_identity():
    method = REGISTRY.method("nearest+slices[axis=time]")
    assert str(method) == "nearest+slices[axis=time]"
    assert method == REGISTRY.method(str(method))
    assert method == Nearest() + Slices(axis="time")


def test_the_axis_is_part_of_the_identity():
    identities = {
        cell_identity(REGISTRY, Cell(method, "ssf-synthetic", "random", "none", "final", 0.1))
        for method in ("nearest", "nearest+slices[axis=0]", "nearest+slices[axis=1]")
    }
    assert len(identities) == 3


@pytest.mark.parametrize(
    ("axis", "found"), [("depth", "slices\\[axis=depth\\].*2 \\(time\\)"), ("3", "axes 0 \\(x\\)")]
)
def test_an_axis_that_is_not_there_is_named(axis, found):
    method = REGISTRY.method(f"nearest+slices[axis={axis}]")
    with pytest.raises(RequestError, match=found):
        complete(str(method), observation())
    assert "the field has the axes" in method.applicable(observation())


def test_what_a_slice_does_not_allow_is_said_before():
    line = Observation(np.zeros(4), np.ones(4, dtype=bool))
    assert "1-D" in REGISTRY.method("nearest+slices").applicable(line)
    assert "1-D" in REGISTRY.method("dineof+slices").applicable(
        Observation(np.zeros((4, 3)), np.ones((4, 3), dtype=bool))
    )
    with pytest.raises(ValueError, match="give 2 numbers"):
        REGISTRY.method("idw[axis_scale=(1,2,3,4)]+slices").check_shape((6, 5, 4))


def test_slices_of_a_field_with_one_more_axis_suit_a_method_of_few_orders():
    method = REGISTRY.method("nasdac+slices")
    assert method.orders == (4,)
    assert method.applicable(observation()) == "nasdac+slices works on 4-D fields; this one is 3-D"


def test_slices_are_given_once():
    with pytest.raises(RequestError, match="twice"):
        REGISTRY.method("nearest+slices+slices")
