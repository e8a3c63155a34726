"""Tables: mean and spread of a metric over the trials of each cell, rows and columns by any factor."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.records import FAILURES, NOT_APPLICABLE, OK
from fieldbench.report.blocks import HEAD_MARKS, Block, Head, TableCell
from fieldbench.report.factors import (
    FACTORS,
    is_of_methods,
    label,
    levels_meant,
    measures,
    must_be_measured,
    once,
    ordered,
    with_parameters,
)
from fieldbench.report.floors import DRAW, MEANING, floors_of, has_floor
from fieldbench.report.formats import block_table, csv_text, style_of
from fieldbench.report.labels import called, labelled, named_so
from fieldbench.report.metadata import MEASURES, RunMetadata
from fieldbench.report.numbers import decimals_of, decimals_of_column, fixed, with_unit
from fieldbench.report.settings import ORDINARY, about_masks, named, settings_of
from fieldbench.report.statistics import half_width
from fieldbench.report.times import MEANINGS, SECONDS, counted, left_out, timings

Key = TypeVar("Key", tuple[int, int], int)

#: What stands behind an average, the first by default; seconds, which have no mean, by default have the second.
SPREADS: dict[str, str] = {
    "interval": "half width of the 95 % confidence interval",
    "std": "standard deviation",
    "stderr": "standard error",
    "none": "",
}

#: Those of them that seconds can have, which are shown by their median.
SPREADS_OF_SECONDS = ("std", "none")

#: Columns that say what a score is; a block has one of each.
MEASURED = ("metric", "unit")

#: Marks that a method has whatever the selection.
_OF_METHODS = ("trained", "tuned", "refitted")


@dataclass(frozen=True)
class Table:
    """A table ready to be written in any format.

    Attributes:
        blocks: its parts, one below the other.
        row_factors, column_factors: what rows and columns differ in.
        common: factors that are the same in the whole table.
        unfinished: what an unfinished run has and should have, in words; else an empty text.
        budgets: what the tuned methods were allowed, in words.
        one_field: datasets whose field is the same in all of their several trials.
        bounds: of which trials a score is a bound of the true one, in words.
        labels: what to call what.
    """

    blocks: tuple[Block, ...]
    row_factors: tuple[str, ...]
    column_factors: tuple[str, ...]
    common: dict[str, object] = field(default_factory=dict)
    unfinished: str = ""
    budgets: tuple[str, ...] = ()
    one_field: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def to(self, format: str, *, styled: bool = False, width: int | None = None) -> str:
        """The table as ``text``, ``markdown``, ``csv``, ``latex`` or ``html``.

        Args:
            format: one of these names.
            styled: for ``text``, whether bold and underline may be used (a terminal that shows them).
            width: of a line in characters, for ``text`` and ``latex``; wider tables are split.

        Raises:
            RequestError: for any other name.
        """
        if format == "csv":
            return csv_text(labelled(self.cells(), self.labels))
        style = style_of(format, styled=styled, width=width)
        notes = [style.text(note) for note in [*self._in_common, *self.notes]]
        return style.whole([block_table(block, style) for block in self.blocks], notes)

    @property
    def _in_common(self) -> list[str]:
        """A line saying what the whole table has in common, as far as it is not the plainest case."""
        plain = {**ORDINARY, "seed": 0}
        shown = [
            f"{called(factor, self.labels)} {called(str(value), self.labels)}"
            for factor, value in self.common.items()
            if str(value) != str(plain.get(factor))
        ]
        return [", ".join(shown)] if shown else []

    def cells(self) -> Iterator[dict[str, Any]]:
        """Every cell as a flat row: its factors, metric, mean (of seconds: median), spread and counts."""
        for block in self.blocks:
            for (row, column), cell in block.cells.items():
                heads = block.rows[row], block.columns[column]
                yield {
                    **self.common,
                    **block.levels,
                    **dict(zip(self.row_factors, heads[0].levels, strict=True)),
                    **dict(zip(self.column_factors, heads[1].levels, strict=True)),
                    "metric": block.metric,
                    "unit": block.unit,
                    block.average: cell.value,
                    **({block.spread: cell.spread} if block.spread != "none" else {}),
                    "count": cell.count,
                    "planned": cell.planned,
                    "failed": cell.failed,
                    "not_applicable": cell.not_applicable,
                    "unscored": cell.unscored,
                    **({"left_out": cell.left_out, "timing": cell.timing} if block.metric == SECONDS else {}),
                    **({"floor": block.floor[column].value} if block.floor else {}),
                    **({"above_floor": block.above(row, column)} if block.floor else {}),
                    **{mark: any(mark in head.marks for head in heads) for mark in HEAD_MARKS},
                }

    @property
    def notes(self) -> list[str]:
        """What a reader must know: the spread, incomplete cells, and the meaning of marks."""
        cells = [cell for block in self.blocks for cell in block.cells.values()]
        planned = sorted({cell.planned for cell in cells if cell.planned} or {0})
        trials = " or ".join(map(str, planned))
        averages = " or ".join(dict.fromkeys(block.average for block in self.blocks))
        shown = {
            f"{block.average} ± {SPREADS[block.spread]}"
            if block.spread != "none" and planned[-1] > 1
            else block.average
            for block in self.blocks
        }
        notes = [f"{' or '.join(sorted(shown))} over {trials} trial{'' if trials == '1' else 's'}"]
        if self.unfinished:
            notes.append(self.unfinished)
        named = [factor for factor in self.column_factors if factor not in FACTORS]
        if named:
            notes.insert(0, f"columns: {', '.join(called(factor, self.labels) for factor in named)}")
        lost = {
            "failed": sum(cell.failed for cell in cells),
            "not applicable": sum(cell.not_applicable for cell in cells if cell.count),  # the others read n/a
            "without a score": sum(cell.unscored for cell in cells),
            "not there yet": sum(cell.missing for cell in cells),
        }
        counts = ", ".join(f"{count} {name}" for name, count in lost.items() if count)
        if counts:
            notes.append(f"(k/n): only k of n trials are in the {averages} ({counts}); such cells are not ranked")
        if any(cell.not_applicable for cell in cells):
            notes.append("n/a: the method does not work on such a field")
        if any(block.floor for block in self.blocks):
            notes.append(MEANING)
        if self.one_field and planned[-1] > 1:
            notes.append(about_masks(self.one_field))
        notes += self.bounds
        notes += self._of_seconds(cells)
        marked = {mark for block in self.blocks for head in (*block.rows, *block.columns) for mark in head.marks}
        spent = {"tuned": f": {' or '.join(self.budgets)}"}
        return notes + [
            f"{sign} {meaning}{spent.get(mark, '')}" for mark, (sign, meaning) in HEAD_MARKS.items() if mark in marked
        ]

    def _of_seconds(self, cells: list[TableCell]) -> list[str]:
        """What a reader of seconds must know; nothing in a table of anything else."""
        notes = []
        if first := sum(cell.left_out for cell in cells):
            notes.append(f"{left_out(first)}: start-up is in its seconds")
        machines = {cell.machine for cell in cells if cell.timing == "alone" and cell.machine}
        if len(machines) > 1:
            notes.append(
                "seconds of several machines are not ranked with one another; --columns machine tells them apart"
            )
        used = {cell.mark for cell in cells if cell.count}
        return notes + [f"{mark} {meaning}; not ranked" for mark, meaning in MEANINGS.items() if mark in used]

    def __str__(self) -> str:
        return self.to("text")

    def _repr_html_(self) -> str:
        return self.to("html")


def make_table(
    frame: pd.DataFrame,
    metadata: RunMetadata,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] = ("rate",),
    metric: str | Sequence[str] | None = None,
    spread: str | None = None,
    floors: pd.DataFrame | None = None,
    labels: Mapping[str, str] | None = None,
    order: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Tabulate records.

    Args:
        frame: records as :func:`fieldbench.report.frame.read_frame` gives them.
        metadata: what is known of its specs and metrics.
        rows, columns: factors; rows are methods by default, with their selection where that varies.
        metric: a metric, ``seconds`` or ``peak_memory``, or several of them, each of which has blocks of its own; by
            default the headline metric of each dataset.
        spread: ``interval`` (the half width of a 95 % interval by Student's t, the default), ``std``, ``stderr`` or
            ``none``; of seconds, which are shown by their median, ``std`` (the default) or ``none``.
        floors: of the draws, as :func:`fieldbench.report.floors.read_floor_frame` gives them.
        labels: what to call what.
        order: levels of factors, which come first in this order; the others follow.

    Returns:
        A table of one block for each combination of the other factors that vary, and for each metric and unit.

    Raises:
        RequestError: for an unknown factor, level, metric or spread, or a frame without any record.
    """
    labels = labels or {}
    if metric is not None and not isinstance(metric, str):
        given = {"rows": rows, "columns": columns, "floors": floors, "labels": labels, "order": order}
        tables = [
            make_table(
                frame,
                metadata,
                **given,  # type: ignore[arg-type]
                metric=one,
                spread=None if one == SECONDS and spread not in SPREADS_OF_SECONDS else spread,
            )
            for one in dict.fromkeys(metric)
        ]
        parts, bounds = (tuple(chain(*(getattr(table, name) for table in tables))) for name in ("blocks", "bounds"))
        return replace(tables[0], blocks=parts, bounds=bounds)
    spread = spread or ("std" if metric == SECONDS else "interval")
    if spread not in SPREADS:
        raise RequestError(f"unknown spread {spread!r}{nearest(spread, SPREADS)}")
    if metric == SECONDS and spread not in SPREADS_OF_SECONDS:
        raise RequestError(f"spread {spread!r} is of a mean, and seconds are shown as medians; use std or none")
    if frame.empty:
        raise RequestError("there are no records to tabulate; run some trials first")
    frame = once(frame, (*(rows or ()), *columns))
    one_field = tuple(called(text, labels) for text in map(str, frame["dataset"].unique()) if text in metadata.fixed)
    bounds = _bounds(frame, metric)
    row_factors, column_factors = _arrangement(frame, rows, columns)
    used = (*row_factors, *column_factors)
    parameters = [factor for factor in used if factor not in FACTORS]
    comparable = {"method", "select", *(name for name in parameters if is_of_methods(name, frame, metadata))}
    frame = _scored(frame, metric, metadata, floors)
    frame = frame.assign(**{mark: frame["method"].isin(getattr(metadata, mark)) for mark in _OF_METHODS})
    budgets = tuple(dict.fromkeys(metadata.tuned[text] for text in frame["method"].unique() if text in metadata.tuned))
    frame = with_parameters(frame, parameters, metadata)  # last, since the metadata are those of whole specs
    asked = {factor: [named_so(text, labels) for text in wanted] for factor, wanted in (order or {}).items()}
    first = {factor: levels_meant(frame, factor, wanted) for factor, wanted in asked.items()}
    metadata = replace(metadata, first={factor: list(chain(*meant)) for factor, meant in first.items()})
    others = [name for name in (*FACTORS, *MEASURED) if name not in used and name not in ("device", "machine", "run")]
    varying = [name for name in others if name == "dataset" or frame[name].nunique() > 1]
    varying.sort(key=lambda name: name != "dataset")
    telling = [name for name in varying if name not in MEASURED]
    of_dataset = frame.groupby("dataset", observed=True)  # each may have one level alone, as the sampler usually is
    shown = tuple(name for name in telling if name == "dataset" or (of_dataset[name].nunique() != 1).any())
    common = {name: frame[name].iloc[0] for name in others if name not in (*varying, *MEASURED)}

    arrangement = _Arrangement(row_factors, column_factors, shown, frozenset(comparable), spread, labels)
    blocks = []
    groups = frame.groupby(varying, sort=False, observed=True) if varying else [((), frame)]
    for levels, part in groups:
        fixed = dict(zip(varying, levels, strict=True))
        blocks.append((fixed, _block(part, fixed, metadata, arrangement)))
    orders = {name: ordered(list(frame[name].unique()), name, metadata) for name in varying}
    blocks.sort(key=lambda item: [orders[name].index(level) for name, level in item[0].items()])
    made = tuple(block for _, block in blocks)
    return Table(made, row_factors, column_factors, common, "", budgets, one_field, bounds, labels)


