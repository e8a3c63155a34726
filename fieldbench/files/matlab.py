"""MATLAB's .mat files: up to version 7 through scipy, 7.3 as HDF5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.files.content import Completion, Content, Variable, Wanted, choose, matched
from fieldbench.files.format import Format, need
from fieldbench.files.hdf5 import HDF5
from fieldbench.files.numpy_files import axes_from, filled, floats, named, spread_out
from fieldbench.names import unused


class Matlab:
    """Version 4 to 7: arrays by name; coordinates are vectors that the request names."""

    def variable(self, file: Path, wanted: Wanted) -> Variable:
        data = _arrays(file)
        shapes = {name: item.shape for name, item in data.items() if item.dtype.kind in "fiub"}
        name = named(shapes, wanted, file.name)
        values = floats(data[name], name)
        vectors = {key: data[key] for key in wanted.coordinates if key in data}
        return Variable(name, values, axes_from(vectors, values.shape, wanted, file.name))

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        data = _arrays(file)
        return matched(data[choose(dict.fromkeys(data, ""), name, file.name)], variable.values.shape, name)

    def write(self, source: Path, target: Path, content: Content, completion: Completion) -> None:
        from scipy.io import savemat

        data = _load(source)
        original = data[content.name]
        data[content.name] = filled(original, content, completion)
        if completion.deviation is not None:
            data[unused(f"{content.name}_std", data)] = spread_out(original.shape, content, completion.deviation)
        data["fieldbench"] = json.dumps(dict(completion.attributes))
        savemat(target, data, do_compression=True)


def format_for(file: Path) -> Format:
    """By the file's first bytes, since both kinds have one suffix."""
    with file.open("rb") as stream:
        head = stream.read(8)
        stream.seek(512)
        version_73 = head == b"\x89HDF\r\n\x1a\n" or stream.read(8) == b"\x89HDF\r\n\x1a\n"
    if version_73:
        need("h5py", file)
        return HDF5(reverse=True)
    return Matlab()


def _arrays(file: Path) -> dict[str, np.ndarray]:
    return {name: item for name, item in _load(file).items() if isinstance(item, np.ndarray)}


def _load(file: Path) -> dict[str, Any]:
    """All variables, in the types that they have in MATLAB: it stores doubles that are whole as bytes."""
    from scipy.io import loadmat

    return {name: item for name, item in loadmat(file, mat_dtype=True).items() if not name.startswith("__")}
