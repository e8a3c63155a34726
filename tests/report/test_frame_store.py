"""The frame of a large run is read from columns; the log alone says what is in it."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from fieldbench.records import Cell, Record, Trial, encode
from fieldbench.report.frame import read_frame
from fieldbench.report.frame_store import FEWEST
from fieldbench.store.files import COLUMNS, TRIALS

pytest.importorskip("pyarrow", reason="columns are kept by pyarrow, of the extra files")

CELL = Cell("tap[epochs=5]", "ssf", "random", "none", "final", 0.1)


def line(number: int, identity: str = "abc", **rest: object) -> bytes:
    outcome = {"status": "ok", "metrics": {"rmse": number / 7}, "seconds": 0.5, **rest}
    return encode(Record(Trial(CELL, 7, number, identity), **outcome).as_row())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """A run with a damaged line, read once, and its frame."""
    run = tmp_path_factory.mktemp("run")
    (run / "manifest.json").write_text('{"format": 2, "cells": []}')
    last = line(FEWEST, status="failed", error="no", metrics={}, peak_memory=7)
    lines = [*(line(number) for number in reversed(range(FEWEST))), b"{damaged}\n", last]
    (run / TRIALS).write_bytes(b"".join(lines))
    return run, read_frame(run)


@pytest.fixture
def run(first: tuple[Path, pd.DataFrame], tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(first[0], copy)
    return copy


def rubbish_in_its_place(log: Path) -> None:
    """The same size and time, other bytes: a reader of the log would find no row."""
    status = log.stat()
    log.write_bytes(b"x" * status.st_size)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_the_columns_are_what_the_log_gave(first: tuple[Path, pd.DataFrame], run: Path) -> None:
    rubbish_in_its_place(run / TRIALS)
    pd.testing.assert_frame_equal(read_frame(run), first[1], check_exact=True)


def test_damage_is_told_by_who_reads_the_columns(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_frame(run)
    assert f"line {FEWEST + 1} is damaged" in caplog.text


def test_a_row_more_is_seen(run: Path) -> None:
    with (run / TRIALS).open("ab") as log:
        log.write(line(FEWEST + 1))
    assert read_frame(run)["trial"].tolist() == list(range(FEWEST + 2))


def test_a_row_that_was_changed_is_seen(run: Path) -> None:
    log = run / TRIALS
    log.write_bytes(log.read_bytes().replace(b'"seconds":0.5', b'"seconds":0.7'))
    assert read_frame(run)["seconds"].tolist() == [0.7] * (FEWEST + 1)


def test_other_identities_are_seen(run: Path) -> None:
    planned = {**vars(CELL), "identity": "later", "trials": {}}
    (run / "manifest.json").write_text(json.dumps({"format": 2, "cells": [planned]}))
    assert len(read_frame(run)) == 0


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000], ids=["empty", "cut", "rubbish"])
def test_columns_that_cannot_be_read_are_made_anew(run: Path, content: bytes) -> None:
    (run / COLUMNS).write_bytes(content)
    assert len(read_frame(run)) == FEWEST + 1
    assert (run / COLUMNS).stat().st_size > len(content)
    rubbish_in_its_place(run / TRIALS)
    assert len(read_frame(run)) == FEWEST + 1


def test_a_small_run_has_none(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 2, "cells": []}')
    (tmp_path / TRIALS).write_bytes(line(0))
    read_frame(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", TRIALS]
