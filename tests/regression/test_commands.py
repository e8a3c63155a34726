"""Freezing and checking as people do it, with real runs."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldbench import suite as suites
from fieldbench.cli.main import main, run_app
from fieldbench.errors import RequestError
from fieldbench.registry import Registry, Sources
from fieldbench.regression import matrix, reference
from fieldbench.regression.__main__ import app
from fieldbench.spec import parse

#: A method whose quality, revision and trouble are written into the file.
METHOD = '''
import numpy as np
import fieldbench


class Near(fieldbench.Method):
    """The observed mean, shifted."""

    name = "near"

    def complete(self, observation, *, seed, device, report):
        if {trouble}:
            raise ValueError("trouble")
        return np.full(observation.shape, observation.observed.mean() + {shift})


@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Near]
'''


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_method(shift: float = 0.0, trouble: str = "False") -> None:
    Path("near.py").write_text(METHOD.format(shift=shift, trouble=trouble))


def fieldbench(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def regression(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run_app(app, "regression", arguments)
    return int(ended.value.code or 0)


def run(out: str, *more: str) -> int:
    what = ["--methods", "near", "--datasets", "ssf-synthetic[shape=6x5x4]", "--rates", "0.3", "--trials", "6"]
    return fieldbench("run", "--plugin", "near.py", *what, "--jobs", "1", "--device", "cpu", "--out", out, *more)


def test_a_new_revision_meets_its_old_scores_trial_by_trial(capfd) -> None:
    write_method()
    assert run("old") == 0
    assert fieldbench("freeze", "old", "--exact", "near=1e-9", "--out", "ref.csv") == 0
    write_method(shift=1e-14)  # another file, another key, but no other score within the digits that count
    assert run("same") == 0
    assert fieldbench("check-results", "same", "--against", "ref.csv") == 0
    assert "Compared: 6 trials in pairs" in capfd.readouterr().out
    write_method(shift=3.0)
    assert run("worse") == 0
    assert fieldbench("check-results", "worse", "--against", "ref.csv") == 1
    assert re.search(r"rmse +near .* worse ", capfd.readouterr().out)
    assert fieldbench("check-results", "worse", "--against", "old") == 1  # a run will do as a reference


def test_failures_fail_the_check(capfd) -> None:
    write_method()
    run("old")
    fieldbench("freeze", "old", "--out", "ref.csv")
    write_method(trouble="observation.observed[0] < 0")
    assert run("new") == 1
    assert fieldbench("check-results", "new", "--against", "ref.csv") == 1
    assert "now failed" in capfd.readouterr().out


def test_freezing_is_repeatable_and_names_no_folder(tmp_path: Path, capfd) -> None:
    write_method()
    run(str(tmp_path / "one"))
    capfd.readouterr()
    fieldbench("freeze", "one")
    text = capfd.readouterr().out
    fieldbench("freeze", "one")
    assert capfd.readouterr().out == text
    assert str(tmp_path) not in text
    assert text.count("\nnear,") == 6


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["/opt/fieldbench/__main__.py", "run"], "python -m fieldbench run"),
        (["/opt/fieldbench/regression/__main__.py", "--freeze"], "python -m fieldbench.regression --freeze"),
        (["/usr/bin/fieldbench", "run", "--methods", "near,\n  nearest"], "fieldbench run --methods 'near, nearest'"),
    ],
)
def test_the_command_is_kept_as_it_can_be_given_again(command: list[str], shown: str) -> None:
    write_method()
    run("one", "--trials", "1")
    file = Path("one/manifest.json")
    manifest = json.loads(file.read_text())
    manifest["sessions"][0]["command"] = command
    file.write_text(json.dumps(manifest))
    assert fieldbench("freeze", "one", "--out", "ref.csv") == 0
    assert reference.read(Path("ref.csv")).origin["command"] == shown


def test_tolerances_are_for_methods_that_are_there(capfd) -> None:
    write_method()
    run("one", "--trials", "1")
    assert fieldbench("freeze", "one", "--exact", "near = 1e-9", "--out", "ref.csv") == 0
    assert set(reference.read(Path("ref.csv")).frame["rtol"]) == {1e-9}
    assert fieldbench("freeze", "one", "--exact", "naer=1e-9", "--out", "other.csv") == 2
    assert "--exact 'naer' is none of the methods; did you mean 'near'?" in capfd.readouterr().err
    assert not Path("other.csv").exists()


def test_a_disk_without_room_leaves_the_old_reference(capfd) -> None:
    write_method()
    run("one", "--trials", "2")
    assert fieldbench("freeze", "one", "--out", "ref.csv") == 0
    before = Path("ref.csv").read_bytes()
    capfd.readouterr()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        assert fieldbench("freeze", "one", "--out", "ref.csv") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capfd.readouterr().err == "fieldbench: ref.csv cannot be written: File too large\n"
    assert Path("ref.csv").read_bytes() == before
    assert [path.name for path in Path().glob("ref.csv*")] == ["ref.csv"]


def test_an_unfinished_part_makes_a_run_unfinished(capfd) -> None:
    write_method()
    run("parts", "--trials", "5")
    file = Path("parts/trials.jsonl")
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    run("parts", "--trials", "5", "--first-trial", "5")
    assert fieldbench("freeze", "parts") == 2
    assert "parts is unfinished: 8 of 10 trials are here" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["freeze", "nowhere"], "is not a run"),
        (["check-results", "nowhere", "--against", "ref.csv"], "there is no reference ref.csv"),
        (["freeze", "nowhere", "--exact", "near"], "is not understood; write METHOD=RTOL"),
        (["freeze", "nowhere", "--exact", "near=1"], "is not understood; write METHOD=RTOL"),
    ],
)
def test_wrong_requests_are_explained(arguments, complaint, capfd) -> None:
    assert fieldbench(*arguments) == 2
    assert complaint in capfd.readouterr().err


SUITE = """\
title = "Mine"
metric = "rmse"
trials = 3
[[columns]]
label = "a"
dataset = "ssf-synthetic[shape=6x5x4]"
rate = 0.3
[[rows]]
label = "Nearest"
method = "nearest"
"""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--against", "new.csv", "--freeze", "--exact", "naer=1e-9"],
            "'naer' is none of the methods; did you mean 'near",
        ),
        (["--against", "new.csv", "--freeze", "--exact", "idw=1e-9"], "'idw' is none of the methods; there are: near"),
        (["--against", "folder", "--freeze"], "folder is a folder; name a file for the reference"),
        (["--against", "folder"], "folder is not a run: it has no manifest.json"),
        (["--against", "ref.csv", "--exact", "naer=1e-9"], "'naer' is none of the methods; did you mean 'near'?"),
        (["--against", "ref.csv", "--exact", "near=1e-7"], "not what the reference was frozen with (no tolerance)"),
        (
            ["--against", "ref.csv", "--methods", "idw,linear"],
            "the reference has no trial of idw, linear; freeze first",
        ),
    ],
)
def test_what_cannot_be_frozen_or_checked_is_not_run(arguments: list[str], complaint: str, capfd) -> None:
    write_method()
    Path("folder").mkdir()
    Path("suite.toml").write_text(SUITE)
    if "ref.csv" in arguments:
        run("old", "--trials", "1")
        fieldbench("freeze", "old", "--out", "ref.csv")
    fixed = ["--plugin", "near.py", "--methods", "near", "--suite", "suite.toml", "--out", "new"]
    assert regression(*fixed, *arguments) == 2
    assert complaint in capfd.readouterr().err
    assert not Path("new").exists()


def test_a_plugins_author_freezes_once_and_checks_from_then_on() -> None:
    Path("suite.toml").write_text(SUITE)

    def regression(*more: str, out: str) -> subprocess.CompletedProcess[str]:
        fixed = ["--plugin", "near.py", "--methods", "near", "--suite", "suite.toml", "--against", "ref.csv"]
        command = [sys.executable, "-m", "fieldbench.regression", *fixed, "--out", out, "--jobs", "1", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=os.environ.copy())

    write_method()
    unfrozen = regression(out="first")
    assert unfrozen.returncode == 2
    assert "there is no reference" in unfrozen.stderr
    assert regression("--freeze", out="first").returncode == 0
    lines = [line for line in Path("ref.csv").read_text().splitlines() if line.startswith("near,")]
    assert len(lines) == 3
    same = regression(out="second")
    assert same.returncode == 0, same.stdout + same.stderr
    another_run = regression("--against", "first", "--exact", "near=1e-9", out="second")
    assert another_run.returncode == 0, another_run.stdout + another_run.stderr
    assert "Compared: 3 trials in pairs, 3 of them to the last digit" in another_run.stdout
    write_method(shift=5.0)
    worse = regression(out="third")
    assert worse.returncode == 1
    assert "worse" in worse.stdout


def test_a_check_computes_anew_even_if_the_revision_is_the_old_one(capfd) -> None:
    def regression_of(shift: float, *more: str) -> int:
        write_method(shift)
        named = Path("near.py").read_text().replace('name = "near"', 'name = "near"\n    revision = "1"')
        Path("near.py").write_text(named)
        return regression("--plugin", "near.py", "--suite", "suite.toml", "--against", "ref.csv", "--jobs", "1", *more)

    Path("suite.toml").write_text(SUITE)
    assert regression_of(0.0, "--methods", "near", "--freeze") == 0
    assert regression_of(5.0, "--methods", "near") == 1
    assert "worse" in capfd.readouterr().out


def built_in(kind: str) -> set[str]:
    entries = Registry(Sources()).entries(kind)
    return {name for name, entry in entries.items() if entry.source.label == "fieldbench-completion"}


def parts(texts: list[str]) -> set[str]:
    return {part.name for text in texts for part in parse(text)}


def test_the_matrix_misses_no_method_dataset_or_noise() -> None:
    suite = matrix.small()
    methods: list[Any] = [row.method for row in suite.rows]
    assert parts(methods) == built_in("method")
    # These have known answers of their own, or are files; all methods on them would take minutes more.
    elsewhere = {"alboran-sst", "era-winds", "fronts", "plume", "radiomap-walls", "seismic"}
    assert parts([column.dataset for column in suite.columns]) == built_in("dataset") - elsewhere
    assert parts([column.noise for column in suite.columns]) == built_in("noise")


AWAY = """
import fieldbench
from fieldbench.errors import DataUnavailable


