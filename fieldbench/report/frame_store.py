"""The frame of a large run, kept as Parquet beside its log, since reading columns takes a tenth of parsing lines.

Pyarrow, which the extra ``files`` brings, reads and writes it; without it every reader parses the log. The log alone
is the record of a run: what is kept here counts only while the log is the one that it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

import pandas as pd

from fieldbench.records import Cell, canonical
from fieldbench.store.files import COLUMNS, TRIALS, replacing

#: Records from which on a frame is kept; fewer are parsed within a second.
FEWEST = 100_000

#: Raised when the columns of a frame change.
_FORMAT = 1

_KEY = b"fieldbench"


def state_of(path: Path, identities: Mapping[Cell, str]) -> str:
    """A hash of the size and time of a run's log, and of the identities that count of the cells its manifest knows."""
    log = Path(path) / TRIALS
    status = os.stat(log) if log.exists() else None
    counted = sorted((*map(str, astuple(cell)), identity) for cell, identity in identities.items())
    seen = [_FORMAT, status and status.st_size, status and status.st_mtime_ns, counted]
    return hashlib.sha256(canonical(seen).encode()).hexdigest()


def kept_columns(path: Path, state: str) -> tuple[pd.DataFrame, list[int]] | None:
    """The frame of a run in one state, and the numbers of the damaged lines of its log; None where it is not kept."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    try:
        table = parquet.read_table(Path(path) / COLUMNS, memory_map=True)
        about = json.loads((table.schema.metadata or {}).get(_KEY, b"{}"))
        if about.get("state") != state:
            return None
        return table.to_pandas(split_blocks=True, self_destruct=True), about["damaged"]
    except (OSError, ValueError, KeyError, pyarrow.ArrowException):
        return None


def keep_columns(path: Path, state: str, frame: pd.DataFrame, damaged: list[int]) -> None:
    """Keep a frame if it is large and the folder can be written.

    Args:
        path: the run's folder.
        state: of the run when the frame was read.
        frame: as it is to be read again.
        damaged: numbers of the log's lines that are not rows.
    """
    if len(frame) < FEWEST:
        return
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    about = json.dumps({"state": state, "damaged": damaged}).encode()
    file = Path(path) / COLUMNS
    with contextlib.suppress(OSError), replacing(file, file.with_name(f"{COLUMNS}.{os.getpid()}")) as draft:
        parquet.write_table(table.replace_schema_metadata({**table.schema.metadata, _KEY: about}), draft)
