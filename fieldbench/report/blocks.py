"""What a table is made of: blocks of cells under heads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fieldbench.report.times import MARKS, SECONDS, Timing


@dataclass(frozen=True)
class TableCell:
    """One cell: the average over the trials that ended well, and an account of all others.

    Attributes:
        value, spread: mean (of seconds: median) and spread over ``count`` trials; NaN where there are none (one,
            for the spread).
        half_width: of the 95 % interval; NaN for less than two trials.
        decimals: digits behind the point that are shown; -1 asks for powers of ten.
        count: trials that ended well and have this metric.
        left_out: more such trials, whose seconds do not count.
        planned: trials that the cell should have.
        failed, not_applicable: trials of these outcomes.
        unscored: trials that ended well without a number for this metric.
        timing, machine: of seconds, how and where they were taken.
        rank: 1 for the best of those it is compared with, 2 for the second best, else 0.
    """

    value: float = math.nan
    spread: float = math.nan
    half_width: float = math.nan
    decimals: int = 3
    count: int = 0
    planned: int = 0
    failed: int = 0
    not_applicable: int = 0
    unscored: int = 0
    left_out: int = 0
    timing: Timing = "alone"
    machine: str = ""
    rank: int = 0

    @property
    def complete(self) -> bool:
        """Whether every planned trial is in the average, or left out of it on purpose."""
        return self.count + self.left_out >= self.planned

    @property
    def uncertainty(self) -> float:
        """The spread, or where none is shown the half width of the interval."""
        return self.half_width if math.isnan(self.spread) else self.spread

    @property
    def missing(self) -> int:
        """Trials without any record yet."""
        ended = self.count + self.left_out + self.failed + self.not_applicable + self.unscored
        return max(0, self.planned - ended)

    @property
    def mark(self) -> str:
        """What marks seconds that do not compare, or nothing."""
        return MARKS[self.timing]


#: Behind the head of a row or column: its sign, and what that stands for.
HEAD_MARKS: dict[str, tuple[str, str]] = {
    "oracle": (
        "†", "oracle: the estimate was chosen by looking at the truth, which no user can do; not ranked beside others"
    ),
    "trained": ("‡", "trained on data beyond the observation"),
    "tuned": ("◊", "tuned in each trial by errors at observed entries that were withheld"),
    "refitted": ("‖", "fitted several times in each trial; its seconds are of all fits"),
}  # fmt: skip


@dataclass(frozen=True)
class Head:
    """The head of a row or column: its levels, and its ``marks``, of :data:`HEAD_MARKS`."""

    levels: tuple[object, ...]
    text: str
    marks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """The text with the signs of its marks."""
        return self.text + "".join(f" {sign}" for mark, (sign, _) in HEAD_MARKS.items() if mark in self.marks)


@dataclass(frozen=True)
class Block:
    """A rectangle of cells that share everything but the factors of rows and columns.

    Attributes:
        levels: the factors that are fixed in this block: those that vary between blocks, and the dataset.
        title: what this block shows, such as ``ssf, noise gaussian: rmse (m/s)``.
        corner: what the rows differ in.
        metric, unit: what the cells hold.
        rows, columns: heads.
        cells: the cell of each (row, column) index.
        spread: what stands behind the average in its cells.
        floor: by column the floor of its draws; empty where not every column has one.
    """

    levels: dict[str, object]
    title: str
    corner: str
    metric: str
    unit: str
    rows: tuple[Head, ...]
    columns: tuple[Head, ...]
    cells: dict[tuple[int, int], TableCell]
    spread: str
    floor: dict[int, TableCell] = field(default_factory=dict)

    def above(self, row: int, column: int) -> float:
        """How far a cell is above the floor, in percent of it; NaN where there is no floor, or trials are missing."""
        cell, floor = self.cells[row, column], self.floor.get(column)
        if floor is None or floor.value <= 0 or not (cell.complete and math.isfinite(cell.value)):
            return math.nan
        return 100 * (cell.value / floor.value - 1)

    @property
    def average(self) -> str:
        """What the cells hold of their trials: ``mean`` or ``median``."""
        return "median" if self.metric == SECONDS else "mean"
