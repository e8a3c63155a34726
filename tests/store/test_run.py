"""The run directory: what is kept, who may write it, and what a torn or full disk does to it."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import json
import os
import resource
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fieldbench.errors import RequestError
from fieldbench.plan import Plan, Request
from fieldbench.records import FAILED, OK, Record
from fieldbench.registry import Registry
from fieldbench.store.files import StorageError, write_whole
from fieldbench.store.lock import writer
from fieldbench.store.manifest import read_manifest
from fieldbench.store.run import RunStore, read_rows
from fieldbench.store.status import run_status

PLUGIN = '''
import numpy as np, fieldbench
from fieldbench.field import Field, grid_axes
class Flat(fieldbench.Dataset):
    """Zero everywhere."""
    name = "flat"
    level: float = fieldbench.parameter(0.0, "the level")
    def draw(self, rng):
        return Field(np.full((4, 4), self.level), grid_axes((4, 4)))
class Still(fieldbench.Method):
    """Never run here."""
    name = "still"
    def complete(self, observation, *, seed, device, report):
        raise NotImplementedError
@fieldbench.hookimpl
def fieldbench_register_datasets():
    return [Flat]
@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Still]
'''


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    from fieldbench.registry import Sources

    file = tmp_path_factory.mktemp("plugin") / "flat.py"
    file.write_text(PLUGIN)
    return Registry(Sources(files=(str(file),)))


@pytest.fixture
def make_plan(registry: Registry) -> Any:
    def make(**changes: Any) -> Plan:
        return Plan(Request(**{"methods": "still", "datasets": "flat", "trials": 3, **changes}), registry)

    return make


@pytest.fixture
def plan(make_plan: Any) -> Plan:
    return make_plan()


def record(trial: Any, status: str = OK, **rest: Any) -> Record:
    return Record(trial, status, **{"metrics": {"rmse": 0.5 + trial.number} if status == OK else {}, **rest})


def test_rows_come_back_as_written(tmp_path: Path, plan: Plan) -> None:
    first, second, _ = plan
    infinite = {"nmse": float("inf")}
    written = [
        record(first, diagnostics={"curve": {"step": [1, 2]}}),
        record(second, FAILED, error='a ,"diagnostics":{ }\n', metrics=infinite),
    ]
    with RunStore.open(tmp_path / "run", plan) as store:
        for item in written:
            store.append(item)
    rows = [item.as_row() for item in written]
    assert list(read_rows(tmp_path / "run")) == rows
    brief = list(read_rows(tmp_path / "run", diagnostics=False))
    assert brief == [{name: value for name, value in row.items() if name != "diagnostics"} for row in rows]


def test_rows_of_another_identity_are_superseded(tmp_path: Path, plan: Plan) -> None:
    first, second, _ = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(dataclasses.replace(first, identity="earlier")))
        store.append(record(second))
    assert [row["trial"] for row in read_rows(tmp_path / "run")] == [second.number]
    status = run_status(tmp_path / "run")
    assert (status.planned, status.done) == (3, 1)
    assert status.methods["still"] == {"ok": 1, "superseded": 1, "missing": 2}


def test_finished_trials_are_known_when_a_run_is_opened_again(tmp_path: Path, plan: Plan) -> None:
    first, second, _ = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(first))
        store.append(record(second, FAILED))
    with RunStore.open(tmp_path / "run", plan) as store:
        assert store.finished() == {first.key, second.key}
        assert store.finished(retry_failed=True) == {first.key}


def test_the_last_row_of_a_trial_counts(tmp_path: Path, plan: Plan) -> None:
    first, second, _ = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(first, FAILED))
        store.append(record(second))
        store.append(record(first))
    rows = list(read_rows(tmp_path / "run"))
    assert [(row["key"], row["status"]) for row in rows] == [(second.key, OK), (first.key, OK)]
    with RunStore.open(tmp_path / "run", plan) as store:
        assert store.finished(retry_failed=True) == {first.key, second.key}


@pytest.mark.parametrize("repeated", [False, True])
def test_a_run_that_goes_on_while_it_is_read_is_read_as_it_was(tmp_path: Path, plan: Plan, repeated: bool) -> None:
    """A trial ends again and another for the first time between the first row and the second."""
    first, second, third = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        if repeated:
            store.append(record(second, FAILED))
        store.append(record(first))
        store.append(record(second, FAILED))
        rows = read_rows(tmp_path / "run")
        read = [next(rows)]
        store.append(record(second))
        store.append(record(third))
        read += rows
    assert [(row["key"], row["status"]) for row in read] == [(first.key, OK), (second.key, FAILED)]


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_does_not_count_and_the_next_starts_afresh(tmp_path: Path, plan: Plan, cut: int) -> None:
    first, second, third = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(first))
        store.append(record(second))
    file = tmp_path / "run" / "trials.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    assert [row["key"] for row in read_rows(tmp_path / "run")] == [first.key]
    with RunStore.open(tmp_path / "run", plan) as store:
        assert store.finished() == {first.key}
        store.append(record(third))
        store.append(record(second))
    assert [row["key"] for row in read_rows(tmp_path / "run")] == [first.key, third.key, second.key]


def test_lines_of_another_order_of_keys_are_read(tmp_path: Path, plan: Plan) -> None:
    (first, *_) = plan
    with RunStore.open(tmp_path / "run", plan):
        pass
    row = record(first).as_row()
    (tmp_path / "run" / "trials.jsonl").write_text(json.dumps(dict(reversed(row.items()))) + "\n")
    assert [found["key"] for found in read_rows(tmp_path / "run")] == [first.key]
    with RunStore.open(tmp_path / "run", plan) as store:
        assert store.finished() == {first.key}


def test_fresh_starts_over_and_leaves_other_files_alone(tmp_path: Path, plan: Plan, make_plan: Any) -> None:
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(next(iter(plan))))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with RunStore.open(tmp_path / "run", make_plan(seed=1), fresh=True) as store:
        assert store.finished() == set()
    (cell,) = read_manifest(tmp_path / "run").cells
    assert cell.trials == {1: [(0, 3)]}
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, plan: Plan, fresh: bool) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RequestError, match="holds files but no run"):
        RunStore.open(tmp_path, plan, fresh=fresh)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="is a file"):
        RunStore.open(tmp_path / "file", plan)


def test_a_folder_that_is_being_written_is_locked(tmp_path: Path, plan: Plan) -> None:
    with RunStore.open(tmp_path / "run", plan) as store:
        store.begin({})
        assert writer(tmp_path / "run") == f"process {os.getpid()} on {os.uname().nodename}"
        with pytest.raises(RequestError, match=rf"being written by process {os.getpid()} on "):
            RunStore.open(tmp_path / "run", plan)
        with pytest.raises(RequestError, match="being written by"):
            RunStore.open(tmp_path / "run", plan, fresh=True)
    assert writer(tmp_path / "run") is None
    RunStore.open(tmp_path / "run", plan).close()


def test_who_looks_for_the_writer_keeps_no_run_from_starting(tmp_path: Path, plan: Plan) -> None:
    RunStore.open(tmp_path / "run", plan).close()
    with (tmp_path / "run" / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)  # as long as a look may take where processes have to wait their turn
        end = threading.Timer(0.2, fcntl.flock, (looking, fcntl.LOCK_UN))
        end.start()
        RunStore.open(tmp_path / "run", plan).close()
        end.join()


@pytest.mark.parametrize("step", ["unlink", "rmtree"])
def test_a_run_killed_while_it_starts_over_can_be_started_again(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(next(iter(plan))))
    (tmp_path / "run" / "fields").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "unlink" else shutil, step, killed)
        with pytest.raises(KeyboardInterrupt):
            RunStore.open(tmp_path / "run", plan, fresh=True)
    with RunStore.open(tmp_path / "run", plan, fresh=True) as store:
        assert store.finished() == set()
    assert not (tmp_path / "run" / "fields").exists()


def test_a_run_killed_before_its_manifest_was_written_can_be_started(tmp_path: Path, plan: Plan) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "manifest.json.new").write_text('{"format')
    with RunStore.open(folder, plan) as store:
        assert store.finished() == set()


def test_a_newer_layout_is_refused(tmp_path: Path, plan: Plan) -> None:
    RunStore.open(tmp_path / "run", plan).close()
    (tmp_path / "run" / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(RequestError, match="newer fieldbench"):
        read_manifest(tmp_path / "run")


def test_an_error_with_half_a_surrogate_pair_can_be_read_again(tmp_path: Path, plan: Plan) -> None:
    """As in the name of a file whose bytes are not UTF-8: Python keeps it, JSON readers refuse it."""
    first, second, _ = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(first, FAILED, error="no file b\udc80d", diagnostics={"traceback": "\udcff in größe"}))
        store.append(record(second))
    broken, whole = read_rows(tmp_path / "run")
    assert (broken["error"], broken["diagnostics"]["traceback"]) == ("no file b?d", "? in größe")
    assert whole["key"] == second.key


def test_writing_as_a_whole_leaves_links_and_pipes_what_they_are(tmp_path: Path) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    file.write_text("old")
    link.symlink_to(file)
    write_whole(link, "new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")
    read, write = os.pipe()
    try:
        write_whole(Path(f"/dev/fd/{write}"), "passed on")
        assert os.read(read, 100) == b"passed on"
    finally:
        os.close(read)
        os.close(write)


def test_a_disk_without_room_for_the_lock_is_said(tmp_path: Path, plan: Plan) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot be written: File too large"):
            RunStore.open(tmp_path / "run", plan)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    RunStore.open(tmp_path / "run", plan).close()


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.touch()])
def test_reading_what_is_no_run_says_so(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "run")
    with pytest.raises(RequestError, match="is not a run"):
        list(read_rows(tmp_path / "run"))


def test_a_record_that_finds_no_room_is_left_out_as_a_whole(tmp_path: Path, plan: Plan) -> None:
    """The limit on the size of a file stands in for the end of the disk: the write is cut short there."""
    first, second, third = plan
    with RunStore.open(tmp_path / "run", plan) as store:
        store.append(record(first))
        full = (tmp_path / "run" / "trials.jsonl").stat().st_size + 50
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
        try:
            with pytest.raises(StorageError, match=r"trials\.jsonl: .*nothing finished before is lost"):
                store.append(record(second))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [row["key"] for row in read_rows(tmp_path / "run")] == [first.key]
        store.append(record(third))
    assert [row["key"] for row in read_rows(tmp_path / "run")] == [first.key, third.key]


def test_a_disk_that_fails_after_the_fact_is_reported(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems find out that there is no room only when they are told to force data to the disk."""
    first, second, _ = plan
    synced = threading.Event()

    def fail(file: int) -> None:
        synced.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    store = RunStore.open(tmp_path / "run", plan)
    monkeypatch.setattr("fieldbench.store.run.SYNC_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", fail)
    store.append(record(first))
    assert synced.wait(10)
    time.sleep(0.1)  # for the thread that heard of it to pass it on
    with pytest.raises(StorageError, match="No space left"):
        store.append(record(second))
    with pytest.raises(StorageError, match="No space left"):
        store.close()
    assert writer(tmp_path / "run") is None


def test_sessions_are_noted_with_their_end(tmp_path: Path, plan: Plan) -> None:
    with RunStore.open(tmp_path / "run", plan) as store:
        store.begin({"host": "first"})
        store.end("interrupted")
    with RunStore.open(tmp_path / "run", plan) as store:
        store.begin({"host": "second"})
        (one, two) = read_manifest(tmp_path / "run").sessions
        assert (one.host, one.outcome) == ("first", "interrupted")
        assert one.started <= one.ended
        assert (two.host, two.ended) == ("second", None)
        assert one.id != two.id
