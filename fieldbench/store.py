"""A run directory: manifest.json says what and where, trials.jsonl holds one record a line.

Only one process writes a run directory at a time, and it holds a lock while it does. A line that does not
end in a newline was cut short and does not count: its trial is run again.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Container, Iterator
from dataclasses import astuple
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from pydantic_core import from_json

from fieldbench.errors import FieldbenchError, RequestError
from fieldbench.plan import Plan
from fieldbench.records import FAILURES, Record

MANIFEST, TRIALS, LOCK, FIELDS = "manifest.json", "trials.jsonl", "lock", "fields"

#: Version of the layout. A newer fieldbench reads an older one.
FORMAT = 1

#: Records reach the operating system at once, so that no killed process loses one. So many seconds later, and
#: at the end, they are forced to the disk itself: that bounds what a power failure can cost.
SYNC_SECONDS = 1.0

#: Whoever asks for the writer of a run has its lock for an instant. For so many seconds a lock is tried again.
LOOK_SECONDS = 0.5


class StorageError(FieldbenchError):
    """A record could not be written. What was written before is whole; the record's trial stays to be done."""


class RunStore:
    """A run directory that is open for writing. A context manager; made by :meth:`open`."""

    def __init__(self, path: Path, lock: IO[str], manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._statuses, whole = _scan(path / TRIALS)
        self._file = os.open(path / TRIALS, os.O_RDWR | os.O_CREAT, 0o666)
        os.ftruncate(self._file, whole)
        self._end = whole
        self._sync: threading.Timer | None = None
        self._unsynced: OSError | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], plan: Plan, *, fresh: bool = False) -> RunStore:
        """Open or make the folder of a plan's run.

        Args:
            path: the run directory.
            plan: what is run. More trials of what the folder holds extend it.
            fresh: delete what the folder holds and start over.

        Raises:
            RequestError: if the folder is of another plan, is no run, or is being written by another process.
            StorageError: if it cannot be written.
        """
        path = Path(path)
        _must_be_run(path)
        with storing(path):
            path.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path)
        try:
            if fresh:
                _clear(path)
            manifest = _read_manifest(path) or {"format": FORMAT, "plans": []}
            _admit(manifest, _described(plan), path)
            write_manifest(path, manifest)
            with storing(path):
                return cls(path, lock, manifest)
        except BaseException:
            lock.close()
            raise

    @property
    def statuses(self) -> dict[str, str]:
        """Status of every trial that is on disk, by key."""
        return self._statuses

    def finished(self, retry_failed: bool = False) -> set[str]:
        """Keys of the trials that need not be run (again)."""
        return {key for key, status in self._statuses.items() if not (retry_failed and status in FAILURES)}

    def append(self, record: Record) -> None:
        """Write one record: as a whole, at once, or not at all.

        Raises:
            StorageError: if there is no room; the file is as it was before.
        """
        row = record.as_row()
        line = encode_row(row)
        try:
            if self._unsynced is not None:
                raise self._unsynced
            _write_all(self._file, line, self._end)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise StorageError(f"{self.path / TRIALS}: {error.strerror}; nothing finished before is lost") from error
        self._end += len(line)
        self._statuses[row["key"]] = record.status
        if self._sync is None:
            self._sync = threading.Timer(SYNC_SECONDS, self._force_to_disk)
            self._sync.daemon = True
            self._sync.start()

    def _force_to_disk(self) -> None:
        self._sync = None  # before the call: what is written during it needs another
        try:
            os.fsync(self._file)
        except OSError as error:
            self._unsynced = error

    def begin(self, provenance: dict[str, Any]) -> None:
        """Note in the manifest that a session of the run starts, and with what."""
        self.manifest.setdefault("sessions", []).append({**provenance, "started": _now(), "ended": None})
        write_manifest(self.path, self.manifest)

    def end(self, outcome: str) -> None:
        """Note in the manifest how the session ended: ``complete`` or ``interrupted``."""
        if self.manifest.get("sessions"):
            self.manifest["sessions"][-1].update(ended=_now(), outcome=outcome)
            write_manifest(self.path, self.manifest)

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
        self._lock.close()
        if self._unsynced is not None:
            raise StorageError(f"{self.path / TRIALS}: {self._unsynced.strerror}; some of it may be missing there")

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with contextlib.suppress(StorageError) if error else contextlib.nullcontext():
            self.close()