#: Scores that are a bound of the true one in trials with this flag beside them: ``resolution.depth.finer``.
_FLAGS = {
    "coarser": "no wave is resolved, and the value is a lower bound",
    "finer": "all are, and it is an upper bound",
}


def _bounds(frame: pd.DataFrame, metric: str | None) -> tuple[str, ...]:
    counts = {flag: int(frame[f"{metric}.{flag}"].notna().sum()) for flag in _FLAGS if f"{metric}.{flag}" in frame}
    told = [f"in {count} {_FLAGS[flag]}" for flag, count in counts.items() if count]
    return (f"{metric}: of {frame[metric].notna().sum()} trials, {'; '.join(told)}",) if told else ()


@dataclass(frozen=True)
class _Arrangement:
    """Factors of rows, columns and titles, those along which cells are compared, the spread that is shown, labels."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    titles: tuple[str, ...]
    comparable: frozenset[str]
    spread: str
    labels: Mapping[str, str]


def _arrangement(
    frame: pd.DataFrame, rows: Sequence[str] | None, columns: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    column_factors = tuple(dict.fromkeys(columns))
    if rows is None:
        rows = ["method"] if "method" not in column_factors else ["rate"]
        if "select" not in column_factors and frame["select"].nunique() > 1:
            rows.append("select")
    row_factors = tuple(dict.fromkeys(rows))
    twice = [factor for factor in row_factors if factor in column_factors]
    if twice:
        raise RequestError(f"factor {twice[0]!r} cannot be both rows and columns; give another for one of them")
    return row_factors, column_factors


def _scored(
    frame: pd.DataFrame, metric: str | None, metadata: RunMetadata, floors: pd.DataFrame | None
) -> pd.DataFrame:
    """The frame with ``metric``, ``unit``, ``score`` and ``floor``: one metric for all, or each dataset's own."""
    if metric is not None:
        must_be_measured(metric, frame)
    scores = [name for name in measures(frame) if name not in MEASURES]
    default = "rmse" if "rmse" in scores else [*scores, "rmse"][0]
    datasets = list(map(str, frame["dataset"].unique()))
    chosen = {dataset: metric or metadata.headline.get(dataset) or default for dataset in datasets}
    units = {dataset: metadata.unit(chosen[dataset], dataset) for dataset in datasets}
    score, floor = np.full(len(frame), np.nan), np.full(len(frame), np.nan)
    for dataset, name in chosen.items():
        here = (frame["dataset"] == dataset).to_numpy()
        if name in frame:
            score[here] = frame[name].to_numpy(float)[here]
        if floors is not None and has_floor(name, metadata):
            floor[here] = floors_of(frame[DRAW][here], name, floors)
    # Of millions of records no column is copied that the table does not need, and texts are kept as categories.
    return frame.drop(columns=["key", "error", *scores]).assign(
        metric=_by_dataset(frame, chosen), unit=_by_dataset(frame, units), score=score, floor=floor
    )


