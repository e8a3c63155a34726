"""HDF5 files, and MATLAB's since version 7.3, which are HDF5 with the dimensions in reverse."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.field import Axis, grid_axes
from fieldbench.files import cf
from fieldbench.files.axes import axis_if_usable
from fieldbench.files.format import Format, need
from fieldbench.files.gridded import Completion, Selector, Variable, choose, matched, unused, wanted
from fieldbench.files.numpy_files import axes_from, real

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
        file: the file.
        matlab: whether MATLAB wrote it: dimensions lie in it in reverse, structures are groups.
        netcdf: whether it is netCDF-4: unwritten entries have a number of their own, and there is a history.
    """

    def __init__(self, file: Path, matlab: bool = False, netcdf: bool = False) -> None:
        super().__init__(file)
        self._matlab, self._netcdf = matlab, netcdf

    def variable(self, selector: Selector) -> Variable:
        with _open(self.file) as data:
            found = self._datasets(data)
            shapes = {
                name: without_one(item.shape[::-1]) if self._matlab else item.shape
                for name, item in found.items()
                if item.dtype.kind in "fiub" and not item.is_scale and (selector.variable or not _is_logical(item))
            }
            name = wanted(shapes, selector, self.file.name)
            item = found[name]
            values = self._turned(cf.decoded(real(item[()], name), item.attrs))
            remarks: list[str] = []
            if selector.coordinates:
                axes = axes_from(found, values.shape, selector, self.file.name)
            else:
                scaled = _scaled_axes(item, remarks)
                axes = scaled[::-1] if self._matlab else scaled
            unit, quantity = (cf.text(item.attrs.get(key, "")) for key in ("units", "long_name"))
            whole = item.dtype.kind != "f" and not cf.is_scaled(item.attrs)
            flags = cf.is_flag(item.attrs) or _is_logical(item)
            limits = cf.valid_range(item.attrs, item.dtype)
            return Variable(name, values, axes, unit, quantity, tuple(remarks), whole, flags, limits=limits)

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        with _open(self.file) as data:
            found = self._datasets(data)
            item = found[choose(dict.fromkeys(found, ""), name, self.file.name)]
            stored = matched(self._turned(item[()]), variable.values.shape, name)
            return cf.decoded(stored, item.attrs)

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        shutil.copyfile(self.file, target)
        with _open(target, "r+") as data:
            for completion in completions:
                self._complete(data, completion)
            if self._netcdf:
                cf.add_history(data.attrs, completions)

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
        # MATLAB lists the fields of a structure, so that what is new lies outside of it.
        stem = item.name.strip("/").replace("/", "_") if self._matlab else item.name
        for suffix, (part, about) in cf.beside(completion, item.attrs, item.dtype).items():
            name = unused(f"{stem}{suffix}", data)
            if self._matlab:
                kinds = {"i1": "logical", "f4": "single"}
                about = {"MATLAB_class": np.bytes_(kinds.get(part.dtype.str[1:], "double"))}
                part = part.astype("u1" if part.dtype.kind == "i" else part.dtype)
            _created(data, name, self._turned(part), about, item)
            if not self._matlab:
                cf.refer(item.attrs, name.rpartition("/")[2])
        item.attrs.update(completion.notes)

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


def without_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array of MATLAB, in which a vector is a matrix of one row or column."""
    return (max(shape),) if len(shape) == 2 and min(shape) == 1 else shape


def _open(file: Path, mode: str = "r") -> Any:
    """The file, with the filters of hdf5plugin where that is installed: zstd, blosc and others."""
    h5py = need("h5py", file)
    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401 - importing it registers them
    return h5py.File(file, mode)


def _is_logical(item: Any) -> bool:
    return item.dtype.kind == "b" or cf.text(item.attrs.get("MATLAB_class", "")) == "logical"


def _scaled_axes(item: Any, remarks: list[str]) -> tuple[Axis, ...]:
    axes = []
    for dimension, counted in zip(item.dims, grid_axes(item.shape), strict=True):
        name, coordinates, unit = dimension.label or counted.name, None, ""
        if len(dimension):
            scale = dimension[0]
            name = scale.name.rpartition("/")[2] or name
            if not cf.text(scale.attrs.get("NAME", "")).startswith(_DIMENSION_ONLY):
                coordinates, unit = scale[()], cf.text(scale.attrs.get("units", ""))
        axes.append(axis_if_usable(name, len(counted), coordinates, unit, remarks))
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
        for scale in dimension.values():
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
        for scale in model.values():
            dimension.attach_scale(scale)
    return new
