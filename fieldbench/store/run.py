"""A run's folder, open for writing.

Only one process writes it at a time, and it holds a lock while it does. Every record is whole on disk before the next.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import filelock

from fieldbench.errors import RequestError
from fieldbench.plan import Plan
from fieldbench.records import FAILURES, Cell, Record, cell_of, encode
from fieldbench.store.files import COLUMNS, FIELDS, FLOORS, LOCK, MANIFEST, SECRET, TRIALS, StorageError, storing
from fieldbench.store.lock import take_lock
from fieldbench.store.manifest import (
    FORMAT,
    Manifest,
    PlannedCell,
    SessionEntry,
    existing_run,
    joined,
    planned,
    read_manifest,
)
from fieldbench.store.rows import Counted, RowLog

#: Records reach the operating system at once, so that no killed process loses one. This many seconds later, and
#: at the end, they are forced to the disk itself: that bounds what a power failure can cost.
SYNC_SECONDS = 1.0


#: What is to be remembered of a row.
RowNote: TypeAlias = Callable[[Mapping[str, Any]], Any]


class RunStore:
    """A run's folder that is open for writing. A context manager; made by :meth:`open`.

    Attributes:
        path: the folder.
        manifest: what it says; :meth:`begin` and :meth:`end` write it. An older folder's is as it was until then.
        superseded: how many rows are of an earlier version of what the plan compares.
    """

    def __init__(
        self, path: Path, lock: filelock.BaseFileLock, manifest: Manifest, note: RowNote | None = None
    ) -> None:
        self.path, self.manifest = path, manifest
        self._lock, self._note = lock, note
        self._noted: dict[str, Any] = {}
        self._statuses: dict[str, str] = {}
        self._begun = False
        identities = manifest.identities
        last: dict[str, tuple[Cell, str]] = {}
        rows = RowLog(path / TRIALS)
        for row in rows:
            last[row["key"]] = cell_of(row), row["identity"]
            self._statuses[row["key"]] = row["status"]
            if note is not None:
                self._noted[row["key"]] = note(row)
        old = [key for key, (cell, identity) in last.items() if identities.get(cell, identity) != identity]
        self.superseded = len(old)
        # What stands behind a row without an identity is not known, so it is computed again.
        for key in [*old, *(key for key, (_, identity) in last.items() if not identity)]:
            self._statuses.pop(key, None)
        self._file = os.open(path / TRIALS, os.O_RDWR | os.O_CREAT, 0o666)
        os.ftruncate(self._file, rows.whole)
        self._end = rows.whole
        self._sync: threading.Timer | None = None
        self._unsynced: OSError | None = None

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], plan: Plan, *, fresh: bool = False, note: RowNote | None = None
    ) -> RunStore:
        """Open or make the folder of a run, and ask in it for all that the plan asks for.

        Args:
            path: the run's folder.
            plan: what is run. It extends what the folder holds; rows of the same cells with another identity are
                superseded.
            fresh: delete what the folder holds and start over.
            note: what is to be remembered of each row until :meth:`take_notes`.

        Raises:
            RequestError: if the folder is not a run, or is being written by another process.
            StorageError: if it cannot be written.
        """
        path = Path(path)
        _must_be_run(path, fresh)
        with storing(path):
            path.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path)
        try:
            if fresh:
                _clear(path)
            made = (path / MANIFEST).is_file()
            manifest = read_manifest(path) if made else Manifest(format=FORMAT, cells=[])
            manifest.cells = joined([*manifest.cells, *planned(plan)])
            if not made:
                manifest.write(path)
            with storing(path):
                return cls(path, lock, manifest, note)
        except BaseException:
            lock.release()
            raise

    @property
    def session(self) -> str:
        """The id of the session that :meth:`begin` began."""
        return self.manifest.sessions[-1].id if self.manifest.sessions else ""

    def finished(self, retry_failed: bool = False) -> set[str]:
        """Keys of the trials that need not be run (again)."""
        return {key for key, status in self._statuses.items() if not (retry_failed and status in FAILURES)}

    @property
    def noted(self) -> list[Any]:
        """What was noted of each trial that counts."""
        return [self._noted[key] for key in self._statuses]

    def take_notes(self) -> list[Any]:
        """The same; nothing is noted from now on."""
        found = self.noted
        self._note, self._noted = None, {}
        return found

    def append(self, record: Record) -> None:
        """Write one record: as a whole, at once, or not at all.

        Raises:
            StorageError: if there is no room, and the file is as it was before; or if the folder is gone.
        """
        self.append_row(record.as_row())

    def append_row(self, row: Mapping[str, Any]) -> None:
        """Write one row, as :meth:`append` does."""
        line = encode(row)
        self._must_be_there()
        try:
            if self._unsynced is not None:
                raise self._unsynced
            _write_all(self._file, line, self._end)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise StorageError(f"{self.path / TRIALS}: {error.strerror}; nothing finished before is lost") from error
        self._end += len(line)
        if row["identity"] and not self._begun:  # a session asks before it begins, and may write ten million records
            self._statuses[row["key"]] = row["status"]
            if self._note is not None:
                self._noted[row["key"]] = self._note(row)
        if self._sync is None:
            self._sync = threading.Timer(SYNC_SECONDS, self._force_to_disk)
            self._sync.daemon = True
            self._sync.start()

    def begin(self, provenance: Mapping[str, Any]) -> None:
        """Note in the manifest that a session of the run starts, and with what."""
        self._begun = True
        about = {"process": os.getpid(), "host": platform.node(), **provenance, "started": _now()}
        self.manifest.sessions.append(SessionEntry(id=uuid.uuid4().hex[:8], **about))
        self.manifest.write(self.path)

    def note_machine(self, name: str | None) -> None:
        """Note for the session that a machine lacks something that its trials need; :meth:`end` writes it."""
        if name is not None and name not in self.manifest.sessions[-1].failed_on:
            self.manifest.sessions[-1].failed_on.append(name)

    def end(self, outcome: str) -> None:
        """Note in the manifest how the session ended: ``complete`` or ``interrupted``."""
        if self.manifest.sessions and self.path.is_dir():
            self.manifest.sessions[-1].ended, self.manifest.sessions[-1].outcome = _now(), outcome
            self.manifest.write(self.path)

    def close(self) -> None:
        """Force everything to the disk and give the folder free.

        Raises:
            StorageError: if the disk did not take all of it.
        """
        if (sync := self._sync) is not None:
            sync.cancel()
            sync.join()
        self._force_to_disk()
        os.close(self._file)
        self._lock.release()
        if self._unsynced is not None:
            raise StorageError(f"{self.path / TRIALS}: {self._unsynced.strerror}; some of it may be missing there")

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with contextlib.suppress(StorageError) if error else contextlib.nullcontext():
            self.close()

    def _must_be_there(self) -> None:
        """A file that was deleted takes what is written to it, and keeps nothing."""
        try:
            same = os.path.samestat(os.stat(self.path / TRIALS), os.fstat(self._file))
        except OSError:
            same = False
        if not same:
            raise StorageError(f"{self.path / TRIALS} was deleted or replaced while the run went on; nothing is kept")

    def _force_to_disk(self) -> None:
        self._sync = None  # before the call: what is written during it needs another
        try:
            os.fsync(self._file)
        except OSError as error:
            self._unsynced = error


def read_rows(
    path: str | os.PathLike[str], *, diagnostics: bool = True, keys: Container[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a run that count, one a trial, in the order written; see :class:`fieldbench.store.rows.Counted`.

    Args:
        path: the run's folder.
        diagnostics: whether they are wanted; curves and tracebacks are most of what there is to parse.
        keys: of the trials that are wanted; None means all.

    Raises:
        RequestError: if there is no run at ``path``.
    """
    manifest = read_manifest(path)
    yield from Counted(Path(path) / TRIALS, manifest.identities, diagnostics=diagnostics, keys=keys)


