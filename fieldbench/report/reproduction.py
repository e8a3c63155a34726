"""Ours beside the published: what a suite's run gave, cell by cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from fieldbench import records
from fieldbench.plan import Plan
from fieldbench.records import OK
from fieldbench.report.floors import NOBODY
from fieldbench.report.formats import csv_text, style_of
from fieldbench.report.numbers import decimals, decimals_of, fixed, is_number
from fieldbench.report.settings import records_of
from fieldbench.report.statistics import half_width
from fieldbench.report.tables import SPREADS
from fieldbench.suite import Suite

#: Ours meets a published number if it is worse by no more than this share of it.
WORSE = 0.15

#: Behind a ratio: ours and the published number differ by more than their joint uncertainty.
FURTHER_OFF = "≠"

#: What CSV has of each cell.
_COLUMNS = ["row", "column", "method", "select", "mean", "std", "trials", "planned", "oracle", "published", "ratio"]


@dataclass(frozen=True)
class SuiteCell:
    """One number of a suite's table, ours and the published one; NaN stands for a number that there is not.

    Attributes:
        row, column: labels in the suite.
        method, select: whose it is, and by which rule its estimates were chosen.
        mean, std: mean and standard deviation of our trials (std is NaN for a single trial, and where a score
            is infinite).
        trials, planned: trials that ended well with a score, and trials asked for.
        oracle: mean over trials of the best reported estimate against the truth: what oracle stopping would
            have shown. NaN if the method reports no estimates, or the suite's own rule is oracle.
        published: the source's number.
        lower_is_better: direction of the metric.
    """

    row: str
    column: str
    method: str
    select: str
    mean: float
    std: float
    trials: int
    planned: int
    oracle: float
    published: float
    lower_is_better: bool = True

    @property
    def ratio(self) -> float:
        """Ours over the published number; NaN where that is 0."""
        return self.mean / self.published if self.published else math.nan

    @property
    def half_width(self) -> float:
        """Of the mean's 95 % interval; NaN where there is no deviation."""
        return half_width(self.std, self.trials) if self.trials > 1 else math.nan

    @property
    def joint_uncertainty(self) -> float:
        """Half-width of the interval in which two means of this many trials should differ.

        The source gives no spread, so its mean is taken to be as uncertain as ours: twice the standard
        error of a difference of two such means, 2 sqrt(2) std / sqrt(n).
        """
        return 2 * math.sqrt(2) * self.std / math.sqrt(max(1, self.trials))

    @property
    def further_off(self) -> bool:
        """Whether ours and the published number differ by more than their joint uncertainty."""
        return abs(self.mean - self.published) > self.joint_uncertainty

    def meets(self, *, by_oracle: bool = False) -> bool:
        """Whether ours (by oracle stopping, where there is such a number) is at most :data:`WORSE` off the published
        one."""
        ours = self.oracle if by_oracle and not math.isnan(self.oracle) else self.mean
        worse = ours - self.published if self.lower_is_better else self.published - ours
        return worse <= WORSE * abs(self.published)


def compare(
    suite: Suite, plan: Plan, rows: Iterable[Mapping[str, Any]], *, lower_is_better: bool = True
) -> list[SuiteCell]:
    """Every cell of a suite, from the stored rows of its run.

    Args:
        suite: the table.
        plan: its plan; it decides which stored rows belong to which cell.
        rows: stored records (one mapping a trial), of this plan or a larger one.
        lower_is_better: direction of the suite's metric.
    """
    wanted = {trial.key: trial.cell for trial in plan}
    found: dict[records.Cell, list[Mapping[str, Any]]] = {}
    for stored in rows:
        if stored["key"] in wanted and stored["status"] == OK:
            found.setdefault(wanted[stored["key"]], []).append(stored)
    planned = Counter(wanted.values())

    cells = []
    for row in suite.rows:
        for position, column in enumerate(suite.columns):
            method, setting = plan.canonical(suite.method(row, position), suite.setting(column))
            cell = setting.cell(method, plan.selections[0])
            kept = found.get(cell, [])
            mean, std, trials = _scored([stored["metrics"].get(suite.metric) for stored in kept])
            cells.append(
                SuiteCell(
                    row=row.label,
                    column=column.label,
                    method=method,
                    select=suite.select[0],
                    mean=mean,
                    std=std,
                    trials=trials,
                    planned=planned[cell],
                    oracle=math.nan if suite.uses_truth else _by_oracle(kept, suite.metric, lower_is_better),
                    published=suite.published(row, position),
                    lower_is_better=lower_is_better,
                )
            )
    return cells


