"""A search for a method's parameters by errors at withheld entries: what is tried, what it costs and what is best."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldbench.method import Tuner
from fieldbench.search import Space, plain
from fieldbench.spec import Value, format_value

#: Points that are tried at most, however many seconds there are.
MOST_POINTS = 10_000


class BudgetSpent(BaseException):
    """No other point is tried. A tuner that goes on after any ``Exception`` ends here all the same."""


@dataclass(frozen=True)
class TriedPoint:
    """What came of a point.

    Attributes:
        error: at the withheld entries, the smaller the better; infinite where there is none.
        seconds: of its fits.
        reason: why there is no error, in one line.
    """

    error: float
    seconds: float
    reason: str = ""


class Study:
    """One search: it holds a tuner to its budget and chooses."""

    def __init__(self, tuner: Tuner, space: Space, evaluate: Callable[[Mapping[str, Value]], TriedPoint]) -> None:
        """``evaluate`` fits and scores a point, of which every value is given."""
        self._tuner, self._space, self._evaluate = tuner, space, evaluate
        self._budget = tuner.points or MOST_POINTS
        self._asked, self._told = 0, False
        #: What was tried, in order, by the point in words.
        self.tried: dict[str, tuple[dict[str, Value], TriedPoint]] = {}

    def run(self, seed: int) -> dict[str, Value]:
        """Try the method's own values, then what the tuner says, and return the point with the least error."""
        with contextlib.suppress(BudgetSpent):
            self.attempt({})
            self._tuner.search(self._space, self.attempt, seed)
        return min(self.tried.values(), key=lambda item: item[1].error)[0]

    def attempt(self, values: Mapping[str, Value]) -> float:
        """Try a point.

        Raises:
            BudgetSpent: if the budget allows no other.
            ValueError: if a value is none that may be tried.
        """
        point = self._point(values)
        words = in_words(point)
        if self._asked and not self._told and words == next(iter(self.tried)):
            self._told = True  # a tuner may ask once how the method's own values do
            return self.tried[words][1].error
        if self._asked >= self._budget or (self._asked and self.seconds >= (self._tuner.seconds or math.inf)):
            raise BudgetSpent
        self._asked += 1
        if words not in self.tried:
            self.tried[words] = point, self._evaluate(point)
        return self.tried[words][1].error

    @property
    def seconds(self) -> float:
        """Seconds of all fits so far."""
        return sum(outcome.seconds for _, outcome in self.tried.values())

    def _point(self, values: Mapping[str, Value]) -> dict[str, Value]:
        for key, value in values.items():
            if key not in self._space.searches:
                raise ValueError(f"+{self._tuner.name} tried {key}, which is not to be tuned")
            if value != self._space.start[key] and plain(value) not in self._space.searches[key]:
                raise ValueError(f"+{self._tuner.name} tried {key}={value!r:.60}, which its search does not have")
        return {**self._space.start, **{key: plain(value) for key, value in values.items()}}

    def as_dict(self, chosen: Mapping[str, Value]) -> dict[str, Any]:
        """What a record keeps: the point that was chosen, every point with its error, and the seconds of all."""
        points = [as_row(point, outcome) for point, outcome in self.tried.values()]
        return {"modifier": str(self._tuner), "chosen": _texts(chosen), "points": points, "seconds": self.seconds}


def as_row(point: Mapping[str, Value], outcome: TriedPoint) -> dict[str, Any]:
    """A point and what came of it, as JSON has them."""
    error = outcome.error if math.isfinite(outcome.error) else None
    reason = {"reason": outcome.reason} if outcome.reason else {}
    return {"values": _texts(point), "error": error, "seconds": outcome.seconds, **reason}


def in_words(point: Mapping[str, Value]) -> str:
    """
    >>> in_words({"window": 4, "tv.weight": 0.5})
    'window=4, tv.weight=0.5'
    """
    return ", ".join(f"{key}={text}" for key, text in _texts(point).items())


def _texts(point: Mapping[str, Value]) -> dict[str, str]:
    return {key: format_value(value) for key, value in point.items()}
