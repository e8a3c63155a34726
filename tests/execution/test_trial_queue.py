"""The order in which trials are handed out, and in what groups."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fieldbench.execution import Options, slots
from fieldbench.execution.pool import Pool
from fieldbench.execution.trial_queue import WINDOW, TrialQueue
from fieldbench.records import Cell, Trial
from fieldbench.registry import Registry
from tests.execution.conftest import SOURCES


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(SOURCES)


def trials(*methods: str, count: int = 4) -> list[Trial]:
    """Repetition by repetition, all methods of one together, as plans have it."""
    return [
        Trial(Cell(method, "wave", "random", "none", "final", 0.3), 0, number, "identity")
        for number in range(count)
        for method in methods
    ]


def drain(queue: TrialQueue, *lanes: Any) -> list[tuple[Trial, ...]]:
    return [group.trials for group in iter(lambda: queue.take(lanes), None)]


def test_single_trials_come_in_the_order_of_the_plan(registry: Registry) -> None:
    given = trials("steady", "troubled")
    assert drain(TrialQueue(given, registry, {"cpu": 2}), "cpu") == [(trial,) for trial in given]


def test_a_lane_gets_only_methods_for_it(registry: Registry) -> None:
    queue = TrialQueue(trials("probe", "steady", count=2), registry, {"gpu": 1, "cpu": 1})
    assert [group[0].cell.method for group in drain(queue, "cpu")] == ["steady", "steady"]
    assert not queue.empty
    assert [group[0].cell.method for group in drain(queue, "gpu")] == ["probe", "probe"]
    assert queue.empty


def test_whether_there_is_work_can_be_asked_from_any_thread(registry: Registry) -> None:
    def slow() -> Iterator[Trial]:
        for trial in trials("steady", count=30):
            time.sleep(0.002)
            yield trial

    options = Options(device="cpu", jobs=1)
    pool = Pool(slots(options), Registry(SOURCES), options)
    queue = TrialQueue(slow(), registry, pool.sizes)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: pool.has_nothing_for(queue), range(8)))
    assert answers == [False] * 8
    assert len(drain(queue, "cpu")) == 30
    assert pool.has_nothing_for(queue)


def test_without_gpus_all_methods_go_to_the_cpu(registry: Registry) -> None:
    assert len(drain(TrialQueue(trials("probe", "steady"), registry, {"gpu": 0, "cpu": 1}), "cpu")) == 8


def test_no_more_is_read_ahead_than_the_window(registry: Registry) -> None:
    read = itertools.count()

    def endless() -> Iterator[Trial]:
        for number in itertools.count():
            next(read)
            yield Trial(Cell("steady", "wave", "random", "none", "final", 0.3), 0, number, "identity")

    queue = TrialQueue(endless(), registry, {"cpu": 1})
    for _ in range(10):
        assert queue.take(["cpu"]) is not None
    assert next(read) <= WINDOW + 10


def test_batches_are_formed_once_their_size_is_known_and_shared_among_slots(registry: Registry) -> None:
    given = trials("batched", "steady", count=9)
    batched = [trial for trial in given if trial.cell.method == "batched"]
    queue = TrialQueue(given, registry, {"gpu": 0, "cpu": 2})
    first = queue.take(["cpu"])
    assert first is not None
    assert first.trials == (batched[0],)
    queue.learn(batched[0], 3)
    groups = [group for group in drain(queue, "cpu") if group[0].cell.method == "batched"]
    assert [trial for group in groups for trial in group] == batched[1:]
    # 8 wait for two slots: at most 3 at once, and at the end as many as leave the other slot something.
    assert [len(group) for group in groups] == [3, 3, 1, 1]


def test_nothing_is_grouped_where_seconds_are_to_be_compared(registry: Registry) -> None:
    given = trials("batched")
    queue = TrialQueue(given, registry, {"cpu": 1}, batching=False)
    queue.learn(given[0], 3)
    assert {len(group) for group in drain(queue, "cpu")} == {1}
