"""A run as a reference: one line a trial, ordered, with the digits that its arithmetic supports.

The lines name a trial by what was asked for and not by versions, so that a new revision of a method meets its
old scores trial by trial. What made the numbers stands above them.
"""

from __future__ import annotations

import csv
import io
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
from fieldbench.report.times import SECONDS, counted
from fieldbench.spec import parse
from fieldbench.store.files import storing, write_whole
from fieldbench.store.manifest import SessionEntry
from fieldbench.store.status import run_status

#: What a table cell is, and with seed and trial a trial; no version is part of it.
CELL = ("method", "dataset", "sampler", "noise", "select", "rate")
KEY = (*CELL, "seed", "trial")

#: The observed dataset that methods meet together.
SETTING = ("dataset", "sampler", "noise", "rate")

COLUMNS = (*KEY, "status", "metric", "score", "unobserved", "rtol", "memory_mib", "cost", "device")
_TYPES: dict[str, type[Any]] = {
    **dict.fromkeys(("seed", "trial"), np.int64),
    **dict.fromkeys(("rate", "score", "unobserved", "rtol", "memory_mib", "cost"), float),
}

#: The method whose time is the unit of time.
CALIBRATION = "calibration"

_TITLE = "fieldbench reference, format 1"
_DIGITS, _RTOL_DIGITS = 6, 2  # of a score that is compared statistically, of a tolerance


@dataclass(frozen=True)
class Scores:
    """What a run scored, or a reference says it did.

    Attributes:
        frame: one row a trial, in order, with :data:`COLUMNS`: ``score`` and ``unobserved`` are the dataset's
            metric over all entries and over the unobserved ones, ``rtol`` is the relative difference that
            arithmetic may make (NaN where only statistics can tell), ``cost`` is the time in multiples of the
            calibration job (NaN without one).
        origin: what made it, by name, as text.
    """

    frame: pd.DataFrame
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def higher_is_better(self) -> list[str]:
        """Metrics of which more is better."""
        return [name for name in self.origin.get("higher is better", "").split(", ") if name]

    @property
    def alone(self) -> bool:
        """Whether trials ran one at a time, so that none took time from another."""
        return self.origin.get("slots") == "1"


def from_run(path: Path, exact: Mapping[str, float] | None = None) -> Scores:
    """The scores of a finished run.

    Args:
        path: the run directory.
        exact: relative tolerance of the methods whose arithmetic is the same everywhere, by spec or bare name.

    Raises:
        RequestError: if there is no run, or it is unfinished.
    """
    stored = StoredRun(Path(path))
    frame, facts = stored.frame, stored.facts
    status = run_status(path)
    if status.done < status.planned:
        raise RequestError(
            f"{path} is unfinished: {status.done} of {status.planned} trials are here; run it to its end"
        )
    if frame.empty:
        raise RequestError(f"{path} holds no trial; run something first")
    plain = frame.assign(**{name: frame[name].astype(str) for name in (*CELL, "status", "device") if name != "rate"})
    metrics = plain["dataset"].map(lambda text: facts.headline.get(text, "rmse"))
    good = plain["status"] == OK
    rows = plain[[*KEY, "status"]].assign(
        metric=metrics,
        score=_scores(plain, metrics, "").where(good),
        unobserved=_scores(plain, metrics, ".unobserved").where(good),
        rtol=[_tolerance(text, exact or {}) for text in plain["method"]],
        memory_mib=(plain["peak_memory"] / 2**20).where(good),
        cost=_costs(plain),
        device=[name.partition(":")[0] for name in plain["device"]],
    )
    kept = rows[~_is_calibration(rows)]
    origin = {**_origin(stored.manifest.sessions), "higher is better": ", ".join(facts.higher_is_better)}
    return Scores(_ordered(kept), {name: text for name, text in origin.items() if text})


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
        "cost": significant(row["cost"], 2, ""),
        "rate": repr(float(row["rate"])),
    }


def ready(file: Path) -> None:
    """Make the folder of a reference that is to be written; to be called before anything is computed for it.

    Raises:
        RequestError: if the file is a folder.
        StorageError: if its folder cannot be made.
    """
    if file.is_dir():
        raise RequestError(f"{file} is a folder; name a file for the reference")
    with storing(file):
        file.parent.mkdir(parents=True, exist_ok=True)


def save(scores: Scores, file: Path) -> None:
    """Write a reference file as a whole or not at all.

    Raises:
        RequestError: if the file is a folder.
        StorageError: if it cannot be written.
    """
    ready(file)
    write_whole(file, write(scores))


def load(path: Path, exact: Mapping[str, float] | None = None) -> Scores:
    """The scores of a reference: a file, or the folder of a finished run, with the tolerances of :func:`from_run`.

    Raises:
        RequestError: if it is neither.
    """
    return from_run(path, exact) if path.is_dir() else read(path)


