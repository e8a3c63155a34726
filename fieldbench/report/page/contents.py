"""What a page says: the main table, pairs, trials, failures and provenance, as values that its templates write."""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from typing import Any

from fieldbench.errors import RequestError, how_to_install
from fieldbench.records import CELL, canonical
from fieldbench.report.blocks import Block, TableCell
from fieldbench.report.comparison import Comparison, compare, pair_cells
from fieldbench.report.factors import label
from fieldbench.report.floors import distance
from fieldbench.report.formats import Text, cell_text
from fieldbench.report.labels import called
from fieldbench.report.numbers import significant, with_unit
from fieldbench.report.page.browser import Album
from fieldbench.report.page.drawings import MOST, Drawing
from fieldbench.report.settings import SETTING, title_of
from fieldbench.report.stored import StoredRun, run_name
from fieldbench.report.tables import Table, make_table
from fieldbench.report.times import MARKS, MEANINGS, SECONDS
from fieldbench.store.run import read_rows
from fieldbench.store.status import RunStatus, run_status

#: Scores that tell how well a method knows how far off it is.
UNCERTAINTY = ("crps", "coverage90", "width90")

#: The page has at most this many rows of single trials; the run's folder has them all.
MOST_TRIALS = 2000

#: Figures of one kind that are shown at once; the others are folded.
FEW = 4

#: Columns of the main table that stand there where their levels differ.
_VARYING = (*SETTING, "seed", "metric")


@dataclass(frozen=True)
class GridCell:
    """A cell of a grid.

    Attributes:
        text: what it shows.
        number: what it sorts by, as JavaScript writes numbers; None for its text, an empty text for a gap.
        rank: 1 for the best of its setting, 2 for the second best.
        bar: where an interval begins, its mean and its end are, in percent of the width.
        link: where it leads.
    """

    text: str = ""
    number: str | None = None
    rank: int = 0
    bar: tuple[float, float, float] | None = None
    link: str = ""


