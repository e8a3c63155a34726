"""What may be tuned: the values of a parameter that a search may try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fieldbench.spec import Value, format_value, parse_value

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole ones if both are.

    >>> str(Range(2, 9)), Range(2, 9).corners
    ('2 to 9', (2, 9))

    Attributes:
        low: the least value.
        high: the largest.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        if not all(isinstance(end, Real) and not isinstance(end, bool) and math.isfinite(end) for end in ends):
            raise ValueError(f"search from {self.low} to {self.high}: both are finite numbers; give choices as a list")
        if not self.low < self.high:
            raise ValueError(f"search from {self.low} to {self.high}: the first number should be less than the second")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def corners(self) -> tuple[Value, ...]:
        """The outermost values."""
        return self.low, self.high

    def draw(self, rng: np.random.Generator) -> Value:
        """A value by chance, all equally likely."""
        if self.is_whole:
            return int(rng.integers(int(self.low), int(self.high) + 1))
        return float(rng.uniform(self.low, self.high))

    def __contains__(self, value: object) -> bool:
        whole = isinstance(value, int) and not isinstance(value, bool)
        fits = whole or (isinstance(value, float) and not self.is_whole)
        return fits and self.low <= value <= self.high  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Log(Range):
    """Numbers from ``low`` to ``high`` whose logarithms are equally likely: for what varies over decades.

    >>> str(Log(1e-4, 1))
    '0.0001 to 1 (log)'
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"search={self}: a logarithmic range starts above 0")

    @property
    def is_whole(self) -> bool:
        # 1e-4 to 1 is a range of numbers, though the 1 is written as a whole one.
        return super().is_whole and self.low >= 1

    def draw(self, rng: np.random.Generator) -> Value:
        drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        bounded = min(max(drawn, self.low), self.high)
        return round(bounded) if self.is_whole else float(bounded)

    def __str__(self) -> str:
        return f"{super().__str__()} (log)"


@dataclass(frozen=True)
class Choice:
    """One of a few values.

    >>> str(Choice(("a", "b", None)))
    'a, b, none'
    """

    values: tuple[Value, ...]

    @property
    def corners(self) -> tuple[Value, ...]:
        """All values."""
        return self.values

    def draw(self, rng: np.random.Generator) -> Value:
        """A value by chance, all equally likely."""
        return self.values[int(rng.integers(len(self.values)))]

    def __contains__(self, value: object) -> bool:
        return any(value == known and isinstance(value, bool) == isinstance(known, bool) for known in self.values)

    def __str__(self) -> str:
        return ", ".join(map(format_value, self.values))


Search: TypeAlias = Range | Choice
"""The values of one parameter that a search may try."""


def as_search(given: Any) -> Search:
    """What ``parameter(..., search=...)`` was given: ``(low, high)``, a ``Log`` or a list of values.

    Raises:
        ValueError: if it is something else.
    """
    if type(given) in (Range, Log):
        return cast(Range, given)
    if isinstance(given, list) and given:
        return Choice(tuple(map(plain, given)))
    if isinstance(given, tuple) and len(given) == 2:
        return Range(*given)
    raise ValueError(f"search={given!r}: give (low, high), Log(low, high) or a list of values")


@dataclass(frozen=True)
class Space:
    """What may be tuned of a method, and where its values lie now.

    >>> Space({"power": (1.0, 8.0)}, {"power": 4.0}).start["power"]
    4.0

    Attributes:
        searches: by the name of a parameter, of a modifier's as well (``window``, ``tv.weight``), the values that may
            be tried.
        start: the values that the method has.
    """

    searches: Mapping[str, Search]
    start: Mapping[str, Value]


def plain(value: Any) -> Value:
    """A value as its text form is read back: nothing of whoever wrote its class is left.

    Raises:
        ValueError: if it has no text form.
    """
    read = parse_value(format_value(value))
    if read != value:
        raise ValueError(f"search: {value!r:.60} is not a number, text, boolean or None, nor a tuple of these")
    return read
