"""NetCDF and Zarr with the CF conventions: units, coordinates, fill values, packing and valid ranges."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Axis
from fieldbench.files import cf
from fieldbench.files.axes import axis_if_usable, is_latitude, is_longitude, on_sphere
from fieldbench.files.format import Format, need
from fieldbench.files.gridded import Completion, Selector, Variable, choose, unused, wanted
from fieldbench.files.hdf5 import HDF5

_EARTH_RADIUS = 6371.0
#: What reads each kind of file, by its first bytes; anything else is HDF5.
_ENGINES = {b"CDF\x01": "scipy", b"CDF\x02": "scipy", b"CDF\x05": "netcdf4"}
_LIBRARIES = {"scipy": (), "netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py"), "zarr": ("zarr",)}


class NetCDF(Format):
    """NetCDF of version 3 (read by scipy), CDF-5 (by netCDF4) or 4 (by h5netcdf), and Zarr, through xarray.

    Variables in groups are named by their paths: ``model/temp``.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._engine = "zarr"
        if file.suffix.lower() != ".zarr":
            with file.open("rb") as stream:
                self._engine = _ENGINES.get(stream.read(4), "h5netcdf")
        for library in ("xarray", *_LIBRARIES[self._engine]):
            need(library, file, "zarr" if self._engine == "zarr" else "files")

    def variable(self, selector: Selector) -> Variable:
        if selector.coordinates:
            raise RequestError(f"{self.file.name} says itself which coordinates a dimension has; leave out coordinates")
        with self._groups() as groups:
            numeric = _fields(groups, "fiu")
            aside = {f"{prefix}{name}" for prefix, data in groups.items() for name in _supporting(data)}
            sizes = {
                name: [f"{dimension} {size}" for dimension, size in zip(item.dims, item.shape, strict=True)]
                for name, item in numeric.items()
                if selector.variable is not None or name not in aside
            }
            name = wanted(sizes, selector, self.file.name, between=", ")
            found = numeric[name]
            remarks = list[str]()
            axes = axes_of(_around(groups, name), found, remarks)
            unit = str(found.attrs.get("units", ""))
            quantity = str(found.attrs.get("long_name") or found.attrs.get("standard_name") or found.name)
            whole = found.dtype.kind != "f" and not cf.is_scaled(found.attrs)
            values, flags = _decoded(found), cf.is_flag(found.attrs)
            limits = cf.valid_range(found.attrs, found.dtype)
            return Variable(name, values, axes, unit, quantity, tuple(remarks), whole, flags, limits=limits)

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        with self._groups() as groups:
            numeric = _fields(groups, "fiub", masks=True)
            inside = f"{variable.name.rpartition('/')[0]}/{name}"
            mask = numeric[inside if inside in numeric else choose(dict.fromkeys(numeric, ""), name, self.file.name)]
            dimensions = numeric[variable.name].sizes
            strange = [str(dimension) for dimension in mask.dims if dimension not in dimensions]
            if strange:
                raise RequestError(f"{name} has the dimension {strange[0]!r}, which {variable.name} has not")
            values = _decoded(mask.transpose(*(item for item in dimensions if item in mask.dims)))
            return values.reshape([size if item in mask.dims else 1 for item, size in dimensions.items()])

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        if self._engine == "h5netcdf":
            # It is HDF5, and so one variable can be replaced where it lies, among groups and all else.
            HDF5(self.file, netcdf=True).write(target, completions)
            return
        if self._engine == "zarr":
            _write_zarr(self.file, target, completions)
            return
        with _open(self.file, self._engine) as opened:
            data = opened.load()
        for completion in completions:
            _complete(data, completion, completion.gridded.name, data)
        cf.add_history(data.attrs, completions)
        for variable in data.variables.values():
            # xarray would give a fill value to every float variable that had none.
            if "_FillValue" not in variable.attrs:
                variable.encoding.setdefault("_FillValue", None)
        if self._engine == "scipy":
            data.to_netcdf(target, engine="scipy", format="NETCDF3_64BIT")
        else:
            _to_cdf5(data, target)

    @contextmanager
    def _groups(self) -> Iterator[dict[str, Any]]:
        """The datasets of all groups of the file, by their paths with a stroke behind, the file's own by ""."""
        paths = [""]
        if self._engine == "h5netcdf":
            import h5py

            with h5py.File(self.file, "r") as data:
                data.visititems(lambda name, item: paths.append(name) if isinstance(item, h5py.Group) else None)
        if self._engine == "zarr":
            inside = (folder for folder in sorted(self.file.rglob("*")) if folder.is_dir())
            paths += [folder.relative_to(self.file).as_posix() for folder in inside if _is_group(folder)]
        with ExitStack() as opened:
            yield {
                f"{path}/" if path else "": opened.enter_context(_open(self.file, self._engine, path)) for path in paths
            }


