"""Runs as a site of static pages: one for each run, dataset and method, that open from disk without a server."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.records import CELL, OK
from fieldbench.registry import Entry, Registry, Sources
from fieldbench.report.factors import label
from fieldbench.report.floors import distance, floors_of, has_floor
from fieldbench.report.labels import called, nameable
from fieldbench.report.numbers import decimals_of_column, fixed, rounded, significant, with_unit
from fieldbench.report.page import render
from fieldbench.report.page.contents import Grid, GridCell, GridRow, anchor, contents, main_table, numeric
from fieldbench.report.page.drawings import drawings
from fieldbench.report.settings import ORDINARY, about_masks, records_of
from fieldbench.report.statistics import half_width
from fieldbench.report.stored import Panel, StoredRun, run_name
from fieldbench.report.tables import make_table
from fieldbench.spec import name_of
from fieldbench.store.files import FLOORS, MANIFEST, TRIALS

#: What of a run can be downloaded.
_RECORDS = (TRIALS, FLOORS, MANIFEST)


def write_site(folders: Sequence[Path], out: Path, sources: Sources, labels: Mapping[str, str] | None = None) -> Path:
    """Write the pages of some runs; what else lies in the folder stays.

    Args:
        folders: the runs; their folders' names are their names on the site.
        out: the site's folder.
        sources: plugins besides the installed ones, for what methods and datasets say of themselves.
        labels: what to call what; each for something that one of the runs has.

    Returns:
        The first page.

    Raises:
        RequestError: if a folder holds no run or no record, two runs have one name, or a label is for nothing.
        OSError: if the site cannot be written.
    """
    runs = _labelled({run_name(folder): StoredRun(folder, sources) for folder in folders}, labels or {})
    if len(runs) < len(folders):
        raise RequestError("two runs have folders of one name, by which the site would know them; rename one")
    empty = next((name for name, run in runs.items() if run.frame.empty), None)
    if empty is not None:
        raise RequestError(f"{empty} has no record yet; a site shows finished trials")
    cells = pd.concat([_cells(name, run) for name, run in runs.items()], ignore_index=True)
    registry = Registry(sources)
    out.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        (out / "records" / slug(name)).mkdir(parents=True, exist_ok=True)
        files = [file for file in _RECORDS if (run.path / file).is_file()]
        for file in files:
            if not (run.path / file).is_symlink():
                shutil.copyfile(run.path / file, out / "records" / slug(name) / file)
        downloads = [(file, f"records/{slug(name)}/{file}") for file in files]
        shown = contents(run, drawings(run))
        _write(out / _page_of("run", name), render("site-run.html", **shown, ranks=_ranks(run), downloads=downloads))
    for kind in ("dataset", "method"):
        for bare, part in cells.groupby(f"{kind} name", sort=False):
            _write(out / _page_of(kind, str(bare)), _plugin_page(kind, str(bare), part, runs, registry))
    first = out / "index.html"
    _write(first, _index(runs, cells))
    return first


def _labelled(runs: dict[str, StoredRun], labels: Mapping[str, str]) -> dict[str, StoredRun]:
    """The runs, each with those of the labels that are for something in it."""
    known = {name: nameable(run.everything, run.metadata) for name, run in runs.items()}
    every = set().union(*known.values())
    for text in labels:
        if text not in every:
            raise RequestError(f"a label is for {text!r}, which no run has{nearest(text, every)}")
    own = {name: {text: label for text, label in labels.items() if text in known[name]} for name in runs}
    return {name: run.chosen({}, own[name]) for name, run in runs.items()}


def slug(name: str) -> str:
    """A name as a part of an address, another one for each name.

    >>> slug("tap"), slug("A b")
    ('tap', 'a-b-a760b0e1')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def _cells(name: str, run: StoredRun) -> pd.DataFrame:
    """A row for each cell of a run: mean, interval, trials, rank among the methods, distance to the floor."""
    rows = []
    for setting in run.settings:
        part = run.part(setting)
        scored = part[(part["status"] == OK) & np.isfinite(part["score"])]
        floors = floors_of(part, setting.metric, run.floors) if has_floor(setting.metric, run.metadata) else None
        ranked = []
        for method, trials in scored.groupby("method", observed=True)["score"]:
            floor = np.nan if floors is None else floors[trials.index].mean(skipna=False)
            ranked.append({
                "run": name, **setting.levels, "method": str(method), "title": setting.title, "unit": setting.unit,
                "name": called(str(method), run.labels),
                "metric": setting.metric, "mean": trials.mean(), "trials": len(trials),
                "interval": half_width(trials.std(), len(trials)) if len(trials) > 1 else np.nan,
                "above": 100 * (trials.mean() / floor - 1) if floor > 0 else np.nan,
            })  # fmt: skip
        ranked.sort(key=lambda row: run.metadata.rank(row["metric"], row["mean"]))
        means = [row["mean"] for row in ranked]  # equal means share a rank
        rows += [{**row, "rank": 1 + means.index(row["mean"]), "of": len(ranked)} for row in ranked]
    names = {"dataset name": "dataset", "method name": "method"}
    found = pd.DataFrame(rows, columns=None if rows else ["run", *CELL, "rank"])
    return found.assign(**{new: found[old].map(name_of) for new, old in names.items()})


