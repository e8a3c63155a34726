"""Joining runs, and saying how one stands."""

from __future__ import annotations

import json
import os
import resource
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from fieldbench.errors import RequestError
from fieldbench.execution import Options
from fieldbench.records import CRASHED, FAILED, NOT_APPLICABLE, OK, Record, encode, trial_of
from fieldbench.results import Results
from fieldbench.session import Session
from fieldbench.store.files import CONFLICTS, StorageError
from fieldbench.store.manifest import read_manifest
from fieldbench.store.merge import merge
from fieldbench.store.run import RunStore, read_rows
from fieldbench.store.status import run_status
from tests.execution.conftest import SOURCES, plan, request, results, run


def stored(out: Path, *, statuses: dict[int, str] | None = None, shift: float = 0.0, **asked: Any) -> Path:
    """A run with made-up scores: the trial's number plus a shift."""
    made = plan(**{"trials": 3, **asked})
    with RunStore.open(out, made) as store:
        store.begin({"host": out.name, "slots": {"cpu": 2}})
        for trial in made:
            status = (statuses or {}).get(trial.number, OK)
            if status != "missing":
                error = "" if status == OK else f"it is {status}"
                store.append(Record(trial, status, error, {"rmse": trial.number + shift} if status == OK else {}))
        store.end("complete")
    return out


def test_trials_of_two_machines_join_to_the_run_of_one(tmp_path: Path) -> None:
    run(tmp_path / "one", ["steady", "troubled"], 5)
    for folder, first, trials in (("here", 0, 2), ("there", 2, 3)):
        asked = request(["steady", "troubled"], trials, first_trial=first)
        options = Options(device="cpu", jobs=1)
        Session(asked, sources=SOURCES, options=options, out=tmp_path / folder).run()
    merged = merge([tmp_path / "here", tmp_path / "there"], tmp_path / "both")
    assert (merged.trials, merged.alike, merged.conflicts) == (10, 0, ())
    assert results(tmp_path / "both") == results(tmp_path / "one")
    assert len(read_manifest(tmp_path / "both").sessions) == 2
    assert run_status(tmp_path / "both").planned == 10
    table = Results(tmp_path / "both").table()
    assert {cell["planned"] for cell in table.cells()} == {5}
    assert table.unfinished == ""


def test_a_run_that_was_extended_lacks_what_any_of_its_plans_asks_for(tmp_path: Path) -> None:
    stored(tmp_path / "run", trials=2)
    stored(tmp_path / "run", trials=2, first_trial=2, statuses={3: "missing"})
    assert (run_status(tmp_path / "run").done, run_status(tmp_path / "run").planned) == (3, 4)
    table = Results(tmp_path / "run").table()
    assert table.unfinished == "unfinished: 3 of 4 trials are here"
    assert [(cell["count"], cell["planned"]) for cell in table.cells()] == [(3, 4)]


def test_a_joined_run_that_lacks_trials_says_so(tmp_path: Path) -> None:
    first = stored(tmp_path / "first", trials=2)
    second = stored(tmp_path / "second", trials=2, first_trial=2, statuses={3: "missing"})
    merge([first, second], tmp_path / "both")
    assert "3 of 4 trials" in Results(tmp_path / "both").table().unfinished


def test_other_seeds_join(tmp_path: Path) -> None:
    asked = {0: 3, 1: 5}
    folders = [stored(tmp_path / str(seed), seed=seed, trials=trials) for seed, trials in asked.items()]
    assert merge(folders, tmp_path / "both").trials == 8
    rows = list(read_rows(tmp_path / "both"))
    assert sorted((row["seed"], row["trial"]) for row in rows) == [(s, t) for s in asked for t in range(asked[s])]
    for rows_by in ("method", "seed"):
        table = Results(tmp_path / "both").table(rows=rows_by)
        assert {cell["seed"]: (cell["count"], cell["planned"]) for cell in table.cells()} == {0: (3, 3), 1: (5, 5)}
    for seed, trials in asked.items():  # either can be gone on with there
        with RunStore.open(tmp_path / "both", plan(trials=trials, seed=seed)) as store:
            assert len(store.finished()) == 8


def test_equal_rows_are_joined_and_different_ones_reported(tmp_path: Path) -> None:
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", shift=0.25, statuses={0: "missing"})
    third = stored(tmp_path / "third")
    merged = merge([first, second, third], tmp_path / "all")
    assert (merged.trials, merged.alike) == (3, 3)
    assert [(item.row["trial"], item.metric, item.folder) for item in merged.conflicts] == [
        (1, "rmse", second),
        (2, "rmse", second),
    ]
    assert merged.conflicts[0].difference == pytest.approx(0.25 / 1.25)
    assert [row["metrics"]["rmse"] for row in read_rows(tmp_path / "all")] == [0, 1, 2]
    kept = [json.loads(line) for line in (tmp_path / "all" / CONFLICTS).read_text().splitlines()]
    assert [(row["metrics"]["rmse"], row["folder"]) for row in kept] == [(1.25, str(second)), (2.25, str(second))]