def _open(file: Path, engine: str, group: str = "") -> Any:
    import xarray

    with suppress(ImportError):
        import hdf5plugin  # noqa: F401 - importing it registers filters such as zstd
    # No numbers are decoded, so that all that is not completed is written back as it was; but characters are joined
    # to texts, as xarray gives those that are not a further dimension.
    numbers = ("mask_and_scale", "decode_times", "decode_timedelta", "decode_coords")
    as_stored: dict[str, Any] = {**dict.fromkeys(numbers, False), "concat_characters": engine != "netcdf4"}
    if engine == "h5netcdf":
        as_stored["drop_variables"] = _ragged(file, group)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Duplicate dimension names")  # of a variable that nobody may want
        warnings.filterwarnings("ignore", "Failed to open Zarr store with consolidated metadata")
        return xarray.open_dataset(file, engine=engine, **as_stored, **({"group": group} if group else {}))


def _ragged(file: Path, group: str) -> list[str]:
    """Variables of sequences of any length, of which xarray cannot open some."""
    import h5py

    with h5py.File(file, "r") as data:
        kinds = {str(name): getattr(item, "dtype", None) for name, item in data[group or "/"].items()}
        return [
            name
            for name, kind in kinds.items()
            if kind is not None and h5py.check_vlen_dtype(kind) is not None and h5py.check_string_dtype(kind) is None
        ]


def _is_group(folder: Path) -> bool:
    """Whether a folder of a Zarr store (of version 2 or 3) is a group."""
    return (folder / ".zgroup").exists() or '"node_type": "group"' in _text_of(folder / "zarr.json")


def _fields(groups: Mapping[str, Any], kinds: str, masks: bool = False) -> dict[str, Any]:
    """Variables whose numbers are of some kinds, by their paths; coordinates of dimensions only for masks."""
    return {
        f"{prefix}{name}": data[name]
        for prefix, data in groups.items()
        for name in (data.variables if masks else data.data_vars)
        if data[name].dtype.kind in kinds
    }


def _around(groups: Mapping[str, Any], name: str) -> dict[str, Any]:
    """All variables that a variable sees by their names: those of its group, and of the groups around it."""
    prefix = name.rpartition("/")[0]
    inside = [data for path, data in sorted(groups.items()) if f"{prefix}/".startswith(path)]
    return {str(key): item for data in inside for key, item in data.variables.items()}


def axes_of(around: Mapping[str, Any], found: Any, remarks: list[str]) -> tuple[Axis, ...]:
    """The axes of a variable.

    Args:
        around: the variables of xarray in which its coordinates are sought, by name.
        found: it, with its sizes and attributes.
        remarks: grows by what cannot be used, and by which distance is used on a curvilinear grid.
    """
    axes = []
    if twice := [dimension for dimension in found.dims if found.dims.count(dimension) > 1]:
        raise RequestError(f"{found.name} has the dimension {twice[0]!r} twice; a field has each of its own")
    for dimension, size in found.sizes.items():
        coordinate = around.get(dimension)
        if coordinate is None:
            coordinate = _along(around, found, dimension, remarks)
        values = None if coordinate is None else _decoded(coordinate)
        unit = "" if coordinate is None else str(coordinate.attrs.get("units", ""))
        axes.append(axis_if_usable(str(dimension), size, values, unit, remarks))
    latitude, longitude = (_plane(around, found, is_it) for is_it in (is_latitude, is_longitude))
    if latitude is None or longitude is None or latitude.dims != longitude.dims:
        return tuple(axes)
    plane = [found.dims.index(dimension) for dimension in latitude.dims]
    if all(dimension in around for dimension in latitude.dims):
        how = f"along {' and '.join(map(str, latitude.dims))}, in their own units"
    else:
        for index, step in zip(plane, _steps(_decoded(latitude), _decoded(longitude)), strict=True):
            axes[index] = Axis.regular(axes[index].name, len(axes[index]), step, "km")
        steps = " and ".join(f"{axes[index].spacing:.3g} km along {axes[index].name}" for index in plane)
        how = f"in steps of the grid, on average {steps}"
    remarks.append(f"latitude and longitude are two-dimensional; distances are measured {how}")
    return tuple(axes)


def _along(around: Mapping[str, Any], found: Any, dimension: Any, remarks: list[str]) -> Any:
    """The one coordinate that a variable names along a dimension without a coordinate of its own name, or None."""
    named = [name for name in str(found.attrs.get("coordinates", "")).split() if name in around]
    along = [name for name in named if around[name].dims == (dimension,) and around[name].dtype.kind in "fiu"]
    if len(along) > 1:
        lie = f"{' and '.join(along)} lie along {dimension}"
        remarks.append(f"{lie}, which is no grid: its positions are counted; a table of points says where they are")
    return around[along[0]] if len(along) == 1 else None


