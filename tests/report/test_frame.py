"""Reading records into a frame: the same as reading them one by one, whatever state the file is in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fieldbench.records import Cell, Record, Trial, encode
from fieldbench.report.frame import read_frame
from fieldbench.report.stored import StoredRun, run_name


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 2, "cells": []}')


def record(number: int, **rest: Any) -> Record:
    trial = Trial(Cell("tap[epochs=5]", "ssf", "random", "none", "final", 0.1 + number / 100), 7, number, "abc")
    return Record(trial, **{"status": "ok", "metrics": {"rmse": number / 7}, "seconds": 0.5, **rest})


def write(folder: Path, *records: Record, end: bytes = b"") -> Path:
    (folder / "trials.jsonl").write_bytes(b"".join(encode(item.as_row()) for item in records) + end)
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


def test_what_looks_like_diagnostics_in_a_message_is_a_message(tmp_path: Path) -> None:
    message = 'it said {"a":1,"diagnostics":{}} and \\ died'
    curves = {"curve": {"step": [1, 2]}, "inner": {"diagnostics": {"x": 1}}}
    frame = read_frame(write(tmp_path, record(0, status="failed", error=message, diagnostics=curves)))
    assert frame["error"].tolist() == [message]


def test_rows_of_other_versions_are_read(tmp_path: Path) -> None:
    later = ("seconds", "peak_memory", "machine", "slots", "session", "timed", "diagnostics", "error")
    old = {name: value for name, value in record(3).as_row().items() if name not in later}
    new = {**record(4).as_row(), "mood": "fine"}
    (tmp_path / "trials.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(new)}\n")
    frame = read_frame(tmp_path).set_index("trial")
    assert sorted(frame.index) == [3, 4]
    assert frame.loc[3, "rmse"] == 3 / 7
    assert math.isnan(frame.loc[3, "seconds"])
    assert (frame.loc[3, "machine"], frame.loc[3, "slots"]) == ("", 0)


def test_scores_that_are_not_finite_are_read(tmp_path: Path) -> None:
    frame = read_frame(write(tmp_path, record(0, metrics={"rmse": math.inf}), record(1, metrics={"rmse": math.nan})))
    assert frame["rmse"].iloc[0] == math.inf
    assert math.isnan(frame["rmse"].iloc[1])


def test_no_row_is_lost_between_the_parts_in_which_a_long_file_is_read(tmp_path: Path) -> None:
    cell = Cell("tap", "ssf", "random", "none", "final", 0.1)
    numbers = range(40_003)
    write(tmp_path, *(Record(Trial(cell, 7, number, "abc"), "ok", metrics={"rmse": number / 7}) for number in numbers))
    frame = read_frame(tmp_path)
    assert frame["trial"].tolist() == list(numbers)
    assert frame["rmse"].tolist() == [number / 7 for number in numbers]


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


def test_a_run_whose_folder_has_a_name_that_is_no_text_is_called_something() -> None:
    assert run_name(Path("of/l\udce4ufe")) == "l\N{REPLACEMENT CHARACTER}ufe"