class Away(fieldbench.Dataset):
    '''A field whose file is not here.'''

    name = "away"

    def prepare(self):
        raise DataUnavailable("it is at sea")

    def draw(self, rng):
        raise DataUnavailable("it is at sea")


@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Away]
"""


def test_a_dataset_that_is_not_at_hand_is_left_out_with_the_reason() -> None:
    Path("away.py").write_text(AWAY)
    own = SUITE.replace('label = "a"\ndataset = "ssf-synthetic[shape=6x5x4]"', 'label = "a"\ndataset = "away"', 1)
    Path("suite.toml").write_text(own + '[[columns]]\nlabel = "b"\ndataset = "ssf-synthetic"\nrate = 0.2\n')
    registry = Registry(Sources(files=("away.py",)))
    left, reasons = matrix.available(suites.load("suite.toml"), registry)
    assert reasons == ["away is left out: it is at sea"]
    assert [column.label for column in left.columns] == ["b"]
    Path("suite.toml").write_text(own)
    with pytest.raises(RequestError, match="no dataset of 'Mine' is at hand: it is at sea"):
        matrix.available(suites.load("suite.toml"), registry)


def test_a_suite_says_which_of_its_methods_are_exact(capfd) -> None:
    write_method()
    Path("suite.toml").write_text(SUITE + '[[rows]]\nlabel = "Near"\nmethod = "near"\n[exact]\nnear = 1e-9\n')
    fixed = ["--plugin", "near.py", "--suite", "suite.toml", "--against", "ref.csv", "--jobs", "1"]
    assert regression(*fixed, "--freeze") == 0
    frozen = reference.read(Path("ref.csv")).frame
    assert frozen[frozen["method"] == "near"]["rtol"].tolist() == [1e-9] * 3
    assert frozen[frozen["method"] == "nearest"]["rtol"].isna().all()
    write_method(shift=1e-7)
    capfd.readouterr()
    assert regression(*fixed) == 1
    assert "certain (digits agree to 1e-09)" in capfd.readouterr().out


def test_the_tables_of_the_paper_hold_deterministic_methods_to_their_digits() -> None:
    for name in suites.built_in():
        suite = suites.load(name)
        for row in suite.rows if name.startswith("table") else ():
            if row.method in ("nearest", "idw", "linear", "harmonic", "thin-plate", "tucker-als"):
                assert row.method in suite.exact, (name, row.method)
