"""Fields that others measured or analysed: sea surface temperature under clouds, winds of the whole earth."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

import fieldbench
from fieldbench import Axis, FloatArray, Mask, parameter
from fieldbench_datasets.download import PublishedFile

SST = PublishedFile(
    "alboran-sst/alboranSST_small.nc",
    "https://raw.githubusercontent.com/aida-alvera/DINEOF/b702649b3fc574ecc112589bd83c9419e9f9f7f4"
    "/SmallExample/alboranSST_small.nc",
    "d1ccbab330642e47c9c23df046333ce2df2eb30c346acc4d3b806047ddc29e3b",
)
WINDS = PublishedFile(
    "era-interim/eraint_uvz.nc",
    "https://raw.githubusercontent.com/pydata/xarray-data/58de68cb45bcbd1557df11a92827758495481b4e/eraint_uvz.nc",
    "8f4cd0f75418a8e8f8f957c3b007f49e68a58d1bdd0e028adeeb057889f635d2",
)


class AlboranSST(fieldbench.Dataset):
    """Sea surface temperature of the Alboran Sea on ten days of 2017, as a satellite saw it between clouds.

    10 x 201 x 301 points (time, lat, lon) in degrees Celsius. The field exists where the sea was seen, so scores are
    against measurements alone; by the sampler ``clouds`` the clouds of other days hide a part of each day. A rate is
    the share of the seen entries that stay visible. Every trial has the same field and other clouds.
    """

    name = "alboran-sst"
    revision = "1"
    default_sampler = "clouds"
    default_rates = (0.5,)
    fixed_field = True
    licence = "that of the Copernicus Marine Service: free with attribution; the file is DINEOF's example"
    citation = (
        "AVHRR Metop-B level 3 sea surface temperature, Copernicus Marine Service; gaps as in Alvera-Azcarate, Barth, "
        "Rixen, Beckers 2005, Ocean Modelling 9"
    )

    every: int = parameter(1, "distance, in points, of those that are taken along lat and lon", ge=1)

    def prepare(self) -> None:
        SST.obtain()

    def fingerprint(self) -> str:
        return SST.sha256

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        values, seen, axes = _sst(SST.obtain())
        thin = (slice(None), slice(None, None, self.every), slice(None, None, self.every))
        axes = (axes[0], *(_thinned(axis, self.every) for axis in axes[1:]))
        return fieldbench.Field(values[thin], axes, "degree Celsius", "sea surface temperature", seen[thin])


class EraWinds(fieldbench.Dataset):
    """Monthly means of wind and geopotential of the whole earth: the reanalysis ERA-Interim.

    2 x 3 x 241 x 480 points (month, level, latitude, longitude): January and July, at 200, 500 and 850 hPa; longitude
    is closed. A rate is the share of all points that are observed. Every trial has the same field and other masks.
    """

    name = "era-winds"
    revision = "1"
    default_rates = (0.05,)
    fixed_field = True
    licence = "ECMWF's terms for ERA-Interim, https://apps.ecmwf.int/datasets/licences/general"
    citation = "Dee et al. 2011, Quarterly Journal of the Royal Meteorological Society 137, 553-597"

    variable: Literal["u", "v", "z"] = parameter("u", "eastward wind, northward wind, or geopotential")
    every: int = parameter(1, "distance, in points, of those that are taken along latitude and longitude", ge=1)

    def prepare(self) -> None:
        WINDS.obtain()

    def fingerprint(self) -> str:
        return WINDS.sha256

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        values, axes = _winds(WINDS.obtain(), self.variable)
        values = values[:, :, :: self.every, :: self.every]
        axes = (*axes[:2], *(_thinned(axis, self.every) for axis in axes[2:]))
        unit, quantity = {
            "u": ("m/s", "eastward wind"), "v": ("m/s", "northward wind"), "z": ("m2/s2", "geopotential")
        }[self.variable]  # fmt: skip
        return fieldbench.Field(values, axes, unit, quantity)


def _thinned(axis: Axis, every: int) -> Axis:
    """One point of every ``every``; an axis that does not divide evenly is not closed any more."""
    closed = axis.period if len(axis) % every == 0 else None
    return Axis(axis.name, axis.coordinates[::every], axis.unit, closed)


@lru_cache(maxsize=1)
def _sst(file: Path) -> tuple[FloatArray, Mask, tuple[Axis, ...]]:
    from scipy.io import netcdf_file

    with netcdf_file(file, mmap=False) as stored:
        found = {name: np.asarray(item.data, dtype=float) for name, item in stored.variables.items()}
    values = found["SST"]
    seen = (np.abs(values) < 99999) & (found["mask"] > 0)
    units = {"time": "days since 2017-01-01", "lat": "degrees_north", "lon": "degrees_east"}
    axes = tuple(Axis(name, found[name], unit) for name, unit in units.items())
    return np.where(seen, values, 0.0), seen, axes


@lru_cache(maxsize=3)
def _winds(file: Path, variable: str) -> tuple[FloatArray, tuple[Axis, ...]]:
    from scipy.io import netcdf_file

    units = {"month": "", "level": "hPa", "latitude": "degrees_north", "longitude": "degrees_east"}
    with netcdf_file(file, mmap=False) as stored:
        packed = stored.variables[variable]
        values = packed.data * float(packed.scale_factor) + float(packed.add_offset)
        coordinates = {name: np.asarray(stored.variables[name].data, dtype=float) for name in units}
    axes = (Axis(name, coordinates[name], unit, 360.0 if name == "longitude" else None) for name, unit in units.items())
    return values, tuple(axes)
