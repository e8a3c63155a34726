"""``status``, ``merge`` and ``info``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest

from fieldbench.store.run import read_rows
from tests.cli.conftest import TOYS, Command


def test_status_says_what_is_done_and_what_failed(fieldbench: Command, run: Command) -> None:
    run("mean,flaky", "--trials", "3")
    failed = sum(row["status"] == "failed" for row in read_rows("kept"))
    shown = fieldbench("status", "kept")
    assert shown.code == 0
    assert "kept: 6 of 6 trials are done" in shown.out
    (line,) = [line for line in shown.out.splitlines() if line.startswith("flaky")]
    assert line.split() == ["flaky", str(3 - failed), str(failed)]
    assert "trial " not in shown.out
    assert fieldbench("status", "kept", "--failures").out.count("of seed 0: wave") == failed > 0


def test_status_says_what_is_missing(fieldbench: Command, run: Command) -> None:
    run("mean", "--trials", "3")
    file = Path("kept/trials.jsonl")
    file.write_bytes(b"".join(file.read_bytes().splitlines(True)[:2]))
    shown = fieldbench("status", "kept")
    assert "2 of 3 trials are done" in shown.out
    assert [line.split() for line in shown.out.splitlines() if line.startswith("mean")] == [["mean", "2", "1"]]


@pytest.mark.parametrize("command", ["status", "merge"])
def test_a_folder_that_is_no_run_is_one_line(fieldbench: Command, command: str) -> None:
    rest = ("there", "--out", "both") if command == "merge" else ()
    shown = fieldbench(command, "nowhere", *rest)
    assert (shown.code, shown.err.count("\n")) == (2, 1)
    assert "nowhere is no run" in shown.err


def test_merge_joins_runs_of_other_machines(fieldbench: Command) -> None:
    for folder, first in (("here", "0"), ("there", "2")):
        arguments = ("--methods", "mean", "--datasets", "wave", "--trials", "2", "--device", "cpu", "--jobs", "1")
        fieldbench("run", *arguments, "--first-trial", first, "--out", folder)
    merged = fieldbench("merge", "here", "there", "--out", "both")
    assert (merged.code, merged.err) == (0, "")
    assert "4 trials from 2 runs are in both" in merged.out
    assert sorted(row["trial"] for row in read_rows("both")) == [0, 1, 2, 3]


def test_merge_reports_contradictions(fieldbench: Command, run: Command) -> None:
    run("mean", "--trials", "2")
    Path("kept").rename("here")
    run("mean", "--trials", "2")
    file = Path("kept/trials.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    first = rows[0]["metrics"]["rmse"]
    rows[0]["metrics"]["rmse"] = 2.5
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    merged = fieldbench("merge", "here", "kept", "--out", "both")
    assert merged.code == 1
    assert f"rmse {first} was taken, 2.5 is in kept" in merged.err
    assert "both/conflicts.jsonl" in merged.err


def test_info_prints_what_a_bug_report_needs(
    fieldbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "ssf").mkdir(parents=True)
    (tmp_path / "data" / "ssf" / "data.mat").write_bytes(b"x")
    (tmp_path / "broken.py").write_text("import nonsense_that_is_not_there\n")
    monkeypatch.setenv("FIELDBENCH_DATA", str(tmp_path / "data"))
    shown = fieldbench("info", "--device", "cpu", "--plugin", "broken.py")
    assert shown.code == 0
    assert f"numpy {numpy.__version__}" in shown.out
    assert "x cpu" in shown.out
    assert f"{TOYS}" in shown.out
    assert "broken (" in shown.out
    assert "nonsense_that_is_not_there" in shown.out
    assert str(tmp_path / "data" / "ssf" / "data.mat") in shown.out
