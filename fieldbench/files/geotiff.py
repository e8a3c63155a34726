"""GeoTIFF through rasterio: bands on a grid with coordinates, no-data values, scales and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Axis, FloatArray
from fieldbench.files import cf
from fieldbench.files.format import Format, need
from fieldbench.files.gridded import Completion, Selector, Variable, matched

#: Compressions that change numbers, or may.
_LOSSY = {"jpeg", "ycbcr jpeg", "webp", "lerc", "lerc_deflate", "lerc_zstd", "jxl"}
#: Namespaces of tags that the library itself makes.
_OF_THE_LIBRARY = {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS"}


class GeoTIFF(Format):
    """All bands as one array (band, y, x), or a band by its number or description."""

    def variable(self, selector: Selector) -> Variable:
        if selector.coordinates:
            raise RequestError(f"{self.file.name} says itself where its pixels are; leave out coordinates")
        with self._open() as data:
            bands = _named(data, selector.variable, self.file)
            values = np.stack([_values(data, band) for band in bands])
            axes: tuple[Axis, ...] = (Axis.regular("band", len(bands)), *_axes(data))
            unit = data.units[bands[0] - 1] or ""
            whole = np.dtype(data.dtypes[0]).kind != "f" and not _is_scaled(data)
            palette = data.colorinterp[0].name == "palette"
            remarks = () if _is_upright(data) else (f"{self.file.name} is rotated; distances are measured in pixels",)
            name = selector.variable or self.file.stem
            if selector.variable is not None:
                values, axes = values[0], axes[1:]
            return Variable(name, values, axes, unit, remarks=remarks, whole=whole, flags=palette)

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        with self._open() as data:
            (band,) = _named(data, name, self.file)
            return matched(data.read(band), variable.values.shape, name)

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        with self._open() as data:
            made = {band: _values(data, band) for band in range(1, data.count + 1)}
            notes = list[tuple[list[int], dict[str, str]]]()
            for completion in completions:
                variable = completion.gridded.variable
                bands = _named(data, None if variable.values.ndim == 3 else variable.name, self.file)
                whole = np.stack([made[band] for band in bands]).reshape(variable.values.shape)
                completion.into(whole)
                made |= dict(zip(bands, whole.reshape(len(bands), *data.shape), strict=True))
                notes.append((bands, {key: str(value) for key, value in completion.notes.items()}))
            _write_like(data, target, np.stack(list(made.values())), notes)

    def _open(self) -> Any:
        return need("rasterio", self.file, "geotiff").open(self.file)


def write_beside(source: Path, target: Path, arrays: Sequence[FloatArray]) -> None:
    """Write arrays (y, x) or (band, y, x) on the grid of another file, one after the other.

    Args:
        source: a GeoTIFF with the grid.
        target: the file to be written.
        arrays: of the grid's shape (y, x), or several bands of it.
    """
    import rasterio

    with rasterio.open(source) as data:
        bands = np.concatenate([array.reshape(-1, *data.shape) for array in arrays]).astype("f4")
        profile = {**_lossless(data.profile), "dtype": "float32", "nodata": np.nan, "count": len(bands)}
        with rasterio.open(target, "w", **profile) as made:
            made.write(bands)


def grid_of(file: Path) -> tuple[int, int]:
    """How many rows and columns a file has."""
    import rasterio

    with rasterio.open(file) as data:
        return data.height, data.width


def _lossless(profile: Mapping[str, Any]) -> dict[str, Any]:
    """How a file is laid out, with a compression that changes no number."""
    kept = {**profile, "driver": "GTiff"}
    if str(kept.get("compress", "")).lower() in _LOSSY:
        kept["compress"] = "deflate"
        kept.pop("photometric", None)
    return kept


def _is_scaled(data: Any) -> bool:
    return set(data.scales) != {1.0} or set(data.offsets) != {0.0}


def _named(data: Any, name: str | None, file: Path) -> list[int]:
    """Numbers of the wanted bands, from 1."""
    if name is None:
        return list(range(1, data.count + 1))
    if name in data.descriptions:
        return [data.descriptions.index(name) + 1]
    if name.isdigit() and 1 <= int(name) <= data.count:
        return [int(name)]
    named = ", ".join(text for text in data.descriptions if text)
    raise RequestError(
        f"{file.name} has no band {name!r}; give a number from 1 to {data.count}{f', or {named}' if named else ''}"
    )


def _values(data: Any, band: int) -> FloatArray:
    """The numbers that are meant, missing ones NaN."""
    stored = data.read(band, masked=True)
    values = stored.astype(float) * data.scales[band - 1] + data.offsets[band - 1]
    return np.asarray(np.ma.filled(values, np.nan), dtype=float)


def _axes(data: Any) -> tuple[Axis, Axis]:
    """Positions of the middles of pixels, in degrees or the unit of the map; in pixels where the map is rotated."""
    height, width = data.shape
    if not _is_upright(data):
        return Axis.regular("y", height), Axis.regular("x", width)
    across, down = (np.arange(size) + 0.5 for size in (width, height))
    x, y = data.transform.c + data.transform.a * across, data.transform.f + data.transform.e * down
    if data.crs is None:
        return Axis("y", y), Axis("x", x)
    if data.crs.is_geographic:
        return Axis("latitude", y, "degrees_north"), Axis("longitude", x, "degrees_east")
    unit = "m" if data.crs.linear_units in {"metre", "meter"} else str(data.crs.linear_units)
    return Axis("y", y, unit), Axis("x", x, unit)


def _is_upright(data: Any) -> bool:
    return bool(data.transform.b == 0 and data.transform.d == 0)


def _write_like(data: Any, target: Path, values: FloatArray, notes: Sequence[tuple[list[int], dict[str, str]]]) -> None:
    """Write all bands of a file anew, in its own type where that holds them, else as floats; with notes on bands."""
    import rasterio

    dtype = np.dtype(data.dtypes[0])
    about: dict[str, Any] = {} if data.nodata is None else {"_FillValue": np.array(data.nodata).astype(dtype)}
    if _is_scaled(data):
        about["scale_factor"] = data.scales[0]
    stored, about = cf.encoded(values, data.read(), about)
    profile = {**_lossless(data.profile), "dtype": stored.dtype.name, "nodata": about.get("_FillValue")}
    with rasterio.open(target, "w", **profile) as made:
        made.write(stored)
        made.descriptions = data.descriptions
        for space in ("", *set(data.tag_namespaces()) - _OF_THE_LIBRARY):
            made.update_tags(ns=space or None, **data.tags(ns=space or None))
        for band in range(1, data.count + 1):
            made.update_tags(band, **data.tags(band))
            if data.units[band - 1]:
                made.set_band_unit(band, data.units[band - 1])
            with suppress(ValueError):  # there is none
                made.write_colormap(band, data.colormap(band))
        for bands, tags in notes:
            made.update_tags(*(bands if len(bands) == 1 else ()), **tags)