def read_rows(
    path: str | os.PathLike[str], *, diagnostics: bool = True, keys: Container[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of a run in the order written, one a trial: of a trial that was run again, the last.

    They are those that were there at the first of them, however the run goes on meanwhile.

    Args:
        path: the run directory.
        diagnostics: whether they are wanted; curves and tracebacks are most of what there is to parse.
        keys: of the trials that are wanted; the others' lines are not parsed. None means all.

    Raises:
        RequestError: if there is no run at ``path``.
    """
    file = existing_run(path) / TRIALS
    # Read twice through one handle; what is written, or takes the file's place, after the first time has no number.
    with _reading(file) as lines:
        last: dict[str, int] = {}
        for number, line in enumerate(lines):
            key = line_key(line)
            if key is not None and (keys is None or key in keys):
                last[key] = number
        lines.seek(0)
        for number, line in enumerate(lines):
            key = line_key(line)
            if key is None or last.get(key) != number:
                continue
            try:
                row = from_json(line if diagnostics else without_diagnostics(line))
            except ValueError as error:
                raise RequestError(
                    f"line {number + 1} of {file} is damaged ({error}); delete it, and the same run repeats its trial"
                ) from None
            yield row


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of a run.

    Raises:
        RequestError: if there is no run at ``path``.
    """
    manifest = _read_manifest(existing_run(path))
    assert manifest is not None
    return manifest


def existing_run(path: str | os.PathLike[str]) -> Path:
    """The path, if a run is there.

    Raises:
        RequestError: if not.
    """
    path = Path(path)
    if not (path / MANIFEST).is_file():
        what = "has no manifest.json" if path.is_dir() else "is not there" if not path.exists() else "is a file"
        raise RequestError(f"{path} is no run: it {what}; give the folder that `fieldbench run` named")
    return path


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Replace a run's manifest, as :func:`write_whole` does."""
    write_whole(path / MANIFEST, json.dumps(manifest, indent=2) + "\n")


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
        draft = target.with_name(f"{target.name}.new")
        try:
            with draft.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)


def encode_row(row: dict[str, Any]) -> bytes:
    """One line: key and status first and diagnostics last, so that readers can do without parsing the rest."""
    first = {name: row[name] for name in ("key", "status")}
    last = {"diagnostics": row.get("diagnostics", {})}
    ordered = {**first, **{name: value for name, value in row.items() if name not in (*first, *last)}, **last}
    # Half a surrogate pair, such as an undecodable byte of a file's name, has no place in UTF-8 nor in JSON.
    return _ROWS.encode(ordered).encode("utf-8", "replace") + b"\n"


_KEY_START = b'{"key":"'
_STATUS_START = b'","status":"'


def line_key(line: bytes) -> str | None:
    """The key of a stored line, or None if the line is damaged or cut short."""
    return _key_and_status(line)[0]


def without_diagnostics(line: bytes) -> bytes:
    """The line cut before its last member, which holds curves and tracebacks: most of its length.

    A quote inside a JSON text is always escaped, so the marks searched for cannot be part of one.
    """
    for mark in (b',"diagnostics":', b', "diagnostics":'):
        position = line.find(mark)
        if position >= 0:
            return line[:position] + b"}"
    return line


def _key_and_status(line: bytes) -> tuple[str | None, str]:
    if not line.endswith(b"}\n"):
        return None, ""
    if line.startswith(_KEY_START):
        end = line.find(b'"', len(_KEY_START))
        if line.startswith(_STATUS_START, end):
            start = end + len(_STATUS_START)
            return line[len(_KEY_START) : end].decode(), line[start : line.find(b'"', start)].decode()
    try:
        row = json.loads(line)
        return str(row["key"]), str(row["status"])
    except (ValueError, KeyError, TypeError):
        return None, ""


def _scan(file: Path) -> tuple[dict[str, str], int]:
    """Status by key of every whole line, and the length in bytes up to the last newline."""
    statuses: dict[str, str] = {}
    length = 0
    with _reading(file) as lines:
        for line in lines:
            if line.endswith(b"\n"):
                length += len(line)
            key, status = _key_and_status(line)
            if key is not None:
                statuses[key] = status
    return statuses, length


def _reading(file: Path) -> IO[bytes]:
    """The file, open; an empty one where none has been written yet."""
    try:
        return file.open("rb", buffering=1 << 20)
    except FileNotFoundError:
        return io.BytesIO()


def _write_all(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        view, position = view[written:], position + written


def _described(plan: Plan) -> dict[str, Any]:
    """A plan as the manifest has it: enough to say what is missing without the plugins at hand."""
    cells = [list(astuple(cell)) for cell in plan.cells]
    identities = sorted({plan.identity(cell) for cell in plan.cells})
    return {"identity": identities, "request": plan.request.model_dump(mode="json"), "cells": cells}


def _admit(manifest: dict[str, Any], plan: dict[str, Any], path: Path) -> None:
    """Add a plan to a manifest, if the run compares the same.

    Raises:
        RequestError: if it does not.
    """
    plans = manifest["plans"]
    if plans and plan["identity"] not in [known["identity"] for known in plans]:
        raise RequestError(
            f"{path} holds another run ({_difference(plans[-1]['request'], plan['request'])}); "
            "choose another folder with --out, or start over with --fresh"
        )
    if plan not in plans:
        plans.append(plan)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    for name, value in new.items():
        if name not in ("trials", "first_trial") and old.get(name) != value:
            return f"its {name}: {_shown(old.get(name))}; asked for: {_shown(value)}"
    return "the code of its plugins, or their data, has changed since"


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def check_folder(path: Path, plan: Plan, *, fresh: bool = False) -> None:
    """Refuse what :meth:`RunStore.open` would refuse, except that another process may be writing; write nothing.

    Raises:
        RequestError: if the path is a file, or the folder is of another plan or no run.
    """
    _must_be_run(path)
    manifest = None if fresh else _read_manifest(path)
    if manifest is not None:
        _admit(manifest, _described(plan), path)


def _must_be_run(path: Path) -> None:
    """
    Raises:
        RequestError: if something is at the path that is neither a run nor an empty folder.
    """
    if not path.exists():
        return
    if not path.is_dir():
        raise RequestError(f"{path} is a file; a run needs a folder of its own, choose another with --out")
    known = {MANIFEST, f"{MANIFEST}.new", LOCK}
    if not (path / MANIFEST).is_file() and any(entry.name not in known for entry in path.iterdir()):
        raise RequestError(f"{path} holds files but no run; choose another folder with --out")


def take_lock(path: Path) -> IO[str]:
    """Lock a run directory until the returned file is closed, or this process ends in whatever way.

    Raises:
        RequestError: if another process has it.
    """
    with storing(path):
        lock = (path / LOCK).open("a+", encoding="utf-8")
    deadline = time.monotonic() + LOOK_SECONDS
    while not _locked(lock, fcntl.LOCK_EX):
        if time.monotonic() > deadline:
            lock.close()
            raise RequestError(
                f"{path} is being written by {_holder(path)}; wait for it, stop it, or choose another folder with --out"
            )
        time.sleep(LOOK_SECONDS / 20)
    try:
        with storing(path):
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
    except StorageError:
        with contextlib.suppress(OSError):  # what is still in the buffer finds no room either
            lock.close()
        raise
    return lock


def writer(path: str | os.PathLike[str]) -> str | None:
    """Which process is writing a run right now (``process 123 on host``), or None."""
    try:
        with (Path(path) / LOCK).open(encoding="utf-8") as lock:
            return None if _locked(lock, fcntl.LOCK_SH) else _holder(Path(path))
    except OSError:
        return None


def _locked(lock: IO[str], how: int) -> bool:
    """Lock a file unless another process has it, whatever it has it for."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> str:
    return (path / LOCK).read_text(encoding="utf-8").strip() or "another process"


def _clear(path: Path) -> None:
    """Delete what a run left, and nothing else."""
    with storing(path):
        (path / TRIALS).unlink(missing_ok=True)
        shutil.rmtree(path / FIELDS, ignore_errors=True)
        (path / MANIFEST).unlink(missing_ok=True)  # last: without it the folder is no run that can be cleared


def _read_manifest(path: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RequestError(f"{path / MANIFEST} is damaged ({error}); restore it or start over with --fresh") from None
    layout = manifest.get("format", 0) if isinstance(manifest, dict) else None
    if isinstance(layout, int) and layout > FORMAT:
        raise RequestError(f"{path} was written by a newer fieldbench; update this one to read it")
    if not isinstance(manifest, dict) or not isinstance(layout, int) or not isinstance(manifest.get("plans"), list):
        raise RequestError(f"{path / MANIFEST} is no manifest of a run; restore it or start over with --fresh")
    return manifest


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into a :class:`StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _plain(value: Any) -> Any:
    """A numpy number or array as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


_ROWS = json.JSONEncoder(separators=(",", ":"), default=_plain, ensure_ascii=False)