def _by_dataset(frame: pd.DataFrame, texts: Mapping[str, str]) -> pd.Series:
    """For each record the text of its dataset."""
    datasets = frame["dataset"].astype("category").cat
    levels: list[str] = list(dict.fromkeys(texts.values()))
    codes = np.array([levels.index(texts[name]) if name in texts else -1 for name in datasets.categories])
    return pd.Series(pd.Categorical.from_codes(codes[datasets.codes.to_numpy()], pd.Index(levels)), frame.index)


def _block(
    part: pd.DataFrame,
    fixed: dict[str, object],
    metadata: RunMetadata,
    arrangement: _Arrangement,
) -> Block:
    by = [*arrangement.rows, *arrangement.columns]
    metric, unit = str(part["metric"].iloc[0]), str(part["unit"].iloc[0])
    rows = _heads(part, arrangement.rows, metadata, arrangement.labels)
    columns = _heads(part, arrangement.columns, metadata, arrangement.labels)
    planned = _planned(part, by, metadata)
    found = _by_levels(_summary(part, by, metric))
    cells = {}
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            levels = (*row.levels, *column.levels)
            values = found.get(levels)
            seed = dict(zip(by, levels, strict=True)).get("seed", part["seed"].iloc[0])
            if values is not None:
                cells[i, j] = _cell(values, planned[seed], arrangement.spread)
            else:  # a method without the parameter that columns differ in has no trials there, and none are missing
                cells[i, j] = TableCell(planned=planned[seed] if set(by) <= set(FACTORS) else 0)
    floor = _floor(part, arrangement, columns)
    title = ", ".join(named(name, fixed[name], arrangement.labels) for name in arrangement.titles)
    measure = with_unit(called(metric, arrangement.labels), unit)
    otherwise = decimals_of_column([cell.value for cell in (*cells.values(), *floor.values())])
    cells, floor = _with_digits(cells, otherwise), _with_digits(floor, otherwise)
    cells = _ranked(cells, rows, columns, arrangement, partial(metadata.rank, metric))
    return Block(
        levels={key: value for key, value in fixed.items() if key not in MEASURED},
        title=f"{title}: {measure}" if title else measure,
        corner=", ".join(called(factor, arrangement.labels) for factor in arrangement.rows),
        metric=metric,
        unit=unit,
        rows=rows,
        columns=columns,
        cells=cells,
        spread=arrangement.spread,
        floor=floor,
    )


