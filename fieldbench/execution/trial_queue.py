"""The order of work: trials are read a window ahead, and handed out in groups that suit a free slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fieldbench.execution.machine import Lane
from fieldbench.method import Method
from fieldbench.records import Trial
from fieldbench.registry import Registry

#: Trials read ahead. It bounds memory, and is what batches and idle lanes can choose from.
WINDOW = 1024


@dataclass(frozen=True)
class Group:
    """Trials of one cell that are run together."""

    trials: tuple[Trial, ...]
    lane: Lane


@dataclass
class _Series:
    """Trials of one cell that wait, each with its place in the order of the plan."""

    lane: Lane
    batchable: bool
    waiting: deque[tuple[int, Trial]] = field(default_factory=deque)


class TrialQueue:
    """Hands out a stream of trials. Not safe for threads: its user holds a lock."""

    def __init__(
        self, trials: Iterable[Trial], registry: Registry, slots: Mapping[Lane, int], *, batching: bool = True
    ) -> None:
        """
        Args:
            trials: read lazily.
            registry: tells which methods use a GPU, and which compute batches.
            slots: how many slots each lane has.
            batching: whether trials may be grouped at all.
        """
        self._source = iter(trials)
        self._registry, self._slots, self._batching = registry, slots, batching
        self._cells: dict[tuple[Any, ...], _Series] = {}
        self._methods: dict[str, tuple[Lane, bool]] = {}
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
        return any(cell.lane == lane for cell in self._cells.values())

    def take(self, lanes: Container[Lane]) -> Group | None:
        """The next group for any of these lanes: the one whose first trial comes first in the plan."""
        self._fill()
        cells = [item for item in self._cells.items() if item[1].lane in lanes]
        if not cells:
            return None
        key, cell = min(cells, key=lambda item: item[1].waiting[0][0])
        count = self._group_size(cell)
        trials = tuple(cell.waiting.popleft()[1] for _ in range(count))
        self._waiting -= count
        if not cell.waiting:
            del self._cells[key]
        return Group(trials, cell.lane)

    def put_back(self, trials: Iterable[Trial]) -> None:
        """Hand these out once more, before all others."""
        for trial in trials:
            self._cell(trial).waiting.appendleft((-1, trial))
            self._waiting += 1

    def learn(self, trial: Trial, size: int) -> None:
        """Note how many trials like this one are worth computing at once.

        It is known after the first trial, when it knows the field's shape; until then trials go singly.
        """
        self._sizes[trial.cell.method, trial.cell.dataset] = max(1, size)

    def _group_size(self, cell: _Series) -> int:
        first = cell.waiting[0][1]
        if not (self._batching and cell.batchable):
            return 1
        size = self._sizes.get((first.cell.method, first.cell.dataset), 1)
        # What waits is shared evenly, so that no slot of the lane is idle while another has a long batch.
        share = -(-len(cell.waiting) // self._slots[cell.lane])
        return min(size, share)

    def _fill(self) -> None:
        while self._waiting < WINDOW and not self._exhausted:
            trial = next(self._source, None)
            if trial is None:
                self._exhausted = True
                return
            self._cell(trial).waiting.append((self._read, trial))
            self._read += 1
            self._waiting += 1

    def _cell(self, trial: Trial) -> _Series:
        if trial.series not in self._cells:
            self._cells[trial.series] = _Series(*self._traits(trial.cell.method))
        return self._cells[trial.series]

    def _traits(self, text: str) -> tuple[Lane, bool]:
        """The lane of a method, and whether it has a batch size of its own."""
        if text not in self._methods:
            method = self._registry.method(text)
            lane: Lane = "gpu" if method.uses_gpu and self._slots.get("gpu") else "cpu"
            self._methods[text] = lane, type(method).batch_size is not Method.batch_size
        return self._methods[text]
