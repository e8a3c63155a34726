"""Ours beside the published: what a suite's run gave, cell by cell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fieldbench.plan import Plan
from fieldbench.suite import Suite
from fieldbench.trial import OK


@dataclass(frozen=True)
class Cell:
    """One number of a suite's table, ours and the published one.

    Attributes:
        row, column, heading: labels in the suite.
        mean, std: mean and standard deviation of our trials (std is NaN for a single trial); None if there
            is no finished trial.
        done, planned: trials that ended well, and trials asked for.
        oracle: mean over trials of the best reported estimate against the truth: what oracle stopping would
            have shown. None if the method reports no estimates.
        published: the source's number, or None.
    """

    row: str
    column: str
    heading: str
    method: str
    mean: float | None
    std: float
    done: int
    planned: int
    oracle: float | None
    published: float | None

    @property
    def ratio(self) -> float | None:
        """Ours over the published number."""
        return None if self.mean is None or self.published is None else self.mean / self.published

    @property
    def oracle_ratio(self) -> float | None:
        """Ours by oracle stopping over the published number."""
        return None if self.oracle is None or self.published is None else self.oracle / self.published

    @property
    def joint_uncertainty(self) -> float | None:
        """Half-width of the interval in which two means of this many trials should differ.

        The source gives no spread, so its mean is taken to be as uncertain as ours: twice the standard
        error of a difference of two such means, 2 sqrt(2) std / sqrt(n).
        """
        if self.done < 2:
            return None
        return 2 * math.sqrt(2) * self.std / math.sqrt(self.done)

    @property
    def further_off(self) -> bool:
        """Whether ours and the published number differ by more than their joint uncertainty."""
        if self.mean is None or self.published is None or self.joint_uncertainty is None:
            return False
        return abs(self.mean - self.published) > self.joint_uncertainty


def compare(suite: Suite, plan: Plan, rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """Every cell of a suite, from the stored rows of its run.

    Args:
        suite: the table.
        plan: its plan; it decides which stored rows belong to which cell.
        rows: stored records (one mapping a trial), of this plan or a larger one.
    """
    wanted = {trial.key: (trial.method, trial.dataset, trial.sampler, trial.noise, trial.rate) for trial in plan}
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for stored in rows:
        if stored["key"] in wanted and stored["status"] == OK:
            found.setdefault(wanted[stored["key"]], []).append(stored)
    planned: dict[tuple[Any, ...], int] = {}
    for place in wanted.values():
        planned[place] = planned.get(place, 0) + 1

    cells = []
    for row in suite.rows:
        for position, column in enumerate(suite.columns):
            method, setting = plan.canonical(suite.method(row, position), suite.setting(column))
            place = (method, setting.dataset, setting.sampler, setting.noise, setting.rate)
            cells.append(
                _cell(
                    found.get(place, []),
                    metric=suite.metric,
                    row=row.label,
                    column=column.label,
                    heading=row.heading,
                    method=method,
                    planned=planned.get(place, 0),
                    published=row.published[position] if row.published else None,
                )
            )
    return cells


def within(cells: Iterable[Cell], share: float = 0.15) -> tuple[int, int, int]:
    """How many published numbers are met: ours no more than ``share`` worse, by final and by oracle selection.

    Returns:
        Cells met by the final estimate, cells met by oracle stopping, and cells that have both numbers.
    """
    known = [cell for cell in cells if cell.ratio is not None]
    final = sum(1 for cell in known if cell.ratio is not None and cell.ratio <= 1 + share)
    oracle = sum(1 for cell in known if (cell.oracle_ratio or cell.ratio or math.inf) <= 1 + share)
    return final, oracle, len(known)


def _cell(rows: list[Mapping[str, Any]], *, metric: str, **labels: Any) -> Cell:
    values = [row["metrics"][metric] for row in rows if metric in row["metrics"]]
    oracles = [best for row in rows if (best := _best_reported(row, metric)) is not None]
    return Cell(
        mean=statistics.fmean(values) if values else None,
        std=statistics.stdev(values) if len(values) > 1 else math.nan,
        done=len(values),
        oracle=statistics.fmean(oracles) if oracles and len(oracles) == len(values) else None,
        **labels,
    )


def _best_reported(row: Mapping[str, Any], metric: str) -> float | None:
    """The best error on the curve of reported estimates, the final one included."""
    curve = row.get("diagnostics", {}).get("curve", {}).get(metric)
    return min([*curve, row["metrics"][metric]]) if curve else None
