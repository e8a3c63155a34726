"""What one trial does wrong costs that trial alone, and a second run mends it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import fieldbench
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, execute
from fieldbench.plan import Plan
from fieldbench.records import Record
from fieldbench.registry import Registry, Sources
from tests.execution.conftest import SOURCES, Trouble, gone, plan, records, request, results, run, wait_until, workers

CASES = {
    "raise": ("failed", "ArithmeticError: this trial raises", {}),
    "exit": ("crashed", "exited with code 3", {}),
    "sys-exit": ("crashed", "exited with code 4", {}),
    "segv": ("crashed", "killed by SIGSEGV", {}),
    "close": ("crashed", "closed its socket", {}),
    "memory": ("out-of-memory", "used more than the 400 MiB", {"memory_limit": 400 * 2**20}),
    "memory-error": ("out-of-memory", "Unable to allocate", {}),
    "loop": ("timeout", "ran longer than the 4 s", {"timeout": 4.0}),
    "deadlock": ("timeout", "ran longer than the 4 s", {"timeout": 4.0}),
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Results of the methods that these tests disturb."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder / "troubled", ["troubled", "steady"])
    run(folder / "batched", "batched", 9, jobs=1)
    return {name: results(folder / name) for name in ("troubled", "batched")}


@pytest.mark.parametrize("kind", CASES)
def test_trouble_costs_one_trial_and_is_mended_by_another_run(
    tmp_path: Path, trouble: Trouble, undisturbed: Any, kind: str
) -> None:
    status, message, limits = CASES[kind]
    trouble.begin(kind)
    rows = run(tmp_path / "run", ["troubled", "steady"], **limits)
    bad = [row for row in rows if row["status"] != "ok"]
    assert [row["status"] for row in bad] == [status]
    assert message in bad[0]["error"]
    assert len(rows) == 8

    trouble.end()
    run(tmp_path / "run", ["troubled", "steady"], retry_failed=True)
    assert results(tmp_path / "run") == undisturbed["troubled"]


def test_a_failed_trial_is_not_run_again_unless_asked(tmp_path: Path, trouble: Trouble) -> None:
    trouble.begin("raise")
    run(tmp_path / "run", "troubled", 2)
    trouble.end()
    assert sorted(row["status"] for row in run(tmp_path / "run", "troubled", 2)) == ["failed", "ok"]


def test_what_a_lost_worker_printed_is_kept(trouble: Trouble) -> None:
    trouble.begin("loop")
    (bad,) = [record for record in records("troubled", 1, timeout=4.0) if record.status != "ok"]
    assert "trouble begins" in bad.diagnostics["output"]
    assert "_loop" in bad.diagnostics["output"]  # where it was when its time was up


HERE_AND_THERE = """
import os, sys
import fieldbench

if "pytest" not in sys.modules and os.environ.get("TOY_WORKER") == "dies":
    print("no licence", flush=True)
    os._exit(3)

