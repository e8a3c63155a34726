"""Runs as a site of static pages: one for each run, dataset and method, that open from disk without a server."""

from __future__ import annotations

import hashlib
import html
import inspect
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fieldbench.errors import RequestError
from fieldbench.records import CELL, OK, canonical
from fieldbench.registry import Entry, Registry, Sources
from fieldbench.report.floors import floors_of, has_floor
from fieldbench.report.numbers import fixed
from fieldbench.report.page import framed
from fieldbench.report.page.drawings import drawings
from fieldbench.report.page.parts import TableColumn, sections, sortable
from fieldbench.report.statistics import half_width
from fieldbench.report.stored import Panel, StoredRun
from fieldbench.report.tables import make_table
from fieldbench.spec import parse
from fieldbench.store.files import FLOORS, MANIFEST, TRIALS, storing

#: What of a run can be downloaded.
_RECORDS = (TRIALS, FLOORS, MANIFEST)


def write_site(folders: Sequence[Path], out: Path, sources: Sources) -> Path:
    """Write the pages of some runs; what else lies in the folder stays.

    Args:
        folders: the runs; their folders' names are their names on the site.
        out: the site's folder.
        sources: plugins besides the installed ones, for what methods and datasets say of themselves.

    Returns:
        The first page.

    Raises:
        RequestError: if a folder holds no run or no record, or two runs have one name.
        StorageError: if the site cannot be written.
    """
    runs = {folder.resolve().name: StoredRun(folder, sources) for folder in folders}
    if len(runs) < len(folders):
        raise RequestError("two runs have folders of one name, by which the site would know them; rename one")
    empty = next((name for name, run in runs.items() if run.frame.empty), None)
    if empty is not None:
        raise RequestError(f"{empty} has no record yet; a site shows finished trials")
    cells = pd.concat([_cells(name, run) for name, run in runs.items()], ignore_index=True)
    registry = Registry(sources)
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
        for name, run in runs.items():
            (out / "records" / slug(name)).mkdir(parents=True, exist_ok=True)
            for file in _RECORDS:
                if (run.path / file).is_file() and not (run.path / file).is_symlink():
                    shutil.copyfile(run.path / file, out / "records" / slug(name) / file)
            _write(out, "run", name, _run_page(name, run, cells[cells["run"] == name]))
        for kind in ("dataset", "method"):
            for bare, part in cells.groupby(f"{kind} name", sort=False):
                _write(out, kind, str(bare), _plugin_page(kind, str(bare), part, runs, registry))
        first = out / "index.html"
        first.write_text(framed("Results · fieldbench", _index(runs, cells)), encoding="utf-8", errors="replace")
    return first


