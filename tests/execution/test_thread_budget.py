"""Threads of idle slots, lent to the last trials."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from fieldbench.execution import Options, pool, slots
from fieldbench.execution.machine import Slot
from fieldbench.execution.pool import Pool, shares
from fieldbench.execution.slot import Outcome
from fieldbench.execution.trial_queue import TrialQueue
from fieldbench.records import Trial
from fieldbench.registry import Registry
from tests.execution.conftest import SOURCES, plan, records, wait_until


@pytest.mark.parametrize(
    ("busy", "more_waits", "expected"),
    [
        (4, False, [1, 1, 1, 1]),
        (3, False, [2, 1, 1]),
        (2, False, [2, 2]),
        (1, False, [4]),
        (0, False, []),
        (1, True, [1]),
        (3, True, [1, 1, 1]),
    ],
)
def test_idle_slots_are_dealt_out_once_nothing_waits(busy: int, more_waits: bool, expected: list[int]) -> None:
    assert shares(4, busy, more_waits) == expected


class Table:
    """Slots that work until they are told to stop, and note what they may use."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
        self.allowed: dict[str, int] = {}
        self._ends: dict[str, threading.Event] = {}
        table = self

        class WorkerSlot:
            def __init__(self, slot: Slot, *rest: Any) -> None:
                self.slot, self._shares, self._trial = slot, 1, ""

            def allow(self, shares: int) -> None:
                self._shares = shares
                table.allowed[self._trial] = shares

            def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
                self._trial = str(trials[0].number)
                table.allowed[self._trial] = self._shares
                table._ends[self._trial] = threading.Event()
                table._ends[self._trial].wait(20)
                del table.allowed[self._trial]
                self._trial = ""
                return Outcome(())

            def close(self) -> None:
                pass

        monkeypatch.setattr(pool, "WorkerSlot", WorkerSlot)
        options = Options(device="cpu", jobs=jobs)
        self._pool = Pool(slots(options), Registry(SOURCES), options)

    def serve(self, queue: TrialQueue) -> None:
        threading.Thread(target=self._pool.serve, args=(queue,), daemon=True).start()

    def end(self, trial: int) -> None:
        self._ends[str(trial)].set()

    def comes_to(self, **expected: int) -> None:
        """Wait until these trials, and no others, are at work with this number of shares each."""
        wanted = {name.removeprefix("trial"): count for name, count in expected.items()}
        wait_until(lambda: {k: v for k, v in self.allowed.items() if k} == wanted, f"{wanted}, not {self.allowed}")


def test_trials_are_lent_threads_in_their_midst_and_only_when_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(monkeypatch, jobs=3)
    queue = TrialQueue(plan("steady", trials=4), Registry(SOURCES), {"cpu": 3, "gpu": 0})
    table.serve(queue)
    table.comes_to(trial0=1)  # three wait, though two slots are idle for a moment
    table.serve(queue)
    table.serve(queue)
    table.comes_to(trial0=1, trial1=1, trial2=1)
    table.end(0)
    table.comes_to(trial1=1, trial2=1)
    table.serve(queue)
    table.comes_to(trial1=1, trial2=1, trial3=1)
    table.end(2)
    wait_until(lambda: sorted(table.allowed[name] for name in ("1", "3")) == [1, 2], "two share three slots")
    table.end(3)
    table.comes_to(trial1=3)
    table.end(1)


def told(result: Sequence[Any]) -> dict[str, int]:
    assert {record.status for record in result} == {"ok"}
    return {record.trial.cell.method: record.diagnostics["threads"] for record in result}


@pytest.mark.parametrize(("threads", "expected"), [(1, 2), (2, 4)])
def test_a_worker_hears_of_it_while_it_computes(threads: int, expected: int) -> None:
    # It ends only when it may use this many, which it may not until the other one is done.
    result = records(["steady", f"asks[until={expected}]"], 1, jobs=2, threads=threads)
    assert told(result) == {"steady": 1, f"asks[until={expected}]": expected}


@pytest.mark.parametrize("options", [{"jobs": 1}, {"timing": True}])
def test_without_idle_slots_there_is_one_thread(options: dict[str, Any]) -> None:
    assert told(records("asks[seconds=0.1]", 1, **options)) == {"asks[seconds=0.1]": 1}


def test_a_method_that_does_not_ask_is_not_said_to_use_more() -> None:
    assert told(records("steady[seconds=0.1]", 1, jobs=2)) == {"steady[seconds=0.1]": 1}
