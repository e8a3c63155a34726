"""Records as a pandas frame, read column by column so that a million of them stay small."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic_core import from_json

from fieldbench.store import TRIALS, without_diagnostics

#: Columns with few distinct texts: kept as categories.
TEXTS = ("method", "dataset", "sampler", "noise", "select", "status", "device", "machine", "session", "timed")

#: Columns of numbers, each with its type and the value that stands for a missing one.
NUMBERS: dict[str, tuple[type, float]] = {
    "rate": (float, np.nan),
    "trial": (np.int64, -1),
    "seed": (np.int64, -1),
    "seconds": (float, np.nan),
    "peak_memory": (float, np.nan),
    "slots": (np.int64, 0),
}

_BLOCK = 8 * 2**20  # bytes read and parsed at once


def read_frame(path: Path) -> pd.DataFrame:
    """The records of a run directory, one row a trial, metrics as columns; diagnostics are left out.

    A trial that was run again (``--retry-failed``) counts once, as it ended last. A last line that does not end
    was cut short and does not count. Text columns are categories, so that memory grows by tens of bytes a row.

    Returns:
        A frame with columns key, method, dataset, sampler, noise, select, rate, trial, seed, status, error,
        seconds, device, peak_memory, machine, slots, session, timed and one for each metric (NaN where a trial
        has no such score). An older record says nothing of the four before the metrics: "" and, for slots, 0.
    """
    columns = _Columns()
    with _uncollected():
        for rows in _parsed(Path(path) / TRIALS):
            columns.extend(rows)
    frame = columns.frame()
    if frame["key"].duplicated().any():
        frame = frame.drop_duplicates("key", keep="last")
    # Trials end in another order in every run, and sums depend on the order of their terms.
    return frame.sort_values(["seed", "trial"], kind="stable", ignore_index=True)


class _Columns:
    """Grows column arrays chunk by chunk, so that the parsed rows need not stay in memory together."""

    def __init__(self) -> None:
        self._size = 0
        self._objects: dict[str, list[Any]] = {"key": [], "error": []}
        self._codes: dict[str, list[np.ndarray]] = {name: [] for name in TEXTS}
        self._names: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        self._numbers: dict[str, list[np.ndarray]] = {name: [] for name in NUMBERS}
        self._metrics: dict[str, list[tuple[int, np.ndarray]]] = {}

    def extend(self, rows: list[dict[str, Any]]) -> None:
        for name, values in self._objects.items():
            values.extend(row.get(name, "") for row in rows)
        for name in TEXTS:
            names = self._names[name]
            texts = [row.get(name, "") for row in rows]
            for text in set(texts).difference(names):
                names[text] = len(names)
            self._codes[name].append(np.fromiter(map(names.__getitem__, texts), np.int32, len(rows)))
        for name, (kind, missing) in NUMBERS.items():
            # A missing number is None in a row that says so; numpy makes NaN of it.
            self._numbers[name].append(np.array([row.get(name, missing) for row in rows], kind))
        scored = [row.get("metrics") or {} for row in rows]
        for name in {name for scores in scored for name in scores}:
            numbers = np.array([scores.get(name) for scores in scored], float)
            self._metrics.setdefault(name, []).append((self._size, numbers))
        self._size += len(rows)

    def frame(self) -> pd.DataFrame:
        data: dict[str, Any] = {"key": pd.Series(self._objects["key"], dtype=object)}
        for name in TEXTS:
            codes = np.concatenate(self._codes[name]) if self._size else np.empty(0, np.int32)
            data[name] = pd.Categorical.from_codes(codes, categories=pd.Index(list(self._names[name]), dtype=object))
        for name, (kind, _) in NUMBERS.items():
            data[name] = np.concatenate(self._numbers[name]) if self._size else np.empty(0, kind)
        data["error"] = pd.Series(self._objects["error"], dtype=object)
        first = ["key", "method", "dataset", "sampler", "noise", "select", "rate", "trial", "seed"]
        order = [*first, "status", "error", "seconds", "device", "peak_memory"]
        order += ["machine", "slots", "session", "timed"]
        columns = {name: data[name] for name in order}
        for name in self._metrics:
            columns[name] = np.full(self._size, np.nan)
            for start, values in self._metrics[name]:
                columns[name][start : start + len(values)] = values
        return pd.DataFrame(columns)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the garbage collector, which would look through millions of rows that hold no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parsed(file: Path) -> Iterator[list[dict[str, Any]]]:
    """The rows of the file in blocks of lines that end, without their diagnostics."""
    if not file.is_file():
        return
    rest = b""
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            if rows := _rows(lines):
                yield rows


def _rows(lines: list[bytes]) -> list[dict[str, Any]]:
    heads = [without_diagnostics(line) for line in lines if line.strip()]
    try:
        parsed = from_json(b"[" + b",".join(heads) + b"]")
    except ValueError:
        parsed = [row for line in lines if (row := _row(line)) is not None]
    return [row for row in parsed if isinstance(row, dict) and "key" in row]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = from_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