def slug(name: str) -> str:
    """A name as a part of an address, another one for each name.

    >>> slug("tap"), slug("A b")
    ('tap', 'a-b-c8687a08')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def address(row: Any) -> str:
    """The anchor of a cell, the same in every site that shows it.

    Args:
        row: a mapping with what a cell is made of.
    """
    cell = [float(row[name]) if name == "rate" else str(row[name]) for name in CELL]
    return "c" + hashlib.sha256(canonical(cell).encode()).hexdigest()[:12]


def _cells(name: str, run: StoredRun) -> pd.DataFrame:
    """A row for each cell of a run: mean, interval, trials, place among its rivals, distance to the floor."""
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
                "metric": setting.metric, "mean": trials.mean(), "trials": len(trials),
                "interval": half_width(trials.std(), len(trials)) if len(trials) > 1 else np.nan,
                "above": 100 * (trials.mean() / floor - 1) if floor > 0 else np.nan,
            })  # fmt: skip
        ranked.sort(key=lambda row: run.metadata.rank(row["metric"], row["mean"]))
        rows += [{**row, "place": place, "rivals": len(ranked)} for place, row in enumerate(ranked, 1)]
    names = {"dataset name": "dataset", "method name": "method"}
    found = pd.DataFrame(rows, columns=None if rows else ["run", *CELL, "place"])
    return found.assign(**{new: found[old].map(_bare) for new, old in names.items()})


def _bare(text: object) -> str:
    return "+".join(part.name for part in parse(str(text)))


def _run_page(name: str, run: StoredRun, cells: pd.DataFrame) -> str:
    files = [file for file in _RECORDS if (run.path / file).is_file()]
    links = ", ".join(f'<a href="records/{slug(name)}/{file}">{file}</a>' for file in files)
    rows = f"<h2>Rows</h2>{_listed(cells, own=True)}<h2>Downloads</h2><p>{links}</p>"
    return "\n".join([_home(), sections(run, drawings(run)), "<h2>Ranks</h2>", _ranks(run), rows])


def _ranks(run: StoredRun) -> str:
    """Mean ranks over all draws on which every method has a score, with 95 % intervals (Student's t)."""
    ranks = []
    for setting in run.settings:
        part = run.part(setting)
        part = part.assign(method=part["method"].astype(str), score=part["score"].map(partial(_rank, run, setting)))
        scores = part.pivot_table(index=["seed", "trial"], columns="method", values="score")
        if set(scores.columns) == set(run.methods):
            ranks.append(scores.dropna().rank(axis=1))
    together = pd.concat(ranks) if ranks else pd.DataFrame()
    if len(together) < 2 or len(run.methods) < 2:
        return "<p>Ranks need two methods and two draws on which all have a score.</p>"
    columns = [TableColumn("method"), TableColumn("mean rank", True), TableColumn("95 % interval ±", True)]
    rows = []
    for method, values in sorted(together.items(), key=lambda item: float(item[1].mean())):
        numbers = float(values.mean()), half_width(float(values.std()), len(values))
        rows.append([method, *((number, fixed(number, 2)) for number in numbers)])
    return sortable("ranks", f"Mean rank over {len(together)} draws, 1 is best", columns, rows)


def _rank(run: StoredRun, setting: Panel, score: float) -> float:
    return run.metadata.rank(setting.metric, score)


def _listed(cells: pd.DataFrame, *, own: bool = False) -> str:
    """Cells as a list; on their run's page each has its anchor, elsewhere a link there."""
    lines = []
    for row in cells.to_dict("records"):
        anchor = address(row)
        link = f"#{anchor}" if own else f"{_page_of('run', row['run'])}#{anchor}"
        identity = f' id="{anchor}"' if own else ""
        shown = [
            f'<a href="{link}">{html.escape(row["method"])}</a>',
            html.escape(row["title"]),
            html.escape(f"{row['metric']} {row['mean']:.4g} {row['unit']}".strip()),
            _number(row["interval"], "{:.2g}"),
            str(row["trials"]),
            f"{row['place']} of {row['rivals']}",
            _number(row["above"], "{:+.0f} %"),
        ]
        lines.append(f"<tr{identity}>{''.join(f'<td>{cell}</td>' for cell in shown)}</tr>")
    return _table(("method", "setting", "score", "± 95 %", "trials", "place", "above floor"), lines)


def _table(heads: Sequence[str], lines: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else html.escape(form.format(value))


def _plugin_page(kind: str, bare: str, cells: pd.DataFrame, runs: dict[str, StoredRun], registry: Registry) -> str:
    parts = [_home(), f"<h1>{html.escape(bare)}</h1>", *_described(kind, bare, registry)]
    if kind == "method":
        placed = cells.assign(share=cells["place"] / cells["rivals"])[cells["rivals"] > 1].sort_values("share")
        if len(placed):
            best, worst = placed.iloc[0], placed.iloc[-1]
            said = (f"{row['place']} of {row['rivals']} on {row['title']}" for row in (best, worst))
            parts.append("<p>Best: {}. Worst: {}.</p>".format(*map(html.escape, said)))
        parts.append(_listed(cells))
        return "\n".join(parts)
    for name, part in cells.groupby("run", sort=False):
        run = runs[str(name)]
        specs = [str(spec) for spec in part["dataset"].unique()]
        frame = StoredRun(run.path, run.sources, {"dataset": specs}).frame
        table = make_table(frame, run.metadata, spread="interval", floors=run.floors)
        parts += [f'<h2><a href="{_page_of("run", str(name))}">{html.escape(str(name))}</a></h2>', table.to("html")]
    return "\n".join(parts)


def _described(kind: str, bare: str, registry: Registry) -> Iterable[str]:
    """What plugins say of themselves: what they are, their parameters with sources, terms and citation."""
    for name in bare.split("+"):
        try:
            entry: Entry = registry.find("modifier" if name != bare.split("+")[0] else kind, name)
        except (RequestError, KeyError):  # the plugin is elsewhere; its numbers are here
            continue
        text = html.escape(inspect.cleandoc(entry.cls.__doc__ or "")).replace("\n\n", "</p><p>")
        yield f"<p>{text}</p><p class='quiet'>{html.escape(name)} comes with {html.escape(str(entry.source))}.</p>"
        for title in ("licence", "citation"):
            if said := getattr(entry.cls, title, ""):
                yield f"<p>{title.capitalize()}: {html.escape(said)}</p>"
        rows = []
        for parameter in entry.cls.parameter_names():
            field = entry.cls.model_fields[parameter]
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            default = "required" if field.is_required() else str(field.default)
            cells = (parameter, default, field.description or "", str(extra.get("source") or ""))
            rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        if rows:
            yield _table(("parameter", "default", "meaning", "source"), rows)


def _index(runs: dict[str, StoredRun], cells: pd.DataFrame) -> str:
    parts = ["<h1>Results</h1>", "<h2>Runs</h2><ul>"]
    for name, run in runs.items():
        command = " ".join(run.manifest.sessions[-1].command[1:]) if run.manifest.sessions else ""
        made = f", by <code>fieldbench {html.escape(command)}</code>" if command else ""
        parts.append(f"<li>{_link('run', name)}: {len(run.frame)} trials of {len(run.methods)} methods{made}</li>")
    for kind in ("dataset", "method"):
        parts.append(f"</ul><h2>{kind.capitalize()}s</h2><ul>")
        parts += [f"<li>{_link(kind, str(name))}</li>" for name in cells[f"{kind} name"].unique()]
    return "\n".join([*parts, "</ul>"])


def _home() -> str:
    return '<p><a href="index.html">All results</a></p>'


def _link(kind: str, name: str) -> str:
    return f'<a href="{_page_of(kind, name)}">{html.escape(name)}</a>'


def _page_of(kind: str, name: str) -> str:
    return f"{kind}-{slug(name)}.html"


def _write(out: Path, kind: str, name: str, main: str) -> None:
    text = framed(f"{html.escape(name)} · fieldbench", main)
    (out / _page_of(kind, name)).write_text(text, encoding="utf-8", errors="replace")
