"""Coordinates as files have them, and axes as methods need them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.field import Axis
from fieldbench.files import Selector, read
from fieldbench.files.axes import arranged, is_latitude, is_longitude

EAST = "degrees_east"


def test_out_of_order_is_sorted() -> None:
    axis, order, remark = arranged(Axis("x", np.array([30.0, 0, 10, 20, 50, 40])), {})
    assert axis.coordinates.tolist() == [0, 10, 20, 30, 40, 50]
    assert order is not None
    assert order.tolist() == [1, 2, 3, 0, 5, 4]
    assert remark == "the coordinates 'x' are out of order; they are sorted to complete the field and put back"


@pytest.mark.parametrize("coordinates", [[0.0, 1, 5], [5.0, 1, 0], [7.0]])
def test_in_order_stays_as_it_is(coordinates: list[float]) -> None:
    axis, order, remark = arranged(Axis("x", np.array(coordinates)), {})
    assert (axis.coordinates.tolist(), order, remark, axis.period) == (coordinates, None, "", None)


@pytest.mark.parametrize(
    ("coordinates", "taken", "order"),
    [
        ([358.0, 359, 0, 1], [358, 359, 360, 361], None),
        ([-2.0, -1, 0, 1], [-2, -1, 0, 1], None),
        ([0.0, 1, 358, 359], [358, 359, 360, 361], [2, 3, 0, 1]),  # as a table sorts them
        ([1.0, 359, 0, 358], [358, 359, 360, 361], [3, 1, 2, 0]),
        ([179.0, 180, -179, -178], [179, 180, 181, 182], None),
        ([10.0, 20, 100], [10, 20, 100], None),  # nothing closes the circle
    ],
)
def test_longitudes_go_on_across_the_meridian(
    coordinates: list[float], taken: list[float], order: list[int] | None
) -> None:
    axis, made, _ = arranged(Axis("lon", np.array(coordinates), EAST), {})
    assert axis.coordinates.tolist() == taken
    assert (None if made is None else made.tolist()) == order
    assert axis.period is None


@pytest.mark.parametrize(
    "coordinates",
    [
        np.arange(0, 360, 2.5),
        np.arange(-180, 180, 0.75),
        np.arange(180, -180, -10.0),
        np.linspace(0, 360, 37),
        np.r_[180:360:5, 0:180:5],
    ],
)
def test_longitudes_around_the_earth_are_closed(coordinates: np.ndarray) -> None:
    axis, order, remark = arranged(Axis("longitude", coordinates, EAST), {})
    assert axis.period == 360
    assert order is None
    assert abs(np.diff(axis.coordinates)).max() < 11
    assert "its first and last positions are neighbours" in remark


@pytest.mark.parametrize(
    ("axis", "why"),
    [
        (Axis("lon", np.arange(0, 300, 2.5), EAST), "a piece of the earth"),
        (Axis("angle", np.arange(0, 360, 2.5), "mm"), "no longitudes"),
        (Axis("lon", np.arange(0, 360, 2.5), "km"), "no degrees"),
    ],
)
def test_others_are_open(axis: Axis, why: str) -> None:
    assert arranged(axis, {})[0].period is None, why


def test_an_axis_is_closed_on_request(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", t=np.arange(48.0).reshape(24, 2), hour=np.arange(24.0), x=np.arange(2.0))
    selector = {"variable": "t", "coordinates": ("hour", "x")}
    assert read(tmp_path / "a.npz", Selector(**selector, cyclic=("hour",))).axes[0].period == 24
    assert read(tmp_path / "a.npz", Selector(**selector, cyclic=("hour=36",))).axes[0].period == 36
    assert read(tmp_path / "a.npz", Selector(**selector)).axes[0].period is None
    for text, message in [
        ("our", "there is no axis 'our'; did you mean 'hour'"),
        ("hour=day", "write AXIS or AXIS=PERIOD"),
        ("hour=12", "reach over 23, so its period is larger"),
    ]:
        with pytest.raises(RequestError, match=message):
            read(tmp_path / "a.npz", Selector(**selector, cyclic=(text,)))


@pytest.mark.parametrize("unit", ["degrees_east", "degree_east", "degrees East", "degreeE", "degrees_E"])
def test_every_spelling_of_degrees_east(unit: str) -> None:
    assert is_longitude(Axis("x", np.zeros(1), unit))
    assert not is_latitude(Axis("x", np.zeros(1), unit))