def within(cells: Iterable[SuiteCell]) -> tuple[int, int, int]:
    """How many published numbers are met, by our own and by oracle selection.

    Returns:
        Cells met by our estimate, cells met by oracle stopping, and cells that have both numbers.
    """
    known = [cell for cell in cells if cell.trials and not math.isnan(cell.published)]
    return sum(cell.meets() for cell in known), sum(cell.meets(by_oracle=True) for cell in known), len(known)


def _scored(scores: Iterable[float | None]) -> tuple[float, float, int]:
    """Mean, standard deviation and number of the scores that there are.

    The deviation is NaN for a single score, and where it is beyond all numbers, as with an infinite score.
    """
    values = np.array([score for score in scores if is_number(score)], float)
    if not values.size:
        return math.nan, math.nan, 0
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(values.mean()), float(values.std(ddof=1)) if values.size > 1 else math.nan
    return mean, std if math.isfinite(std) else math.nan, values.size


def _by_oracle(rows: list[Mapping[str, Any]], metric: str, lower_is_better: bool) -> float:
    """Mean over the scored trials of the best on each one's curve of reported estimates, the final one included."""
    best = min if lower_is_better else max
    chosen = []
    for row in rows:
        if not is_number(final := row["metrics"].get(metric)):
            continue
        curve = row.get("diagnostics", {}).get("curve", {}).get(metric)
        if not curve:
            return math.nan
        chosen.append(best([final, *filter(is_number, curve)]))
    return _scored(chosen)[0]


def floors_of_columns(suite: Suite, plan: Plan, floors: pd.DataFrame) -> list[float]:
    """The average floor of each column, over the draws of the plan; NaN where a draw has none.

    Args:
        suite: the table.
        plan: its plan.
        floors: as :func:`fieldbench.report.floors.read_floor_frame` gives them.
    """
    found = []
    for position, column in enumerate(suite.columns):
        _, setting = plan.canonical(suite.method(suite.rows[0], position), suite.setting(column))
        known = records_of(asdict(setting), floors)
        here = known[(known["seed"] == plan.request.seed) & known["trial"].isin(plan.numbers)]
        complete = suite.metric in here and len(here) == len(plan.numbers)
        found.append(float(here[suite.metric].mean(skipna=False)) if complete else math.nan)
    return found


def written(
    suite: Suite,
    cells: list[SuiteCell],
    format: str,
    *,
    floors: Sequence[float] = (),
    styled: bool = False,
    width: int | None = None,
) -> str:
    """The table in one of :data:`fieldbench.report.formats.FORMATS`.

    Each row has lines of its own for ours, by oracle stopping, the published and the ratio.
    All formats but CSV mark ratios further off than the joint uncertainty, and close with how many published
    numbers are met and a list of those cells. CSV has one line a cell instead.

    Args:
        suite: with the published numbers.
        cells: ours, row by row.
        format: one of those formats.
        floors: of the columns, NaN where there is none.
        styled, width: as of :func:`fieldbench.report.formats.style_of`.
    """
    if format == "csv":
        return csv_text({name: getattr(cell, name) for name in _COLUMNS} for cell in cells)
    head = [f"{suite.title} ({suite.metric})", "", *(column.label for column in suite.columns)]
    across = len(suite.columns)
    body: list[list[str]] = []
    for position, row in enumerate(suite.rows):
        if row.heading and (position == 0 or suite.rows[position - 1].heading != row.heading):
            body.append([row.heading, *[""] * (across + 1)])
        line = cells[position * across : (position + 1) * across]
        body.append([row.label, _whose(suite), *map(_ours, line)])
        if not all(math.isnan(cell.oracle) for cell in line):
            body.append(["", "oracle*", *(_number(cell.oracle) for cell in line)])
        if row.published:
            body.append(["", "published", *(_number(cell.published) for cell in line)])
            body.append(["", "ratio", *map(_ratio, line)])
    closing = _closing(suite, cells)
    if np.isfinite(floors).any():
        body.append(["floor", "", *map(_number, floors)])
        closing.append(NOBODY)
    style = style_of(format, styled=styled, width=width)
    head, *body = [[style.text(text) for text in line] for line in (head, *body)]
    return style.whole([style.table("", head, body, labels=2)], [style.text(line) for line in closing])


