"""NumPy's .npy (one array) and .npz (several, by name)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Axis, grid_axes
from fieldbench.files import cf
from fieldbench.files.axes import axis
from fieldbench.files.format import Format
from fieldbench.files.gridded import Completion, Selector, Variable, choose, matched, unused, wanted


class Npy(Format):
    """One array without a name, coordinates or attributes."""

    def variable(self, selector: Selector) -> Variable:
        if selector.variable is not None or selector.coordinates:
            raise RequestError(f"{self.file.name} holds one array without a name; leave out variable and coordinates")
        array = np.load(self.file, allow_pickle=False)
        values = np.asarray(real(array, self.file.name), dtype=float)
        return Variable(self.file.stem, values, grid_axes(values.shape), whole=array.dtype.kind in "iub")

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        raise RequestError(
            f"{name!r} is not a file, and {self.file.name} holds one array only; give the mask as a .npy file"
        )

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        array = np.load(self.file, allow_pickle=False)
        for completion in completions:
            array = completed(array, completion)
        with target.open("wb") as stream:
            np.save(stream, array)


class NamedArrays(Format):
    """Arrays by name; coordinates are vectors that the request names."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays that the file holds, but those of Python objects."""
        found = {}
        with np.load(self.file, allow_pickle=False) as data:
            for name in data.files:
                with suppress(ValueError):
                    found[name] = data[name]
        return found

    def shape(self, array: np.ndarray) -> tuple[int, ...]:
        """The shape by which a field is sought among the arrays."""
        return array.shape

    def variable(self, selector: Selector) -> Variable:
        data = self.arrays()
        kinds = "fiub" if selector.variable else "fiu"  # true and false are the field only where it is named
        shapes = {name: self.shape(item) for name, item in data.items() if item.dtype.kind in kinds}
        name = wanted(shapes, selector, self.file.name)
        values = np.asarray(real(data[name], name), dtype=float)
        axes = axes_from(data, values.shape, selector, self.file.name)
        return Variable(name, values, axes, whole=data[name].dtype.kind in "iub")

    def mask(self, name: str, variable: Variable) -> np.ndarray:
        data = self.arrays()
        return matched(data[choose(dict.fromkeys(data, ""), name, self.file.name)], variable.values.shape, name)

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        arrays: dict[str, Any] = self.arrays()
        complete_arrays(arrays, completions)
        arrays[unused("fieldbench", arrays)] = np.array(as_notes(completions))
        with target.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
        with ZipFile(self.file) as old, ZipFile(target, "a") as new:  # what was not read is kept as it is
            for part in old.infolist():
                if part.filename not in new.namelist():
                    new.writestr(part, old.read(part))


def real(array: np.ndarray, name: str) -> np.ndarray:
    """The array, if it is one of real numbers.

    Raises:
        RequestError: if it holds something else, or is not an array.
    """
    if array.dtype.kind not in "fiub":
        raise RequestError(f"{name} holds {array.dtype}; a field holds real numbers")
    if array.ndim == 0 or array.size == 0:
        raise RequestError(f"{name} is a single number or empty; a field needs at least one dimension")
    return array


def axes_from(arrays: Mapping[str, Any], shape: tuple[int, ...], selector: Selector, file: str) -> tuple[Axis, ...]:
    """Axes from the named coordinate vectors, one for each dimension; without names, indices.

    Args:
        arrays: of the file, by name.
        shape: of the variable.
        selector: names the coordinates.
        file: its name, for messages.
    """
    if not selector.coordinates:
        return grid_axes(shape)
    if len(selector.coordinates) != len(shape):
        raise RequestError(
            f"coordinates names {len(selector.coordinates)} vectors; the variable has {len(shape)} dimensions"
        )
    axes = []
    for name, size in zip(selector.coordinates, shape, strict=True):
        if name not in arrays:
            raise RequestError(f"{file} has no vector {name!r} for the coordinates")
        vector = np.asarray(arrays[name])
        if vector.size != size:
            raise RequestError(f"coordinates {name!r} has {vector.size} entries; the dimension has {size}")
        axes.append(axis(name, size, vector))
    return tuple(axes)


def completed(original: np.ndarray, completion: Completion) -> np.ndarray:
    """The original array with the completed field in its region, in its type if that holds the values."""
    before = original.astype(original.dtype if original.dtype.kind == "f" else float)
    values = before.copy()
    completion.into(values)
    if original.dtype.kind == "b" and np.isin(values, (0, 1)).all():
        return values.astype(bool)
    if not cf.stays_whole(values, original.dtype, {}):
        return values
    # A whole number of more than 53 bits is not what it is as a float.
    return np.where(values == before, original, values.astype(original.dtype))


def complete_arrays(arrays: dict[str, np.ndarray], completions: Sequence[Completion]) -> None:
    """Put completed fields into arrays by name, and beside them what was filled and the deviations."""
    for completion in completions:
        gridded = completion.gridded
        arrays[gridded.name] = completed(arrays[gridded.name], completion)
        if completion.deviation is not None:
            arrays[unused(f"{gridded.name}_std", arrays)] = gridded.spread(completion.deviation)
        arrays[unused(f"{gridded.name}_filled", arrays)] = completion.filled_in_file()


def as_notes(completions: Sequence[Completion]) -> str:
    """What is noted beside the values, as JSON: of one field itself, of several by their names."""
    if len(completions) == 1:
        return json.dumps(dict(completions[0].attributes), indent=2)
    return json.dumps({item.gridded.name: dict(item.attributes) for item in completions}, indent=2)
