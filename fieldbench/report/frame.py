"""Records as a pandas frame, read column by column so that millions of them stay small."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fieldbench.records import CELL, Cell
from fieldbench.report.frame_store import FrameStore
from fieldbench.store.files import TRIALS
from fieldbench.store.manifest import read_manifest
from fieldbench.store.rows import RowLog

#: Columns with few distinct texts: kept as categories.
TEXTS = ("status", "device", "machine", "session", "timed")

#: Columns of numbers, each with its type and the value that stands for a missing one.
NUMBERS: dict[str, tuple[type, float]] = {
    "trial": (np.int64, -1),
    "seed": (np.int64, -1),
    "seconds": (float, np.nan),
    "peak_memory": (float, np.nan),
    "slots": (np.int64, 0),
}

_CHUNK = 20_000  # rows made into arrays at once


def read_frame(path: Path) -> pd.DataFrame:
    """The records of a run that count, one row a trial, metrics as columns; diagnostics are left out.

    A trial that was run again (``--retry-failed``) counts once, as it ended last; rows of an earlier version of a
    cell's plugins or data do not count. Text columns are categories, so that memory grows by tens of bytes a row.

    Returns:
        A frame with columns key, method, dataset, sampler, noise, select, rate, trial, seed, status, error,
        seconds, device, peak_memory, machine, slots, session, timed and one for each metric (NaN where a trial has
        no such score).

    Raises:
        RequestError: if there is no run at ``path``.
    """
    identities = read_manifest(path).identities
    log, store = RowLog(Path(path) / TRIALS), FrameStore.of(path, identities)
    kept = store.read()
    if kept is not None:
        frame, log.damaged = kept
        log.tell()
        return frame
    columns = _Columns()
    with _uncollected():
        rows = iter(log)
        while chunk := list(islice(rows, _CHUNK)):
            columns.extend(chunk)
    frame = columns.frame(identities)
    store.write(frame, log.damaged)
    return frame


class _Columns:
    """Grows column arrays chunk by chunk, so that the parsed rows need not stay in memory together."""

    def __init__(self) -> None:
        self._size = 0
        self._objects: dict[str, list[Any]] = {"key": [], "error": []}
        self._codes: dict[str, list[np.ndarray]] = {name: [] for name in TEXTS}
        self._names: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        self._numbers: dict[str, list[np.ndarray]] = {name: [] for name in NUMBERS}
        self._metrics: dict[str, list[tuple[int, np.ndarray]]] = {}
        #: Rows of one cell and identity have one number, from which all columns of the cell are made.
        self._series: dict[tuple[Any, ...], int] = {}
        self._series_of: list[np.ndarray] = []

    def extend(self, rows: list[dict[str, Any]]) -> None:
        for name, values in self._objects.items():
            values.extend(row.get(name, "") for row in rows)
        for name in TEXTS:
            texts = [row.get(name, "") for row in rows]
            self._codes[name].append(_numbered(texts, self._names[name]))
        self._series_of.append(_numbered([(*_cell(row), row["identity"]) for row in rows], self._series))
        for name, (kind, missing) in NUMBERS.items():
            # A missing number is None in a row that says so; numpy makes NaN of it.
            self._numbers[name].append(np.array([row.get(name, missing) for row in rows], kind))
        scored = [row.get("metrics") or {} for row in rows]
        for name in {name for scores in scored for name in scores}:
            numbers = np.array([scores.get(name) for scores in scored], float)
            self._metrics.setdefault(name, []).append((self._size, numbers))
        self._size += len(rows)

    def frame(self, identities: Mapping[Cell, str]) -> pd.DataFrame:
        """The rows that count, sorted, one column after the other."""
        series = np.concatenate([np.empty(0, np.int32), *self._series_of])
        chosen = self._chosen(series, identities)
        series = series[chosen]
        present = np.unique(series)
        data: dict[str, Any] = {"key": pd.Series(self._objects["key"], dtype="str").take(chosen).array}
        for column, name in enumerate(CELL):
            levels = [kind[column] for kind in self._series]
            if name == "rate":
                data[name] = np.array(levels, float)[series]
            else:
                names: dict[Any, int] = {}
                numbers = np.zeros(len(levels), np.int32)
                # Only what is present has a category.
                numbers[present] = _numbered([levels[number] for number in present], names)
                data[name] = _categories(numbers[series], names)
        for name in TEXTS:
            codes = np.concatenate([np.empty(0, np.int32), *self._codes.pop(name)])
            data[name] = _categories(codes[chosen], self._names[name])
        for name, (kind, _) in NUMBERS.items():
            data[name] = np.concatenate([np.empty(0, kind), *self._numbers.pop(name)])[chosen]
        data["error"] = pd.Series(self._objects["error"], dtype="str").take(chosen).array
        order = ["key", *CELL, "trial", "seed", "status", "error", "seconds", "device", "peak_memory"]
        columns = {name: data.pop(name) for name in [*order, "machine", "slots", "session", "timed"]}
        for name in self._metrics:
            values = np.full(self._size, np.nan)
            for start, part in self._metrics[name]:
                values[start : start + len(part)] = part
            columns[name] = values[chosen]
        return pd.DataFrame(columns, copy=False)

    def _chosen(self, series: NDArray[np.int32], identities: Mapping[Cell, str]) -> NDArray[np.intp]:
        """The numbers of the rows that count: the last of each trial, of a cell those of the identity that counts.

        Trials end in another order in every run, and sums depend on the order of their terms, so they are sorted.
        """
        trial, seed = (np.concatenate([np.empty(0, np.int64), *self._numbers[name]]) for name in ("trial", "seed"))
        trials = pd.DataFrame({"series": series, "seed": seed, "trial": trial}, copy=False)
        counted = np.flatnonzero(~trials.duplicated(keep="last").to_numpy() & self._current(series, identities))
        chosen: NDArray[np.intp] = counted[np.lexsort((trial[counted], seed[counted]))]
        return chosen

    def _current(self, series: NDArray[np.int32], identities: Mapping[Cell, str]) -> np.ndarray:
        """Which rows have the identity of their cell that counts: the one given, or that of the cell's last row."""
        kinds = list(self._series)
        counts = {Cell(*kinds[number][:-1]): kinds[number][-1] for number in _in_order_of_their_last(series)}
        counts |= identities
        fine = [counts.get(Cell(*cell)) == identity for *cell, identity in kinds]
        return np.asarray(fine, dtype=bool)[series]


#: The cell of a row as a tuple, quickly: a million of them are read at once.
_cell = itemgetter(*CELL)


def _numbered(values: Sequence[Any], numbers: dict[Any, int]) -> np.ndarray:
    """The number of each value; new ones are added to ``numbers``."""
    for value in dict.fromkeys(values):
        numbers.setdefault(value, len(numbers))
    return np.fromiter(map(numbers.__getitem__, values), np.int32, len(values))


def _categories(codes: np.ndarray, names: Mapping[str, int]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(names), dtype="str"))


def _in_order_of_their_last(series: np.ndarray) -> list[int]:
    """Distinct numbers, that of the last row last."""
    distinct, from_the_end = np.unique(series[::-1], return_index=True)
    return [int(number) for number in distinct[np.argsort(-from_the_end)]]


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
