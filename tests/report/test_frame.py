"""Reading records into a frame: the same as reading them one by one, whatever state the file is in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fieldbench.records import Cell, Record, Trial
from fieldbench.report import frame as module
from fieldbench.report.frame import read_frame
from fieldbench.report.stored import StoredRun
from fieldbench.store import encode_row, read_rows


def record(number: int, **rest: Any) -> Record:
    trial = Trial(Cell("tap[epochs=5]", "ssf", "random", "none", "final", 0.1 + number / 100), 7, number, "abc")
    return Record(trial, **{"status": "ok", "metrics": {"rmse": number / 7}, "seconds": 0.5, **rest})


def write(folder: Path, *records: Record, end: bytes = b"") -> Path:
    (folder / "trials.jsonl").write_bytes(b"".join(encode_row(item.as_row()) for item in records) + end)
    return folder


def test_columns_are_the_rows(tmp_path: Path) -> None:
    written = [record(0), record(1, metrics={"rmse": 1.5, "mae": 2.0}, device="cuda:0"), record(2, peak_memory=10)]
    frame = read_frame(write(tmp_path, *written))
    expected = pd.DataFrame([item.as_row() for item in written])
    for name in ("key", "method", "dataset", "select", "rate", "trial", "seed", "status", "seconds", "device", "error"):
        assert frame[name].tolist() == expected[name].tolist()
    assert frame["rmse"].tolist() == [0.0, 1.5, 2 / 7]
    assert frame["mae"].isna().tolist() == [True, False, True]
    assert frame["peak_memory"].isna().tolist() == [True, True, False]


def test_a_trial_that_was_run_again_counts_once_as_it_ended_last(tmp_path: Path) -> None:
    again = [record(0, status="failed", error="no", metrics={}), record(1), record(0)]
    frame = read_frame(write(tmp_path, *again))
    assert frame["status"].tolist() == ["ok", "ok"]
    assert sorted(frame["trial"]) == [0, 1]


@pytest.mark.parametrize("cut", [1, 2, 8, 40, 200])
def test_a_torn_last_line_does_not_count_here_nor_there(tmp_path: Path, cut: int) -> None:
    """Wherever it ends: within its diagnostics, which are not read, or before."""
    torn = encode_row(record(2, diagnostics={"curve": {"step": [1, 2]}}).as_row())[:-cut]
    (tmp_path / "manifest.json").touch()
    assert read_frame(write(tmp_path, record(0), record(1), end=torn))["trial"].tolist() == [0, 1]
    assert [row["trial"] for row in read_rows(tmp_path)] == [0, 1]


def test_a_line_of_rubbish_in_the_middle_costs_itself_alone(tmp_path: Path) -> None:
    lines = [encode_row(record(0).as_row()), b'{"key": nonsense\n', encode_row(record(1).as_row())]
    (tmp_path / "trials.jsonl").write_bytes(b"".join(lines))
    assert read_frame(tmp_path)["trial"].tolist() == [0, 1]


def test_what_looks_like_diagnostics_in_a_message_is_a_message(tmp_path: Path) -> None:
    message = 'it said {"a":1,"diagnostics":{}} and \\ died'
    curves = {"curve": {"step": [1, 2]}, "inner": {"diagnostics": {"x": 1}}}
    frame = read_frame(write(tmp_path, record(0, status="failed", error=message, diagnostics=curves)))
    assert frame["error"].tolist() == [message]


def test_rows_of_other_versions_are_read(tmp_path: Path) -> None:
    old = {"key": "k", "method": "tap", "status": "ok", "rate": 0.1, "trial": 3, "metrics": {"rmse": 1.0}}
    new = {**record(4).as_row(), "mood": "fine"}
    (tmp_path / "trials.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(new)}\n")
    frame = read_frame(tmp_path)
    assert sorted(frame["trial"]) == [3, 4]
    assert frame.set_index("trial").loc[3, "rmse"] == 1.0
    assert math.isnan(frame.set_index("trial").loc[3, "seconds"])


def test_scores_that_are_not_finite_are_read(tmp_path: Path) -> None:
    frame = read_frame(write(tmp_path, record(0, metrics={"rmse": math.inf}), record(1, metrics={"rmse": math.nan})))
    assert frame["rmse"].iloc[0] == math.inf
    assert math.isnan(frame["rmse"].iloc[1])


def test_blocks_may_end_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, *(record(number) for number in range(20)))
    whole = read_frame(folder)
    for size in (1, 7, 100, 1000):
        monkeypatch.setattr(module, "_BLOCK", size)
        pd.testing.assert_frame_equal(read_frame(folder), whole)


def test_nothing_is_an_empty_frame_with_all_columns(tmp_path: Path) -> None:
    frame = read_frame(tmp_path)
    assert len(frame) == 0
    assert {"method", "rate", "status", "seconds"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("tap", ["tap", "tap[x=1]", "tap[x=1,y=2]"]),
        ("tap[x=1]", ["tap[x=1]", "tap[x=1,y=2]"]),
        ("tap[y=2.0]", ["tap[x=1,y=2]"]),
        ("tap+tv", ["tap+tv", "tap[x=1]+tv[weight=2]"]),
        ("tap[x=1]+tv", ["tap[x=1]+tv[weight=2]"]),
    ],
)
def test_a_level_stands_for_specs_of_the_same_parts(tmp_path: Path, asked: str, found: list[str]) -> None:
    specs = ["tap", "tap[x=1]", "tap[x=1,y=2]", "tap+tv", "tap[x=1]+tv[weight=2]", "tnn"]
    trials = [Trial(Cell(text, "ssf", "random", "none", "final", 0.1), 7, 0, "abc") for text in specs]
    write(tmp_path, *(Record(trial, "ok", metrics={"rmse": 1.0}) for trial in trials))
    (tmp_path / "manifest.json").write_text('{"format": 1, "plans": []}')
    assert StoredRun(tmp_path, only={"method": [asked]}).frame["method"].tolist() == found
