"""Ours beside the published: what a suite's run gave, cell by cell."""

from __future__ import annotations

import html
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


#: Table formats, and what tabulate calls them.
FORMATS: dict[str, str] = {
    "text": "simple",
    "markdown": "pipe",
    "csv": "csv",
    "latex": "latex_booktabs",
    "html": "html",
}


def written(suite: Suite, cells: list[Cell], format: str) -> str:
    """The table in one of :data:`FORMATS`: for each row ours, by oracle stopping, the published, the ratio.

    All formats but CSV close with how many published numbers are met, and the cells further off than the
    joint uncertainty. CSV has one line a cell instead.
    """
    if format == "csv":
        return _as_csv(cells)
    from tabulate import tabulate

    head = [f"{suite.title} ({suite.metric})", "", *(column.label for column in suite.columns)]
    width = len(suite.columns)
    body: list[list[str]] = []
    for position, row in enumerate(suite.rows):
        if row.heading and (position == 0 or suite.rows[position - 1].heading != row.heading):
            body.append([row.heading, *[""] * (width + 1)])
        line = cells[position * width : (position + 1) * width]
        body.append([row.label, "ours", *map(_ours, line)])
        if any(cell.oracle is not None for cell in line):
            body.append(["", "oracle*", *(_number(cell.oracle) for cell in line)])
        if row.published:
            body.append(["", "published", *(_number(cell.published) for cell in line)])
            body.append(["", "ratio", *("" if cell.ratio is None else f"{cell.ratio:.2f}" for cell in line)])
    table = tabulate(body, headers=head, tablefmt=FORMATS[format], disable_numparse=True, stralign="left")
    closing = _closing(suite, cells)
    if format == "latex":
        return "\n".join([table.replace("±", r"$\pm$"), *(f"% {line}" for line in closing)])
    if format == "html":
        return "\n".join([table, *(f"<p>{html.escape(line.strip())}</p>" for line in closing)])
    return "\n".join([table, "", *closing])


def _closing(suite: Suite, cells: list[Cell]) -> list[str]:
    lines = [f"ours: mean ± standard deviation of {suite.trials} trials, (k/n) where only k of n are there."]
    if any(cell.oracle is not None for cell in cells):
        lines.append(
            "oracle*: the best estimate reported during training, chosen against the truth; no user can do that."
        )
    final, oracle, known = within(cells)
    if known:
        lines.append(f"Within 15 % of the published number or better: {final} of {known} final, {oracle} by oracle.")
    off = [cell for cell in cells if cell.further_off]
    if off:
        lines.append("Further off than the joint uncertainty, 2 sqrt(2) std / sqrt(n):")
        lines += [
            f"  {cell.row}, {cell.column}: {_number(cell.mean)} where {_number(cell.published)} is published "
            f"(ratio {cell.ratio:.2f}, uncertainty {_number(cell.joint_uncertainty)})"
            for cell in off
        ]
    return lines


def _ours(cell: Cell) -> str:
    if cell.mean is None:
        return f"({cell.done}/{cell.planned})"
    spread = "" if math.isnan(cell.std) else f" ± {_number(cell.std)}"
    count = "" if cell.done == cell.planned else f" ({cell.done}/{cell.planned})"
    return f"{_number(cell.mean)}{spread}{count}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def _as_csv(cells: list[Cell]) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "column", "method", "mean", "std", "trials", "planned", "oracle", "published", "ratio"])
    for cell in cells:
        numbers = (cell.mean, cell.std, cell.done, cell.planned, cell.oracle, cell.published, cell.ratio)
        writer.writerow([cell.row, cell.column, cell.method, *(_plain(number) for number in numbers)])
    return out.getvalue().rstrip("\n")


def _plain(number: float | None) -> str:
    if number is None or math.isnan(number):
        return ""
    return str(number) if isinstance(number, int) else f"{number:.6g}"
