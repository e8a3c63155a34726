"""What ends a whole run - signals, a full disk, a second run in the same folder - loses no finished trial."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.execution.conftest import (
    Command,
    gone,
    lines,
    plan,
    results,
    run,
    run_arguments,
    wait_until,
)

METHOD, TRIALS = "steady[seconds=0.1]", 8


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    run(folder, METHOD, TRIALS)
    return results(folder)


def test_killing_the_parent_loses_nothing_and_leaves_no_worker(
    tmp_path: Path, command: Callable[..., Command], undisturbed: Any
) -> None:
    out = tmp_path / "run"
    parent = command(*run_arguments(out, METHOD, TRIALS))
    wait_until(lambda: len(lines(out)) >= 3, "the third record")
    workers = parent.workers()
    parent.process.send_signal(signal.SIGKILL)
    parent.process.wait()
    kept = lines(out)
    assert workers
    wait_until(lambda: all(gone(worker) for worker in workers), "the workers' end")

    run(out, METHOD, TRIALS)
    assert lines(out)[: len(kept)] == kept
    assert len(lines(out)) == TRIALS
    assert results(out) == undisturbed


def test_a_worker_stuck_in_compiled_code_dies_with_the_parent(
    tmp_path: Path, command: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = tmp_path / "trouble"
    trouble.write_text("stuck")
    monkeypatch.setenv("TOY_TROUBLE", str(trouble))
    parent = command(*run_arguments(tmp_path / "run", "troubled", 1, jobs=1))
    wait_until(lambda: trouble.with_suffix(".stuck").exists(), "the trial's beginning")
    (worker,) = parent.workers()
    parent.process.send_signal(signal.SIGKILL)
    parent.process.wait()
    wait_until(lambda: gone(worker), "the worker's end")


def test_killing_the_parent_in_the_middle_of_a_line_loses_only_that(
    tmp_path: Path, command: Callable[..., Command], undisturbed: Any
) -> None:
    """The third record is cut at half its length by a real kill."""
    script = """