def _ranks(run: StoredRun) -> Grid | None:
    """Mean ranks as a table, or None where there are none."""
    ranks, draws = _mean_ranks(run)
    columns = [("method", "text"), ("mean rank", "number"), ("± 95 % interval", "number")]
    rows = [
        GridRow([GridCell(called(method, run.labels)), *(numeric(number, fixed(number, 2)) for number in numbers)])
        for method, numbers in ranks.items()
    ]
    return Grid(f"Mean rank over {draws} draws, 1 is best", columns, rows, "ranks") if rows else None


def _mean_ranks(run: StoredRun) -> tuple[dict[str, tuple[float, float]], int]:
    """Mean rank and 95 % half width (Student's t) of each method, best first, over the draws on which all have a score.

    Returns:
        The ranks, empty with one method or fewer than two such draws; the number of draws.
    """
    ranks = []
    for setting in run.settings:
        part = run.part(setting)
        better_first = [run.metadata.rank(setting.metric, score) for score in part["score"]]
        part = part.assign(method=part["method"].astype(str), score=better_first)
        scores = part.pivot_table(index=["seed", "trial"], columns="method", values="score")
        if set(scores.columns) == set(run.methods):
            ranks.append(scores.dropna().rank(axis=1))
    together = pd.concat(ranks) if ranks else pd.DataFrame()
    if len(together) < 2 or len(run.methods) < 2:
        return {}, len(together)
    means = together.mean().sort_values(kind="stable")
    halves = {method: half_width(float(values.std()), len(together)) for method, values in together.items()}
    return {str(method): (float(mean), halves[method]) for method, mean in means.items()}, len(together)


def _listed(cells: pd.DataFrame) -> Grid:
    """Cells as a list, each with a link to its row on the page of its run."""
    rows = []
    for row in cells.to_dict("records"):
        shown = [
            GridCell(row["name"], link=f"{_page_of('run', row['run'])}#{anchor(row)}"),
            GridCell(row["title"]),
            numeric(row["mean"], f"{row['metric']} {rounded(row['mean'], row['interval'])} {row['unit']}".strip()),
            numeric(row["interval"], significant(row["interval"], 2, "")),
            numeric(row["trials"], str(row["trials"])),
            GridCell(f"{row['rank']} of {row['of']}"),
            numeric(row["above"], distance(row["above"])),
        ]
        rows.append(GridRow(shown))
    kinds = {"method": "text", "setting": "text", "score": "number", "± 95 % interval": "number", "trials": "number"}
    kinds |= {"rank": "text", "above floor": "number"}
    return Grid("Scores by method and setting", list(kinds.items()), rows, "rows")


def _plugin_page(kind: str, bare: str, cells: pd.DataFrame, runs: dict[str, StoredRun], registry: Registry) -> str:
    told = ""
    if kind == "method":
        tables = [("", "", _listed(cells))]
        placed = cells.assign(share=cells["rank"] / cells["of"])[cells["of"] > 1].sort_values("share")
        if len(placed):
            best, worst = (
                f"{row['rank']} of {row['of']} on {row['title']}" for _, row in placed.iloc[[0, -1]].iterrows()
            )
            told = f"Best: {best}. Worst: {worst}."
    else:
        tables = [
            (str(name), _page_of("run", str(name)), _of_dataset(str(name), runs[str(name)], part))
            for name, part in cells.groupby("run", sort=False)
        ]
    title = called(bare, dict(chain.from_iterable(run.labels.items() for run in runs.values())))
    return render(
        "site-plugin.html", name=title, parts=list(_described(kind, bare, registry)), told=told, tables=tables
    )


def _of_dataset(name: str, run: StoredRun, cells: pd.DataFrame) -> Grid:
    """The main table of a run's page for some of its datasets, beside those of other runs."""
    specs = [str(spec) for spec in cells["dataset"].unique()]
    part = run.chosen({"dataset": specs}, run.labels)
    table = make_table(part.frame, run.metadata, floors=run.floors, labels=run.labels)
    grid = main_table(part, table)
    rows = [replace(row, id="") for row in grid.rows]
    return replace(grid, caption=f"{name}: {grid.caption}", rows=rows, id=f"cells-{slug(name)}")