@dataclass(frozen=True)
class GridRow:
    """A row of a grid: its cells, the anchor it has, and whether a new group of rows begins with it."""

    cells: Sequence[GridCell]
    id: str = ""
    begins: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of a page; with an ``id`` it can be sorted and filtered.

    Of each column there are the head, and the kind: ``text``, ``long`` (text that wraps), ``number`` or ``chart``.
    """

    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[GridRow]
    id: str = ""
    notes: Sequence[str] = ()


def numeric(value: float | None, text: str, rank: int = 0) -> GridCell:
    """A cell that sorts by a number; a gap where there is none.

    >>> numeric(math.inf, "inf").number, numeric(math.nan, "-").number
    ('Infinity', '')

    Args:
        value: that it sorts by.
        text: that it shows.
        rank: among its setting.
    """
    known = "" if value is None or math.isnan(value) else repr(float(value)).replace("inf", "Infinity")
    return GridCell(text, known, rank)


def contents(run: StoredRun, figures: Sequence[Drawing], album: Album | None = None) -> dict[str, Any]:
    """What the template ``sections.html`` shows of a run.

    Args:
        run: what is shown.
        figures: on the page.
        album: slices of reconstructions.
    """
    status = run_status(run.path)
    head = {"name": run_name(run.path), "status": status, "failures": list(_failures(run, status))}
    if run.frame.empty:
        return {**head, "sentence": "No trial has ended yet.", "results": None}
    table = make_table(run.frame, run.metadata, floors=run.floors, labels=run.labels)
    comparison = _comparison(run)
    return {
        **head,
        "results": main_table(run, table),
        "figures": [(heading, list(drawn)) for heading, drawn in groupby(figures, key=lambda figure: figure.heading)],
        "missing_figures": _missing_figures(figures, len(run.settings)),
        "slices": album if find_spec("matplotlib") else None,
        "comparison": _pairs(comparison) if comparison else None,
        "trials": _trials(run),
        "commands": list(dict.fromkeys(_again(item.command) for item in run.manifest.sessions if item.command)),
        "sessions": [list(_listed(item.model_dump(exclude={"command"}))) for item in run.manifest.sessions],
        "sentence": comparison.sentence if comparison else _plain_sentence(table, run),
        "summary": list(_summary(comparison)) if comparison else [],
        "few": FEW,
    }


def main_table(run: StoredRun, table: Table) -> Grid:
    """One row a method in a setting, settings one below the other: score with interval, floor, uncertainty."""
    flat = sorted(_flat(table), key=lambda item: item.position)
    varying = [name for name in _VARYING if len({str(item.levels.get(name)) for item in flat}) > 1]
    measures = list(dict.fromkeys(with_unit(run.called(item.block.metric), item.block.unit) for item in flat))
    extra = _uncertainty(run)
    floors = any(item.block.floor for item in flat)
    columns = [
        *((called(name, run.labels), "text") for name in ("method", *varying)),
        (measures[0] if len(measures) == 1 else "score", "number"),
        ("from 0", "chart"),
        *([("above floor", "number")] if floors else []),
        *((head, "number") for head in extra),
    ]
    largest: dict[Any, float] = {}
    for item in flat:
        largest[item.setting] = max(largest.get(item.setting, 0.0), _end(item.cell))
    rows: list[GridRow] = []
    before, taken = None, set()
    for item in flat:
        unit = f" {item.block.unit}" if len(measures) > 1 and item.block.unit and item.cell.count else ""
        above = item.block.above(*item.at)
        cells = [
            GridCell(item.method),
            *(_level(name, item.levels[name], run) for name in varying),
            numeric(item.cell.value, cell_text(item.cell, Text()) + unit, item.cell.rank),
            GridCell(bar=_bar(item.cell, largest[item.setting])),
            *([numeric(above, distance(above))] if floors else []),
            *(values.get(item.key, numeric(None, "-")) for values in extra.values()),
        ]
        named = anchor(item.levels)
        rows.append(GridRow(cells, id="" if named in taken else named, begins=before not in (None, item.setting)))
        before = item.setting
        taken.add(named)
    where = title_of({name: flat[0].levels[name] for name in SETTING if name not in varying}, run.frame, run.labels)
    metrics = dict.fromkeys(run.called(item.block.metric) for item in flat)
    title = f"Mean {measures[0] if len(measures) == 1 else ' and '.join(metrics)}, one row a method in a setting"
    notes = [*table.notes, "bold: best of its setting; underlined: second best", _CHART]
    return Grid(f"{title} ({where})" if where else title, columns, rows, "cells", notes)


def anchor(row: Mapping[Any, Any]) -> str:
    """The anchor of a cell, the same on every page that shows it, from a mapping with what a cell is made of."""
    cell = [float(row[name]) if name == "rate" else str(row[name]) for name in CELL]
    return "c" + hashlib.sha256(canonical(cell).encode()).hexdigest()[:12]


_CHART = "from 0: the mean as a dot, its interval as a line, from zero to the largest of the setting"


@dataclass(frozen=True)
class _Flat:
    """A cell of a table with all its levels."""

    block: Block
    at: tuple[int, int]
    cell: TableCell
    levels: Mapping[str, Any]
    position: tuple[int, int, int]

    @property
    def method(self) -> str:
        return str(self.block.rows[self.at[0]])

    @property
    def setting(self) -> tuple[int, int]:
        return self.position[:2]

    @property
    def key(self) -> tuple[str, ...]:
        """What the same cell of another metric has in common with it."""
        return tuple(str(self.levels.get(name)) for name in ("method", *SETTING, "seed"))


def _flat(table: Table) -> Iterator[_Flat]:
    cells = table.cells()
    for number, block in enumerate(table.blocks):
        for (row, column), cell in block.cells.items():
            yield _Flat(block, (row, column), cell, next(cells), (number, column, row))


def _uncertainty(run: StoredRun) -> dict[str, dict[tuple[str, ...], GridCell]]:
    """Columns of scores of uncertainty, by head; none where all scores are of a mean alone."""
    scores = [name for name in UNCERTAINTY if name in run.frame and run.frame[name].notna().any()]
    if scores in ([], ["crps"]):
        return {}
    columns: dict[str, dict[tuple[str, ...], GridCell]] = {}
    for item in _flat(make_table(run.frame, run.metadata, metric=scores, labels=run.labels)):
        cell = numeric(item.cell.value, cell_text(item.cell, Text()), item.cell.rank)
        columns.setdefault(with_unit(called(item.block.metric, run.labels), item.block.unit), {})[item.key] = cell
    return columns


def _end(cell: TableCell) -> float:
    """Where a cell's interval ends, if it is something to draw."""
    end = cell.value + (0.0 if math.isnan(cell.spread) else cell.spread)
    return end if math.isfinite(end) else 0.0


def _bar(cell: TableCell, largest: float) -> tuple[float, float, float] | None:
    if not (math.isfinite(cell.value) and cell.value >= 0 and largest > 0):
        return None
    spread = cell.spread if math.isfinite(cell.spread) else 0.0
    low, at, high = (
        100 * value / largest for value in (max(0.0, cell.value - spread), cell.value, cell.value + spread)
    )
    return round(low, 1), round(at, 1), round(high, 1)


def _comparison(run: StoredRun) -> Comparison | None:
    try:
        return compare(run.frame, run.metadata, labels=run.labels)
    except RequestError:
        return None


def _pairs(comparison: Comparison) -> Grid:
    several = len(comparison.groups) > 1
    kinds = {"setting": "text"} if several else {}
    kinds |= {"better": "text", "worse": "text", "difference": "number", "95 % interval": "text"}
    kinds |= dict.fromkeys(["wins", "p", "detectable"], "number")
    rows: list[GridRow] = []
    for group in comparison.groups:
        for number, pair in enumerate(group.pairs):
            better, worse, difference, interval, wins, p, found = pair_cells(pair)
            unit = f" {group.unit}" if group.unit and pair.count else ""
            cells = [
                *([GridCell(group.title)] if several else []),
                GridCell(better),
                GridCell(worse),
                numeric(pair.difference, difference + unit),
                GridCell(interval),
                numeric(pair.wins, wins),
                numeric(pair.corrected, p, rank=int(pair.significant)),
                numeric(pair.detectable, found + unit),
            ]
            rows.append(GridRow(cells, begins=bool(rows) and number == 0))
    return Grid("Pairs of methods", list(kinds.items()), rows, "pairs", comparison.notes)


