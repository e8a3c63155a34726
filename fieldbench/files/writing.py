"""Writing a completed field: under a temporary name first, and never over a file by accident."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.files.content import Completion, Content
from fieldbench.files.format import format_of


def check_target(source: Path, target: Path, *, overwrite: bool) -> None:
    """Check that a target can be written, before anything is computed.

    Raises:
        RequestError: if it exists and is not to be overwritten, its folder does not, or it has another format.
    """
    if target.suffix.lower() != source.suffix.lower():
        raise RequestError(f"{target.name}: the result has the format of {source.name}; use {source.suffix}")
    if target.is_dir():
        raise RequestError(f"{target} is a folder; name a file")
    if not target.parent.is_dir():
        raise RequestError(f"{target} cannot be written: {target.parent} is no folder")
    for file in (target, *_beside(target)):
        if file.exists() and not overwrite:
            raise RequestError(f"{file} exists; use --force to overwrite it, or another --out")


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
    check_target(source, target, overwrite=overwrite)
    with _temporary(target) as temporary:
        format_of(source).write(source, temporary, content, completion)
        os.replace(temporary, target)
    written = [target]
    for file in _beside(target):
        if file.suffix == ".npy" and completion.deviation is None:
            file.unlink(missing_ok=True)  # one that is to be overwritten would be of another completion
            continue
        with _temporary(file) as temporary:
            _write_beside(temporary, completion)
            os.replace(temporary, file)
        written.append(file)
    return written


def _beside(target: Path) -> list[Path]:
    """Files for what the format has no room for: attributes of .npy and .csv, the deviation of .npy."""
    if target.suffix.lower() == ".npy":
        return [target.with_name(f"{target.name}.json"), target.with_name(f"{target.stem}_std.npy")]
    return [target.with_name(f"{target.name}.json")] if target.suffix.lower() == ".csv" else []


def _write_beside(temporary: Path, completion: Completion) -> None:
    if temporary.suffix == ".json":
        temporary.write_text(json.dumps(dict(completion.attributes), indent=2) + "\n")
    else:
        with temporary.open("wb") as stream:
            np.save(stream, np.asarray(completion.deviation))


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A temporary file in the target's folder and with its suffix; removed if it is still there at the end."""
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(_permissions(target))
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _permissions(target: Path) -> int:
    """Those of the file that is replaced, or of any new file (a temporary one would be private)."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