def _described(kind: str, bare: str, registry: Registry) -> Iterator[dict[str, Any]]:
    """What plugins say of themselves: what they are, their parameters with sources, terms and citation."""
    for name in bare.split("+"):
        try:
            entry: Entry = registry.find("modifier" if name != bare.split("+")[0] else kind, name)
        except (RequestError, KeyError):  # the plugin is elsewhere; its numbers are here
            continue
        rows = []
        for parameter in entry.cls.parameter_names():
            field = entry.cls.model_fields[parameter]
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            default = "required" if field.is_required() else str(field.default)
            texts = (parameter, default, field.description or "", str(extra.get("source") or ""))
            rows.append(GridRow([GridCell(text) for text in texts]))
        columns = [("parameter", "text"), ("default", "text"), ("meaning", "long"), ("source", "long")]
        terms = [(title.capitalize(), getattr(entry.cls, title, "")) for title in ("licence", "citation")]
        yield {
            "name": name,
            "source": entry.source,
            "paragraphs": inspect.cleandoc(entry.cls.__doc__ or "").split("\n\n"),
            "terms": [term for term in terms if term[1]],
            "parameters": Grid(f"Parameters of {name}", columns, rows),
        }


def _index(runs: dict[str, StoredRun], cells: pd.DataFrame) -> str:
    listed = []
    for name, run in runs.items():
        command = " ".join(["fieldbench", *run.manifest.sessions[-1].command[1:]]) if run.manifest.sessions else ""
        counts = {"trials": len(run.frame), "methods": len(run.methods)}
        matrix = _matrix(run, cells[cells["run"] == name])
        listed.append({"name": name, "address": _page_of("run", name), "command": command, **counts, **matrix})
    labels = dict(chain.from_iterable(run.labels.items() for run in runs.values()))
    plugins = []
    for kind in ("dataset", "method"):
        names = [str(name) for name in cells[f"{kind} name"].unique()]
        plugins.append((f"{kind.capitalize()}s", [(called(name, labels), _page_of(kind, name)) for name in names]))
    return render("site-index.html", runs=listed, plugins=plugins)


def _matrix(run: StoredRun, cells: pd.DataFrame) -> dict[str, Any]:
    """A run in one table: a row a method, best mean rank first, a column a setting, the floors last."""
    ranks, draws = _mean_ranks(run)
    methods = sorted(run.methods, key=lambda method: (ranks[method][0] if ranks else 0, run.methods.index(method)))
    rows: dict[str, list[GridCell]] = {method: [] for method in methods}
    heads, floors = [], []
    for setting in run.settings:
        part = records_of(setting.levels, cells)
        found = {str(row["method"]): row for row in part.to_dict("records")}
        floor = run.floor(setting)
        digits = decimals_of_column(row["mean"] for row in found.values())
        most = max((row["trials"] for row in found.values()), default=0)
        ranked = [method for method, row in found.items() if row["trials"] == most]
        for method, shown in rows.items():
            row = found.get(method)
            if row is None:
                shown.append(GridCell("-"))
                continue
            counted = "" if row["trials"] == most else f" ({row['trials']}/{most})"
            best = ranked and found[ranked[0]]["mean"] == row["mean"] and not counted
            shown.append(numeric(row["mean"], f"{fixed(row['mean'], digits)}{counted}", rank=int(bool(best))))
        floors.append(GridCell("" if np.isnan(floor) else fixed(floor, digits)))
        heads.append(_head(setting, run.labels))
    return {
        "heads": heads,
        "rows": [
            {"method": called(method, run.labels), "address": _page_of("method", name_of(method)),
             "rank": " ± ".join(fixed(number, 1) for number in ranks.get(method, ())), "cells": shown}
            for method, shown in rows.items()
        ],
        "floors": floors if any(cell.text for cell in floors) else [],
        "draws": draws if ranks else 0,
        "notes": [about_masks(called(text, run.labels) for text in fields)] if (fields := run.metadata.fixed) else [],
    }  # fmt: skip


def _head(setting: Panel, labels: Mapping[str, str]) -> dict[str, Any]:
    """The head of a setting's column: its dataset, how it is observed, and what the numbers are."""
    dataset, *details = (
        called(label(level, factor), labels)
        for factor, level in setting.levels.items()
        if ORDINARY.get(factor) != level
    )
    address = _page_of("dataset", name_of(str(setting.levels["dataset"])))
    return {"dataset": dataset, "address": address, "details": [*details, with_unit(setting.name, setting.unit)]}


def _page_of(kind: str, name: str) -> str:
    return f"{kind}-{slug(name)}.html"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")
