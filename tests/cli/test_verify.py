"""``fieldbench verify``: numbers that come out again, numbers that were changed, and plugins that were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldbench.records import encode

RUN = ["run", "--methods", "mean,walk", "--datasets", "wave", "--device", "cpu", "--jobs", "1", "--out", "kept"]


@pytest.fixture
def kept(fieldbench) -> Path:
    assert fieldbench(*RUN).code == 0
    return Path("kept")


def change(folder: Path, score: float) -> None:
    """Raise the first trial's error a little, as somebody might who edits a file."""
    first, *rest = (folder / "trials.jsonl").read_bytes().splitlines(keepends=True)
    row = json.loads(first)
    row["metrics"]["rmse"] += score
    (folder / "trials.jsonl").write_bytes(encode(row) + b"".join(rest))


def test_what_was_computed_here_agrees_and_stays_as_it_is(fieldbench, kept) -> None:
    before = {file: file.read_bytes() for file in kept.rglob("*") if file.is_file()}
    outcome = fieldbench("verify", "kept", "--share", "1", "--device", "cpu")
    assert outcome.code == 0
    assert "6 of 6 trials agree" in outcome.out
    assert {file: file.read_bytes() for file in kept.rglob("*") if file.is_file()} == before


def test_a_share_is_rounded_up(fieldbench, kept) -> None:
    assert "1 of 1 trials agree" in fieldbench("verify", "kept", "--share", "0.01", "--device", "cpu").out
    assert "3 of 3 trials agree" in fieldbench("verify", "kept", "--share", "0.5", "--device", "cpu").out


def test_a_number_that_was_changed_is_found(fieldbench, kept) -> None:
    change(kept, -1e-3)
    outcome = fieldbench("verify", "kept", "--share", "1", "--device", "cpu")
    assert outcome.code == 1
    assert "5 of 6 trials agree" in outcome.out
    assert "1 differ" in outcome.err
    assert "rmse is" in outcome.err
    assert fieldbench("verify", "kept", "--share", "1", "--tolerance", "0.1", "--device", "cpu").code == 0


def test_versions_are_written_as_pip_reads_them(fieldbench, kept) -> None:
    assert fieldbench("verify", "kept", "--environment", "requirements.txt").code == 0
    lines = Path("requirements.txt").read_text().splitlines()
    assert lines[0].startswith("# Python 3.")
    assert any(line.startswith("numpy==") for line in lines)
    assert not any("+" in line for line in lines)
