"""NetCDF files with the CF conventions: units, coordinates, fill values, packing and valid ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.files import cf
from fieldbench.files.content import Completion, Content, Variable, Wanted, axis_if_usable, candidates, choose
from fieldbench.files.format import Format, need
from fieldbench.files.hdf5 import HDF5
from fieldbench.files.numpy_files import spread_out
from fieldbench.names import unused


class NetCDF:
    """NetCDF, version 3 (read by scipy) or 4 (by h5netcdf), through xarray."""

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        if wanted.coordinates:
            raise RequestError(f"{file.name} says itself which coordinates a dimension has; leave out coordinates")
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
            axes, remarks = [], list[str]()
            for dimension, size in zip(found.dims, found.shape, strict=True):
                coordinate = data.variables.get(dimension)
                values = None if coordinate is None else _decoded(coordinate)
                unit = "" if coordinate is None else str(coordinate.attrs.get("units", ""))
                axes.append(axis_if_usable(str(dimension), size, values, unit, remarks))
            unit = str(found.attrs.get("units", ""))
            quantity = str(found.attrs.get("long_name") or found.attrs.get("standard_name") or name)
            return Variable(name, _decoded(found), tuple(axes), unit, quantity, tuple(remarks))

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
        if not _is_version_3(source):
            # It is HDF5, and so one variable can be replaced where it lies, among groups and all else.
            HDF5().write(source, target, content, completion)
            return
        with _open(source) as opened:
            data = opened.load()
        found = data[content.name]
        values = _decoded(found)
        values[content.place] = completion.values
        stored, attributes = cf.encoded(values, found.dtype, found.attrs)
        attributes |= {f"fieldbench_{key}": value for key, value in completion.attributes.items()}
        data[content.name] = (found.dims, stored, attributes)
        if completion.deviation is not None:
            deviation = spread_out(found.shape, content, completion.deviation)
            about = {"long_name": f"standard deviation of {content.name}", "units": content.variable.unit}
            data[unused(f"{content.name}_std", data)] = (found.dims, deviation.astype(stored.dtype), about)
        for variable in data.variables.values():
            # xarray would give a fill value to every float variable that had none.
            if "_FillValue" not in variable.attrs:
                variable.encoding.setdefault("_FillValue", None)
        data.to_netcdf(target, engine="scipy", format="NETCDF3_64BIT")


def format_for(file: Path) -> Format:
    """The format, after a look at whether its libraries are there."""
    need("xarray", file)
    if not _is_version_3(file):
        need("h5netcdf", file)
        need("h5py", file)
    return NetCDF()


def _open(file: Path) -> Any:
    import xarray

    # No numbers are decoded, so that all that is not completed is written back as it was; but characters are joined
    # to texts, as xarray gives those that are not a further dimension.
    engine = "scipy" if _is_version_3(file) else "h5netcdf"
    as_stored = {"mask_and_scale": False, "decode_times": False, "decode_timedelta": False, "decode_coords": False}
    return xarray.open_dataset(file, engine=engine, **as_stored)


def _supporting(data: Any) -> set[str]:
    """Variables that describe others by CF: bounds, auxiliary coordinates, grid mappings, flags and the like."""
    roles = ("bounds", "coordinates", "grid_mapping", "ancillary_variables", "cell_measures", "climatology")
    named = " ".join(str(item.attrs.get(role, "")) for item in data.variables.values() for role in roles)
    flags = {str(name) for name, item in data.variables.items() if "flag_meanings" in item.attrs}
    return flags | set(named.replace(":", " ").split())


def _is_version_3(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(3) == b"CDF"


def _decoded(variable: Any) -> np.ndarray:
    """The values that are meant; texts as they are."""
    stored = np.asarray(variable.values)
    return cf.decoded(stored, variable.attrs) if stored.dtype.kind in "fiub" else stored
