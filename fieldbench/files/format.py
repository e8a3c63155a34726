"""What every file format can do, and which one a file has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fieldbench.errors import RequestError, how_to_install
from fieldbench.files.gridded import Completion, Selector, Variable


class Format(ABC):
    """Reads variables of one file, and writes that file again with one of them completed."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @abstractmethod
    def variable(self, selector: Selector) -> Variable:
        """The variable that the selector names."""

    @abstractmethod
    def mask(self, name: str, variable: Variable) -> np.ndarray:
        """Another variable of the file, to be used as a mask: an array that broadcasts to ``variable``."""

    @abstractmethod
    def write(self, target: Path, completions: Sequence[Completion]) -> None:
        """Write the file again as ``target``, with variables, or parts of them, completed and all else kept."""


GEOTIFF = (".tif", ".tiff")
#: Text tables, and what parts the columns of those that are written.
TEXTS = {".csv": ",", ".tsv": "\t"}
TABLES = (*TEXTS, ".parquet", ".pq")

#: What makes the format of a file, by suffix: a module here, and a class or function in it that is given the file.
_FORMATS = {
    **dict.fromkeys((".nc", ".nc4", ".cdf", ".zarr"), "netcdf.NetCDF"),
    ".npy": "numpy_files.Npy",
    ".npz": "numpy_files.NamedArrays",
    ".mat": "matlab.of_its_version",
    **dict.fromkeys((".h5", ".hdf5", ".he5"), "hdf5.HDF5"),
    **dict.fromkeys(GEOTIFF, "geotiff.GeoTIFF"),
    **dict.fromkeys(TABLES, "tables.TextTable"),
}

SUFFIXES = frozenset(_FORMATS)


def format_of(file: Path) -> Format:
    """The format of a file, by its suffix.

    Raises:
        RequestError: if there is no such format, or the library that reads it is not installed.
    """
    suffix = file.suffix.lower()
    if suffix not in _FORMATS:
        raise RequestError(f"{file.name}: no format {suffix or 'without suffix'!r}; there are {', '.join(_FORMATS)}")
    module, _, name = _FORMATS[suffix].partition(".")
    made: Format = getattr(import_module(f"fieldbench.files.{module}"), name)(file)
    return made


def need(module: str, file: Path, extra: str = "files") -> Any:
    """An optional library, which an extra brings.

    Args:
        module: the library's import name.
        file: that needs it.
        extra: of fieldbench, which installs the library.

    Raises:
        RequestError: if it is not installed; the message says how to get it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise RequestError(f"{file.name}: {file.suffix} files need {module}; {how_to_install(extra)}") from None
