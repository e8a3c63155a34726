"""A run as a reference: one line a trial, ordered, with the digits that its arithmetic supports.

The lines name a trial by what was asked for and not by versions, so that a new revision of a method meets its
old scores trial by trial. What made the numbers stands above them.
"""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError
from fieldbench.report.stored import StoredRun
from fieldbench.spec import parse
from fieldbench.trial import OK

#: What a table cell is, and with seed and trial a trial; no version is part of it.
CELL = ("method", "dataset", "sampler", "noise", "select", "rate")
KEY = (*CELL, "seed", "trial")

#: The observed dataset that methods meet together.
SETTING = ("dataset", "sampler", "noise", "rate")

COLUMNS = (*KEY, "status", "metric", "score", "unobserved", "rtol", "memory_mib", "cost", "device")
_NUMBERS = ("rate", "score", "unobserved", "rtol", "memory_mib", "cost")

#: The method whose time is the unit of time.
CALIBRATION = "calibration"

_TITLE = "fieldbench reference, format 1"
_DIGITS = 6  # of a score that is compared statistically


@dataclass(frozen=True)
class Scores:
    """What a run scored, or a reference says it did.

    Attributes:
        frame: one row a trial, in order, with :data:`COLUMNS`: ``score`` and ``unobserved`` are the dataset's
            metric over all entries and over the hidden ones, ``rtol`` is the relative difference that
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
    if len(frame) < facts.size:
        raise RequestError(f"{path} is unfinished: {len(frame)} of {facts.size} trials are here; run it to its end")
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
    origin = {**_origin(stored.manifest), "higher is better": ", ".join(facts.higher_is_better)}
    return Scores(_ordered(kept), {name: text for name, text in origin.items() if text})


def write(scores: Scores) -> str:
    """The text of a reference file."""
    stream = io.StringIO()
    stream.write(f"# {_TITLE}\n")
    stream.writelines(f"# {name}: {text}\n" for name, text in scores.origin.items())
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for values in scores.frame.itertuples(index=False, name=None):
        row = dict(zip(COLUMNS, values, strict=True))
        digits = _DIGITS if math.isnan(row["rtol"]) else max(_DIGITS, 2 - math.floor(math.log10(row["rtol"])))
        shown = {
            **row,
            "score": _number(row["score"], digits),
            "unobserved": _number(row["unobserved"], digits),
            "rtol": _number(row["rtol"], 2),
            "memory_mib": "" if math.isnan(row["memory_mib"]) else f"{row['memory_mib']:.0f}",
            "cost": _number(row["cost"], 2),
            "rate": repr(float(row["rate"])),
        }
        writer.writerow(shown)
    return stream.getvalue()


def read(path: Path) -> Scores:
    """The scores that a reference file holds.

    Raises:
        RequestError: if it is not there or is no reference.
    """
    path = Path(path)
    if not path.is_file():
        raise RequestError(f"there is no reference {path}; write one: fieldbench freeze RUN --out {path}")
    # What is no text becomes one that is no reference either.
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or lines[0] != f"# {_TITLE}":
        raise RequestError(f"{path} is no reference; `fieldbench freeze RUN --out FILE` writes one")
    above = [line[2:].partition(": ") for line in lines[1:] if line.startswith("# ")]
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    try:
        frame = pd.DataFrame(rows, columns=list(COLUMNS)).fillna("")
        frame[list(_NUMBERS)] = frame[list(_NUMBERS)].replace("", "nan").astype(float)
        frame[["seed", "trial"]] = frame[["seed", "trial"]].astype(np.int64)
    except ValueError as error:
        raise RequestError(f"{path} is damaged ({error}); restore it or freeze again") from None
    return Scores(_ordered(frame), {name: text for name, _, text in above})


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
    """Seconds in multiples of the calibration job: of its median in the same setting."""
    jobs = frame[_is_calibration(frame) & (frame["status"] == OK)]
    if jobs.empty:
        return pd.Series(np.nan, index=frame.index)
    medians = jobs.groupby(list(SETTING))["seconds"].median()
    places = frame[list(SETTING)].itertuples(index=False, name=None)
    units = np.array([medians.get(place, np.nan) for place in places], float)
    costs = frame["seconds"].to_numpy(float) / units
    return pd.Series(costs, index=frame.index).where(frame["status"] == OK)


def _is_calibration(frame: pd.DataFrame) -> pd.Series:
    return frame["method"].map(lambda text: text.partition("[")[0] == CALIBRATION).astype(bool)


def _tolerance(method: str, exact: Mapping[str, float]) -> float:
    bare = "+".join(part.name for part in parse(method))
    return exact.get(method, exact.get(bare, math.nan))


def _origin(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The sessions' machines and versions, a line each; several where the run was made in several places."""
    sessions = manifest.get("sessions", [])

    def each(texts: list[str]) -> str:
        return "; ".join(dict.fromkeys(text for text in texts if text))

    def versions(session: Mapping[str, Any]) -> str:
        python = {"python": session.get("python", ""), "fieldbench": session.get("fieldbench", "")}
        return ", ".join(f"{name} {version}" for name, version in {**python, **session.get("libraries", {})}.items())

    plugins = [
        ", ".join(f"{PurePath(name).name} {version}" for name, version in session.get("plugins", {}).items())
        for session in sessions
    ]
    return {
        "made": each([str(session.get("started", ""))[:10] for session in sessions]),
        "command": each([_command(session.get("command", [])) for session in sessions]),
        "versions": each([versions(session) for session in sessions]),
        "plugins": each(plugins),
        "machine": each([f"{session.get('cpu', '')}, {session.get('cores', '?')} cores" for session in sessions]),
        "gpus": each([", ".join(gpu["name"] for gpu in session.get("gpus", [])) for session in sessions]),
        "slots": each([str(sum(session.get("slots", {}).values())) for session in sessions]),
    }


def _command(arguments: list[str]) -> str:
    """A command without where its files lay: folders differ from machine to machine."""
    named = [PurePath(text).name if text.startswith("/") else text for text in arguments]
    if named and named[0] == "__main__.py":
        named[:1] = ["python", "-m", "fieldbench.regression"]
    return shlex.join(named)


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}g}"