def _by_levels(cells: pd.DataFrame) -> dict[tuple[object, ...], dict[Hashable, Any]]:
    """The rows of a frame by the levels that index it."""
    levels = (key if isinstance(key, tuple) else (key,) for key in cells.index)
    return dict(zip(levels, cells.to_dict("records"), strict=True))


def _with_digits(cells: Mapping[Key, TableCell], otherwise: int) -> dict[Key, TableCell]:
    """Cells with as many digits as their uncertainty allows, or ``otherwise`` where they have none."""
    return {
        key: replace(cell, decimals=decimals_of(cell.value, cell.uncertainty, otherwise)) for key, cell in cells.items()
    }


def _floor(part: pd.DataFrame, arrangement: _Arrangement, columns: tuple[Head, ...]) -> dict[int, TableCell]:
    """The floor of each column, over the draws that its cells are of; nothing where one lacks its floor."""
    if not arrangement.comparable.issuperset(arrangement.rows) or part["floor"].isna().all():
        return {}
    draws = part.drop_duplicates([*DRAW, *arrangement.columns]).groupby(list(arrangement.columns), observed=True)
    groups = dict(iter(draws["floor"]))
    found = [groups[column.levels] for column in columns]
    if any(group.isna().any() for group in found):
        return {}
    cells = {}
    for number, group in enumerate(found):
        count = len(group)
        half, shown = _spread(float(group.std()), count, arrangement.spread)
        cells[number] = TableCell(float(group.mean()), shown, half, count=count, planned=count)
    return cells


