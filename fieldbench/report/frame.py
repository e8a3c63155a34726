"""Records as a pandas frame, read column by column so that millions of them stay small."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fieldbench.records import CELL, Cell
from fieldbench.report.factors import SPECS
from fieldbench.report.frame_store import keep_columns, kept_columns, state_of
from fieldbench.store.files import TRIALS
from fieldbench.store.manifest import read_manifest
from fieldbench.store.rows import RowLog

#: Columns with few distinct texts: kept as categories.
_TEXTS = ("status", "device", "machine", "session", "timed")

#: Columns of numbers, each with its type and the value that stands for a missing one.
_NUMBERS: dict[str, tuple[type, float]] = {
    "trial": (np.int64, -1),
    "seed": (np.int64, -1),
    "rate": (float, np.nan),
    "seconds": (float, np.nan),
    "peak_memory": (float, np.nan),
    "slots": (np.int64, 0),
}

#: Columns before the metrics.
_ORDER = ["key", *CELL, "trial", "seed", "status", "error", "seconds", "device", "peak_memory", "machine", "slots"]
_ORDER += ["session", "timed"]

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
    log, state = RowLog(Path(path) / TRIALS), state_of(path, identities)
    if (kept := kept_columns(path, state)) is not None:
        frame, log.damaged = kept
        log.tell()
        return frame
    parts = [_columns([])]
    enabled = gc.isenabled()
    gc.disable()  # it would look through millions of rows that hold no cycles
    try:
        rows = iter(log)
        while chunk := list(islice(rows, _CHUNK)):
            parts.append(_columns(chunk))
    finally:
        if enabled:
            gc.enable()
    frame = _counted(_joined(parts), identities)
    keep_columns(path, state, frame, log.damaged)
    return frame


def _columns(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as columns, which take far less memory."""
    columns: dict[str, Any] = {name: pd.array([row.get(name, "") for row in rows], "str") for name in ("key", "error")}
    texts = {name: [row[name] for row in rows] for name in (*SPECS, "identity")}
    texts |= {name: [row.get(name, "") for row in rows] for name in _TEXTS}
    for name, values in texts.items():
        codes, names = pd.factorize(np.array(values, object))
        columns[name] = pd.Categorical.from_codes(codes, pd.Index(names, dtype="str"))
    for name, (kind, missing) in _NUMBERS.items():
        # A missing number is None in a row that says so; numpy makes NaN of it.
        columns[name] = np.array([row.get(name, missing) for row in rows], kind)
    scored = [row.get("metrics") or {} for row in rows]
    for name in dict.fromkeys(chain.from_iterable(scored)):
        columns[name] = np.array([scores.get(name) for scores in scored], float)
    return pd.DataFrame(columns, copy=False)


def _joined(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Parts one below the other, whatever categories and metrics each of them has."""
    texts = {name: union_categoricals([part.pop(name) for part in parts]) for name in (*SPECS, "identity", *_TEXTS)}
    return pd.concat(parts, ignore_index=True).assign(**texts)


def _counted(frame: pd.DataFrame, identities: Mapping[Cell, str]) -> pd.DataFrame:
    """The rows that count: the last of each trial, of a cell those of one identity, the given or that of its last row.

    Trials end in another order in every run, and sums depend on the order of their terms, so they are sorted.
    """
    by = [*CELL, "identity"]
    series = frame.groupby(by, observed=True, sort=False).ngroup().to_numpy()
    kinds = frame[by].drop_duplicates(keep="last")
    cells = [(Cell(*cell), identity) for *cell, identity in kinds.itertuples(index=False, name=None)]
    counts = {**dict(cells), **identities}
    current = np.zeros(len(kinds), bool)
    current[series[kinds.index]] = [counts[cell] == identity for cell, identity in cells]
    last = ~frame[["seed", "trial"]].assign(series=series).duplicated(keep="last")
    metrics = [name for name in frame if name not in (*_ORDER, "identity")]
    chosen = frame.loc[last & current[series], [*_ORDER, *metrics]].sort_values(["seed", "trial"], ignore_index=True)
    present = {name: chosen[name].cat.remove_unused_categories() for name in SPECS}
    return chosen.assign(**present)
