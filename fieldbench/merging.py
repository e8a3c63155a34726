"""Joining runs of the same comparison that were made on other machines, with other trials or other seeds."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldbench.errors import RequestError
from fieldbench.records import FAILURES, OK
from fieldbench.store import (
    FIELDS,
    FORMAT,
    TRIALS,
    encode_row,
    existing_run,
    read_manifest,
    read_rows,
    storing,
    take_lock,
    write_manifest,
)

#: Where rows go that contradict a row that was taken.
CONFLICTS = "conflicts.jsonl"


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
    """Join runs into a new folder.

    Of a trial that several runs have, a good result is taken before a failure, and otherwise the first.
    Two good results with different scores are a conflict: the first is taken, and the other is kept in
    ``conflicts.jsonl``. Kept fields come from the run that a trial's row is taken from.

    Raises:
        RequestError: if a folder is no run, the runs do not compare the same, or ``out`` is in use.
        StorageError: if ``out`` cannot be written.
    """
    runs = [existing_run(folder) for folder in folders]
    if len({run.resolve() for run in runs}) < 2:
        raise RequestError("merging takes two or more different runs")
    manifests = [read_manifest(run) for run in runs]
    _must_compare_alike(runs, manifests)
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RequestError(f"{out} exists; a merged run needs a new folder, choose another with --out")
    chosen, conflicts, alike = _chosen(runs)
    joined = _joined(manifests)
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
    with take_lock(out):
        with storing(out):
            _write_rows(out / TRIALS, (row for _, row in chosen.values()))
            if conflicts:
                rows = ({**conflict.other, "folder": str(conflict.folder)} for conflict in conflicts)
                _write_rows(out / CONFLICTS, rows)
            for key, (run, _) in chosen.items():
                _copy_fields(run / FIELDS / f"{key}.npz", out / FIELDS)
        write_manifest(out, joined)
    return Merged(len(chosen), alike, tuple(conflicts))


def _must_compare_alike(runs: Sequence[Path], manifests: Sequence[dict[str, Any]]) -> None:
    """
    Raises:
        RequestError: if cells differ, or what stands behind the same cell's names does.
    """
    cells = [{_text(cell) for plan in manifest["plans"] for cell in plan["cells"]} for manifest in manifests]
    for run, own in zip(runs, cells, strict=True):
        strange = sorted(own ^ cells[0])
        if strange:
            owner, other = (run, runs[0]) if strange[0] in own else (runs[0], run)
            raise RequestError(f"{other} and {owner} do not compare the same: only {owner} has {strange[0]}")
    identities: dict[str, tuple[str, Path]] = {}
    for run in runs:
        for row in read_rows(run, diagnostics=False):
            name = _text(_cell(row))
            identity, first = identities.setdefault(name, (row["identity"], run))
            if identity != row["identity"]:
                raise RequestError(
                    f"{first} and {run} were made with different versions of plugins or data; they differ in {name}"
                )


def _chosen(runs: Sequence[Path]) -> tuple[dict[str, tuple[Path, dict[str, Any]]], list[Conflict], int]:
    """One row for each trial, in the order of the runs; what contradicts it; and how many more say the same."""
    chosen: dict[str, tuple[Path, dict[str, Any]]] = {}
    conflicts: list[Conflict] = []
    alike = 0
    for run in runs:
        for row in read_rows(run):
            key = row["key"]
            if key not in chosen:
                chosen[key] = (run, row)
                continue
            first = chosen[key][1]
            if row["status"] != first["status"]:
                if row["status"] == OK and first["status"] in FAILURES:
                    chosen[key] = (run, row)
                continue
            metric, difference = _largest_difference(first["metrics"], row["metrics"])
            if difference:
                conflicts.append(Conflict(first, row, run, metric, difference))
            else:
                alike += 1
    return chosen, conflicts, alike


def _largest_difference(first: dict[str, float], other: dict[str, float]) -> tuple[str, float]:
    differences = {name: _relative(first.get(name), other.get(name)) for name in sorted({*first, *other})}
    return max(differences.items(), key=lambda item: item[1], default=("", 0.0))


def _relative(first: float | None, other: float | None) -> float:
    """Difference relative to the larger; two scores that are both missing or NaN are alike."""
    if first is None or other is None or not (math.isfinite(first) and math.isfinite(other)):
        return 0.0 if repr(first) == repr(other) else math.inf
    return abs(first - other) / max(abs(first), abs(other), 1e-300)


def _joined(manifests: Sequence[dict[str, Any]]) -> dict[str, Any]:
    plans: list[dict[str, Any]] = []
    for plan in (plan for manifest in manifests for plan in manifest["plans"]):
        if plan not in plans:
            plans.append(plan)
    joined = {**manifests[0], "format": FORMAT, "plans": plans}
    joined["sessions"] = [session for manifest in manifests for session in manifest.get("sessions", [])]
    return joined


def _write_rows(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    with file.open("wb") as stream:
        for row in rows:
            stream.write(encode_row(row))
        stream.flush()
        os.fsync(stream.fileno())


def _copy_fields(file: Path, target: Path) -> None:
    """Copy what was kept of the trial whose row is taken: another run's fields need not be those of that row."""
    if file.is_file():
        target.mkdir(exist_ok=True)
        shutil.copyfile(file, target / file.name)


def _cell(row: dict[str, Any]) -> list[Any]:
    return [row[name] for name in ("method", "dataset", "sampler", "noise", "select", "rate")]


def _text(cell: Sequence[Any]) -> str:
    return json.dumps(list(cell))
