"""Who writes a run: one process at a time, which holds a lock while it does."""

from __future__ import annotations

import os
from pathlib import Path

import filelock

from fieldbench.errors import RequestError
from fieldbench.store.files import LOCK, StorageError

#: Reading who writes a run takes the lock for a moment. It is tried again for this many seconds.
_PATIENCE = 0.5


def take_lock(folder: Path) -> filelock.BaseFileLock:
    """Lock a run until the lock is released, or this process ends in whatever way.

    Raises:
        RequestError: if another process has it.
        StorageError: if the folder cannot be written.
    """
    lock = _lock(folder)
    try:
        lock.acquire(timeout=_PATIENCE, poll_interval=_PATIENCE / 20)
    except filelock.Timeout:
        raise RequestError(
            f"{folder} is being written by {_holder(folder)}; wait for it, stop it, or choose another folder with --out"
        ) from None
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}") from error
    return lock


def writer(folder: str | os.PathLike[str]) -> str | None:
    """Which process is writing a run right now (``process 123 on host``), or None."""
    if not (Path(folder) / LOCK).is_file():
        return None
    lock = _lock(Path(folder))
    try:
        lock.acquire(timeout=_PATIENCE / 5, poll_interval=_PATIENCE / 20)
    except filelock.Timeout:
        return _holder(Path(folder))
    except OSError:  # who may not write the lock cannot ask
        return None
    lock.release()
    return None


def _lock(folder: Path) -> filelock.BaseFileLock:
    return filelock.FileLock(folder / LOCK, thread_local=False)


def _holder(folder: Path) -> str:
    from fieldbench.store.manifest import read_manifest

    try:
        last = read_manifest(folder).sessions[-1]
    except (RequestError, IndexError):
        return "another process"
    return f"process {last.process} on {last.host}" if last.process else "another process"
