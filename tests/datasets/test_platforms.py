"""Samplers that follow how people measure: sensors at given positions and vehicles along tracks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fieldbench.errors import RequestError
from fieldbench.field import Axis, Observation
from fieldbench.sampler import Sampler, is_fiber_mask
from fieldbench_datasets.platforms import Points, Tracks

AXES = (Axis.regular("x", 10, 8.0, "km"), Axis.regular("y", 8, 8.0, "km"), Axis.regular("depth", 6, 10.0, "m"))
EVERYWHERE = np.ones((10, 8, 6), dtype=bool)


def draw(sampler: Sampler, rate: float, valid: np.ndarray = EVERYWHERE, seed: int = 0) -> np.ndarray:
    axes = AXES[: valid.ndim] if valid.ndim <= 3 else (*AXES, Axis.regular("time", valid.shape[3]))
    return sampler.draw(valid, axes, rate, np.random.default_rng(seed))


@pytest.fixture
def moorings(tmp_path: Path) -> Points:
    pd.DataFrame(
        {"name": ["a", "b", "c", "d", "e"], "y": [0.0, 17.0, 40.0, 56.0, 300.0], "x": [1.0, 30.0, 72.0, -3.9, 8.0]}
    ).to_csv(tmp_path / "moorings.csv", index=False)
    return Points(path=str(tmp_path / "moorings.csv"))


def test_sensors_observe_the_nearest_position_at_all_depths(moorings: Points) -> None:
    mask = draw(moorings, 4 / 80)
    assert is_fiber_mask(mask)
    # x = 30 km is nearest to index 4 (32 km); y = 17 to index 2 (16); the last one lies outside the field.
    assert np.argwhere(mask[:, :, 0]).tolist() == [[0, 0], [0, 7], [4, 2], [9, 5]]


def test_the_rate_takes_a_part_of_the_sensors(moorings: Points) -> None:
    whole = draw(moorings, 4 / 80)
    parts = [draw(moorings, 2 / 80, seed=seed) for seed in range(20)]
    for part in parts:
        assert part.sum() == 2 * 6
        assert not (part & ~whole).any()
    assert np.array_equal(np.any(parts, axis=0), whole)


def test_a_rate_that_the_sensors_cannot_give_is_refused_with_theirs(moorings: Points) -> None:
    with pytest.raises(RequestError, match=r"4 sensors observe a share 0\.05 of the field"):
        draw(moorings, 0.1)
    assert draw(moorings, 0.05).sum() == 24
    with pytest.raises(RequestError, match="observes none"):
        draw(moorings, 0.001)


def test_sensors_at_full_positions_observe_single_entries(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([[0.0, 0.0, 0.0], [8.0, 16.0, 50.0], [8.1, 16.2, 49.0]]))
    mask = draw(Points(path=str(tmp_path / "p.npy")), 2 / 480)
    assert np.argwhere(mask).tolist() == [[0, 0, 0], [1, 2, 5]]  # two of them share a grid point


def test_sensors_on_land_do_not_count(moorings: Points) -> None:
    valid = EVERYWHERE.copy()
    valid[4, 2] = False
    valid[9, 5, 3:] = False
    share = (6 + 6 + 3) / valid.sum()
    mask = draw(moorings, share, valid)
    assert mask.sum() == 15
    assert not (mask & ~valid).any()
    valid[:] = False
    valid[5, 5] = True
    with pytest.raises(RequestError, match="no sensor lies where the field exists"):
        draw(moorings, 0.5, valid)


def test_the_refused_rates_advice_can_be_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for count in (3, 7, 23, 61):
        np.save(tmp_path / f"{count}.npy", rng.uniform(0, [72, 56], size=(count, 2)))
        sampler = Points(path=str(tmp_path / f"{count}.npy"))
        with pytest.raises(RequestError) as raised:
            draw(sampler, 1.0)
        advised = float(str(raised.value).partition("a share ")[2].partition(" ")[0])
        sensors = int(str(raised.value).partition("its ")[2].partition(" ")[0])
        assert draw(sampler, advised).sum() == 6 * sensors


def test_columns_must_be_named_as_the_axes(tmp_path: Path) -> None:
    pd.DataFrame({"lon": [1.0], "lat": [2.0]}).to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(RequestError, match=r"columns lon, lat; name them as the field's axes: x, y, depth"):
        draw(Points(path=str(tmp_path / "p.csv")), 0.1)
    np.save(tmp_path / "p.npy", np.zeros((3, 4)))
    with pytest.raises(RequestError, match="at most 3 columns"):
        draw(Points(path=str(tmp_path / "p.npy")), 0.1)


@pytest.mark.parametrize("missing", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["p.csv", "p.npy"])
def test_every_sensor_has_a_position(tmp_path: Path, name: str, missing: float) -> None:
    positions = np.array([[0.0, 8.0], [missing, 16.0]])
    pd.DataFrame(positions, columns=["x", "y"]).to_csv(tmp_path / "p.csv", index=False)
    np.save(tmp_path / "p.npy", positions)
    with pytest.raises(RequestError, match=rf"{name} has missing or infinite positions"):
        draw(Points(path=str(tmp_path / name)), 1 / 80)


def test_whole_moorings_are_withheld(moorings: Points) -> None:
    mask = draw(moorings, 4 / 80)
    withheld = moorings.withhold(mask, 0.25, np.random.default_rng(0))
    assert withheld.sum() == 6
    assert is_fiber_mask(withheld)


def sea_floor() -> np.ndarray:
    """A field whose columns have 1 to 6 of the 6 depths."""
    depths = np.random.default_rng(3).integers(1, 7, size=(10, 8))
    return np.asarray(np.arange(6) < depths[..., np.newaxis])


@pytest.mark.parametrize("vehicle", ["mooring", "ship"])
def test_whole_columns_are_withheld_where_they_end_at_the_sea_floor(moorings: Points, vehicle: str) -> None:
    valid = sea_floor()
    if vehicle == "mooring":
        sampler, rate = moorings, (draw(moorings, 4 / 80) & valid).sum() / valid.sum()
    else:
        sampler, rate = Tracks(measure="fiber"), 0.3
    mask = draw(sampler, rate, valid)
    assert not is_fiber_mask(mask)
    observation = Observation(np.zeros(mask.shape), mask, AXES, valid=valid)
    withheld = sampler.withhold_from(observation, 0.5, np.random.default_rng(0))
    at = withheld.any(axis=-1)
    np.testing.assert_array_equal(withheld[at], mask[at])
    assert at.sum() == round(0.5 * mask.any(axis=-1).sum())


def test_single_sensors_are_withheld_where_sensors_have_a_depth(tmp_path: Path) -> None:
    """Two sensors hang at each of six positions, in water of two depths."""
    positions = [(x * 8.0, y * 8.0, z * 10.0) for x in (1, 4, 7) for y in (2, 5) for z in (0, 1)]
    pd.DataFrame(positions, columns=["x", "y", "depth"]).to_csv(tmp_path / "p.csv", index=False)
    valid = EVERYWHERE.copy()
    valid[..., 2:] = False
    sampler = Points(path=str(tmp_path / "p.csv"))
    mask = draw(sampler, 12 / valid.sum(), valid)
    observation = Observation(np.zeros(mask.shape), mask, AXES, valid=valid)
    withheld = [sampler.withhold_from(observation, 0.25, np.random.default_rng(seed)) for seed in range(9)]
    assert [int(part.sum()) for part in withheld] == [3] * 9


def test_what_a_glider_leaves_out_is_no_column() -> None:
    mask = draw(Tracks(), 0.2, sea_floor())
    observation = Observation(np.zeros(mask.shape), mask, AXES, valid=sea_floor())
    withheld = Tracks().withhold_from(observation, 0.1, np.random.default_rng(0))
    assert withheld.sum() == pytest.approx(0.1 * mask.sum(), abs=2)
    assert (withheld.sum(axis=-1) < mask.sum(axis=-1)).any()


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(10, 8), (10, 8, 6)])
def test_gliders_observe_exactly_as_many_entries_as_asked(rate: float, shape: tuple[int, ...]) -> None:
    mask = draw(Tracks(), rate, np.ones(shape, dtype=bool))
    assert mask.sum() == round(rate * mask.size)


def test_ships_observe_whole_fibers_at_exactly_as_many_positions() -> None:
    mask = draw(Tracks(measure="fiber"), 0.25)
    assert is_fiber_mask(mask)
    assert mask[..., 0].sum() == 20


def test_a_fourth_axis_is_observed_as_a_whole() -> None:
    mask = draw(Tracks(), 0.1, np.ones((10, 8, 6, 3), dtype=bool))
    assert is_fiber_mask(mask)
    assert mask[..., 0].sum() == 48


def test_a_single_vehicle_leaves_a_connected_track() -> None:
    mask = draw(Tracks(vehicles=1, measure="fiber"), 0.15, np.ones((40, 40, 2), dtype=bool))[..., 0]
    track = np.argwhere(mask)
    # Every position but one has a neighbour (also diagonal) on the track; random entries at 15 % are far from that.
    distance = np.abs(track[:, None] - track[None]).max(axis=2)
    assert ((distance == 1).any(axis=1)).mean() > 0.95


def test_a_glider_reaches_all_depths() -> None:
    mask = draw(Tracks(vehicles=1), 0.1, np.ones((10, 8, 6), dtype=bool))
    assert mask.any(axis=(0, 1)).all()


def test_vehicles_observe_nothing_on_land() -> None:
    valid = EVERYWHERE.copy()
    valid[:5] = False
    for sampler in (Tracks(), Tracks(measure="fiber")):
        mask = draw(sampler, 0.3, valid)
        assert not (mask & ~valid).any()
        assert mask.sum() == round(0.3 * valid.sum())


def test_tracks_are_the_generators_alone() -> None:
    np.testing.assert_array_equal(draw(Tracks(), 0.1, seed=1), draw(Tracks(), 0.1, seed=1))
    assert (draw(Tracks(), 0.1, seed=1) != draw(Tracks(), 0.1, seed=2)).any()


def test_tracks_need_a_plane() -> None:
    with pytest.raises(RequestError, match="at least two dimensions"):
        draw(Tracks(), 0.5, np.ones(10, dtype=bool))
    with pytest.raises(RequestError, match="observes none"):
        draw(Tracks(), 1e-4)
