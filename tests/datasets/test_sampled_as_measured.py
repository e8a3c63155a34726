"""Samplers that need no file of positions: transplanted clouds, stations, drifters."""

from __future__ import annotations

import numpy as np
import pytest

from fieldbench.errors import RequestError
from fieldbench.field import Axis, Observation
from fieldbench.sampler import Sampler
from fieldbench_datasets.clouds import Clouds
from fieldbench_datasets.drifters import Drifters
from fieldbench_datasets.stations import Stations

AXES = (Axis.regular("time", 12, unit="days"), Axis.regular("lat", 10), Axis.regular("lon", 8))


def cloudy() -> np.ndarray:
    """Twelve days of one round cloud each, and a strip of land."""
    rows, columns = np.indices((10, 8))
    days = [(rows - day % 10) ** 2 + (columns - day % 7) ** 2 > 2 + day for day in range(12)]
    valid = np.array(days)
    valid[:, :, 0] = False
    return valid


def draw(sampler: Sampler, valid: np.ndarray, rate: float, seed: int = 0) -> np.ndarray:
    return sampler.draw(valid, AXES, rate, np.random.default_rng(seed))


def test_every_day_is_covered_by_the_clouds_of_another_day() -> None:
    valid = cloudy()
    mask = draw(Clouds(), valid, 0.8)
    for day, shown in enumerate(mask):
        others = [other for other in range(12) if np.array_equal(shown, valid[day] & valid[other])]
        assert any(other != day for other in others)


def test_clouds_meet_the_rate_on_average() -> None:
    valid = cloudy()
    shares = [draw(Clouds(), valid, 0.75, seed).sum() / valid.sum() for seed in range(200)]
    assert np.mean(shares) == pytest.approx(0.75, abs=4 * np.std(shares) / np.sqrt(200))


def test_a_rate_that_no_clouds_leave_is_refused_with_what_they_do() -> None:
    with pytest.raises(RequestError, match=r"leave a share 0\.\d+ to 0\.\d+ visible, 0\.\d+ on average"):
        draw(Clouds(), cloudy(), 0.01)


def test_pictures_smaller_than_the_field_are_refused(tmp_path) -> None:
    picture = np.ones((5, 5, 2))
    picture[0, 0, 0] = np.nan
    np.save(tmp_path / "small.npy", picture)
    with pytest.raises(RequestError, match="pictures have 5x5 points; the field needs 10x8"):
        draw(Clouds(path=str(tmp_path / "small.npy")), cloudy(), 0.5)


def test_stations_are_whole_in_time_and_exactly_as_many_as_asked() -> None:
    mask = draw(Stations(), np.ones((12, 10, 8), dtype=bool), 0.3)
    assert mask[0].sum() == 24
    assert (mask == mask[0]).all()


def test_stations_measure_along_the_axes_that_are_named() -> None:
    mask = draw(Stations(along="lat"), np.ones((12, 10, 8), dtype=bool), 0.25)
    assert (mask == mask[:, :1]).all()
    assert mask[:, 0].sum() == 24
    with pytest.raises(RequestError, match="no axis 'level'; it has time, lat, lon"):
        draw(Stations(along="level"), np.ones((12, 10, 8), dtype=bool), 0.25)


def test_whole_stations_are_withheld() -> None:
    mask = draw(Stations(), np.ones((12, 10, 8), dtype=bool), 0.25)
    withheld = Stations().withhold_from(Observation(np.zeros(mask.shape), mask, AXES), 0.2, np.random.default_rng(0))
    assert (withheld == withheld[0]).all()
    assert withheld[0].sum() == 4


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_drifters_measure_exactly_as_much_as_asked_and_nothing_on_land(rate: float) -> None:
    valid = cloudy()
    mask = draw(Drifters(), valid, rate)
    assert mask.sum() == round(rate * valid.sum())
    assert not (mask & ~valid).any()


def test_a_drifter_in_still_water_stays() -> None:
    mask = draw(Drifters(speed=0), np.ones((12, 10, 8), dtype=bool), 1 / 80)
    for position in np.argwhere(mask.any(axis=0)):
        times = np.flatnonzero(mask[:, position[0], position[1]])
        assert (np.diff(times) == 1).all()
    assert mask.any(axis=0).sum() < mask.sum()


@pytest.mark.parametrize("sampler", [Clouds(), Drifters()], ids=str)
def test_a_part_is_withheld_in_holes_of_what_exists(sampler: Sampler) -> None:
    valid = cloudy()
    mask = draw(sampler, valid, 0.7)
    observation = Observation(np.zeros(mask.shape), mask, AXES, valid=valid)
    withheld = sampler.withhold_from(observation, 0.1, np.random.default_rng(0))
    assert withheld.sum() == pytest.approx(0.1 * mask.sum(), abs=2)
    assert not (withheld & ~mask).any()