def check_folder(path: Path, *, fresh: bool = False) -> None:
    """Refuse what :meth:`RunStore.open` would refuse, except that another process may be writing; write nothing.

    Raises:
        RequestError: if the path is a file, or the folder holds something else than a run.
    """
    _must_be_run(path, fresh)
    if not fresh and (path / MANIFEST).is_file():
        read_manifest(path)


def repair(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Make the manifest of a run anew from its rows. A damaged one stays beside it as ``manifest.json.damaged``.

    Returns:
        How many cells and how many trials the rows are of.

    Raises:
        RequestError: if the manifest is sound, there are no rows, or the run is being written.
        StorageError: if the folder cannot be written.
    """
    path = Path(path)
    if not (path / TRIALS).is_file():
        raise RequestError(f"{path} holds no {TRIALS}, so there is nothing to make a manifest of")
    if (path / MANIFEST).is_file():
        try:
            read_manifest(path)
        except RequestError:
            pass
        else:
            raise RequestError(f"{path / MANIFEST} is sound; there is nothing to repair")
    lock = take_lock(path)
    try:
        manifest, trials = _made_anew(path)
        if os.path.lexists(path / MANIFEST):
            with storing(path):
                os.replace(path / MANIFEST, path / f"{MANIFEST}.damaged")
        manifest.write(path)
    finally:
        lock.release()
    return len(manifest.cells), trials


def _made_anew(path: Path) -> tuple[Manifest, int]:
    numbers: dict[Cell, dict[int, list[tuple[int, int]]]] = {}
    identities: dict[Cell, str] = {}
    trials = 0
    for row in Counted(path / TRIALS, {}, diagnostics=False):
        trials += 1
        numbers.setdefault(cell_of(row), {}).setdefault(row["seed"], []).append((row["trial"], 1))
        identities[cell_of(row)] = row["identity"]
    cells = [PlannedCell(**asdict(cell), identity=identities[cell], trials=spans) for cell, spans in numbers.items()]
    return Manifest(format=FORMAT, cells=cells), trials


def _must_be_run(path: Path, fresh: bool) -> None:
    """
    Raises:
        RequestError: if something is at the path that is neither a run nor an empty folder.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise RequestError(f"{path} is a file; a run needs a folder of its own, choose another with --out")
    ours = {MANIFEST, f"{MANIFEST}.new", LOCK, *([TRIALS, FIELDS, SECRET, FLOORS, COLUMNS] if fresh else [])}
    if (path / MANIFEST).is_file() or all(entry.name in ours for entry in path.iterdir()):
        return
    if (path / TRIALS).is_file():
        existing_run(path)  # it says how to get the manifest back
    raise RequestError(f"{path} holds files but no run; choose another folder with --out")


def _clear(path: Path) -> None:
    """Delete what a run left, and nothing else."""
    with storing(path):
        for name in (TRIALS, SECRET, FLOORS, COLUMNS):
            (path / name).unlink(missing_ok=True)
        shutil.rmtree(path / FIELDS, ignore_errors=True)
        (path / MANIFEST).unlink(missing_ok=True)  # last: without it the folder is not a run that can be cleared


def _write_all(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
