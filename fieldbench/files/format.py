"""What every file format can do, and which one a file has."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np

from fieldbench.errors import RequestError, how_to_install
from fieldbench.files.gridded import Completion, Selector, Variable


class Format(Protocol):
    """Reads variables of one file, and writes that file again with one of them completed."""

    def variable(self, file: Path, selector: Selector) -> Variable:
        """The variable that the selector names."""

    def mask(self, file: Path, name: str, variable: Variable) -> np.ndarray:
        """Another variable of the file, to be used as a mask: an array that broadcasts to ``variable``.

        Args:
            file: to be read.
            name: of the mask.
            variable: that the mask belongs to.
        """

    def write(self, source: Path, target: Path, completions: Sequence[Completion]) -> None:
        """Write ``source`` again as ``target``, with some variables completed and all else kept.

        Args:
            source: the file that was read.
            target: the file to be written.
            completions: one for each completed variable, or for each part of one.
        """


#: Format modules by suffix. Each has a function `format_for` and imports its library when used.
_MODULES = {
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".cdf": "netcdf",
    ".zarr": "netcdf",
    ".npy": "numpy_files",
    ".npz": "numpy_files",
    ".mat": "matlab",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".he5": "hdf5",
    ".tif": "geotiff",
    ".tiff": "geotiff",
    ".csv": "tables",
    ".tsv": "tables",
    ".parquet": "tables",
    ".pq": "tables",
}

SUFFIXES = frozenset(_MODULES)
GEOTIFF = frozenset(suffix for suffix, module in _MODULES.items() if module == "geotiff")
#: Text tables, and what parts the columns of those that are written.
TEXTS = {".csv": ",", ".tsv": "\t"}
TABLES = frozenset(suffix for suffix, module in _MODULES.items() if module == "tables")


def format_of(file: Path) -> Format:
    """The format of a file, by its suffix.

    Raises:
        RequestError: if there is no such format, or the library that reads it is not installed.
    """
    suffix = file.suffix.lower()
    if suffix not in _MODULES:
        raise RequestError(f"{file.name}: no format {suffix or 'without suffix'!r}; there are {', '.join(_MODULES)}")
    found: Format = import_module(f"fieldbench.files.{_MODULES[suffix]}").format_for(file)
    return found


def need(module: str, file: Path, extra: str = "files") -> None:
    """Check that an optional library, which an extra brings, is installed.

    Args:
        module: the library's import name.
        file: that needs it.
        extra: of fieldbench, which installs the library.

    Raises:
        RequestError: if it is not; the message says how to get it.
    """
    try:
        import_module(module)
    except ImportError:
        raise RequestError(f"{file.name}: {file.suffix} files need {module}; {how_to_install(extra)}") from None
