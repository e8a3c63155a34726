"""Files named by what they hold: a spec, and with it every key and seed, does not depend on where a file lies.

A plugin declares a parameter of type :data:`DataPath`. Whoever uses it gives a path to a file or folder; the
value becomes ``name#digest``, the last part of the path and a hash of the content. Where that content lies
is remembered beside the specs (:func:`locations`) and handed to other processes, as paths enter no key.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from fieldbench.errors import DataUnavailable, RequestError

_REFERENCE = re.compile(r"[\w.-]+#[0-9a-f]{12}\Z")
_locations: dict[str, Path] = {}


def expanded(text: str) -> Path:
    """The path with the home folder in place of ``~`` or ``~user``.

    >>> expanded("~/sst.nc") == Path.home() / "sst.nc"
    True

    Raises:
        RequestError: if there is no such user, or this one has no home folder.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise RequestError(f"{text!r}: {Path(text).parts[0]} is nobody's home folder; write the path in full") from None


def reference(text: str) -> str:
    """The name by content of a file or folder: ``temps.nc#0123456789ab``; one that is given is kept.

    Raises:
        ValueError: if there is no such file or home folder, or a folder holds no file.
    """
    if not text.strip():
        raise ValueError("the path is empty; give a file or a folder of files")
    path = expanded(text).resolve()
    if not path.exists():
        if _REFERENCE.match(text):
            return text
        raise ValueError(f"{str(path)!r} is not there; give a file or a folder of files")
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is a device or pipe; give a file or a folder of files")
    name = re.sub(r"[^\w.-]", "_", path.name, flags=re.ASCII)
    found = f"{name}#{content_hash(path)[:12]}"
    _locations[found] = path
    return found


DataPath: TypeAlias = Annotated[str, AfterValidator(reference)]


def located(named: str) -> Path:
    """Where the content of a reference lies.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".nc") as file:
    ...     located(reference(file.name)) == Path(file.name).resolve()
    True

    Raises:
        DataUnavailable: if it is not known on this machine, or has changed since it was named.
    """
    path = _locations.get(named)
    if path is None or not path.exists():
        where = "" if path is None else f" (it was {path})"
        raise DataUnavailable(f"the data {named} is not here{where}; name its file again")
    if content_hash(path)[:12] != named.rpartition("#")[2]:
        raise RequestError(f"{path} has changed since it was named {named}; start the command again")
    return path


def locations() -> tuple[tuple[str, str], ...]:
    """Every reference that was made in this process, with its path; picklable, for other processes."""
    return tuple((named, str(path)) for named, path in _locations.items())


def remember(known: Iterable[tuple[str, str]]) -> None:
    """Take over references made in another process."""
    _locations.update({named: Path(path) for named, path in known})


def content_hash(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder (hidden ones left out).

    Raises:
        ValueError: if a folder holds no file.
    """
    if path.is_dir():
        digest = hashlib.sha256()
        files = folder_files(path)
        if not files:
            raise ValueError(f"the folder {str(path)!r} holds no file")
        for file in files:
            digest.update(f"{file.relative_to(path).as_posix()}:{content_hash(file)}\n".encode())
        return digest.hexdigest()
    status = os.stat(path)
    return _file_hash(str(path), status.st_mtime_ns, status.st_size)


def folder_files(folder: Path) -> list[Path]:
    """The files directly in a folder, by name; hidden ones are left out. Of a Zarr store, all files.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", ".hidden"):
    ...         (Path(folder) / name).touch()
    ...     [file.name for file in folder_files(Path(folder))]
    ['a.csv', 'b.csv']
    """
    if folder.suffix.lower() == ".zarr":
        return sorted(file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


@lru_cache(maxsize=1024)
def _file_hash(path: str, modified: int, size: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