def _closing(suite: Suite, cells: list[SuiteCell]) -> list[str]:
    lines = [f"ours: mean ± {SPREADS['interval']} over {suite.trials} trials, (k/n) where only k of n are there."]
    if suite.uses_truth or not all(math.isnan(cell.oracle) for cell in cells):
        lines.append(
            "oracle*: the best estimate reported during training, chosen against the truth; no user can do that."
        )
    own, oracle, known = within(cells)
    if known:
        met = (
            f"{own} of {known} by oracle" if suite.uses_truth else f"{own} of {known} {suite.rule}, {oracle} by oracle"
        )
        lines.append(f"Within 15 % of the published number or better: {met}.")
    off = [cell for cell in cells if cell.further_off]
    if off:
        lines.append(f"{FURTHER_OFF}: further off than the joint uncertainty, 2 sqrt(2) std / sqrt(n):")
    for cell in off:
        ratio = f"ratio {_quotient(cell.ratio)}, " if cell.published else ""
        lines.append(
            f"  {cell.row}, {cell.column}: {_number(cell.mean)} where {_number(cell.published)} is published "
            f"({ratio}uncertainty {_number(cell.joint_uncertainty, beside=cell.mean)})"
        )
    return lines


def _whose(suite: Suite) -> str:
    """What the line with our numbers is called: by any rule but the plain one it says so, an oracle with its mark."""
    if suite.uses_truth:
        return "ours, oracle*"
    return "ours" if suite.rule == "final" else f"ours, {suite.rule}"


def _ours(cell: SuiteCell) -> str:
    if not cell.trials:
        return f"(0/{cell.planned})"
    digits = decimals_of(cell.mean, cell.half_width, _digits(cell.mean))
    spread = "" if math.isnan(cell.half_width) else f" ± {fixed(cell.half_width, digits)}"
    count = "" if cell.trials == cell.planned else f" ({cell.trials}/{cell.planned})"
    return f"{fixed(cell.mean, digits)}{spread}{count}"


def _ratio(cell: SuiteCell) -> str:
    return f"{_quotient(cell.ratio)} {FURTHER_OFF if cell.further_off else ''}".strip()


def _quotient(ratio: float) -> str:
    """A ratio with two decimals, or two figures where these would say nothing."""
    if math.isnan(ratio):
        return ""
    return f"{ratio:.2f}" if ratio == 0 or 0.01 <= abs(ratio) < 1e7 else f"{ratio:.2g}"


def _number(value: float, beside: float = 0.0) -> str:
    """A number with three decimals (two from 10 on), and three figures of one below 0.01; nothing for NaN.

    A spread ends at the same digit as the mean ``beside`` it.
    """
    return "" if math.isnan(value) else fixed(value, _digits(value, beside))


def _digits(value: float, beside: float = 0.0) -> int:
    size = max(abs(value), abs(beside))
    if not math.isfinite(value) or 0 < size < 1e-5 or abs(value) >= 1e7:
        return -1
    return 2 if abs(value) >= 10 else 3 if size >= 0.01 or size == 0 else decimals(size, figures=3)
