"""How far a run is: trials done, running means, and an honest time to go."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fieldbench.records import FAILURES, OK, Cell


@dataclass
class Average:
    """A running mean."""

    total: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.squares += value * value
        self.count += 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def uncertainty(self) -> float:
        """Twice the standard error of the mean; NaN for less than two values."""
        if self.count < 2:
            return math.nan
        return 2 * math.sqrt(max(0.0, self.squares / self.count - self.mean**2) / (self.count - 1))


class Progress:
    """Counts trials that were asked for as they end.

    Attributes:
        total: trials that were asked for.
        done: trials with a result that will not be run again.
        failed: those of them that failed.
        new: trials that ended since this object was made.
    """

    def __init__(
        self,
        trials: Mapping[Cell, int],
        headline: Mapping[str, str],
        slots: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            trials: how many each cell has, in the order of the plan.
            headline: the metric of each dataset whose running mean is wanted.
            slots: trials that run at once.
            clock: seconds, for the time to go.
        """
        self.total, self.done, self.failed, self.new = sum(trials.values()), 0, 0, 0
        self._headline, self._slots, self._clock = headline, max(1, slots), clock
        self._left: dict[Cell, int] = dict(trials)
        self._seconds: dict[Cell, Average] = {}
        self._scores: dict[Cell, Average] = {}
        self._started = self._last = clock()
        self._worked = 0.0

    def remember(self, cell: Cell, status: str, metrics: Mapping[str, float], seconds: float | None) -> None:
        """Count a trial that ended in an earlier run.

        Args:
            cell, status, metrics, seconds: as in its :class:`fieldbench.records.Record`.
        """
        self.done += 1
        self.failed += status in FAILURES
        self._left[cell] = self._left.get(cell, 0) - 1
        if status == OK and seconds is not None:
            self._seconds.setdefault(cell, Average()).add(seconds)
        elif status != OK:
            self._seconds.setdefault(cell, Average())
        score = metrics.get(self._headline.get(cell.dataset, ""))
        if status == OK and score is not None and not math.isnan(score):
            average = self._scores.pop(cell, None) or Average()
            average.add(score)
            self._scores[cell] = average  # the newest last

    def add(self, cell: Cell, status: str, metrics: Mapping[str, float], seconds: float | None) -> None:
        """Count a trial that has just ended.

        Args:
            cell, status, metrics, seconds: as in :meth:`remember`.
        """
        self.remember(cell, status, metrics, seconds)
        self.new += 1
        self._worked += seconds or 0.0
        self._last = self._clock()

    @property
    def left(self) -> int:
        return max(0, self.total - self.done)

    def sentence(self, instead: str = "") -> str:
        """How far the run is and the time to go (or what is said ``instead``), in words."""
        failed = f", {self.failed} failed" if self.failed else ""
        to_go = (instead or f", to go: {in_words(self.seconds_left())}") if self.left else ""
        return f"{self.done} of {self.total} trials{failed}{to_go}"

    def means(self, most: int | None = None) -> dict[Cell, Average]:
        """Running means of the headline metric by cell, in the plan's order: all, or the ``most`` that changed last."""
        newest = set(list(self._scores)[-most:] if most else self._scores)
        return {cell: self._scores[cell] for cell in self._left if cell in newest}

    def varying(self) -> list[str]:
        """The factors of a setting in which the plan's cells differ, besides the dataset."""
        factors = ("sampler", "noise", "rate", "select")
        return [name for name in factors if len({getattr(cell, name) for cell in self._left}) > 1]

    def headline(self, dataset: str) -> str:
        """The metric whose running mean is kept for a dataset."""
        return self._headline.get(dataset, "")

    def work_left(self) -> float | None:
        """Seconds of method time that remain, or None while a method has not been measured."""
        work = 0.0
        for cell, count in self._left.items():
            if count > 0:
                seconds = self._estimate(cell)
                if seconds is None:
                    return None
                work += count * seconds
        return work

    def seconds_left(self) -> float | None:
        """Wall-clock seconds to go, or None while that is being measured.

        The work that remains over the slots, times what a second of method time has cost in this run
        (drawing, scoring and idle slots included), and never less than the longest trial that remains.
        """
        work = self.work_left()
        if work is None:
            return None
        cost = 1.0
        if self.new >= 2 * self._slots and self._worked > 0:
            cost = max(1.0, (self._last - self._started) * self._slots / self._worked)
        longest = max((self._estimate(cell) or 0.0 for cell, count in self._left.items() if count > 0), default=0.0)
        return max(work / self._slots * cost, longest) - min(longest, self._clock() - self._last)

    def _estimate(self, cell: Cell) -> float | None:
        """Seconds of one trial: as measured in its cell, or else in the method's other cells."""
        own = self._seconds.get(cell)
        if own is not None:
            return own.mean if own.count else 0.0  # every trial so far failed or did not apply: it costs nothing
        for names in (("method", "dataset"), ("method",)):
            same = operator.attrgetter(*names)
            alike = [average for other, average in self._seconds.items() if same(other) == same(cell)]
            if sum(average.count for average in alike):
                return sum(average.total for average in alike) / sum(average.count for average in alike)
        return 0.0 if alike else None


def in_words(seconds: float | None) -> str:
    """A duration as people say it: ``measuring``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds is None:
        return "measuring"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
