"""MATLAB's .mat files: up to version 7 through scipy, 7.3 as HDF5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.files.format import Format, need
from fieldbench.files.gridded import Completion, Selector, Variable, choose, matched
from fieldbench.files.hdf5 import HDF5, without_one
from fieldbench.files.numpy_files import as_notes, axes_from, complete_arrays, floats, is_whole, named


class Matlab(Format):
    """Version 4 to 7: arrays by name, those of structures as ``model.temp``; the request names coordinates."""

    def variable(self, file: Path, selector: Selector) -> Variable:
        data = dict(_arrays(_load(file)))
        kinds = "fiub" if selector.variable else "fiu"  # a logical is the field only where it is named
        shapes = {name: without_one(item.shape) for name, item in data.items() if item.dtype.kind in kinds}
        name = named(shapes, selector, file.name)
        values = floats(data[name], name)
        vectors = {key: data[key] for key in selector.coordinates if key in data}
        axes = axes_from(vectors, values.shape, selector, file.name)
        return Variable(name, values, axes, whole=is_whole(data[name]))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        data = dict(_arrays(_load(file)))
        return matched(data[choose(dict.fromkeys(data, ""), name, file.name)], variable.values.shape, name)

    def write(self, source: Path, target: Path, completions: Sequence[Completion]) -> None:
        from scipy.io import savemat

        data = _load(source)
        arrays = dict(_arrays(data))
        complete_arrays(arrays, completions)
        for name, array in arrays.items():
            _put(data, name, array)
        data["fieldbench"] = as_notes(completions)
        savemat(target, data, do_compression=True)


def format_for(file: Path) -> Format:
    """By the file's first bytes, since both kinds have one suffix."""
    with file.open("rb") as stream:
        head = stream.read(8)
        stream.seek(512)
        version_73 = head == b"\x89HDF\r\n\x1a\n" or stream.read(8) == b"\x89HDF\r\n\x1a\n"
    if version_73:
        need("h5py", file)
        return HDF5(matlab=True)
    return Matlab()


def _arrays(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """All arrays, those in structures by the names of both with a point between."""
    for name, item in data.items():
        if not isinstance(item, np.ndarray):
            continue
        if item.dtype.names and item.size == 1:
            record = item.ravel()[0]
            yield from _arrays({key: record[key] for key in item.dtype.names}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item


def _put(data: dict[str, Any], name: str, array: np.ndarray) -> None:
    """Put an array where it came from; one that is new beside a structure's gets a name of its own."""
    first, *path = name.split(".")
    if not path:
        data[first] = array
        return
    record = data[first].ravel()[0]
    for key in path[:-1]:
        record = record[key].ravel()[0]
    if path[-1] in record.dtype.names:
        record[path[-1]] = array
    else:
        data[name.replace(".", "_")] = array


def _load(file: Path) -> dict[str, Any]:
    """All variables, in the types that they have in MATLAB: it stores doubles that are whole as bytes."""
    from scipy.io import loadmat

    return {name: item for name, item in loadmat(file, mat_dtype=True).items() if not name.startswith("__")}
