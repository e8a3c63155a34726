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
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "listing").write_text("what `fieldbench list` keeps")
    monkeypatch.setenv("FIELDBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FIELDBENCH_CACHE", str(tmp_path / "cache"))
    shown = fieldbench("info", "--device", "cpu", "--plugin", "broken.py")
    assert shown.code == 0
    assert f"numpy {numpy.__version__}" in shown.out
    assert "x cpu" in shown.out
    assert f"{TOYS}" in shown.out
    assert "broken (" in shown.out
    assert "nonsense_that_is_not_there" in shown.out
    assert str(tmp_path / "data" / "ssf" / "data.mat") in shown.out
    assert f"none in {tmp_path / 'cache'}" in shown.out  # the kept listing is no data
    assert "another project" not in shown.out


def test_info_says_that_another_project_is_installed_over_this_one(
    fieldbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "fieldbench-7.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fieldbench\nVersion: 7.5\n")
    monkeypatch.syspath_prepend(str(info.parent))
    shown = fieldbench("info", "--device", "cpu")
    assert shown.code == 0
    assert "another project, the distribution fieldbench 7.5, is installed into the same folder" in shown.out


@pytest.mark.parametrize(
    "command",
    [
        ("status", "kept"), ("table", "kept"), ("table", "kept", "--format", "csv"), ("compare", "kept"),
        ("plot", "kept", "--kind", "strips", "--out", "figures"), ("report", "kept"),
        ("freeze", "kept", "--out", "f.csv"),
        ("merge", "kept", "there", "--out", "both"),
        ("run", "--methods", "mean,walk", "--datasets", "wave", "--trials", "3", "--jobs", "1", "--out", "kept"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_every_command_names_a_damaged_line_alike(fieldbench: Command, run: Command, command: tuple[str, ...]) -> None:
    run("mean,walk", "--trials", "3")
    run("mean", "--trials", "1", "--first-trial", "7", "--out", "there")
    file = Path("kept/trials.jsonl")
    lines = file.read_bytes().splitlines(True)
    file.write_bytes(b"".join([lines[0], lines[1].replace(b'"ok"', b"null"), *lines[2:]]))
    shown = fieldbench(*command)
    said = (
        "fieldbench: kept/trials.jsonl: line 2 is damaged and counts for nothing; the same run computes its trial again"
    )
    assert shown.err.count(said) == 1
    assert "Traceback" not in shown.err
    if command[0] == "run":
        assert shown.code == 0
        assert len(file.read_bytes().splitlines()) == 7
        assert "6 of 6 trials are done" in fieldbench("status", "kept").out


def test_repair_makes_the_manifest_anew(fieldbench: Command, run: Command) -> None:
    run("mean,walk", "--trials", "2")
    Path("kept/manifest.json").write_text('{"format": 2, "cel')
    for command in (("status", "kept"), ("table", "kept"), ("repair", "nowhere")):
        shown = fieldbench(*command)
        assert (shown.code, shown.err.count("\n")) == (2, 1)
    repaired = fieldbench("repair", "kept")
    assert (repaired.code, repaired.out) == (0, "kept: the manifest is made anew from 4 trials in 2 cells\n")
    assert "4 of 4 trials are done" in fieldbench("status", "kept").out
    again = run("mean,walk", "--trials", "3")
    assert (again.code, "kept has 4 of these 6 trials; 2 are computed now" in again.err) == (0, True)
    assert "rmse (m/s)" in fieldbench("table", "kept").out


def test_reuse_takes_trials_of_another_run(fieldbench: Command, run: Command) -> None:
    run("mean", "--trials", "2")
    Path("kept").rename("before")
    shown = run("mean,walk", "--trials", "2", "--reuse", "before")
    assert "2 trials were taken from other runs" in shown.err
    wrong = run("mean", "--reuse", "nowhere")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_a_run_whose_folder_is_deleted_stops_and_says_so(fieldbench: Command, tmp_path: Path) -> None:
    plugin = tmp_path / "vandal.py"
    plugin.write_text(
        "import fieldbench, shutil, numpy as np\n"
        "class Vandal(fieldbench.Method):\n"
        '    """Deletes the folder of its run."""\n'
        '    name = "vandal"\n'
        "    def complete(self, observation, *, seed, device, report):\n"
        f"        shutil.rmtree({str(tmp_path / 'kept')!r}, ignore_errors=True)\n"
        "        return np.zeros(observation.shape)\n"
        "@fieldbench.hookimpl\n"
        "def fieldbench_register_methods():\n"
        "    return [Vandal]\n"
    )
    arguments = ("--methods", "vandal", "--datasets", "wave", "--trials", "50", "--jobs", "1", "--device", "cpu")
    shown = fieldbench("run", *arguments, "--out", "kept", "--plugin", str(plugin))
    assert shown.code == 1
    assert "kept/trials.jsonl was deleted or replaced while the run went on" in shown.err
    assert "Traceback" not in shown.err