def _summary(comparison: Comparison) -> Iterator[str]:
    """A sentence for each setting, and mean ranks over them."""
    if len(comparison.groups) < 2:
        return
    ranks = comparison.ranks()
    if ranks.settings:
        listed = ", ".join(f"{name} {mean:.2f}" for name, mean in zip(ranks.methods, ranks.means, strict=True))
        yield f"Mean ranks over {ranks.settings} settings (1 is best): {listed}{ranks.test}."
    yield from (f"{group.sentence} ({group.title})." for group in comparison.groups)


def _missing_figures(figures: Sequence[Drawing], settings: int) -> str:
    if not find_spec("matplotlib"):
        return f"Figures and slices need matplotlib; {how_to_install('plots')}, then write the page again."
    return f"Of {settings} settings the first {MOST}; fieldbench plot has all." if figures and settings > MOST else ""


def _failures(run: StoredRun, status: RunStatus) -> Iterator[dict[str, object]]:
    shown = read_rows(run.path, keys={rows[0]["key"] for rows in status.failures.values()}) if status.failures else ()
    diagnostics = {row["key"]: row.get("diagnostics", {}) for row in shown}
    for (method, outcome, error), rows in status.failures.items():
        where = ", ".join(
            f"{called(row['dataset'], run.labels)} rate {row['rate']:g} {run.draw_name(row['trial'], row['seed'])}"
            for row in rows[:5]
        )
        yield {
            "method": called(method, run.labels),
            "outcome": outcome,
            "error": error,
            "count": len(rows),
            "where": where + (f" and {len(rows) - 5} more" if len(rows) > 5 else ""),
            "trace": str(diagnostics.get(rows[0]["key"], {}).get("traceback", "")),
        }


def _trials(run: StoredRun) -> Grid:
    frame = run.frame
    varying = [name for name in (*SETTING, "seed") if frame[name].nunique() > 1]
    metrics = list(dict.fromkeys(setting.metric for setting in run.settings if setting.metric in frame))
    columns = [
        *((called(name, run.labels), "text") for name in ("method", *varying)),
        ("trial", "number"),
        ("status", "text"),
        *((run.called(name), "number") for name in metrics),
        ("seconds", "number"),
        ("error", "long"),
    ]
    shown = frame.head(MOST_TRIALS).to_dict("records")
    rows = [
        GridRow([
            *(_level(name, row[name], run) for name in ("method", *varying)),
            numeric(row["trial"], str(row["trial"])),
            GridCell(str(row["status"])),
            *(numeric(row[name], significant(row[name])) for name in metrics),
            numeric(row[SECONDS], f"{significant(row[SECONDS])} {_mark(row)}".strip()),
            GridCell(str(row["error"])),
        ])
        for row in shown
    ]  # fmt: skip
    used = {_mark(row) for row in shown}
    notes = [f"{mark} {meaning}" for mark, meaning in MEANINGS.items() if mark in used]
    if len(frame) > MOST_TRIALS:
        notes.append(f"the first {MOST_TRIALS} of {len(frame)}; trials.jsonl has them all")
    return Grid("Single trials", columns, rows, "trials-table", notes)


def _mark(row: Mapping[Hashable, Any]) -> str:
    """What marks the seconds of a trial, if it has any."""
    return "" if math.isnan(row[SECONDS]) else MARKS[row["timed"] or "unknown"]


def _again(command: Sequence[str]) -> str:
    """A session's command as a line that destroys nothing."""
    program = "fieldbench" if str(command[0]).endswith("fieldbench") else str(command[0])
    return shlex.join([program, *(str(item) for item in command[1:] if item not in ("--fresh", "--retry-failed"))])


def _listed(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values in words, without those that are empty."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            text = ", ".join(f"{key} {item}" for key, item in value.items() if item is not None)
        elif isinstance(value, list):
            text = "; ".join(
                ", ".join(map(str, item.values())) if isinstance(item, dict) else str(item) for item in value
            )
        else:
            text = "" if value is None else str(value)
        if text:
            yield name.replace("_", " "), text


def _plain_sentence(table: Table, run: StoredRun) -> str:
    """What a run says whose methods cannot be compared."""
    item = next((item for item in _flat(table) if item.cell.count), None)
    if item is None:
        return "No trial has ended well."
    measure, unit = run.called(item.block.metric), f" {item.block.unit}" if item.block.unit else ""
    setting = title_of({name: item.levels[name] for name in SETTING}, run.frame, run.labels)
    return f"{item.method} has a mean {measure} of {cell_text(item.cell, Text())}{unit} ({setting})."


def _level(name: str, value: Any, run: StoredRun) -> GridCell:
    shown = called(label(value, name), run.labels)
    return numeric(float(value), shown) if name in ("rate", "seed") else GridCell(shown)
