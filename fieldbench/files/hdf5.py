"""HDF5 files, and MATLAB's since version 7.3, which are HDF5 with the dimensions in reverse."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.field import Axis
from fieldbench.files import cf
from fieldbench.files.axes import axis_if_usable
from fieldbench.files.format import Format, need
from fieldbench.files.gridded import Completion, Selector, Variable, choose, matched, unused
from fieldbench.files.numpy_files import axes_from, named, real

_MATLAB_NUMBERS = {
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


#: Filters whose settings hold for the numbers of one type: n-bit and scale-offset.
_OF_A_TYPE = (5, 6)

#: What netCDF-4 calls a scale that is there only to name a dimension.
_DIMENSION_ONLY = "This is a netCDF dimension but not a netCDF variable"


class HDF5(Format):
    """Datasets by their path in the file; dimension scales are coordinates, attributes give units.

    Args:
        matlab: whether MATLAB wrote the file: dimensions lie in it in reverse, structures are groups.
        netcdf: whether it is netCDF-4: unwritten entries have a number of their own, and there is a history.
    """

    def __init__(self, matlab: bool = False, netcdf: bool = False) -> None:
        self._matlab, self._netcdf = matlab, netcdf

    def variable(self, file: Path, selector: Selector) -> Variable:
        with _open(file) as data:
            found = self._datasets(data)
            shapes = {
                name: self._turned_shape(item.shape)
                for name, item in found.items()
                if item.dtype.kind in "fiub" and not item.is_scale and (selector.variable or not _is_logical(item))
            }
            name = named(shapes, selector, file.name)
            item = found[name]
            values = self._turned(cf.decoded(real(item[()], name), item.attrs))
            remarks: list[str] = []
            if selector.coordinates:
                vectors = {key: found[key][()] for key in selector.coordinates if key in found}
                axes = axes_from(vectors, values.shape, selector, file.name)
            else:
                axes = self._turned_axes(_scaled_axes(item, remarks))
            unit, quantity = (cf.text(item.attrs.get(key, "")) for key in ("units", "long_name"))
            whole = item.dtype.kind != "f" and not cf.is_scaled(item.attrs)
            flags = cf.is_flag(item.attrs) or _is_logical(item)
            return Variable(name, values, axes, unit, quantity, tuple(remarks), whole, flags)

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        with _open(file) as data:
            found = self._datasets(data)
            item = found[choose(dict.fromkeys(found, ""), name, file.name)]
            stored = matched(self._turned(item[()]), variable.values.shape, name)
            return cf.decoded(stored, item.attrs)

    def write(self, source: Path, target: Path, completions: Sequence[Completion]) -> None:
        shutil.copyfile(source, target)
        with _open(target, "r+") as data:
            for completion in completions:
                self._complete(data, completion)
            if self._netcdf:
                data.attrs["history"] = cf.history(cf.text(data.attrs.get("history", ""), "\n"), completions)

    def _complete(self, data: Any, completion: Completion) -> None:
        """Replace one dataset's values, and put beside it the deviation and what was filled."""
        gridded = completion.gridded
        item = self._datasets(data)[gridded.name]
        stored = item[()]
        attributes = cf.with_fill(stored, item.attrs) if self._netcdf else dict(item.attrs)
        values = cf.decoded(stored, attributes)
        completion.into(self._turned(values))
        stored, kept = cf.encoded(values, stored, attributes)
        if stored.dtype == item.dtype and not cf.is_scaled(item.attrs):
            item[...] = stored
            for key in item.attrs.keys() - kept.keys():
                del item.attrs[key]
            for key in kept.keys() - item.attrs.keys():
                item.attrs[key] = np.array([kept[key]])
        else:
            item = _replaced(item, stored, kept)
        beside = cf.beside(completion, item.attrs, item.dtype)
        for suffix, (part, about) in beside.items():
            name = unused(self._beside(item.name, suffix), data)
            if self._matlab:
                kinds = {"i1": "logical", "f4": "single"}
                about = {"MATLAB_class": np.bytes_(kinds.get(part.dtype.str[1:], "double"))}
            layout = part.astype("u1" if self._matlab and part.dtype.kind == "i" else part.dtype)
            _created(data, name, self._turned(layout), about, item)
            if not self._matlab:
                cf.refer(item.attrs, name.rpartition("/")[2])
        item.attrs.update(completion.notes)

    def _beside(self, name: str, suffix: str) -> str:
        """The path of a new dataset; MATLAB lists the fields of a structure, so there it lies outside."""
        return name.strip("/").replace("/", "_") + suffix if self._matlab else name + suffix

    def _datasets(self, data: Any) -> dict[str, Any]:
        """All datasets by path; MATLAB's texts, cells and other things that are not arrays left out."""
        import h5py

        found: dict[str, Any] = {}

        def visit(name: str, item: Any) -> None:
            kind = cf.text(item.attrs.get("MATLAB_class", "double"))
            whole = isinstance(item, h5py.Dataset) and item.shape is not None  # h5py.Empty has none
            if whole and not name.startswith("#") and kind in _MATLAB_NUMBERS:
                found[name.replace("/", ".") if self._matlab else name] = item

        data.visititems(visit)
        return found

    def _turned(self, array: np.ndarray) -> np.ndarray:
        return array.T if self._matlab else array

    def _turned_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return without_one(shape[::-1]) if self._matlab else shape

    def _turned_axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return axes[::-1] if self._matlab else axes


