"""Fields and observations: what they promise, and what they refuse."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from fieldbench.field import Axis, Field, Observation, grid_axes

VALUES = np.arange(12.0).reshape(3, 4)
MASK = np.zeros((3, 4), dtype=bool)
MASK[0, 1] = MASK[2, 0] = MASK[1, 3] = True


def test_an_axis_knows_its_spacing_and_keeps_its_coordinates() -> None:
    axis = Axis.regular("depth", 5, 10.0, "m", origin=5.0)
    assert axis.coordinates.tolist() == [5, 15, 25, 35, 45]
    assert (axis.spacing, len(axis)) == (10, 5)
    assert Axis("x", np.array([0.0, 1.0, 5.0])).spacing == 2.5
    assert Axis("depth", np.array([30.0, 20.0, 10.0])).spacing == 10
    assert Axis("x", np.array([3.0])).spacing == 1
    with pytest.raises(ValueError, match="read-only"):
        axis.coordinates[0] = 1


def test_an_axis_copies_what_it_is_given() -> None:
    coordinates = np.array([0.0, 1.0])
    axis = Axis("x", coordinates)
    coordinates[0] = 7
    assert axis.coordinates[0] == 0


@pytest.mark.parametrize("coordinates", [np.zeros((2, 2)), np.array([0.0, np.nan]), np.array([0.0, np.inf])])
def test_an_axis_needs_a_finite_vector(coordinates: np.ndarray) -> None:
    with pytest.raises(ValueError, match="axis 'x'"):
        Axis("x", coordinates)


def test_axes_of_a_bare_array_are_named_in_order() -> None:
    assert [axis.name for axis in grid_axes((2, 3, 4, 5, 6))] == ["x", "y", "z", "axis3", "axis4"]
    assert [len(axis) for axis in Field(VALUES).axes] == [3, 4]


def test_a_field_is_a_read_only_copy() -> None:
    values = VALUES.copy()
    field = Field(values)
    values[0, 0] = 99
    assert field.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        field.values[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        field.unit = "K"  # type: ignore[misc]


def test_integers_and_booleans_become_floats_and_float32_stays() -> None:
    assert Field(np.array([[1, 2]])).values.dtype == np.float64
    assert Field(np.array([[True, False]])).values.dtype == np.float64
    assert Field(VALUES.astype(np.float32)).values.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": np.float64(3)}, "at least one dimension"),
        ({"values": np.zeros((3, 0))}, "at least one dimension and one entry"),
        ({"values": VALUES + 1j}, "real numbers"),
        ({"values": np.array(["a", "b"])}, "real numbers"),
        ({"values": np.where(MASK, np.nan, VALUES)}, "3 NaN or infinite entries"),
        ({"values": np.where(MASK, -np.inf, VALUES)}, "3 NaN or infinite entries"),
        ({"values": np.ma.MaskedArray(VALUES, mask=MASK)}, "3 NaN or infinite entries"),
        ({"values": VALUES, "axes": grid_axes((4, 3))}, "axes have sizes"),
        ({"values": VALUES, "axes": grid_axes((3,))}, "axes have sizes"),
        ({"values": VALUES, "valid": np.ones((3, 4))}, "boolean array of shape"),
        ({"values": VALUES, "valid": np.ones((4, 3), dtype=bool)}, "boolean array of shape"),
        ({"values": VALUES, "valid": np.zeros((3, 4), dtype=bool)}, "exists nowhere"),
    ],
)
def test_a_field_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Field(**arguments)


def test_a_field_need_not_exist_everywhere() -> None:
    field = Field(np.where(MASK, np.nan, VALUES), valid=~MASK)
    np.testing.assert_array_equal(field.valid, ~MASK)
    assert Field(VALUES).valid.all()


def test_an_observation_lists_what_was_observed_in_index_order() -> None:
    observation = Observation(np.where(MASK, VALUES, np.nan), MASK)
    assert observation.indices.tolist() == [[0, 1], [1, 3], [2, 0]]
    assert observation.observed.tolist() == [1, 7, 8]
    for index, value in zip(observation.indices, observation.observed, strict=True):
        assert VALUES[tuple(index)] == value
    assert (observation.shape, observation.ndim, observation.rate) == ((3, 4), 2, 0.25)


def test_unobserved_entries_are_nan_whatever_is_given_there() -> None:
    observation = Observation(VALUES, MASK)
    assert np.isnan(observation.values[~MASK]).all()
    np.testing.assert_array_equal(observation.values[MASK], VALUES[MASK])


def test_the_rate_counts_existing_entries_only() -> None:
    valid = np.ones((3, 4), dtype=bool)
    valid[1, :3] = False
    valid[0, 2:] = False
    valid[2, 3] = False
    assert Observation(VALUES, MASK, valid=valid).rate == 3 / 6


def test_filled_is_a_writable_copy() -> None:
    observation = Observation(VALUES, MASK)
    filled = observation.filled(-1.0)
    np.testing.assert_array_equal(filled, np.where(MASK, VALUES, -1))
    filled[0, 0] = 5
    assert np.isnan(observation.values[0, 0])


def test_withholding_hides_and_changes_nothing_else() -> None:
    axes, valid = grid_axes((3, 4)), np.ones((3, 4), dtype=bool)
    whole = Observation(VALUES, MASK, axes, "K", "temperature", valid, 1e-6, {"emitters": 2})
    withheld = np.zeros_like(MASK)
    withheld[0, 1] = True
    part = whole.without(withheld)
    assert part.observed.tolist() == [7, 8]
    assert np.isnan(part.values[0, 1])
    assert (part.axes, part.unit, part.quantity, part.log_floor, part.metadata) == (
        axes,
        "K",
        "temperature",
        1e-6,
        {"emitters": 2},
    )
    assert whole.observed.tolist() == [1, 7, 8]


def test_replaced_takes_other_values_and_mask() -> None:
    observation = Observation(VALUES, MASK, unit="K")
    assert observation.replaced(VALUES * 2).observed.tolist() == [2, 14, 16]
    everywhere = np.ones_like(MASK)
    assert observation.replaced(VALUES, everywhere).rate == 1
    assert observation.replaced(VALUES, everywhere).unit == "K"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask": MASK.astype(float)}, "True = observed; this one is float64"),
        ({"mask": MASK.T}, "mask has shape"),
        ({"mask": np.zeros_like(MASK)}, "no entry is observed"),
        ({"mask": MASK, "values": np.where(MASK, np.nan, VALUES)}, "observed entry is NaN"),
        ({"mask": MASK, "axes": grid_axes((4, 3))}, "axes have sizes"),
        ({"mask": MASK, "valid": ~MASK}, "where the field does not exist"),
    ],
)
def test_an_observation_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Observation(**{"values": VALUES, **arguments})


def test_an_observation_does_not_share_its_mask() -> None:
    mask = MASK.copy()
    observation = Observation(VALUES, mask)
    mask[:] = True
    assert observation.mask.sum() == 3
    with pytest.raises(ValueError, match="read-only"):
        observation.mask[0, 0] = True


def test_fields_and_observations_travel_to_other_processes() -> None:
    field = pickle.loads(pickle.dumps(Field(VALUES, unit="K", metadata={"emitters": 3})))
    np.testing.assert_array_equal(field.values, VALUES)
    assert (field.unit, field.metadata) == ("K", {"emitters": 3})
    observation = pickle.loads(pickle.dumps(Observation(VALUES, MASK)))
    assert observation.observed.tolist() == [1, 7, 8]


def test_covariates_have_the_shape_of_the_field() -> None:
    field = Field(VALUES, covariates={"depth": [1.0, 2.0, 3.0, 4.0], "distance": 2 * VALUES})
    np.testing.assert_array_equal(field.covariates["depth"], np.broadcast_to([1.0, 2.0, 3.0, 4.0], (3, 4)))
    assert Observation(VALUES, MASK).covariates == {}
    with pytest.raises(ValueError, match="read-only"):
        field.covariates["distance"][0] = 0
    with pytest.raises(ValueError, match=r"covariate 'depth' has shape \(3,\), which does not broadcast"):
        Field(VALUES, covariates={"depth": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="covariate 'depth' is NaN or infinite where the field exists"):
        Observation(VALUES, MASK, covariates={"depth": np.where(MASK, np.nan, 1.0)})
    Field(np.where(MASK, np.nan, VALUES), valid=~MASK, covariates={"depth": np.where(MASK, np.nan, 1.0)})


def test_what_is_made_of_an_observation_has_its_covariates() -> None:
    observation = Observation(VALUES, MASK, covariates={"depth": VALUES}, metadata={"noise_deviation": 0.5})
    for made in (observation.without(np.eye(3, 4, 1, dtype=bool)), observation.replaced(2 * VALUES)):
        np.testing.assert_array_equal(made.covariates["depth"], VALUES)
        assert made.noise_deviation == 0.5
    assert Observation(VALUES, MASK).noise_deviation is None