#: What is counted of a cell's trials.
_TALLY = ("count", "left_out", "failed", "not_applicable", "unscored")


def _summary(part: pd.DataFrame, by: list[str], metric: str) -> pd.DataFrame:
    """The average of each cell (``value``), its deviation (``std``), and an account of its trials."""
    status = part["status"]
    good = (status == OK) & part["score"].notna()
    shown = good.copy()
    if metric == SECONDS:
        shown[good] = counted(part[good], by)
    unscored = (status == OK) & part["score"].isna()
    counts = (shown, good & ~shown, status.isin(FAILURES), status == NOT_APPLICABLE, unscored)
    tally = pd.DataFrame(dict(zip(_TALLY, counts, strict=True)))
    tally = tally.groupby([part[name] for name in by], observed=True).sum()
    part = part[shown] if metric == SECONDS else part.loc[shown, [*by, "score"]]
    cells = part.groupby(by, observed=True)
    if metric != SECONDS:
        return tally.join(cells["score"].agg(value="mean", std="std"))
    taken = pd.DataFrame({"timing": timings(part, by), "machine": cells["machine"].first()})
    return tally.join(cells["score"].agg(value="median", std="std")).join(taken)


def _planned(part: pd.DataFrame, by: Sequence[str], metadata: RunMetadata) -> dict[object, int]:
    """How many trials a cell of each seed should have: as many as were asked for, or as the fullest has."""
    ended = part.groupby(list(dict.fromkeys(["seed", *by])), observed=True).size()
    most = ended.groupby(level="seed").max()
    fullest = zip(most.index.tolist(), most.tolist(), strict=True)
    return {seed: max(count, metadata.trials.get(seed, 0)) for seed, count in fullest}


