"""A run as a reference: one line a trial, ordered, with the digits that its arithmetic supports.

The lines name a trial by what was asked for and not by versions, so that a new revision of a method meets its
old scores trial by trial. What made the numbers stands above them. A line's ``rtol`` says that the arithmetic of its
method is the same everywhere up to this relative difference; it is empty where only statistics can tell.
"""

from __future__ import annotations

import csv
import itertools
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.records import OK
from fieldbench.report.formats import csv_text
from fieldbench.report.numbers import significant
from fieldbench.report.stored import StoredRun
from fieldbench.spec import name_of
from fieldbench.store.files import storing
from fieldbench.store.manifest import SessionEntry
from fieldbench.store.status import run_status

#: What a table cell is, and with seed and trial a trial; no version is part of it.
CELL = ("method", "dataset", "sampler", "noise", "select", "rate")
KEY = (*CELL, "seed", "trial")

COLUMNS = (*KEY, "status", "metric", "score", "unobserved", "rtol", "memory_mib", "device")
_TYPES: dict[str, type[Any]] = {
    **dict.fromkeys(("seed", "trial"), np.int64),
    **dict.fromkeys(("rate", "score", "unobserved", "rtol", "memory_mib"), float),
}

_TITLE = "fieldbench reference, format 1"
_DIGITS, _RTOL_DIGITS = 6, 2  # of a score that is compared statistically, of a tolerance


@dataclass(frozen=True)
class Scores:
    """What a run scored, or a reference says it did.

    Attributes:
        frame: one row a trial, in order, with :data:`COLUMNS`: ``score`` and ``unobserved`` are the dataset's metric
            over all entries and over the withheld ones, ``rtol`` is NaN where only statistics can tell.
        origin: what made it, by name, as text.
    """

    frame: pd.DataFrame
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def higher_is_better(self) -> list[str]:
        """Metrics where more is better."""
        return [name for name in self.origin.get("higher is better", "").split(", ") if name]


def from_run(path: Path, exact: Mapping[str, float] | None = None) -> Scores:
    """The scores of a finished run.

    Args:
        path: the run directory.
        exact: relative tolerance of the methods whose arithmetic is the same everywhere, by spec or bare name.

    Raises:
        RequestError: if there is no run, or it is unfinished.
    """
    stored = StoredRun(Path(path))
    frame, metadata = stored.frame, stored.metadata
    status = run_status(path)
    if status.done < status.planned:
        raise RequestError(
            f"{path} is unfinished: {status.done} of {status.planned} trials are here; run it to its end"
        )
    if frame.empty:
        raise RequestError(f"{path} holds no trial; run something first")
    plain = frame.astype(dict.fromkeys({*CELL, "status", "device"} - {"rate"}, str))
    metrics = plain["dataset"].map(metadata.headline_of)
    good = plain["status"] == OK
    rows = plain[[*KEY, "status"]].assign(
        metric=metrics,
        score=_scores(plain, metrics, "").where(good),
        unobserved=_scores(plain, metrics, ".unobserved").where(good),
        rtol=[_tolerance(text, exact or {}) for text in plain["method"]],
        memory_mib=(plain["peak_memory"] / 2**20).where(good),
        device=[name.partition(":")[0] for name in plain["device"]],
    )
    origin = {**_origin(stored.manifest.sessions), "higher is better": ", ".join(metadata.higher_is_better)}
    return Scores(_ordered(rows), {name: text for name, text in origin.items() if text})


