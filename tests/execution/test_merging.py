"""Joining runs, and saying how one stands."""

from __future__ import annotations

import json
import os
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from fieldbench.errors import RequestError
from fieldbench.execution import Options
from fieldbench.merging import CONFLICTS, merge
from fieldbench.records import CRASHED, FAILED, NOT_APPLICABLE, OK, Record
from fieldbench.session import Results, Session
from fieldbench.standing import standing
from fieldbench.store import RunStore, read_manifest, read_rows
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
    assert len(read_manifest(tmp_path / "both")["sessions"]) == 2
    assert standing(tmp_path / "both").planned == 10
    table = Results(tmp_path / "both").table()
    assert {cell["planned"] for cell in table.cells()} == {5}
    assert table.unfinished == ""


def test_a_run_that_was_extended_lacks_what_any_of_its_plans_asks_for(tmp_path: Path) -> None:
    stored(tmp_path / "run", trials=2)
    stored(tmp_path / "run", trials=2, first_trial=2, statuses={3: "missing"})
    assert (standing(tmp_path / "run").done, standing(tmp_path / "run").planned) == (3, 4)
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
    file.write_bytes(whole.replace(b'"diagnostics":{', b'"diagnostics":{"loss":[1,,2]', 1))
    with pytest.raises(RequestError, match=r"line 1 of .* is damaged"):
        merge([first, second], tmp_path / "both")
    file.write_bytes(whole)
    assert merge([first, second], tmp_path / "both").trials == 6


def test_runs_that_compare_something_else_are_refused(tmp_path: Path) -> None:
    first, other = stored(tmp_path / "first"), stored(tmp_path / "other", rates=[0.5])
    with pytest.raises(RequestError, match=r"do not compare the same: only .* has .*steady"):
        merge([first, other], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_runs_of_other_versions_are_refused(tmp_path: Path) -> None:
    first, other = stored(tmp_path / "first"), stored(tmp_path / "other")
    file = other / "trials.jsonl"
    identity = next(iter(plan())).identity
    file.write_text(file.read_text().replace(identity, "0" * 16))
    with pytest.raises(RequestError, match="different versions of plugins or data"):
        merge([first, other], tmp_path / "both")


def test_a_merged_run_never_overwrites_anything(tmp_path: Path) -> None:
    first, second = stored(tmp_path / "first"), stored(tmp_path / "second", seed=1)
    before = (first / "trials.jsonl").read_bytes()
    with pytest.raises(RequestError, match="needs a new folder"):
        merge([first, second], first)
    assert (first / "trials.jsonl").read_bytes() == before
    with pytest.raises(RequestError, match="two or more different runs"):
        merge([first, first], tmp_path / "both")
    with pytest.raises(RequestError, match="is no run"):
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


def test_standing_counts_done_failed_and_missing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    statuses = {0: OK, 1: CRASHED, 2: FAILED, 3: NOT_APPLICABLE, 4: "missing"}
    stored(out, trials=5, statuses=statuses)
    found = standing(out)
    assert (found.planned, found.done) == (5, 4)
    assert dict(found.methods["steady"]) == {"ok": 1, "failed": 2, "not applicable": 1, "missing": 1}
    assert list(found.failures) == [("steady", CRASHED, "it is crashed"), ("steady", FAILED, "it is failed")]
    assert found.writer is None
    assert found.sessions[0].startswith("started 20")
    assert "on run (2 x cpu); complete 20" in found.sessions[0]


def test_standing_names_who_is_writing_and_what_did_not_end(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "run", plan()) as store:
        store.begin({})
        found = standing(tmp_path / "run")
    assert found.writer == f"process {os.getpid()} on {os.uname().nodename}"
    assert found.sessions[0].endswith("not ended properly")
    assert (found.planned, found.done) == (4, 0)
