"""Writing a completed field: under a temporary name first, and never over a file by accident."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.files.format import GEOTIFF, TEXTS, format_of
from fieldbench.files.geotiff import grid_of, write_beside
from fieldbench.files.gridded import Completion
from fieldbench.files.numpy_files import as_notes


def check_target(source: Path, target: Path, *, overwrite: bool) -> None:
    """Check that a target can be written, before anything is computed.

    Args:
        source: the file that was read.
        target: the file to be written.
        overwrite: whether the target may exist.

    Raises:
        RequestError: if it exists and is not to be overwritten, its folder does not, or it has another format.
    """
    if target.suffix.lower() != source.suffix.lower():
        raise RequestError(f"{target.name}: the result has the format of {source.name}; use {source.suffix}")
    if target.is_dir() and not target.suffix.lower() == ".zarr":
        raise RequestError(f"{target} is a folder; name a file")
    if not target.parent.is_dir():
        raise RequestError(f"{target} cannot be written: {target.parent} is not a folder")
    for file in (target, *_beside(target)):
        if file.exists() and not overwrite:
            raise RequestError(f"{file} exists; use --force to overwrite it, or another --out")


def write(source: Path, target: Path, *completions: Completion, overwrite: bool = False) -> list[Path]:
    """Write completed fields in the format of the file that they were read from, all else of it kept.

    The file gets a temporary name first, so that no half-written one is ever seen.

    Args:
        source: the file that was read.
        target: the file to write.
        completions: of one or several variables of the file.
        overwrite: whether the target may exist.

    Returns:
        The files written: the target, and beside it what its format has no room for.

    Raises:
        RequestError: if the target exists and is not to be overwritten, or is of another format.
    """
    check_target(source, target, overwrite=overwrite)
    with _replacing(target) as temporary:
        format_of(source).write(temporary, completions)
    for file in _beside(target):
        with _replacing(file) as temporary:
            _write_beside(file, temporary, source, completions)
    return [target, *(file for file in _beside(target) if file.exists())]


def _beside(target: Path) -> list[Path]:
    """Files for what the format has no room for: attributes of .npy and .csv, the other arrays of .npy and GeoTIFF."""
    suffix = target.suffix.lower()
    notes = [target.with_name(f"{target.name}.json")] if suffix in {".npy", *TEXTS} else []
    arrays = ("std", "filled") if suffix in {".npy", *GEOTIFF} else ()
    return [*notes, *(target.with_name(f"{target.stem}_{part}{target.suffix}") for part in arrays)]


def _write_beside(file: Path, temporary: Path, source: Path, completions: Sequence[Completion]) -> None:
    """Write what a file is for, if there is anything."""
    if file.suffix == ".json":
        temporary.write_text(as_notes(completions) + "\n")
        return
    arrays: list[np.ndarray] = []
    if file.stem.endswith("_filled"):
        arrays = [item.filled_in_file() for item in completions]
    elif any(item.deviation is not None for item in completions):
        unknown = np.array(np.nan)
        arrays = [item.gridded.spread(unknown if item.deviation is None else item.deviation) for item in completions]
    if arrays and file.suffix == ".npy":
        np.save(temporary, arrays[0])  # a .npy file holds one array
    elif arrays:
        write_beside(source, temporary, arrays)


def _must_be_whole(file: Path, target: Path) -> None:
    """Look again at what is to be a target, where its library does not say that the disk was full.

    Raises:
        OSError: if the end is missing.
    """
    try:
        if file.suffix.lower() == ".npy":
            np.load(file, mmap_mode="r")
        elif file.suffix.lower() in GEOTIFF:
            grid_of(file)
    except (OSError, ValueError):
        raise OSError(errno.ENOSPC, "it could not be written whole", target.name) from None


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A name in the target's folder and with its suffix; what has it in the end takes the target's place.

    If nothing has it, the target goes: one that is to be overwritten would be of another completion.
    """
    temporary = target.with_name(f".{target.stem}-{uuid.uuid4().hex[:8]}{target.suffix}")
    try:
        yield temporary
        if not temporary.exists():
            target.unlink(missing_ok=True)
            return
        _must_be_whole(temporary, target)
        if target.is_dir():
            shutil.rmtree(target)
        elif target.is_file():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)