class Mine(fieldbench.Method):
    \"""Zero.\"""

    name = "mine"
    revision = "1"

    def complete(self, observation, *, seed, device, report):
        return 0 * observation.filled(0.0)

    def batch_size(self, shape, device):
        if os.environ.get("TOY_WORKER") == "has no idea":
            raise ArithmeticError("no idea")
        return 1

if "pytest" not in sys.modules and os.environ.get("TOY_WORKER") == "lacks it":
    raise ImportError("half written")

@fieldbench.hookimpl
def fieldbench_register_methods():
    return [Mine]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Callable[[], list[Record]]:
    """Runs two trials of a method that a worker may have to do without."""
    toy = tmp_path / "toy.py"
    toy.write_text(HERE_AND_THERE)
    sources = Sources(files=(*SOURCES.files, str(toy)))
    trials = list(Plan(request("mine", 2), Registry(sources)))
    return lambda: list(execute(trials, sources, Options(device="cpu", jobs=1), Stop()))


def test_a_worker_that_cannot_start_costs_its_trials_only(
    mine: Callable[[], list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_WORKER", "dies")
    bad = mine()
    assert [record.status for record in bad] == ["crashed", "crashed"]
    assert "exited with code 3" in bad[0].error
    assert "no licence" in bad[0].diagnostics["output"]


def test_a_plugin_that_goes_during_a_run_fails_its_trials(
    mine: Callable[[], list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_WORKER", "lacks it")
    bad = mine()
    assert [record.status for record in bad] == ["failed", "failed"]
    assert "half written" in bad[0].error


def test_a_class_that_cannot_be_sent_is_named_before_anything_runs() -> None:
    lock = threading.Lock()

    class Locked(fieldbench.Method):
        """Holds on to a lock."""

        name = "locked"

        def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
            with lock:
                return 0 * observation.filled(0.0)

    sources = Sources(files=SOURCES.files, classes=(Locked,))
    with pytest.raises(RequestError, match=r"Locked cannot be sent to the processes that compute: .*lock"):
        execute([], sources, Options(device="cpu", jobs=1), Stop())


def test_a_batch_size_that_raises_fails_the_trials_of_its_method(
    mine: Callable[[], list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_WORKER", "has no idea")
    assert [(record.status, record.error) for record in mine()] == [("failed", "ArithmeticError: no idea")] * 2


def test_warming_up_does_not_count_towards_the_time_of_a_trial() -> None:
    spec = "steady[seconds=1.5]"
    assert [record.status for record in records(spec, 1, timing=True, timeout=2.5)] == ["ok"]
    assert [record.status for record in records(spec, 1, timing=True, timeout=1.0)] == ["timeout"]


def test_many_small_pieces_of_output_are_kept_too(trouble: Trouble) -> None:
    trouble.begin("chatter")
    (bad,) = [record for record in records("troubled", 1) if record.status != "ok"]
    assert bad.diagnostics["output"] == "trouble begins\n" + "." * 300


def test_a_worker_killed_from_outside_costs_one_trial(tmp_path: Path) -> None:
    run(tmp_path / "undisturbed", "steady[seconds=0.2]", 6)
    victims: list[int] = []

    def kill_one() -> None:
        wait_until(lambda: lines_of(tmp_path / "run") >= 2, "the second record")
        victim = workers()[0]
        victim.send_signal(signal.SIGKILL)
        victims.append(victim.pid)

    killer = threading.Thread(target=kill_one)
    killer.start()
    rows = run(tmp_path / "run", "steady[seconds=0.2]", 6)
    killer.join()
    assert victims
    bad = [row for row in rows if row["status"] != "ok"]
    assert [(row["status"], row["error"]) for row in bad] == [("crashed", "the method's process was killed by SIGKILL")]
    run(tmp_path / "run", "steady[seconds=0.2]", 6, retry_failed=True)
    assert results(tmp_path / "run") == results(tmp_path / "undisturbed")


def lines_of(out: Path) -> int:
    file = out / "trials.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_only_the_culprit_of_a_batch_pays(tmp_path: Path, trouble: Trouble, undisturbed: Any) -> None:
    trouble.begin("exit")
    rows = run(tmp_path / "run", "batched", 9, jobs=1)
    assert sorted(row["status"] for row in rows) == ["crashed", *["ok"] * 8]
    trouble.end()
    run(tmp_path / "run", "batched", 9, jobs=1, retry_failed=True)
    assert results(tmp_path / "run") == undisturbed["batched"]


def test_memory_that_a_trial_has_left_behind_is_not_charged_to_the_next() -> None:
    first, second = records("probe[ballast=300,ballast_once=true]", 2, jobs=1)
    assert first.peak_memory is not None
    assert second.peak_memory is not None
    assert first.diagnostics["curve"]["pid"] == second.diagnostics["curve"]["pid"]
    assert first.peak_memory - second.peak_memory > 250 * 2**20


def test_no_worker_outlives_an_execution_that_is_abandoned() -> None:
    before = set(psutil.Process().children(recursive=True))
    stream = execute(iter(plan("steady[seconds=0.05]", 50)), SOURCES, Options(device="cpu", jobs=2), Stop())
    assert next(stream).status == "ok"
    started = set(psutil.Process().children(recursive=True)) - before
    assert len(started) >= 3  # the forkserver, a judge, a method's process
    stream.close()
    wait_until(lambda: all(gone(process) for process in started), "the processes' end")


def test_an_error_of_the_plan_itself_is_not_swallowed() -> None:
    def broken() -> Any:
        yield from plan("steady", 2)
        raise LookupError("the plan is broken")

    with pytest.raises(LookupError, match="the plan is broken"):
        list(execute(broken(), SOURCES, Options(device="cpu", jobs=2), Stop()))
