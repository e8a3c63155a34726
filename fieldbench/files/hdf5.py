"""HDF5 files, and MATLAB's since version 7.3, which are HDF5 with the dimensions in reverse."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.field import Axis
from fieldbench.files.content import Completion, Content, Variable, Wanted, axis, choose, matched
from fieldbench.files.format import Format, need
from fieldbench.files.numpy_files import axes_from, filled, floats, named, spread_out

_MATLAB_NUMBERS = {
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


class HDF5:
    """Datasets by their path in the file; dimension scales are coordinates, attributes give units.

    Args:
        reverse: whether dimensions lie in the file in reverse, as MATLAB writes them.
    """

    def __init__(self, reverse: bool = False) -> None:
        self._reverse = reverse

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        import h5py

        with h5py.File(file, "r") as data:
            found = _datasets(data)
            shapes = {
                name: self._turned_shape(item.shape)
                for name, item in found.items()
                if item.dtype.kind in "fiub" and not item.is_scale
            }
            name = named(shapes, wanted, file.name)
            item = found[name]
            fill = item.attrs.get("_FillValue", item.attrs.get("missing_value"))
            values = self._turned(floats(item[()], name))
            if fill is not None:
                values = np.where(np.isin(values, np.asarray(fill, dtype=float)), np.nan, values)
            if wanted.coordinates:
                vectors = {key: found[key][()] for key in wanted.coordinates if key in found}
                axes = axes_from(vectors, values.shape, wanted, file.name)
            else:
                axes = self._turned_axes(_scaled_axes(item))
            return Variable(
                name, values, axes, _text(item.attrs.get("units", "")), _text(item.attrs.get("long_name", ""))
            )

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        import h5py

        with h5py.File(file, "r") as data:
            found = _datasets(data)
            array = self._turned(found[choose(dict.fromkeys(found, ""), name, file.name)][()])
        return matched(array, variable.values.shape, name)

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        import h5py

        shutil.copyfile(source, target)
        with h5py.File(target, "r+") as data:
            item = data[content.name]
            values = self._turned(filled(self._turned(item[()]), content, completion))
            fill = item.attrs.get("_FillValue", item.attrs.get("missing_value"))
            if fill is not None:
                values = np.where(np.isnan(values), np.ravel(fill)[0], values)
            if item.dtype.kind == "f":
                item[...] = values
            else:
                item = _replaced(data, content.name, values)
            item.attrs.update({f"fieldbench_{key}": value for key, value in completion.attributes.items()})
            if completion.deviation is not None:
                deviation = spread_out(content.variable.values.shape, content, completion.deviation)
                _create(data, f"{content.name}_std", self._turned(deviation), item)

    def _turned(self, array: np.ndarray) -> np.ndarray:
        return array.T if self._reverse else array

    def _turned_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[::-1] if self._reverse else shape

    def _turned_axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return axes[::-1] if self._reverse else axes


def format_for(file: Path) -> Format:
    """The format, after a look at whether its library is there."""
    need("h5py", file)
    return HDF5()


def _datasets(data: Any) -> dict[str, Any]:
    """All datasets with their paths; MATLAB's texts, cells and other things that are no arrays left out."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, item: Any) -> None:
        kind = _text(item.attrs.get("MATLAB_class", "double"))
        if isinstance(item, h5py.Dataset) and not name.startswith("#") and kind in _MATLAB_NUMBERS:
            found[name] = item

    data.visititems(visit)
    return found


def _scaled_axes(item: Any) -> tuple[Axis, ...]:
    axes = []
    names = "xyz"
    for index, (dimension, size) in enumerate(zip(item.dims, item.shape, strict=True)):
        name = dimension.label or (names[index] if index < len(names) else f"axis{index}")
        if len(dimension):
            scale = dimension[0]
            axes.append(
                axis(scale.name.rpartition("/")[2] or name, size, scale[()], _text(scale.attrs.get("units", "")))
            )
        else:
            axes.append(axis(name, size, None))
    return tuple(axes)


def _replaced(data: Any, name: str, values: np.ndarray) -> Any:
    """The dataset anew with another type, its attributes and dimension scales kept."""
    old = data[name]
    scales = [[dimension[index] for index in range(len(dimension))] for dimension in old.dims]
    labels = [dimension.label for dimension in old.dims]
    own = ("DIMENSION_LIST", "DIMENSION_LABELS", "_FillValue", "missing_value", "MATLAB_class", "MATLAB_int_decode")
    attributes = {key: value for key, value in old.attrs.items() if key not in own}
    matlab = "MATLAB_class" in old.attrs
    del data[name]
    new = data.create_dataset(name, data=values)
    new.attrs.update(attributes)
    if matlab:
        new.attrs["MATLAB_class"] = np.bytes_("double")
    for dimension, found, label in zip(new.dims, scales, labels, strict=True):
        dimension.label = label
        for scale in found:
            dimension.attach_scale(scale)
    return new


def _create(data: Any, name: str, values: np.ndarray, like: Any) -> None:
    if name in data:
        del data[name]
    new = data.create_dataset(name, data=values)
    for key in ("units", "MATLAB_class"):
        if key in like.attrs:
            new.attrs[key] = like.attrs[key]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
