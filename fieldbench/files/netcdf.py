"""NetCDF files with the CF conventions: units, coordinates, fill values, packing and valid ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import FloatArray
from fieldbench.files.content import Completion, Content, Variable, Wanted, axis, candidates, choose
from fieldbench.files.format import Format, need

_PACKING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range")


class NetCDF:
    """NetCDF, version 3 (read by scipy) or 4 (by h5netcdf), through xarray."""

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        with _open(file) as data:
            shapes = {str(name): item.shape for name, item in data.data_vars.items() if item.dtype.kind in "fiu"}
            fields = {name: shape for name, shape in shapes.items() if name not in _supporting(data)}
            sought = shapes if wanted.variable is not None else candidates(fields, wanted)
            described = {
                name: ", ".join(f"{dimension} {data.sizes[dimension]}" for dimension in data[name].dims)
                for name in sought
            }
            name = choose(described, wanted.variable, file.name)
            found = data[name]
            axes = []
            for dimension, size in zip(found.dims, found.shape, strict=True):
                coordinate = data.variables.get(dimension)
                values = None if coordinate is None else _decoded(coordinate)
                unit = "" if coordinate is None else str(coordinate.attrs.get("units", ""))
                axes.append(axis(str(dimension), size, values, unit))
            quantity = found.attrs.get("long_name") or found.attrs.get("standard_name") or name
            return Variable(name, _decoded(found), tuple(axes), str(found.attrs.get("units", "")), str(quantity))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        with _open(file) as data:
            numeric = {str(key): "" for key, item in data.variables.items() if item.dtype.kind in "fiub"}
            mask = data[choose(numeric, name, file.name)]
            dimensions = data[variable.name].dims
            strange = [str(dimension) for dimension in mask.dims if dimension not in dimensions]
            if strange:
                raise RequestError(f"{name} has the dimension {strange[0]!r}, which {variable.name} has not")
            values = _decoded(mask.transpose(*(item for item in dimensions if item in mask.dims)))
            sizes = [data.sizes[item] if item in mask.dims else 1 for item in dimensions]
            return values.reshape(sizes)

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        with _open(source) as opened:
            data = opened.load()
        found = data[content.name]
        values = _decoded(found)
        values[content.place] = completion.values
        # A packed variable is written as floats: a completed value need not fit the packing.
        packed = found.dtype.kind != "f"
        dtype = found.dtype if not packed else np.dtype("f4" if found.dtype.itemsize <= 2 else "f8")
        dropped = {"_FillValue", *(_PACKING if packed or _outside(values, found.attrs) else ())}
        attributes = {key: value for key, value in found.attrs.items() if key not in dropped}
        attributes |= {f"fieldbench_{key}": value for key, value in completion.attributes.items()}
        fill = found.attrs.get("_FillValue", np.nan if np.isnan(values).any() else None)
        encoding = {key: value for key, value in found.encoding.items() if key != "dtype"}
        encoding["_FillValue"] = None if fill is None else dtype.type(np.nan if packed else np.ravel(fill)[0])
        data[content.name] = (found.dims, values.astype(dtype), attributes, encoding)
        if completion.deviation is not None:
            deviation = np.full(found.shape, np.nan)
            deviation[content.place] = completion.deviation
            about = {"long_name": f"standard deviation of {content.name}", "units": content.variable.unit}
            fill = {"_FillValue": dtype.type(np.nan)}
            data[f"{content.name}_std"] = (found.dims, deviation.astype(dtype), about, fill)
        for variable in data.variables.values():
            # xarray would give a fill value to every float variable that had none.
            if "_FillValue" not in variable.attrs:
                variable.encoding.setdefault("_FillValue", None)
        if _is_version_3(source):
            data.to_netcdf(target, engine="scipy", format="NETCDF3_64BIT")
        else:
            data.to_netcdf(target, engine="h5netcdf")


def format_for(file: Path) -> Format:
    """The format, after a look at whether its libraries are there."""
    need("xarray", file)
    if not _is_version_3(file):
        need("h5netcdf", file)
        need("h5py", file)
    return NetCDF()


def _open(file: Path) -> Any:
    import xarray

    # Nothing is decoded, so that all that is not completed is written back as it was.
    engine = "scipy" if _is_version_3(file) else "h5netcdf"
    return xarray.open_dataset(file, engine=engine, decode_cf=False)


def _supporting(data: Any) -> set[str]:
    """Variables that describe others by CF: bounds, auxiliary coordinates, grid mappings, flags and the like."""
    roles = ("bounds", "coordinates", "grid_mapping", "ancillary_variables", "cell_measures", "climatology")
    named = " ".join(str(item.attrs.get(role, "")) for item in data.variables.values() for role in roles)
    flags = {str(name) for name, item in data.variables.items() if "flag_meanings" in item.attrs}
    return flags | set(named.replace(":", " ").split())


def _is_version_3(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(3) == b"CDF"


def _decoded(variable: Any) -> FloatArray:
    """Values by the CF conventions (section 2.5 and 8.1): missing ones are NaN, packed ones unpacked."""
    raw = np.asarray(variable.values)
    if raw.dtype.kind not in "fiub":
        return np.full(raw.shape, np.nan)
    attributes = variable.attrs
    values = raw.astype(float)
    missing = np.isnan(values)
    for key in ("_FillValue", "missing_value"):
        for fill in np.atleast_1d(attributes.get(key, [])):
            missing |= raw == fill
    low, high = _valid_range(attributes)
    missing |= (values < low) | (values > high)
    values = values * float(attributes.get("scale_factor", 1.0)) + float(attributes.get("add_offset", 0.0))
    values[missing] = np.nan
    return values


def _valid_range(attributes: dict[str, Any]) -> tuple[float, float]:
    low, high = np.ravel(attributes.get("valid_range", (-np.inf, np.inf))).astype(float)
    low = float(np.ravel(attributes.get("valid_min", low))[0])
    high = float(np.ravel(attributes.get("valid_max", high))[0])
    return low, high


def _outside(values: FloatArray, attributes: dict[str, Any]) -> bool:
    """Whether a value lies outside the valid range, which would then hide it from readers."""
    low, high = _valid_range(attributes)
    return bool((values < low).any() or (values > high).any())