def _plane(around: Mapping[str, Any], found: Any, is_it: Any) -> Any:
    """The two-dimensional latitudes or longitudes of a variable, or None."""
    for name in str(found.attrs.get("coordinates", "")).split() or around:
        item = around.get(name)
        if item is not None and item.ndim == 2 and set(item.dims) <= set(found.dims):
            unit = str(item.attrs.get("units", ""))
            if is_it(Axis("", np.zeros(1), unit)) or is_it(Axis(str(name).removesuffix("_rho"), np.zeros(1), unit)):
                return item
    return None


def _steps(latitude: np.ndarray, longitude: np.ndarray) -> list[float]:
    """Mean distance between neighbours along both dimensions, in kilometres on a sphere."""
    points = on_sphere(latitude, longitude)
    chords = [np.linalg.norm(np.diff(points, axis=axis), axis=0) for axis in (1, 2)]
    means = [float(np.nanmean(chord)) if np.isfinite(chord).any() else 0.0 for chord in chords]
    return [_EARTH_RADIUS * mean if mean > 0 else 1.0 for mean in means]


def _complete(data: Any, completion: Completion, called: str, taken: Container[str]) -> None:
    """Replace one variable of a loaded dataset, and put beside it the deviation and what was filled."""
    found = data[called]
    attributes = cf.with_fill(found.values, found.attrs)
    values = cf.decoded(found.values, attributes)
    completion.into(values)
    stored, kept = cf.encoded(values, found.values, attributes)
    for suffix, (part, about) in cf.beside(completion, kept, stored.dtype).items():
        name = unused(f"{called}{suffix}", taken)
        data[name] = (found.dims, part, about)
        cf.refer(kept, name)
    kept |= completion.notes
    layout = {
        key: found.encoding[key] for key in ("chunks", "shards", "compressors", "filters") if key in found.encoding
    }
    data[called] = (found.dims, stored, kept, layout if stored.dtype == found.dtype else {})


def _to_cdf5(data: Any, target: Path) -> None:
    """Write a dataset as CDF-5, by netCDF4 itself: xarray would refuse the whole numbers that only CDF-5 has."""
    import netCDF4

    with netCDF4.Dataset(target, "w", format="NETCDF3_64BIT_DATA") as file:
        file.setncatts(data.attrs)
        for name, size in data.sizes.items():
            file.createDimension(name, None if name in data.encoding.get("unlimited_dims", ()) else size)
        for name, item in data.variables.items():
            attributes = dict(item.attrs)
            fill = attributes.pop("_FillValue", None)
            made = file.createVariable(name, item.dtype, item.dims, fill_value=fill)
            made.set_auto_maskandscale(False)
            made.setncatts(attributes)
            made[...] = item.values


def _write_zarr(source: Path, target: Path, completions: Sequence[Completion]) -> None:
    """Copy a store, and write the arrays that are completed anew, among groups and all else."""
    shutil.copytree(source, target)
    for completion in completions:
        group, _, name = completion.gridded.name.rpartition("/")
        with _open(target, "zarr", group) as opened:
            data = opened[[name]].load()
            taken = set(opened.variables)
        _complete(data, completion, name, taken)
        cf.add_history(data.attrs, [completion])
        shutil.rmtree(target / group / name)
        known = (source / ".zmetadata").exists() or "consolidated_metadata" in _text_of(source / "zarr.json")
        with warnings.catch_warnings():  # that such metadata is not part of version 3: the source has it
            warnings.simplefilter("ignore", UserWarning)
            data.drop_vars(data.coords).to_zarr(target, group=group or None, mode="a", consolidated=known)


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _supporting(data: Any) -> set[str]:
    """Variables that describe others by CF: bounds, auxiliary coordinates, grid mappings, flags and the like."""
    roles = ("bounds", "coordinates", "grid_mapping", "ancillary_variables", "cell_measures", "climatology")
    named = " ".join(str(item.attrs.get(role, "")) for item in data.variables.values() for role in roles)
    flags = {str(name) for name, item in data.data_vars.items() if cf.is_flag(item.attrs)}
    described = set(named.replace(":", " ").split())
    # A file of nothing but classes has no other field.
    return described if flags >= set(data.data_vars) - described else described | flags


def _decoded(variable: Any) -> np.ndarray:
    """The values that are meant; texts as they are."""
    stored = np.asarray(variable.values)
    if stored.dtype.kind not in "fiub":
        return stored
    return cf.decoded(stored, cf.with_fill(stored, variable.attrs))
