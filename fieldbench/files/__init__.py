"""Reading fields from files, with their gaps, and writing them back completed.

NetCDF, NumPy, MATLAB (both kinds), HDF5, and tables of scattered points (CSV, Parquet).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fieldbench.errors import RequestError, one_line
from fieldbench.files.content import Completion, Content, Variable, Wanted, assemble, matched
from fieldbench.files.format import SUFFIXES, format_of

__all__ = ["SUFFIXES", "Completion", "Content", "Wanted", "read", "write"]


def read(file: Path, wanted: Wanted | None = None) -> Content:
    """Read a field from a file.

    A mask that is wanted may be a variable of the same file, or another file that holds an array.

    Raises:
        RequestError: if the file is not there or not readable, or has not what is wanted.
    """
    wanted = wanted or Wanted()
    if not file.is_file():
        raise RequestError(f"{str(file)!r} is no file")
    found = format_of(file)
    try:
        variable = found.variable(file, wanted)
        mask, valid = (_mask(file, name, variable) for name in (wanted.mask, wanted.valid))
    except RequestError:
        raise
    except Exception as error:  # the libraries raise anything for a damaged file
        raise RequestError(f"{file} cannot be read as {file.suffix}: {one_line(error)}") from error
    return assemble(variable, mask, valid, wanted)


def write(
    source: Path, target: Path, content: Content, completion: Completion, *, overwrite: bool = False
) -> list[Path]:
    """Write a completed field in the format of the file that it was read from, all else of it kept.

    The file gets a temporary name first, so that no half-written one is ever seen.

    Returns:
        The files written: the target, and beside it what its format has no room for.

    Raises:
        RequestError: if the target exists and is not to be overwritten, or is of another format.
    """
    if target.suffix.lower() != source.suffix.lower():
        raise RequestError(f"{target.name}: the result is written in the format of {source.name}; use {source.suffix}")
    if target.is_dir() or not target.parent.is_dir():
        raise RequestError(
            f"{target} cannot be written: {target if target.is_dir() else target.parent} is no "
            + ("file" if target.is_dir() else "folder")
        )
    beside = [target, *_beside(target, completion)]
    for file in beside:
        if file.exists() and not overwrite:
            raise RequestError(f"{file} exists; use --force to overwrite it, or another --out")
    with _temporary(target) as temporary:
        format_of(source).write(source, temporary, content, completion)
        os.replace(temporary, target)
    for file in beside[1:]:
        with _temporary(file) as temporary:
            _write_beside(temporary, file, completion)
            os.replace(temporary, file)
    return beside


def _mask(file: Path, name: str | None, variable: Variable) -> np.ndarray | None:
    if name is None:
        return None
    other = Path(name).expanduser()
    if other.suffix.lower() in SUFFIXES and other.is_file():
        return matched(format_of(other).variable(other, Wanted()).values, variable.values.shape, other.name)
    return format_of(file).mask(file, name, variable)


def _beside(target: Path, completion: Completion) -> list[Path]:
    """Files for what the format has no room for: attributes of .npy and .csv, the deviation of .npy."""
    files = []
    if target.suffix.lower() in (".npy", ".csv") and completion.attributes:
        files.append(target.with_name(f"{target.name}.json"))
    if target.suffix.lower() == ".npy" and completion.deviation is not None:
        files.append(target.with_name(f"{target.stem}_std.npy"))
    return files


def _write_beside(temporary: Path, file: Path, completion: Completion) -> None:
    if file.suffix == ".json":
        temporary.write_text(json.dumps(dict(completion.attributes), indent=2) + "\n")
    elif completion.deviation is not None:
        with temporary.open("wb") as stream:
            np.save(stream, completion.deviation)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A temporary file in the target's folder and with its suffix; removed if it is still there at the end."""
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