import os, signal
write, count = os.pwrite, []
def cut(file, data, position):
    count.extend([1] * (bytes(data[:1]) == b"{"))  # records, and nothing else that is written
    if len(count) == 3:
        write(file, data[: len(data) // 2], position)
        os.kill(os.getpid(), signal.SIGKILL)
    return write(file, data, position)
os.pwrite = cut
from fieldbench.cli.main import main
main()
"""
    out = tmp_path / "run"
    parent = command(*run_arguments(out, METHOD, TRIALS), script=script)
    assert parent.process.wait(200) == -signal.SIGKILL
    content = (out / "trials.jsonl").read_bytes()
    assert content.count(b"\n") == 2
    assert not content.endswith(b"\n")

    run(out, METHOD, TRIALS)
    assert (out / "trials.jsonl").read_bytes().count(b"\n") == TRIALS
    assert results(out) == undisturbed


def test_one_interrupt_finishes_what_is_running(
    tmp_path: Path, command: Callable[..., Command], undisturbed: Any
) -> None:
    out = tmp_path / "run"
    parent = command(*run_arguments(out, METHOD, TRIALS))
    wait_until(lambda: len(lines(out)) >= 2, "the second record")
    parent.process.send_signal(signal.SIGINT)
    code, printed, _ = parent.finish()
    assert code == 130
    done = len(lines(out))
    assert f"{done} of {TRIALS} trials" in printed
    assert "fieldbench run --methods 'steady[seconds=0.1]'" in printed
    assert {json.loads(line)["status"] for line in lines(out)} == {"ok"}
    assert done < TRIALS
    run(out, METHOD, TRIALS)
    assert results(out) == undisturbed


def test_a_second_interrupt_gives_up_what_is_running(tmp_path: Path, command: Callable[..., Command]) -> None:
    out = tmp_path / "run"
    parent = command(*run_arguments(out, "steady,steady[seconds=600]", 1))
    wait_until(lambda: len(lines(out)) == 1 and len(parent.workers()) == 2, "the short trial's end")
    workers = parent.workers()
    parent.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        parent.process.wait(0.5)  # it waits for the long trial
    parent.process.send_signal(signal.SIGINT)
    code, _, _ = parent.finish()
    assert code == 130
    assert len(lines(out)) == 1
    assert all(gone(worker) for worker in workers)


def test_two_runs_in_one_folder_do_not_mix(
    tmp_path: Path, command: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, mark = tmp_path / "run", tmp_path / "mark"
    monkeypatch.setenv("TOY_MARK", str(mark))
    arguments = run_arguments(out, "steady,waits-for-cpu", 3)
    first = command(*arguments)
    wait_until(lambda: len(lines(out)) >= 1, "the first record")
    code, _, complaint = command(*arguments).finish()
    assert code == 2
    assert f"being written by process {first.process.pid} on {os.uname().nodename}" in complaint
    assert complaint.count("\n") == 1
    mark.touch()
    assert first.finish()[0] == 0
    assert len(lines(out)) == 6
    run(tmp_path / "undisturbed", ["steady", "waits-for-cpu"], 3)
    assert results(out) == results(tmp_path / "undisturbed")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs more rights")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_ends_the_run_with_one_line_and_loses_nothing(
    small_disk: Path, command: Callable[..., Command], tmp_path: Path
) -> None:
    out = small_disk / "run"
    code, _, complaint = command(*run_arguments(out, "steady", 60)).finish()
    assert code == 1
    assert "No space left on device" in complaint.splitlines()[-1]
    assert "Traceback" not in complaint
    kept = lines(out)
    assert 0 < len(kept) < 60
    assert (out / "trials.jsonl").read_bytes() == b"".join(kept)

    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    run(out, "steady", 60)
    assert lines(out)[: len(kept)] == kept
    run(tmp_path / "undisturbed", "steady", 60)
    assert results(out) == results(tmp_path / "undisturbed")


def test_a_file_that_may_not_grow_ends_the_run_with_one_line(
    tmp_path: Path, command: Callable[..., Command], undisturbed: Any
) -> None:
    """The same without special rights: a limit on the size of files takes the place of the disk's end."""
    script = """
import resource, signal
from fieldbench.store.run import RunStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
append = RunStore.append
def filling(self, record):
    append(self, record)
    written = (self.path / "trials.jsonl").read_bytes()
    if len(written.splitlines()) == 3:
        size = len(written)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
RunStore.append = filling
from fieldbench.cli.main import main
main()
"""
    out = tmp_path / "run"
    code, _, complaint = command(*run_arguments(out, METHOD, TRIALS), script=script).finish()
    assert code == 1
    assert "File too large" in complaint.splitlines()[-1]
    assert len(lines(out)) == 3
    run(out, METHOD, TRIALS)
    assert results(out) == undisturbed


def test_a_plan_goes_on_where_it_stopped_with_other_options(tmp_path: Path, undisturbed: Any) -> None:
    out = tmp_path / "run"
    run(out, METHOD, 3, jobs=1)
    run(out, METHOD, TRIALS, jobs=2)
    assert len(lines(out)) == TRIALS
    (table, _) = results(out)
    assert table == undisturbed[0]
    assert {trial.key for trial in plan(METHOD, TRIALS)} == set(table)


@pytest.mark.parametrize("method", [METHOD, "hesitant[seconds=0.4]"])
def test_a_program_that_was_stopped_for_a_while_makes_no_timeout(
    tmp_path: Path, command: Callable[..., Command], method: str
) -> None:
    """As by Ctrl-Z: the trial in hand is done long before the program looks again."""
    out = tmp_path / "run"
    parent = command(*run_arguments(out, method, TRIALS), "--timeout", "3")
    wait_until(lambda: len(lines(out)) >= 2, "the second record")
    time.sleep(0.2)
    parent.process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    parent.process.send_signal(signal.SIGCONT)
    assert parent.finish()[0] == 0, lines(out)
    run(tmp_path / "undisturbed", method, TRIALS)
    assert results(out) == results(tmp_path / "undisturbed")


def test_processes_that_somebody_stopped_do_not_outlive_the_program(
    tmp_path: Path, command: Callable[..., Command]
) -> None:
    out = tmp_path / "run"
    parent = command(*run_arguments(out, METHOD, TRIALS))
    wait_until(lambda: len(lines(out)) >= 2, "the second record")
    for child in psutil.Process(parent.process.pid).children(recursive=True):
        child.suspend()
    for _ in range(2):
        parent.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert parent.finish()[0] == 130  # whoever reads what it prints comes to the end