def write(scores: Scores) -> str:
    """The text of a reference file."""
    # A command may hold line breaks, and each text has one line.
    above = [f"# {_TITLE}", *(f"# {name}: {' '.join(text.split())}" for name, text in scores.origin.items())]
    rows = (_shown(dict(zip(COLUMNS, values, strict=True))) for values in scores.frame.itertuples(index=False))
    return "\n".join([*above, csv_text(rows, COLUMNS), ""])


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the digits of each number that its file keeps."""
    digits = _DIGITS if math.isnan(row["rtol"]) else max(_DIGITS, 2 - math.floor(math.log10(row["rtol"])))
    return {
        **row,
        "score": significant(row["score"], digits, ""),
        "unobserved": significant(row["unobserved"], digits, ""),
        "rtol": significant(row["rtol"], _RTOL_DIGITS, ""),
        "memory_mib": "" if math.isnan(row["memory_mib"]) else f"{row['memory_mib']:.0f}",
        "rate": repr(float(row["rate"])),
    }


def ready(file: Path) -> None:
    """Make the folder of a reference that is to be written, before anything is computed for it.

    Raises:
        RequestError: if the file is a folder.
        StorageError: if its folder cannot be made.
    """
    if file.is_dir():
        raise RequestError(f"{file} is a folder; name a file for the reference")
    with storing(file):
        file.parent.mkdir(parents=True, exist_ok=True)


def load(path: Path, exact: Mapping[str, float] | None = None) -> Scores:
    """The scores of a reference: a file, or the folder of a finished run, with the tolerances of :func:`from_run`.

    Raises:
        RequestError: if it is neither.
    """
    return from_run(path, exact) if path.is_dir() else read(path)


def read(path: Path) -> Scores:
    """The scores that a reference file holds; columns of other versions are passed over.

    Raises:
        RequestError: if it is not there, is not a reference, or is damaged.
    """
    if not path.is_file():
        raise RequestError(f"there is no reference {path}; write one: fieldbench freeze RUN --out {path}")
    # Bytes that are not text become a text that is not a reference either.
    title, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if title != f"# {_TITLE}":
        raise RequestError(f"{path} is not a reference; `fieldbench freeze RUN --out FILE` writes one")
    above = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    table = csv.reader(lines[len(above) : -1], strict=True)
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    try:
        header = next(table, [])
        if absent := [name for name in COLUMNS if name not in header]:
            raise ValueError(f"the header lacks {', '.join(absent)}")
        for row in (_row(header, cells) for cells in table if cells):
            if rows.setdefault(tuple(row[name] for name in KEY), row) is not row:
                raise ValueError("an earlier line has the same trial")
        if lines[-1]:
            raise ValueError("the line below is cut short")
    except (ValueError, csv.Error) as error:
        line = 1 + len(above) + max(1, table.line_num)
        raise RequestError(f"{path} is damaged: line {line}: {error}; restore it or freeze again") from None
    origin = {name: text for name, _, text in (line[2:].partition(": ") for line in above)}
    return Scores(_ordered(pd.DataFrame(list(rows.values()), columns=list(COLUMNS)).astype(_TYPES)), origin)


def _row(header: list[str], cells: list[str]) -> dict[str, Any]:
    """
    Raises:
        ValueError: if they are not a row.
    """
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells and not {len(header)}")
    row: dict[str, Any] = dict(zip(header, cells, strict=True))
    for name in (*KEY, "status", "metric"):
        if not row[name]:
            raise ValueError(f"no {name}")
    for name, number in _TYPES.items():
        try:
            row[name] = number(row[name] or "nan")
        except (ValueError, OverflowError):
            raise ValueError(f"{row[name]!r} is not a {name}") from None
    return row


def must_name_methods(exact: Iterable[str], methods: Iterable[str]) -> None:
    """Check that what ``--exact`` names, specs or bare names, is among the methods (specs).

    Raises:
        RequestError: if not.
    """
    known = {name for text in methods for name in (text, name_of(text))}
    for name in exact:
        if name not in known:
            raise RequestError(f"--exact {name!r} is none of the methods{nearest(name, known)}")


def must_fit(known: Scores, methods: Sequence[str], exact: Mapping[str, float]) -> None:
    """Check that a reference answers for a run, before the time for that is spent.

    Args:
        known: the reference.
        methods: specs that are to be run.
        exact: tolerances by method, as ``--exact`` gives them.

    Raises:
        RequestError: if it has none of the methods (specs), or was frozen with other tolerances than ``--exact`` asks.
    """
    frozen = dict(zip(known.frame["method"], known.frame["rtol"], strict=True))
    must_name_methods(exact, frozen)
    if frozen.keys().isdisjoint(methods):
        raise RequestError(f"the reference has no trial of {', '.join(methods)}; freeze first, with --freeze")
    for method, rtol in frozen.items():
        asked = _tolerance(method, exact)
        if not math.isnan(asked) and significant(asked, _RTOL_DIGITS) != significant(rtol, _RTOL_DIGITS):
            has = "no tolerance" if math.isnan(rtol) else f"{rtol:g}"
            raise RequestError(
                f"--exact {method}={asked:g} is not what the reference was frozen with ({has}); "
                "leave it out, or freeze again with --freeze"
            )


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    order = ["dataset", "sampler", "noise", "rate", "select", "method", "seed", "trial"]
    return frame[list(COLUMNS)].sort_values(order, ignore_index=True)


def _scores(frame: pd.DataFrame, metrics: pd.Series, scope: str) -> pd.Series:
    """The score of each row by the metric of its dataset; NaN where it has none."""
    scores = pd.Series(np.nan, index=frame.index)
    for name in metrics.unique():
        if f"{name}{scope}" in frame:
            scores = scores.where(metrics != name, frame[f"{name}{scope}"].astype(float))
    return scores


def _tolerance(method: str, exact: Mapping[str, float]) -> float:
    return exact.get(method, exact.get(name_of(method), math.nan))


def _origin(sessions: Sequence[SessionEntry]) -> dict[str, str]:
    """What made a run, a line each; several texts in it where the sessions differ."""

    def versions(found: Mapping[str, str]) -> str:
        return ", ".join(f"{PurePath(name).name} {version}" for name, version in found.items())

    lines = [
        {
            "made": session.started[:10],
            "command": _command(session.command),
            "versions": versions({"python": session.python, "fieldbench": session.fieldbench, **session.libraries}),
            "plugins": versions(session.plugins),
            "machine": f"{session.cpu}, {session.cores or '?'} cores",
            "gpus": ", ".join(str(gpu.get("name", "")) for gpu in session.gpus),
        }
        for session in sessions
    ]
    return {name: "; ".join(dict.fromkeys(filter(None, (line[name] for line in lines)))) for name in lines[0]}


def _command(arguments: list[str]) -> str:
    """A command without where its files lay: folders differ from machine to machine."""
    named = [PurePath(text).name if text.startswith("/") else text for text in arguments]
    if arguments and arguments[0].endswith("/__main__.py"):
        package = PurePath(arguments[0]).parent.name
        named[:1] = ["python", "-m", "fieldbench.regression" if package == "regression" else package]
    return shlex.join(named)