def _cell(values: Mapping[Hashable, Any], planned: int, spread: str) -> TableCell:
    tally: dict[str, Any] = {name: int(values[name]) for name in _TALLY}
    count = tally["count"]
    half, shown = _spread(float(values["std"]), count, spread)
    taken = {"timing": values["timing"], "machine": str(values["machine"])} if count and "timing" in values else {}
    value = float(values["value"]) if count else math.nan
    return TableCell(value=value, spread=shown, half_width=half, planned=planned, **tally, **taken)


def _spread(deviation: float, count: int, spread: str) -> tuple[float, float]:
    """The half width of an average's interval, and the spread that is shown of it; NaN for less than two trials."""
    if count < 2:
        return math.nan, math.nan
    half = half_width(deviation, count)
    shown = {"std": deviation, "stderr": deviation / math.sqrt(count), "interval": half, "none": math.nan}
    return half, shown[spread]


def _heads(
    part: pd.DataFrame, factors: tuple[str, ...], metadata: RunMetadata, labels: Mapping[str, str]
) -> tuple[Head, ...]:
    marked = _by_levels(part.groupby(list(factors), observed=True)[list(_OF_METHODS)].any())
    heads = []
    for levels in settings_of(part, factors, metadata):
        row = tuple(levels.values())
        marks = [name for name in _OF_METHODS if marked[row][name] and "method" in levels]
        selection = str(levels.get("select", part["select"].iloc[0]))
        if selection.partition("[")[0] == "oracle" and ("select" in levels or "method" in levels):
            marks.append("oracle")
        text = ", ".join(called(label(value, factor), labels) for factor, value in levels.items())
        heads.append(Head(row, text, frozenset(marks)))
    return tuple(heads)


def _ranked(
    cells: dict[tuple[int, int], TableCell],
    rows: tuple[Head, ...],
    columns: tuple[Head, ...],
    arrangement: _Arrangement,
    rank: Callable[[float], float],
) -> dict[tuple[int, int], TableCell]:
    """Mark best and second best among the cells that differ in the method and in nothing observed.

    Incomplete cells are left out, since the trials that a method lost may be the hard ones; so are seconds that
    were not taken alone, and oracles, unless there is nothing else. Seconds of several machines are not ranked.
    """
    if arrangement.comparable.issuperset(arrangement.rows):
        lines = [[(i, j) for i in range(len(rows))] for j in range(len(columns))]
    elif arrangement.comparable.issuperset(arrangement.columns):
        lines = [[(i, j) for j in range(len(columns))] for i in range(len(rows))]
    else:
        return cells
    ranked = dict(cells)
    for line in lines:
        fair = [key for key in line if cells[key].complete and not (math.isnan(cells[key].value) or cells[key].mark)]
        honest = [key for key in fair if "oracle" not in rows[key[0]].marks | columns[key[1]].marks]
        candidates = honest or fair
        # Numbers that read alike share a rank.
        read = {key: rank(float(fixed(cells[key].value, cells[key].decimals))) for key in candidates}
        places = {number: place for place, number in enumerate(sorted(set(read.values()))[:2], 1)}
        if len(candidates) < 2 or len({cells[key].machine for key in candidates}) > 1:
            continue
        for key in candidates:
            ranked[key] = replace(cells[key], rank=places.get(read[key], 0))
    return ranked
