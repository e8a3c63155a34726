"""How a stored run stands: what of its plans is done, what failed, what is missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fieldbench.records import FAILURES, NOT_APPLICABLE, OK
from fieldbench.store import read_manifest, read_rows, writer

Failures: TypeAlias = dict[tuple[str, str, str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Standing:
    """
    Attributes:
        planned: trials that the run's plans ask for.
        done: trials with a record, failures included.
        methods: for each method how many trials are ``ok``, ``not applicable``, ``failed``, ``missing``.
        failures: rows of the failed trials, by method, status and message.
        sessions: one line on each time the run was worked on.
        writer: the process that is writing it now, if any.
    """

    planned: int
    done: int
    methods: dict[str, Counter[str]]
    failures: Failures
    sessions: list[str]
    writer: str | None


def standing(run: str | os.PathLike[str]) -> Standing:
    """How a run stands, read from its folder alone: no plugin is needed.

    Raises:
        RequestError: if there is no run at ``run``.
    """
    manifest = read_manifest(run)
    wanted = wanted_trials(manifest["plans"])
    methods = {method: Counter[str]() for method, *_ in wanted}
    for (method, *_), numbers in wanted.items():
        methods[method]["missing"] += len(numbers)
    failures: Failures = {}
    done = 0
    for row in read_rows(run, diagnostics=False):
        cell = (row["method"], row["dataset"], row["sampler"], row["noise"], row["select"], row["rate"])
        if (row["seed"], row["trial"]) not in wanted.get(cell, ()):
            continue
        done += 1
        counts = methods[row["method"]]
        counts["missing"] -= 1
        counts[_KINDS.get(row["status"], "failed")] += 1
        if row["status"] in FAILURES:
            failures.setdefault((row["method"], row["status"], row.get("error", "")), []).append(row)
    planned = sum(map(len, wanted.values()))
    sessions = [_line(session) for session in manifest.get("sessions", [])]
    return Standing(planned, done, methods, failures, sessions, writer(run))


_KINDS = {OK: "ok", NOT_APPLICABLE: "not applicable"}


def wanted_trials(plans: list[dict[str, Any]]) -> dict[tuple[Any, ...], set[tuple[int, int]]]:
    """The repetitions, as (seed, trial number), that the plans ask for in each cell."""
    wanted: dict[tuple[Any, ...], set[tuple[int, int]]] = {}
    for plan in plans:
        request = plan["request"]
        first = request.get("first_trial", 0)
        numbers = {(request["seed"], number) for number in range(first, first + request["trials"])}
        for cell in plan["cells"]:
            wanted.setdefault(tuple(cell), set()).update(numbers)
    return wanted


def _line(session: Mapping[str, Any]) -> str:
    slots = ", ".join(f"{count} x {name}" for name, count in (session.get("slots") or {}).items())
    place = " ".join(filter(None, [session.get("host", ""), f"({slots})" if slots else ""]))
    end = f"{session.get('outcome') or 'ended'} {session['ended']}" if session.get("ended") else "not ended properly"
    return f"started {session.get('started', 'at an unknown time')}{' on ' + place if place else ''}; {end}"
