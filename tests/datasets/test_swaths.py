"""Swaths on fields of all sizes: exact shares, what lies beyond the orbit, and holes like the gaps between them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import distance_transform_cdt

from fieldbench import Axis, Observation, RequestError
from fieldbench_datasets.swaths import Swaths


def field(lat: tuple[float, float], lon: tuple[float, float], shape: tuple[int, int]) -> tuple[Axis, Axis]:
    return (
        Axis("lat", np.linspace(*lat, shape[0]), "degrees_north"),
        Axis("lon", np.linspace(*lon, shape[1]), "degrees_east"),
    )


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(
    "axes",
    [
        field((36, 36.1), (-4, -3.9), (6, 7)),
        field((-60, 60), (-180, 176), (31, 90)),
        field((20, 40), (-20, 20), (21, 41)),
        (Axis.regular("x", 9, 8.0, "km"), Axis.regular("y", 12, 8.0, "km")),
        (Axis.regular("time", 5), *field((20, 40), (-20, 20), (11, 21))),
    ],
)
def test_exactly_the_share_is_measured(axes, rate):
    valid = np.ones([len(axis) for axis in axes], dtype=bool)
    mask = Swaths(width=50).draw(valid, axes, rate, np.random.default_rng(0))
    assert mask.sum() == round(rate * valid.size)


def test_a_pass_is_a_slanted_line_of_that_width():
    axes = field((20, 40), (-20, 20), (201, 401))
    mask = Swaths(width=120).draw(np.ones((201, 401), dtype=bool), axes, 0.03, np.random.default_rng(1))
    runs = [np.flatnonzero(row) for row in mask if row.any()]
    widest = max((run[-1] - run[0] + 1) for run in runs if np.all(np.diff(run) == 1))
    degrees = 120 / 111.2 / np.cos(np.radians(40))
    assert widest <= 2 * (degrees / 0.1 + 2), "two crossing passes at most"


def test_what_lies_beyond_the_orbit_is_never_measured():
    axes = field((50, 90), (0, 30), (41, 31))
    valid = np.ones((41, 31), dtype=bool)
    mask = Swaths().draw(valid, axes, 0.3, np.random.default_rng(0))
    assert not mask[axes[0].coordinates > 66.04].any()
    with pytest.raises(RequestError, match="lies below the orbit"):
        Swaths().draw(valid, axes, 0.6, np.random.default_rng(0))


def test_withheld_entries_are_as_far_from_others_as_the_gaps_are_deep():
    axes = field((20, 40), (-20, 20), (41, 81))
    valid = np.ones((41, 81), dtype=bool)
    mask = Swaths(width=200).draw(valid, axes, 0.3, np.random.default_rng(2))
    observation = Observation(np.zeros(mask.shape), mask, axes)
    withheld = Swaths(width=200).withhold_from(observation, 0.2, np.random.default_rng(3))
    assert (withheld <= mask).all()
    assert withheld.sum() == pytest.approx(0.2 * mask.sum(), rel=0.5)
    scattered = np.zeros(mask.size, dtype=bool)
    chosen = np.random.default_rng(4).choice(np.flatnonzero(mask), withheld.sum(), replace=False)
    scattered[chosen] = True

    def depth(withheld: np.ndarray) -> float:
        return float(distance_transform_cdt(~(mask & ~withheld), metric="chessboard")[withheld].mean())

    assert depth(withheld) > depth(scattered.reshape(mask.shape))
