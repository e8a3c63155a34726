"""Reading fields from files, with their gaps, and writing them back completed.

NetCDF, NumPy, MATLAB (both kinds), HDF5, and tables of scattered points (CSV, Parquet).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldbench.datafile import expanded
from fieldbench.errors import RequestError, one_line
from fieldbench.files.format import SUFFIXES, TABLES, Format, format_of
from fieldbench.files.gridded import Completion, GriddedVariable, Selector, Variable, assemble, matched
from fieldbench.files.writing import write

__all__ = ["SUFFIXES", "Completion", "GriddedVariable", "Selector", "read", "write"]


def read(file: Path, selector: Selector | None = None) -> GriddedVariable:
    """Read a field from a file.

    A mask may be a variable of the same file, or another file that holds an array.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "sst.npy", [[20.5, np.nan], [21.0, 20.0]])
    ...     sst = read(Path(folder) / "sst.npy")
    >>> sst.values.tolist()
    [[20.5, nan], [21.0, 20.0]]

    Raises:
        RequestError: if the file is not there or not readable, or does not have what the selector names.
    """
    selector = selector or Selector()
    if not (file.is_dir() if file.suffix.lower() == ".zarr" else file.is_file()):
        kind = "a Zarr store, which is a folder" if file.suffix.lower() == ".zarr" else "a file"
        raise RequestError(f"{str(file)!r} is not {kind}")
    found = format_of(file)
    if (selector.grid or selector.step or selector.points) and file.suffix.lower() not in TABLES:
        raise RequestError(f"{file.name} is not a table of points, so it has its own grid; leave out grid and points")
    if (selector.grid or selector.step) and selector.points:
        raise RequestError("the field is wanted on a grid or at points; leave out one of them")
    try:
        variable = found.variable(selector)
        mask, valid = (_mask(found, name, variable) for name in (selector.mask, selector.valid))
    except RequestError:
        raise
    except Exception as error:  # the libraries raise anything for a damaged file
        raise RequestError(f"{file} cannot be read as {file.suffix}: {one_line(error)}") from error
    return assemble(variable, mask, valid, selector)


def _mask(found: Format, name: str | None, variable: Variable) -> np.ndarray | None:
    if name is None:
        return None
    other = expanded(name)
    if other.suffix.lower() in SUFFIXES and other.is_file():
        return matched(format_of(other).variable(Selector()).values, variable.values.shape, other.name)
    return found.mask(name, variable)