@pytest.mark.parametrize("shift", [0.25, -0.25])
def test_a_higher_and_a_lower_score_contradict(tmp_path: Path, shift: float) -> None:
    folders = [stored(tmp_path / "first"), stored(tmp_path / "second", shift=shift)]
    assert [conflict.metric for conflict in merge(folders, tmp_path / "both").conflicts] == ["rmse"] * 3


def test_a_good_result_is_taken_before_a_failure(tmp_path: Path) -> None:
    first = stored(tmp_path / "first", statuses={0: CRASHED, 1: OK, 2: FAILED})
    second = stored(tmp_path / "second", statuses={0: OK, 1: FAILED, 2: FAILED})
    merged = merge([first, second], tmp_path / "both")
    assert (merged.conflicts, merged.alike) == ((), 1)  # only of the third is there nothing to choose
    assert {row["trial"]: row["status"] for row in read_rows(tmp_path / "both")} == {0: OK, 1: OK, 2: FAILED}


def test_scores_that_are_no_numbers_are_alike_among_themselves(tmp_path: Path) -> None:
    first, second, third = (
        stored(tmp_path / name, shift=shift) for name, shift in (("first", nan), ("second", nan), ("third", 0.0))
    )
    merged = merge([first, second], tmp_path / "both")
    assert (merged.alike, merged.conflicts) == (3, ())
    assert [item.difference for item in merge([first, third], tmp_path / "other").conflicts] == [inf] * 3


def test_a_merge_that_cannot_read_its_runs_leaves_nothing_behind(tmp_path: Path) -> None:
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", seed=1)
    file = second / "trials.jsonl"
    whole = file.read_bytes()
    file.unlink()
    file.mkdir()
    with pytest.raises(RequestError, match=r"trials\.jsonl is not a file"):
        merge([first, second], tmp_path / "both")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]
    file.rmdir()
    file.write_bytes(whole)
    assert merge([first, second], tmp_path / "both").trials == 6


@pytest.mark.parametrize(
    ("change", "trials"),
    [
        ({"rates": [0.5]}, 6), ({"rates": [0.3, 0.5]}, 6), ({"methods": ["troubled"]}, 6),
        ({"noises": ["gaussian"]}, 6), ({"samplers": ["fibers"]}, 6), ({"trials": 5}, 5),
    ],
    ids=str,
)  # fmt: skip
def test_runs_of_other_methods_or_rates_are_joined(tmp_path: Path, change: dict[str, Any], trials: int) -> None:
    first, other = stored(tmp_path / "first"), stored(tmp_path / "other", **change)
    assert merge([first, other], tmp_path / "both").trials == trials
    status = run_status(tmp_path / "both")
    assert (status.planned, status.done) == (trials, trials)
    assert len(Results(tmp_path / "both").frame()) == trials


def with_identity(out: Path, identity: str) -> Path:
    """A run whose plugins were of another version."""
    rows = [{**row, "identity": identity} for row in read_rows(out)]
    (out / "trials.jsonl").write_bytes(b"".join(encode({**row, "key": trial_of(row).key}) for row in rows))
    manifest = read_manifest(out)
    for cell in manifest.cells:
        cell.identity = identity
    manifest.write(out)
    return out


def test_versions_that_contradict_each_other_are_refused_by_name(tmp_path: Path) -> None:
    first, other = stored(tmp_path / "first"), with_identity(stored(tmp_path / "other", trials=5), "0" * 16)
    with pytest.raises(
        RequestError, match=r"first and .*other contradict each other: steady on wave, random 30 % was made with diff"
    ):
        merge([first, other], tmp_path / "both")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "other"]


def test_superseded_rows_are_left_behind(tmp_path: Path) -> None:
    """An earlier version of a method is in both files, but counts in neither."""
    folders = [with_identity(stored(tmp_path / name, seed=seed), "0" * 16) for seed, name in enumerate("ab")]
    for seed, folder in enumerate(folders):
        stored(folder, seed=seed, shift=0.5)
    assert merge(folders, tmp_path / "both").trials == 6
    assert {row["metrics"]["rmse"] for row in read_rows(tmp_path / "both")} == {0.5, 1.5, 2.5}


