"""How a stored run is: what was asked for, what of it is done, what failed, what is missing."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fieldbench.records import FAILURES, NOT_APPLICABLE, OK, cell_of
from fieldbench.store.files import TRIALS
from fieldbench.store.lock import writer
from fieldbench.store.manifest import SessionEntry, read_manifest
from fieldbench.store.rows import Counted, damage

FailedTrials: TypeAlias = dict[tuple[str, str, str], list[dict[str, Any]]]


@dataclass(frozen=True)
class RunStatus:
    """
    Attributes:
        planned: trials that were asked for.
        done: trials with a record that counts, failures included.
        methods: for each method how many trials are ``ok``, ``not applicable``, ``failed``, ``missing``, and
            ``superseded``: computed with an earlier version of it, kept and not counted.
        failures: rows of the failed trials, by method, status and message.
        sessions: one line on each time the run was worked on.
        writer: the process that is writing it now, if any.
        damage: which lines are damaged, in words; empty where none is.
    """

    planned: int
    done: int
    methods: dict[str, Counter[str]]
    failures: FailedTrials
    sessions: list[str]
    writer: str | None
    damage: str


def run_status(run: str | os.PathLike[str]) -> RunStatus:
    """The status of a run, read from its folder alone: no plugin is needed.

    Raises:
        RequestError: if there is no run at ``run``.
    """
    manifest = read_manifest(run)
    asked = {planned.cell: planned for planned in manifest.cells}
    methods = {cell.method: Counter[str]() for cell in asked}
    for cell, planned in asked.items():
        methods[cell.method]["missing"] += planned.count()
    rows = Counted(Path(run) / TRIALS, manifest.identities, diagnostics=False, superseded=True)
    failures: FailedTrials = {}
    done = 0
    for row in rows:
        cell = cell_of(row)
        if cell not in asked or not asked[cell].asks_for(row["seed"], row["trial"]):
            continue
        counts = methods[cell.method]
        if row["identity"] != rows.identities[cell]:
            counts["superseded"] += 1
            continue
        done += 1
        counts["missing"] -= 1
        counts[_KINDS.get(row["status"], "failed")] += 1
        if row["status"] in FAILURES:
            failures.setdefault((cell.method, row["status"], row.get("error", "")), []).append(row)
    planned_trials = sum(planned.count() for planned in asked.values())
    sessions = [_line(session) for session in manifest.sessions]
    damaged = damage(Path(run) / TRIALS, rows.damaged)
    return RunStatus(planned_trials, done, methods, failures, sessions, writer(run), damaged)


_KINDS = {OK: "ok", NOT_APPLICABLE: "not applicable"}


def _line(session: SessionEntry) -> str:
    slots = ", ".join(f"{count} x {name}" for name, count in (session.slots or {}).items())
    where = " ".join(filter(None, [session.host, f"({slots})" if slots else ""]))
    end = f"{session.outcome or 'ended'} {session.ended}" if session.ended else "not ended properly"
    if session.failed_on:
        end += f"; trials that failed on {', '.join(session.failed_on)} were computed elsewhere"
    return f"started {session.started or 'at an unknown time'}{' on ' + where if where else ''}; {end}"