def read(path: Path) -> Scores:
    """The scores that a reference file holds.

    Raises:
        RequestError: if it is not there, is no reference, or is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise RequestError(f"there is no reference {path}; write one: fieldbench freeze RUN --out {path}")
    # What is no text becomes one that is no reference either.
    text = path.read_text(encoding="utf-8", errors="replace")
    title, *lines = text.split("\n")
    if title != f"# {_TITLE}":
        raise RequestError(f"{path} is no reference; `fieldbench freeze RUN --out FILE` writes one")
    above = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    try:
        if not text.endswith("\n"):
            raise ValueError("its last line is cut short")
        frame = _table("\n".join(lines[len(above) :]), 1 + len(above))
    except ValueError as error:
        raise RequestError(f"{path} is damaged: {error}; restore it or freeze again") from None
    origin = {name: text for name, _, text in (line[2:].partition(": ") for line in above)}
    return Scores(_ordered(frame), origin)


def _table(text: str, above: int) -> pd.DataFrame:
    """The rows of a reference.

    Args:
        text: header and rows.
        above: how many lines of the file stand above them.

    Raises:
        ValueError: if anything is missing, altered or there twice; the message names the line.
    """
    lines = csv.reader(io.StringIO(text), strict=True)
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    try:
        if next(lines, []) != list(COLUMNS):
            raise ValueError(f"this is not the header {','.join(COLUMNS)}")
        for row in map(_row, filter(None, lines)):
            if rows.setdefault(tuple(row[name] for name in KEY), row) is not row:
                raise ValueError("an earlier line has the same trial")
    except (ValueError, csv.Error) as error:
        raise ValueError(f"line {above + max(1, lines.line_num)}: {error}") from None
    return pd.DataFrame(list(rows.values()), columns=list(COLUMNS)).astype(_TYPES)


def _row(cells: list[str]) -> dict[str, Any]:
    """
    Raises:
        ValueError: if they are no row.
    """
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells and not {len(COLUMNS)}")
    row: dict[str, Any] = dict(zip(COLUMNS, cells, strict=True))
    for name in (*KEY, "status", "metric"):
        if not row[name]:
            raise ValueError(f"no {name}")
    for name, number in _TYPES.items():
        try:
            row[name] = number(row[name] or "nan")
        except (ValueError, OverflowError):
            raise ValueError(f"{row[name]!r} is no {name}") from None
    return row


def must_name_methods(exact: Iterable[str], methods: Iterable[str]) -> None:
    """Check that what ``--exact`` names is there.

    Args:
        exact: specs or bare names.
        methods: specs.

    Raises:
        RequestError: if one of the names is of no method.
    """
    known = {name for text in methods for name in (text, _bare(text))} - {CALIBRATION}
    for name in exact:
        if name not in known:
            raise RequestError(f"--exact {name!r} is none of the methods{nearest(name, known)}")


def must_know_any(methods: Iterable[str], known: Scores) -> None:
    """Check that a reference has something of what is to be run, before the time for that is spent.

    Raises:
        RequestError: if it has none of the methods (specs).
    """
    asked = [text for text in methods if _bare(text) != CALIBRATION]
    if not set(asked) & set(known.frame["method"]):
        raise RequestError(f"the reference has no trial of {', '.join(asked)}; freeze first, with --freeze")


def must_be_frozen_with(exact: Mapping[str, float], known: Scores) -> None:
    """Check that a reference has the tolerances that ``--exact`` asks for, since a check goes by the reference's.

    Raises:
        RequestError: if not.
    """
    frozen = known.frame.drop_duplicates("method").set_index("method")["rtol"]
    must_name_methods(exact, frozen.index)
    for method, rtol in frozen.items():
        asked = _tolerance(str(method), exact)
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
    """The score of each row by the metric of its dataset."""
    scores = pd.Series(np.nan, index=frame.index)
    for name in metrics.unique():
        if f"{name}{scope}" in frame:
            scores = scores.where(metrics != name, frame[f"{name}{scope}"].astype(float))
    return scores


def _costs(frame: pd.DataFrame) -> pd.Series:
    """Seconds in multiples of the calibration job: of its median in the same setting, on the same machine.

    The first trial of a process has no cost where its cell has others, since its start-up is in its seconds.
    """
    good = frame[(frame["status"] == OK) & frame[SECONDS].notna()]
    good = good[counted(good, CELL)]
    place = [*SETTING, "machine", "slots"]
    units = good[_is_calibration(good)].groupby(place, observed=True)[SECONDS].median().rename("unit")
    return (good[SECONDS] / good.join(units, on=place)["unit"]).reindex(frame.index)


def _is_calibration(frame: pd.DataFrame) -> pd.Series:
    return frame["method"].map(lambda text: text.partition("[")[0] == CALIBRATION).astype(bool)


def _bare(method: str) -> str:
    return "+".join(part.name for part in parse(method))


def _tolerance(method: str, exact: Mapping[str, float]) -> float:
    return exact.get(method, exact.get(_bare(method), math.nan))


def _origin(sessions: Sequence[SessionEntry]) -> dict[str, str]:
    """The sessions' machines and versions, a line each; several where the run was made in several places."""

    def each(texts: list[str]) -> str:
        return "; ".join(dict.fromkeys(text for text in texts if text))

    def versions(session: SessionEntry) -> str:
        python = {"python": session.python, "fieldbench": session.fieldbench}
        return ", ".join(f"{name} {version}" for name, version in {**python, **session.libraries}.items())

    plugins = [
        ", ".join(f"{PurePath(name).name} {version}" for name, version in session.plugins.items())
        for session in sessions
    ]
    return {
        "made": each([session.started[:10] for session in sessions]),
        "command": each([_command(session.command) for session in sessions]),
        "versions": each([versions(session) for session in sessions]),
        "plugins": each(plugins),
        "machine": each([f"{session.cpu}, {session.cores or '?'} cores" for session in sessions]),
        "gpus": each([", ".join(str(gpu.get("name", "")) for gpu in session.gpus) for session in sessions]),
        "slots": each([str(sum((session.slots or {}).values())) for session in sessions]),
    }


def _command(arguments: list[str]) -> str:
    """A command without where its files lay: folders differ from machine to machine."""
    named = [PurePath(text).name if text.startswith("/") else text for text in arguments]
    if arguments and arguments[0].endswith("/__main__.py"):
        package = PurePath(arguments[0]).parent.name
        named[:1] = ["python", "-m", "fieldbench.regression" if package == "regression" else package]
    return shlex.join(named)