def test_a_row_can_name_no_file_of_this_machine(tmp_path: Path) -> None:
    """A key that is a path would have been copied from there."""
    secret = tmp_path / "secret.npz"
    secret.write_text("secret")
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", seed=1)
    (second / "fields").mkdir()
    file = second / "trials.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[0]["key"] = str(secret.with_suffix(""))
    rows[1]["key"] = "../../secret"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert merge([first, second], tmp_path / "both").trials == 4
    assert not (tmp_path / "both" / "fields").exists()


@pytest.mark.parametrize("what", ["file", "folder", "trials.jsonl", "manifest.json", "pipe"])
def test_no_link_of_another_run_is_followed(tmp_path: Path, what: str) -> None:
    secret = tmp_path / "secret"
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", seed=1)
    key = next(iter(read_rows(second)))["key"]
    if what == "folder":
        secret.mkdir()
        (secret / f"{key}.npz").write_text("secret")
        (second / "fields").symlink_to(secret)
    elif what in ("file", "pipe"):
        (second / "fields").mkdir()
        if what == "file":
            secret.write_text("secret")
            (second / "fields" / f"{key}.npz").symlink_to(secret)
        else:
            os.mkfifo(second / "fields" / f"{key}.npz")
    else:
        (second / what).rename(secret)
        (second / what).symlink_to(secret)
    if what in ("file", "pipe"):
        assert merge([first, second], tmp_path / "both").trials == 6
        assert not list((tmp_path / "both").glob("fields/*"))
    else:
        with pytest.raises(RequestError, match="is a link"):
            merge([first, second], tmp_path / "both")
        assert not (tmp_path / "both").exists()


def test_a_merge_that_finds_no_room_leaves_no_folder(tmp_path: Path) -> None:
    folders = [stored(tmp_path / str(seed), seed=seed, trials=20) for seed in (0, 1)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(StorageError, match="cannot be written"):
            merge(folders, tmp_path / "both")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


def test_a_merged_run_never_overwrites_anything(tmp_path: Path) -> None:
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", seed=1)
    before = (first / "trials.jsonl").read_bytes()
    with pytest.raises(RequestError, match="needs a new folder"):
        merge([first, second], first)
    assert (first / "trials.jsonl").read_bytes() == before
    with pytest.raises(RequestError, match="two or more different runs"):
        merge([first, first], tmp_path / "both")
    with pytest.raises(RequestError, match="is not a run"):
        merge([first, tmp_path / "nowhere"], tmp_path / "both")


def test_kept_fields_are_those_of_the_rows_that_are_taken(tmp_path: Path) -> None:
    first = stored(tmp_path / "first", statuses={1: FAILED, 2: "missing"})
    second = stored(tmp_path / "second", shift=0.25)  # of trial 0 another result, which is not taken
    third = stored(tmp_path / "third", seed=1)
    for folder, trials in ((first, "12"), (second, "012"), (third, "0")):
        (folder / "fields").mkdir()
        for row in read_rows(folder):
            if str(row["trial"]) in trials:
                (folder / "fields" / f"{row['key']}.npz").write_text(folder.name)
    merge([first, second, third], tmp_path / "both")
    kept = {path.stem: path.read_text() for path in (tmp_path / "both" / "fields").iterdir()}
    found = {(row["seed"], row["trial"]): kept.pop(row["key"], "none") for row in read_rows(tmp_path / "both")}
    expected = {(0, 0): "none", (0, 1): "second", (0, 2): "second", (1, 0): "third", (1, 1): "none", (1, 2): "none"}
    assert (found, kept) == (expected, {})


def test_status_counts_done_failed_and_missing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    statuses = {0: OK, 1: CRASHED, 2: FAILED, 3: NOT_APPLICABLE, 4: "missing"}
    stored(out, trials=5, statuses=statuses)
    found = run_status(out)
    assert (found.planned, found.done) == (5, 4)
    assert dict(found.methods["steady"]) == {"ok": 1, "failed": 2, "not applicable": 1, "missing": 1}
    assert list(found.failures) == [("steady", CRASHED, "it is crashed"), ("steady", FAILED, "it is failed")]
    assert found.writer is None
    assert found.sessions[0].startswith("started 20")
    assert "on run (2 x cpu); complete 20" in found.sessions[0]


def test_status_names_who_is_writing_and_what_did_not_end(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", plan()) as store:
        store.begin({})
        found = run_status(tmp_path / "run")
    assert found.writer == f"process {os.getpid()} on {os.uname().nodename}"
    assert found.sessions[0].endswith("not ended properly")
    assert (found.planned, found.done) == (4, 0)
