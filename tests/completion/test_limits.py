"""What may be filled: gaps near an observation, and possible values."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench.completion.limits import Limits
from fieldbench.errors import RequestError
from fieldbench.field import Axis, Observation

TIME = Axis("time", np.array([0.0, 1, 2, 3, 10]), "days since 2020-01-01")
LAT = Axis("lat", np.array([0.0, 60.0, 61.0]), "degrees_north")
LON = Axis("lon", np.arange(0, 360, 10.0), "degrees_east", period=360)


def observed(axes: tuple[Axis, ...], *positions: tuple[int, ...]) -> Observation:
    mask = np.zeros([len(axis) for axis in axes], dtype=bool)
    for position in positions:
        mask[position] = True
    return Observation(np.zeros(mask.shape), mask, axes)


def near(observation: Observation, *texts: str) -> list[list[int]]:
    """Positions that are filled, the observed ones left out."""
    return np.argwhere(Limits(tuple(texts)).near(observation) & ~observation.mask).tolist()


def test_grid_steps_in_any_direction() -> None:
    plane = observed((Axis.regular("y", 7), Axis.regular("x", 7)), (3, 3))
    within = np.hypot(*(np.indices((7, 7)) - 3)) <= 2
    within[3, 3] = False
    assert near(plane, "2") == near(plane, "2steps") == np.argwhere(within).tolist()


def test_a_day_without_any_observation_stays_missing() -> None:
    """Five days at two positions; nobody measured on the fifth, a week later."""
    rain = observed((TIME, Axis.regular("x", 2)), (0, 0), (1, 0), (1, 1), (3, 0), (3, 1))
    assert near(rain, "1d") == near(rain, "24h") == near(rain, "time=1") == [[0, 1], [2, 0], [2, 1]]
    assert near(rain, "7 days") == [[0, 1], [2, 0], [2, 1], [4, 0], [4, 1]]
    assert near(rain, "time=1steps") == [[0, 1], [2, 0], [2, 1], [4, 0], [4, 1]]


def test_a_distance_on_the_earth_is_along_a_great_circle() -> None:
    """Ten degrees of longitude are 1112 km at the equator and 556 km (an arc of 555 km) at 60 degrees north."""
    globe = observed((LAT, LON), (0, 0), (1, 0))
    assert near(globe, "120km") == [[2, 0]]
    assert near(globe, "560km") == [[1, 1], [1, 35], [2, 0], [2, 1], [2, 35]]
    assert near(globe, "1113km")[:2] == [[0, 1], [0, 35]]
    assert [0, 1] not in near(globe, "1111km")


def test_a_distance_in_metres_takes_axes_with_lengths() -> None:
    water = observed((Axis("depth", np.array([0.0, 5, 50]), "m"), Axis("y", np.array([0.0, 1]), "km")), (0, 0))
    assert near(water, "10m") == [[1, 0]]
    assert near(water, "1km") == [[0, 1], [1, 0], [2, 0]]
    assert near(water, "depth=10", "y=1") == [[0, 1], [1, 0]]
    assert near(water, "depth=10", "y=2") == [[0, 1], [1, 0], [1, 1]]


def test_the_seam_of_a_closed_axis_is_no_gap() -> None:
    globe = observed((LON,), (0,))
    assert near(globe, "1") == near(globe, "lon=10") == [[1], [35]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("near", "write a number of grid steps"),
        ("0", "write a number of grid steps"),
        ("3parsec", "no unit 'parsec'"),
        ("tim=1", "there is no axis 'tim'; did you mean 'time'"),
        ("5km", r"no axis has a unit of this kind: time \(days since 2020-01-01\), x \(no unit\)"),
    ],
)
def test_a_wrong_gap_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Limits((text,)).near(observed((TIME, Axis.regular("x", 2)), (0, 0)))


def test_values_are_brought_into_the_possible_range() -> None:
    values = np.array([-0.5, 0.0, 0.05, 3.0, np.nan])
    measured = np.array([0.1, 2.0])
    possible = Limits(within=(0.0, 1.0)).possible(values, measured)
    np.testing.assert_array_equal(possible, [0, 0, 0.05, 1, np.nan])
    np.testing.assert_array_equal(Limits(positive=True).possible(values, measured), [0.1, 0.1, 0.05, 3, np.nan])
    with_zero = Limits(positive=True).possible(values, np.array([0.0, 2.0]))
    np.testing.assert_array_equal(with_zero, [0, 0, 0.05, 3, np.nan])
    with pytest.raises(RequestError, match="give the lowest value first"):
        Limits(within=(1.0, 0.0))
