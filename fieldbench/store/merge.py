"""Taking finished trials from other runs: the union of several in a new folder, or what a run lacks.

What lies in another folder may come from anybody. Its rows are checked as they are read, keys are those of the trials,
no path is made of what a row says but its key, and no link is followed.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldbench.errors import RequestError
from fieldbench.records import FAILURES, OK, Cell, cell_of, encode, largest_difference
from fieldbench.store.files import CONFLICTS, FIELDS, FLOORS, MANIFEST, TRIALS, storing
from fieldbench.store.floors import read_floors, write_floors
from fieldbench.store.manifest import FORMAT, Manifest, SessionEntry, existing_run, joined, read_manifest
from fieldbench.store.rows import Counted
from fieldbench.store.run import RunStore


@dataclass(frozen=True)
class Conflict:
    """One trial, two results.

    Attributes:
        row: the row that was taken.
        other: the row that contradicts it.
        folder: the run that the other row is from.
        metric: the score that differs most.
        difference: by how much, relative to the larger.
    """

    row: dict[str, Any]
    other: dict[str, Any]
    folder: Path
    metric: str
    difference: float


@dataclass(frozen=True)
class Merged:
    """What came of a merge: trials written, trials that several runs had alike, and contradictions."""

    trials: int
    alike: int
    conflicts: tuple[Conflict, ...]


def merge(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Merged:
    """Write the union of two or more runs to a new folder.

    Each trial is kept once: a good result before a failed one, else that of the first run that has it. Rows that say
    something else than the one taken go to ``conflicts.jsonl``.

    Args:
        folders: the runs.
        out: the new folder.

    Raises:
        RequestError: if there are fewer than two runs, one is damaged, a cell was made with different versions of
            plugins or data in two of them, or something is in the way.
        StorageError: if ``out`` cannot be written. Whatever goes wrong, no folder is left behind.
    """
    runs = [_others_run(folder) for folder in folders]
    if len({run.resolve() for run in runs}) < 2:
        raise RequestError("merging takes two or more different runs")
    out = Path(out)
    if os.path.lexists(out) and (not out.is_dir() or any(out.iterdir())):
        raise RequestError(f"{out} exists; a merged run needs a new folder, choose another with --out")
    manifests = [read_manifest(run) for run in runs]
    identities = _identities(runs, manifests)
    chosen, conflicts, alike = _chosen(runs, identities)
    with storing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = out.parent / f".{out.name}-{uuid.uuid4().hex[:8]}"
        draft.mkdir()
    try:
        with storing(out):
            _write_rows(draft / TRIALS, (row for _, row in chosen.values()))
            if conflicts:
                rows = ({**conflict.other, "folder": str(conflict.folder)} for conflict in conflicts)
                _write_rows(draft / CONFLICTS, rows)
            for run, row in chosen.values():
                _copy_fields(run, row["key"], draft)
            write_floors(draft, {draw: floor for run in runs for draw, floor in read_floors(run).items()}.values())
            _joined(manifests, identities).write(draft)
            os.replace(draft, out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Merged(len(chosen), alike, tuple(conflicts))


def reuse(store: RunStore, folders: Iterable[str | os.PathLike[str]], wanted: Collection[str]) -> int:
    """Take finished trials from other runs into one that is open; failures are left, and sessions come along.

    Args:
        store: the run.
        folders: the other runs; of a trial that several have, the first one's is taken.
        wanted: keys of the trials that the run lacks.

    Returns:
        How many trials were taken.

    Raises:
        RequestError: if a folder is not a run, or damaged.
        StorageError: if there is no room.
    """
    left = set(wanted)
    for folder in folders:
        run = _others_run(folder)
        manifest = read_manifest(run)
        used: set[str] = set()
        for row in Counted(run / TRIALS, manifest.identities, keys=frozenset(left)):
            if row["status"] in FAILURES or not row["identity"]:
                continue
            with storing(store.path):
                _copy_fields(run, row["key"], store.path)
            store.append_row(row)
            left.discard(row["key"])
            used.add(row.get("session", ""))
        known = {session.id for session in store.manifest.sessions}
        new = [session for session in manifest.sessions if session.id in used - known]
        store.manifest.sessions[:0] = new
    return len(wanted) - len(left)


def _copy_fields(run: Path, key: str, target: Path) -> None:
    """Copy what was kept of a trial into another run's folder, if it is a file of its own."""
    try:
        source = os.open(run / FIELDS / f"{key}.npz", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # nothing was kept, or it is a link
        return
    with open(source, "rb") as stream:
        if not stat.S_ISREG(os.fstat(source).st_mode):
            return
        (target / FIELDS).mkdir(exist_ok=True)
        with (target / FIELDS / f"{key}.npz").open("wb") as copy:
            shutil.copyfileobj(stream, copy)


def _others_run(folder: str | os.PathLike[str]) -> Path:
    """
    Raises:
        RequestError: if there is no run, or one whose files lie elsewhere.
    """
    run = existing_run(folder)
    for name in (MANIFEST, TRIALS, FIELDS, FLOORS):
        if (run / name).is_symlink():
            raise RequestError(f"{run / name} is a link; what is taken from a run must lie in its folder")
    return run


def _identities(runs: Sequence[Path], manifests: Sequence[Manifest]) -> dict[Cell, str]:
    """The identity of each cell, the same in all runs that have it.

    Raises:
        RequestError: if two runs have different ones.
    """
    found: dict[Cell, tuple[str, Path]] = {}
    for run, manifest in zip(runs, manifests, strict=True):
        for row in Counted(run / TRIALS, manifest.identities, diagnostics=False):
            identity, first = found.setdefault(cell_of(row), (row["identity"], run))
            if identity != row["identity"]:
                raise RequestError(
                    f"{first} and {run} contradict each other: {cell_of(row)} was made with different versions of "
                    "plugins or data"
                )
    return {cell: identity for cell, (identity, _) in found.items()}


def _chosen(
    runs: Sequence[Path], identities: dict[Cell, str]
) -> tuple[dict[str, tuple[Path, dict[str, Any]]], list[Conflict], int]:
    """One row for each trial, in the order of the runs; what contradicts it; and how many more say the same."""
    chosen: dict[str, tuple[Path, dict[str, Any]]] = {}
    conflicts: list[Conflict] = []
    alike = 0
    for run in runs:
        for row in Counted(run / TRIALS, identities):
            key = row["key"]
            if key not in chosen:
                chosen[key] = (run, row)
                continue
            first = chosen[key][1]
            if row["status"] != first["status"]:
                if row["status"] == OK and first["status"] in FAILURES:
                    chosen[key] = (run, row)
                continue
            metric, difference = largest_difference(first.get("metrics", {}), row.get("metrics", {}))
            if difference:
                conflicts.append(Conflict(first, row, run, metric, difference))
            else:
                alike += 1
    return chosen, conflicts, alike


def _joined(manifests: Sequence[Manifest], identities: dict[Cell, str]) -> Manifest:
    cells = joined(planned for manifest in manifests for planned in manifest.cells)
    for planned in cells:
        planned.identity = identities.get(planned.cell, planned.identity)
    sessions: dict[str | int, SessionEntry] = {}
    for session in (session for manifest in manifests for session in manifest.sessions):
        sessions.setdefault(session.id or id(session), session)
    return Manifest(
        format=FORMAT,
        cells=cells,
        metadata=joined_metadata(manifest.metadata for manifest in manifests),
        sessions=list(sessions.values()),
        secrets={label: seed for manifest in manifests for label, seed in manifest.secrets.items()},
    )


def joined_metadata(several: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What several manifests know of their specs: names in the order in which they were asked for first.

    >>> joined_metadata([{"order": ["tap"], "units": {"ssf": "m/s"}}, {"order": ["tnn", "tap"], "units": {}}])
    {'order': ['tap', 'tnn'], 'units': {'ssf': 'm/s'}}
    """
    together: dict[str, Any] = {}
    for metadata in several:
        for name, value in metadata.items():
            known = together.get(name)
            if isinstance(known, dict) and isinstance(value, dict):
                together[name] = {**known, **value}
            elif isinstance(known, list | tuple) and isinstance(value, list | tuple):
                together[name] = [*known, *(item for item in value if item not in known)]
            else:
                together[name] = value
    return together


def _write_rows(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    with file.open("wb") as stream:
        for row in rows:
            stream.write(encode(row))
        stream.flush()
        os.fsync(stream.fileno())
