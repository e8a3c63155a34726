"""MATLAB's .mat files: up to version 7 through scipy, 7.3 as HDF5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.files.format import Format
from fieldbench.files.gridded import Completion, unused
from fieldbench.files.hdf5 import HDF5, without_one
from fieldbench.files.numpy_files import NamedArrays, as_notes, complete_arrays


class Matlab(NamedArrays):
    """Version 4 to 7: arrays by name, those of structures as ``model.temp``; the request names coordinates."""

    def arrays(self) -> dict[str, np.ndarray]:
        return dict(_arrays(_load(self.file)))

    def shape(self, array: np.ndarray) -> tuple[int, ...]:
        return without_one(array.shape)

    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        from scipy.io import savemat

        data = _load(self.file)
        arrays = dict(_arrays(data))
        complete_arrays(arrays, completions)
        for name, array in arrays.items():
            _put(data, name, array)
        data[unused("fieldbench", data)] = as_notes(completions)
        savemat(target, data, do_compression=True, long_field_names=True)


def of_its_version(file: Path) -> Format:
    """The format by the file's first bytes, since both kinds have one suffix."""
    with file.open("rb") as stream:
        head = stream.read(520)
    signature = b"\x89HDF\r\n\x1a\n"
    return HDF5(file, matlab=True) if signature in (head[:8], head[512:]) else Matlab(file)


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

    data = {name: item for name, item in loadmat(file, mat_dtype=True).items() if not name.startswith("__")}
    _restore(data, loadmat(file, mat_dtype=False))  # scipy makes reals of complex numbers where it keeps types
    return data


def _restore(data: dict[str, Any] | np.void, stored: Mapping[str, Any] | np.void) -> None:
    """Put complex numbers back, also into structures."""
    for name in data if isinstance(data, dict) else data.dtype.names or ():
        one, other = data[name], stored[name]
        if isinstance(other, np.ndarray) and other.dtype.kind == "c":
            data[name] = other
        elif isinstance(other, np.ndarray) and other.dtype.names:
            for record, original in zip(one.ravel(), other.ravel(), strict=True):
                _restore(record, original)
