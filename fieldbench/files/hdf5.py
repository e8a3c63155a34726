"""HDF5 files, and MATLAB's since version 7.3, which are HDF5 with the dimensions in reverse."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.field import Axis
from fieldbench.files import cf
from fieldbench.files.content import Completion, Content, Variable, Wanted, axis_if_usable, choose, matched
from fieldbench.files.format import Format, need
from fieldbench.files.numpy_files import axes_from, named, real, spread_out
from fieldbench.names import unused

_MATLAB_NUMBERS = {
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
}


#: What netCDF-4 calls a scale that is there only to name a dimension.
_DIMENSION_ONLY = "This is a netCDF dimension but not a netCDF variable"


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
            values = self._turned(cf.decoded(real(item[()], name), item.attrs))
            remarks: list[str] = []
            if wanted.coordinates:
                vectors = {key: found[key][()] for key in wanted.coordinates if key in found}
                axes = axes_from(vectors, values.shape, wanted, file.name)
            else:
                axes = self._turned_axes(_scaled_axes(item, remarks))
            unit, quantity = (_text(item.attrs.get(key, "")) for key in ("units", "long_name"))
            return Variable(name, values, axes, unit, quantity, tuple(remarks))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        import h5py

        with h5py.File(file, "r") as data:
            found = _datasets(data)
            item = found[choose(dict.fromkeys(found, ""), name, file.name)]
            stored = matched(self._turned(item[()]), variable.values.shape, name)
            return cf.decoded(stored, item.attrs)

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        import h5py

        shutil.copyfile(source, target)
        with h5py.File(target, "r+") as data:
            item = data[content.name]
            values = cf.decoded(item[()], item.attrs)
            self._turned(values)[content.place] = completion.values
            stored, attributes = cf.encoded(values, item.dtype, dict(item.attrs))
            if cf.is_packed(item.dtype, item.attrs):
                item = _replaced(item, stored, attributes)
            else:
                item[...] = stored
                for key in item.attrs.keys() - attributes.keys():
                    del item.attrs[key]
            item.attrs.update({f"fieldbench_{key}": value for key, value in completion.attributes.items()})
            if completion.deviation is not None:
                deviation = spread_out(content.variable.values.shape, content, completion.deviation)
                about = {key: item.attrs[key] for key in ("units", "MATLAB_class") if key in item.attrs}
                about["long_name"] = f"standard deviation of {content.name}"
                name = unused(f"{content.name}_std", data)
                _created(data, name, self._turned(deviation).astype(item.dtype), about, item)

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
        named_only = _text(scale.attrs.get("NAME", "")).startswith(_DIMENSION_ONLY)
        coordinates = None if named_only else scale[()]
        axes.append(axis_if_usable(name, size, coordinates, _text(scale.attrs.get("units", "")), remarks))
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


def _created(data: Any, name: str, values: np.ndarray, attributes: dict[str, Any], like: Any) -> Any:
    """A dataset with the dimension scales and the layout of another one of the same shape."""
    layout = {}
    if like.chunks is not None:
        kept = ("chunks", "maxshape", "compression", "compression_opts", "shuffle", "fletcher32")
        layout = {key: getattr(like, key) for key in kept}
    new = data.create_dataset(name, data=values, fillvalue=np.nan, **layout)
    new.attrs.update(attributes)
    for dimension, model in zip(new.dims, like.dims, strict=True):
        if model.label:
            dimension.label = model.label
        for index in range(len(model)):
            dimension.attach_scale(model[index])
    return new


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
