"""NumPy's .npy (one array) and .npz (several, by name)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Axis, FloatArray, grid_axes
from fieldbench.files.content import Completion, Content, Variable, Wanted, axis, candidates, choose, matched
from fieldbench.files.format import Format
from fieldbench.names import unused


class Npy:
    """One array without a name, coordinates or attributes."""

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        if wanted.variable is not None or wanted.coordinates:
            raise RequestError(f"{file.name} holds one array without a name; leave out variable and coordinates")
        values = floats(np.load(file, allow_pickle=False), file.name)
        return Variable(file.stem, values, grid_axes(values.shape))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        raise RequestError(f"{name!r} is no file, and {file.name} holds one array only; give the mask as a .npy file")

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        array = np.load(source, allow_pickle=False)
        with target.open("wb") as stream:
            np.save(stream, filled(array, content, completion))


class Npz:
    """Arrays by name; coordinates are vectors that the request names."""

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        with np.load(file, allow_pickle=False) as data:
            shapes = {name: data[name].shape for name in data.files if data[name].dtype.kind in "fiub"}
            name = named(shapes, wanted, file.name)
            values = floats(data[name], name)
            vectors = {key: data[key] for key in wanted.coordinates if key in shapes}
        return Variable(name, values, axes_from(vectors, values.shape, wanted, file.name))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        with np.load(file, allow_pickle=False) as data:
            array = data[choose(dict.fromkeys(data.files, ""), name, file.name)]
        return matched(array, variable.values.shape, name)

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        with np.load(source, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        original = arrays[content.name]
        arrays[content.name] = filled(original, content, completion)
        if completion.deviation is not None:
            arrays[unused(f"{content.name}_std", arrays)] = spread_out(original.shape, content, completion.deviation)
        arrays["fieldbench"] = np.array(json.dumps(dict(completion.attributes)))
        with target.open("wb") as stream:
            np.savez_compressed(stream, **arrays)


def format_for(file: Path) -> Format:
    """The one that the suffix says."""
    return Npy() if file.suffix.lower() == ".npy" else Npz()


def real(array: np.ndarray, name: str) -> np.ndarray:
    """The array, if it is one of real numbers.

    Raises:
        RequestError: if it holds something else, or is no array.
    """
    if array.dtype.kind not in "fiub":
        raise RequestError(f"{name} holds {array.dtype}; a field holds real numbers")
    if array.ndim == 0 or array.size == 0:
        raise RequestError(f"{name} is a single number or empty; a field needs at least one dimension")
    return array


def floats(array: np.ndarray, name: str) -> FloatArray:
    """An array of real numbers as floats.

    Raises:
        RequestError: if it holds something else, or is no array.
    """
    return np.asarray(real(array, name), dtype=float)


def named(shapes: dict[str, tuple[int, ...]], wanted: Wanted, file: str) -> str:
    """The wanted one of several arrays."""
    sought = shapes if wanted.variable is not None else candidates(shapes, wanted)
    return choose({name: " x ".join(map(str, shape)) for name, shape in sought.items()}, wanted.variable, file)


def axes_from(vectors: dict[str, np.ndarray], shape: tuple[int, ...], wanted: Wanted, file: str) -> tuple[Axis, ...]:
    """Axes from the named coordinate vectors, one for each dimension; without names, indices."""
    if not wanted.coordinates:
        return grid_axes(shape)
    if len(wanted.coordinates) != len(shape):
        raise RequestError(
            f"coordinates names {len(wanted.coordinates)} vectors; the variable has {len(shape)} dimensions"
        )
    for name, size in zip(wanted.coordinates, shape, strict=True):
        if name not in vectors:
            raise RequestError(f"{file} has no vector {name!r} for the coordinates")
        if np.size(vectors[name]) != size:
            raise RequestError(f"coordinates {name!r} has {np.size(vectors[name])} entries; the dimension has {size}")
    return tuple(axis(name, size, vectors[name]) for name, size in zip(wanted.coordinates, shape, strict=True))


def filled(original: np.ndarray, content: Content, completion: Completion) -> np.ndarray:
    """The original array with the completed field in its place; of its type where that is a float type."""
    values = original.astype(original.dtype if original.dtype.kind == "f" else float)
    values[content.place] = completion.values
    return values


def spread_out(shape: tuple[int, ...], content: Content, part: FloatArray) -> FloatArray:
    """An array of the file's shape with ``part`` in the field's place and NaN elsewhere."""
    whole = np.full(shape, np.nan)
    whole[content.place] = part
    return whole
