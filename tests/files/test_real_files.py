"""Files that others made: what is read of them, and what is done at the seam of the earth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fieldbench
from fieldbench.files import Selector, read

xarray = pytest.importorskip("xarray")

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
ALBORAN, WINDS = DATA / "alboran-sst" / "alboranSST_small.nc", DATA / "era-interim" / "eraint_uvz.nc"


@pytest.mark.skipif(not ALBORAN.is_file(), reason="the example of DINEOF is not in ../shared/data")
def test_sea_surface_temperature_with_clouds_and_land() -> None:
    gridded = read(ALBORAN, Selector(variable="SST", valid="mask"))
    assert gridded.values.shape == (10, 201, 301)
    assert int(gridded.missing.sum()) == 100_636
    assert int(gridded.observation().mask.sum()) == 121_224
    # The sensor saw 19 pixels on what the mask has as land.
    assert [line.partition(" ")[0] for line in gridded.remarks] == ["19"]


@pytest.mark.skipif(not WINDS.is_file(), reason="the winds of ERA-Interim are not in ../shared/data")
@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
def test_global_winds_are_filled_across_the_seam() -> None:
    """Where the file happens to be cut makes no difference; on an axis that is not closed it does."""
    with xarray.open_dataset(WINDS) as data:
        wind = data["u"].isel(month=0, level=0, latitude=slice(40, 200, 4), longitude=slice(None, None, 4)).load()
    unobserved = np.random.default_rng(0).random(wind.shape) < 0.8
    seam = np.abs(wind["longitude"].values) > 170
    half = len(seam) // 2

    def error(shift: int, closed: bool) -> float:
        longitude = np.roll(wind["longitude"].values, shift)
        given = xarray.DataArray(np.roll(np.where(unobserved, np.nan, wind.values), shift, 1), dims=("latitude", "x"))
        if closed:
            given = given.rename(x="longitude").assign_coords(
                longitude=("longitude", longitude, {"units": "degrees_east"})
            )
        made = fieldbench.complete(given, "thin-plate[axis_scale=1x1]", budget=0, device="cpu").values.values
        return float(np.sqrt(np.mean((np.roll(made, -shift, 1) - wind.values)[:, seam] ** 2)))

    assert error(0, closed=True) == pytest.approx(error(half, closed=True), rel=0.02)
    assert error(0, closed=False) > 1.1 * error(0, closed=True)
