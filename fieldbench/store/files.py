"""Files of a run: how they are called, and how one is replaced as a whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fieldbench.errors import FieldbenchError

MANIFEST, TRIALS, FIELDS = "manifest.json", "trials.jsonl", "fields"
LOCK, CONFLICTS, SECRET, FLOORS = "lock", "conflicts.jsonl", "secret", "floors.jsonl"
#: The frame of a large run, made from the log whenever it is missing.
COLUMNS = "records.parquet"


class StorageError(FieldbenchError):
    """Something could not be written. What was written before is whole; a record's trial stays to be done."""


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into a :class:`StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def replacing(target: Path, draft: Path) -> Iterator[Path]:
    """A draft that takes a file's place at the end; if anything goes wrong it is gone, and the file as it was.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "file", Path(folder) / "draft") as draft:
    ...         _ = draft.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['file']
    """
    try:
        yield draft
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(file: Path, text: str) -> None:
    """Replace a file as a whole, so that no reader ever sees half of one.

    Raises:
        StorageError: if it cannot be written; what was there before is untouched.
    """
    with storing(file):
        if file.exists() and not file.is_file():  # a pipe or device has nothing to lose, and must stay what it is
            file.write_text(text, encoding="utf-8")
            return
        target = file.resolve()  # of a link, what it points to
        new = target.with_name(f"{target.name}.new")
        with replacing(target, new) as draft, draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