def format_for(file: Path) -> Format:
    """The format, after a look at whether its library is there."""
    need("h5py", file)
    return HDF5()


def without_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array of MATLAB, in which a vector is a matrix of one row or column."""
    return (max(shape),) if len(shape) == 2 and min(shape) == 1 else shape


def _open(file: Path, mode: str = "r") -> Any:
    """The file, with the filters of hdf5plugin where that is installed: zstd, blosc and others."""
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401 - importing it registers them
    return h5py.File(file, mode)


def _is_logical(item: Any) -> bool:
    return item.dtype.kind == "b" or cf.text(item.attrs.get("MATLAB_class", "")) == "logical"


def _scaled_axes(item: Any, remarks: list[str]) -> tuple[Axis, ...]:
    axes = []
    names = "xyz"
    for index, (dimension, size) in enumerate(zip(item.dims, item.shape, strict=True)):
        name = dimension.label or (names[index] if index < len(names) else f"axis{index}")
        if not len(dimension):
            axes.append(Axis.regular(name, size))
            continue
        scale = dimension[0]
        name = scale.name.rpartition("/")[2] or name
        named_only = cf.text(scale.attrs.get("NAME", "")).startswith(_DIMENSION_ONLY)
        coordinates = None if named_only else scale[()]
        axes.append(axis_if_usable(name, size, coordinates, cf.text(scale.attrs.get("units", "")), remarks))
    return tuple(axes)


def _replaced(old: Any, values: np.ndarray, attributes: dict[str, Any]) -> Any:
    """The dataset anew with another type, its dimension scales and layout kept."""
    data, name, own = old.file, old.name, ("DIMENSION_LIST", "DIMENSION_LABELS", "MATLAB_class", "MATLAB_int_decode")
    attributes = {key: value for key, value in attributes.items() if key not in own}
    if "MATLAB_class" in old.attrs:
        attributes["MATLAB_class"] = np.bytes_("double" if values.dtype.itemsize == 8 else "single")
    aside = f"{name}_replaced"
    data.move(name, aside)
    new = _created(data, name, values, attributes, like=old)
    for dimension in old.dims:
        for scale in [dimension[index] for index in range(len(dimension))]:
            dimension.detach_scale(scale)
    del data[aside]
    return new


def _created(data: Any, name: str, values: np.ndarray, attributes: Mapping[str, Any], like: Any) -> Any:
    """A dataset with the dimension scales, the layout and the filters of another one of the same shape."""
    import h5py

    plan = like.id.get_create_plist().copy()
    for index in reversed(range(plan.get_nfilters())):
        if plan.get_filter(index)[0] in _OF_A_TYPE:
            plan.remove_filter(plan.get_filter(index)[0])
    if like.chunks is not None:
        plan.set_chunk(like.chunks)  # again, since it keeps the size of the numbers
    plan.set_fill_value(np.array(np.nan if values.dtype.kind == "f" else 0, dtype=values.dtype))
    kind, space = h5py.h5t.py_create(values.dtype, logical=True), like.id.get_space()
    new = h5py.Dataset(h5py.h5d.create(data.id, name.encode(), kind, space, dcpl=plan))
    new[...] = values
    new.attrs.update(attributes)
    for dimension, model in zip(new.dims, like.dims, strict=True):
        if model.label:
            dimension.label = model.label
        for index in range(len(model)):
            dimension.attach_scale(model[index])
    return new
