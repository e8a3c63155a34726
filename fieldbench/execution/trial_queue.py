"""The order of work: trials are read a window ahead, and handed out in groups that suit a free slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldbench.execution.machine import Lane
from fieldbench.records import Trial
from fieldbench.registry import Registry

#: Trials read ahead. It bounds memory, and is what batches and idle lanes can choose from.
WINDOW = 1024


@dataclass(frozen=True)
class Group:
    """Trials of one cell that are run together."""

    trials: tuple[Trial, ...]
    lane: Lane


class TrialQueue:
    """Hands out trials to slots.

    The stream of trials is read as they are wanted. ``slots`` is the number of slots of each lane, and ``batching``
    says whether trials may be grouped. The queue is not safe for threads: its user holds a lock.
    """

    def __init__(
        self, trials: Iterable[Trial], registry: Registry, slots: Mapping[Lane, int], *, batching: bool = True
    ) -> None:
        self._source = iter(trials)
        self._registry, self._slots, self._batching = registry, slots, batching
        #: Trials of one cell that wait, each with its place in the order of the plan; no cell without any.
        self._cells: dict[tuple[Any, ...], deque[tuple[int, Trial]]] = {}
        self._lanes: dict[str, Lane] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._waiting = self._read = 0
        self._exhausted = False

    @property
    def empty(self) -> bool:
        """Whether every trial has been handed out."""
        self._fill()
        return not self._waiting

    def waits(self, lane: Lane) -> bool:
        """Whether there is a trial for this lane within the window."""
        self._fill()
        return any(self._lane(series) == lane for series in self._cells)

    def first(self, lanes: Container[Lane]) -> Trial | None:
        """The trial for any of these lanes that comes first in the plan."""
        self._fill()
        firsts = [waiting[0] for series, waiting in self._cells.items() if self._lane(series) in lanes]
        return min(firsts, key=lambda first: first[0])[1] if firsts else None

    def take(self, lanes: Container[Lane]) -> Group | None:
        """The next group for any of these lanes: that of the first trial."""
        first = self.first(lanes)
        if first is None:
            return None
        series = first.series
        waiting, lane = self._cells[series], self._lane(series)
        # What waits is shared evenly, so that no slot of the lane is idle while another has a long batch.
        share = -(-len(waiting) // self._slots[lane]) if self._batching else 1
        size = self._sizes.get((series[0].method, series[0].dataset), 1)
        trials = tuple(waiting.popleft()[1] for _ in range(min(size, share)))
        self._waiting -= len(trials)
        if not waiting:
            del self._cells[series]
        return Group(trials, lane)

    def learn(self, trial: Trial, size: int) -> None:
        """Note how many trials like this one are worth computing at once.

        It is known after the first trial, when it knows the field's shape; until then trials go singly.
        """
        self._sizes[trial.cell.method, trial.cell.dataset] = max(1, size)

    def _fill(self) -> None:
        while self._waiting < WINDOW and not self._exhausted:
            trial = next(self._source, None)
            if trial is None:
                self._exhausted = True
                return
            self._cells.setdefault(trial.series, deque()).append((self._read, trial))
            self._read += 1
            self._waiting += 1

    def _lane(self, series: tuple[Any, ...]) -> Lane:
        """Where the trials of a cell may run."""
        text = series[0].method
        if text not in self._lanes:
            self._lanes[text] = "gpu" if self._slots.get("gpu") and self._registry.method(text).uses_gpu else "cpu"
        return self._lanes[text]
