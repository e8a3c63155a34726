"""The order of work: trials are read a window ahead, and handed out in groups that suit a free slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
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
        #: The plan, each trial with its place.
        self._source = enumerate(trials)
        self._registry, self._slots, self._batching = registry, slots, batching
        #: Trials of one cell that wait, each with its place; no cell without any.
        self._cells: dict[tuple[Any, ...], deque[tuple[int, Trial]]] = {}
        self._lanes: dict[str, Lane] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._waiting = 0

    @property
    def empty(self) -> bool:
        """Whether every trial has been handed out."""
        self._fill()
        return not self._waiting

    def waits(self, lane: Lane) -> bool:
        """Whether there is a trial for this lane within the window."""
        self._fill()
        return any(self._lane(series) == lane for series in self._cells)

    def take(self, lanes: Container[Lane]) -> Group | None:
        """The next group for any of these lanes: that of the trial which comes first in the plan."""
        self._fill()
        suitable = [series for series in self._cells if self._lane(series) in lanes]
        if not suitable:
            return None
        series = min(suitable, key=lambda series: self._cells[series][0][0])
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
        for place, trial in islice(self._source, WINDOW - self._waiting):
            self._cells.setdefault(trial.series, deque()).append((place, trial))
            self._waiting += 1

    def _lane(self, series: tuple[Any, ...]) -> Lane:
        """Where the trials of a cell may run."""
        text = series[0].method
        if text not in self._lanes:
            self._lanes[text] = "gpu" if self._slots.get("gpu") and self._registry.method(text).uses_gpu else "cpu"
        return self._lanes[text]
