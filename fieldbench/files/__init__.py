"""Reading fields from files, with their gaps, and writing them back completed.

NetCDF, NumPy, MATLAB (both kinds), HDF5, and tables of scattered points (CSV, Parquet).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldbench.errors import RequestError, one_line
from fieldbench.files.content import Completion, Content, Variable, Wanted, assemble, matched
from fieldbench.files.format import SUFFIXES, TABLES, format_of
from fieldbench.files.writing import write
from fieldbench.paths import expanded

__all__ = ["SUFFIXES", "Completion", "Content", "Wanted", "read", "write"]


def read(file: Path, wanted: Wanted | None = None) -> Content:
    """Read a field from a file.

    A mask that is wanted may be a variable of the same file, or another file that holds an array.

    Raises:
        RequestError: if the file is not there or not readable, or has not what is wanted.
    """
    wanted = wanted or Wanted()
    if not (file.is_dir() if file.suffix.lower() == ".zarr" else file.is_file()):
        raise RequestError(f"{str(file)!r} is no file")
    found = format_of(file)
    if (wanted.grid or wanted.step or wanted.points) and file.suffix.lower() not in TABLES:
        raise RequestError(f"{file.name} is no table of points, so it has its own grid; leave out grid and points")
    if (wanted.grid or wanted.step) and wanted.points:
        raise RequestError("the field is wanted on a grid or at points; leave out one of them")
    try:
        variable = found.variable(file, wanted)
        mask, valid = (_mask(file, name, variable) for name in (wanted.mask, wanted.valid))
    except RequestError:
        raise
    except Exception as error:  # the libraries raise anything for a damaged file
        raise RequestError(f"{file} cannot be read as {file.suffix}: {one_line(error)}") from error
    return assemble(variable, mask, valid, wanted)


def _mask(file: Path, name: str | None, variable: Variable) -> np.ndarray | None:
    if name is None:
        return None
    other = expanded(name)
    if other.suffix.lower() in SUFFIXES and other.is_file():
        return matched(format_of(other).variable(other, Wanted()).values, variable.values.shape, other.name)
    return format_of(file).mask(file, name, variable)
