"""The text of a page: sentence, tables, comparison, failures, provenance, and how to repeat it."""

from __future__ import annotations

import html
import math
import shlex
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from typing import Any

from fieldbench.errors import RequestError, how_to_install
from fieldbench.report.blocks import marks
from fieldbench.report.comparison import Comparison, compare, pair_cells
from fieldbench.report.factors import label
from fieldbench.report.formats import STYLES, block_table
from fieldbench.report.numbers import fixed, significant
from fieldbench.report.page.browser import Album
from fieldbench.report.page.drawings import MOST, Drawing
from fieldbench.report.settings import SETTING
from fieldbench.report.stored import StoredRun
from fieldbench.report.tables import SPREADS, Table, make_table
from fieldbench.report.times import MARKS, MEANINGS, SECONDS
from fieldbench.store.run import read_rows
from fieldbench.store.status import RunStatus, run_status

_NO_FIGURES = (
    f"<p class='quiet'>Figures and slices need matplotlib; {html.escape(how_to_install('plots'))}, then write "
    "the page again.</p>"
)

#: Scores that tell how well a method knows how far off it is.
UNCERTAINTY = ("crps", "coverage90", "width90")

#: The page has at most this many rows of single trials; the run's folder has them all.
MOST_TRIALS = 2000


def sections(run: StoredRun, figures: Sequence[Drawing], album: Album | None = None) -> str:
    """Everything between a page's head and foot.

    Args:
        run: what is shown.
        figures: on the page.
        album: slices of reconstructions.
    """
    status = run_status(run.path)
    if run.frame.empty:
        return f"<h1>{_text(_name(run))}</h1>\n<p class='lead'>No trial has ended yet.</p>\n{_state(status)}"
    table = make_table(run.frame, run.metadata, spread="interval", floors=run.floors, labels=run.labels)
    comparison = _comparison(run)
    parts = [
        ("results", "Results", _results(table)),
        ("uncertainty", "Uncertainty", _uncertainty(run)),
        ("comparison", "Comparison", _compared(comparison) if comparison else ""),
        ("figures", "Figures", _figures(figures, len(run.settings))),
        ("slices", "Slices", _slices(album)),
        ("failures", "Failures", _failures(run, status)),
        ("trials", "Trials", _trials(run)),
        ("provenance", "Provenance", _provenance(run)),
    ]
    shown = [(anchor, heading, body) for anchor, heading, body in parts if body]
    links = "".join(f'<li><a href="#{anchor}">{heading}</a></li>' for anchor, heading, _ in shown)
    sentence = comparison.sentence if comparison else _plain_sentence(table)
    head = [
        f"<h1>{_text(_name(run))}</h1>",
        f'<p class="lead">{_text(sentence)}</p>',
        _state(status),
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>',
    ]
    body = [
        f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{heading}</h2>\n{text}</section>'
        for anchor, heading, text in shown
    ]
    return "\n".join([*head, *body])


@dataclass(frozen=True)
class TableColumn:
    """A column of a sortable table; a numeric one sorts by the value of its cells."""

    head: str
    numeric: bool = False
    long: bool = False


def sortable(name: str, caption: str, columns: Sequence[TableColumn], rows: Iterable[Sequence[Any]]) -> str:
    """A table that can be sorted and filtered.

    Args:
        name: its id in the page.
        caption: what it holds.
        columns: heads.
        rows: cells; one of a numeric column is a pair of a number and its text as HTML.
    """
    heads = "".join(
        f'<th scope="col" class="{"number" if column.numeric else "text"}"'
        f' data-numeric="{str(column.numeric).lower()}"><button type="button">{_text(column.head)}</button></th>'
        for column in columns
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(value, column) for value, column in zip(row, columns, strict=True)) + "</tr>"
        for row in rows
    )
    table = (
        f'<table class="sortable" id="{name}"><caption>{_text(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
    controls = (
        f'<div class="controls"><label>Filter the rows<input type="search" data-filter-of="{name}" autocomplete="off">'
        f'</label><span class="quiet" role="status" data-count-of="{name}"></span></div>'
    )
    return controls + _scrolling(table, caption)


def _cell(value: Any, column: TableColumn) -> str:
    if column.numeric:
        number, text = value
        # As JavaScript writes it: its Number() does not know "inf".
        known = "" if number is None or math.isnan(number) else repr(float(number)).replace("inf", "Infinity")
        return f'<td data-value="{known}">{text}</td>'
    return f'<td class="text{" long" if column.long else ""}">{_text(value)}</td>'


def _scrolling(table: str, label: str) -> str:
    """A wide table scrolls within itself, by keyboard too; the page never scrolls sideways."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}">{table}</div>'


def _state(status: RunStatus) -> str:
    failed = sum(len(rows) for rows in status.failures.values())
    text = f"{status.done} of {status.planned} trials are done"
    text += f"; {failed} failed (<a href='#failures'>which</a>)" if failed else ", none failed"
    text += f". {_text(status.damage)}" if status.damage else ""
    running = f' <span class="live quiet">Being written by {_text(status.writer)}.</span>' if status.writer else ""
    return f'<p class="{"alert" if failed else "quiet"}">{text}.{running}</p>'


def _results(table: Table) -> str:
    rows = list(table.cells())
    varying = [name for name in (*SETTING, "seed", "metric") if _varies(name, rows)]
    placed = [(cell.decimals, cell.rank) for block in table.blocks for cell in block.cells.values()]
    columns = [
        TableColumn("method"),
        *(TableColumn(name, name in ("rate", "seed")) for name in varying),
        TableColumn("mean", True),
        TableColumn("95 % interval ±", True),
        TableColumn("trials", True),
    ]
    body = []
    for row, (decimals, rank) in zip(rows, placed, strict=True):
        method = str(row["method"]) + marks(row["oracle"], row["trained"], row["tuned"], row["refitted"])
        levels = [_level(name, row[name]) for name in varying]
        counts = f"{row['count']}/{row['planned']}"
        unit = f" {row['unit']}" if row["unit"] and not math.isnan(row["mean"]) else ""
        number = _text(fixed(row["mean"], decimals) + unit)
        marked = {1: f"<strong>{number}</strong>", 2: f"<u>{number}</u>"}.get(rank, number)
        body.append(
            [
                method,
                *levels,
                (row["mean"], marked),
                (row["interval"], fixed(row["interval"], decimals)),
                (row["count"], counts if row["count"] == row["planned"] else f"<strong>{counts}</strong>"),
            ]
        )
    title = "Mean of " + " and ".join(dict.fromkeys(str(row["metric"]).upper() for row in rows))
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    flat = sortable("cells", f"{title}, one row a cell", columns, body)
    notes += "<li>bold: best of its setting; underlined: second best</li>"
    return f"{_wide(table)}\n<ul class='quiet'>{notes}</ul>\n{flat}"


def _uncertainty(run: StoredRun) -> str:
    """Scores of uncertainty, in a run that has some beside those of a mean alone."""
    scores = [name for name in UNCERTAINTY if name in run.frame and run.frame[name].notna().any()]
    if scores in ([], ["crps"]):
        return ""
    table = make_table(run.frame, run.metadata, metric=scores, spread="interval", labels=run.labels)
    notes = "".join(f"<li>{_text(note)}</li>" for note in table.notes)
    return f"{_wide(table)}\n<ul class='quiet'>{notes}</ul>"


def _wide(table: Table) -> str:
    style = STYLES["html"]
    return "\n".join(_scrolling(block_table(block, style), block.title) for block in table.blocks)


def _comparison(run: StoredRun) -> Comparison | None:
    try:
        return compare(run.frame, run.metadata, labels=run.labels)
    except RequestError:
        return None


def _compared(comparison: Comparison) -> str:
    several = len(comparison.groups) > 1
    columns = [
        *([TableColumn("setting")] if several else []),
        TableColumn("better"),
        TableColumn("worse"),
        TableColumn("difference", True),
        TableColumn("95 % interval"),
        TableColumn("wins", True),
        TableColumn("p", True),
        TableColumn("detectable", True),
    ]
    rows = []
    for group in comparison.groups:
        for pair in group.pairs:
            better, worse, difference, interval, wins, p, found = pair_cells(pair)
            unit = f" {group.unit}" if group.unit and pair.count else ""
            rows.append(
                [
                    *([group.title] if several else []),
                    better,
                    worse,
                    (pair.difference, _text(difference + unit)),
                    interval,
                    (pair.wins, _text(wins)),
                    (pair.corrected, f"<strong>{_text(p)}</strong>" if pair.significant else _text(p)),
                    (pair.detectable, _text(found + unit)),
                ]
            )
    if not rows:
        return ""
    sentences = "".join(f"<li>{_text(f'{group.sentence} ({group.title}).')}</li>" for group in comparison.groups)
    ranks = comparison.ranks()
    order = ""
    if several and ranks.settings:
        listed = ", ".join(f"{name} {mean:.2f}" for name, mean in zip(ranks.methods, ranks.means, strict=True))
        order = f"<p>{_text(f'Mean ranks over {ranks.settings} settings (1 is best): {listed}{ranks.test}.')}</p>"
    notes = "".join(f"<li>{_text(note)}</li>" for note in [*comparison.notes, "bold p: below 5 %"])
    table = sortable("pairs", "Pairs of methods", columns, rows)
    return f"<ul>{sentences}</ul>{order}{table}<ul class='quiet'>{notes}</ul>"


def _figures(figures: Sequence[Drawing], settings: int) -> str:
    pieces = [] if find_spec("matplotlib") else [_NO_FIGURES]
    if settings > MOST and figures:
        pieces.append(
            f"<p class='quiet'>Of {settings} settings the first {MOST}; <code>fieldbench plot</code> has all.</p>"
        )
    for heading, group in groupby(figures, key=lambda figure: figure.heading):
        pieces.append(f'<h3>{_text(heading)}</h3><div class="figures">')
        for figure in group:
            label = f"{heading}: {figure.caption}" if figure.caption else heading
            pieces.append(
                f'<figure><img alt="{_text(label)}" src="{figure.address}">'
                f"<figcaption>{_text(figure.caption)}</figcaption></figure>"
            )
        pieces.append("</div>")
    return "\n".join(pieces)


def _slices(album: Album | None) -> str:
    if album is None or not find_spec("matplotlib"):
        return ""
    if not album.entries:
        return (
            "<p class='quiet'>No fields were kept. Run with <code>--save-fields</code>, or have them computed again "
            "with <code>fieldbench report RUN --recompute</code>.</p>"
        )
    missing = []
    if album.left_out:
        missing.append(f"{album.left_out} more draws would have made this page too large")
    if album.not_kept:
        missing.append(f"the fields of {album.not_kept} draws were not kept")
    note = f"<p class='quiet'>{_text('; '.join(missing).capitalize())}.</p>" if missing else ""
    selects = "".join(
        f'<label>{name.capitalize()}<select data-part="{name}"></select></label>'
        for name in ("setting", "trial", "method", "axis")
    )
    pictures = "".join(
        f'<figure><canvas role="img" data-part="{name}" aria-label="{name}"></canvas>'
        f"<figcaption>{caption}</figcaption></figure>"
        for name, caption in (
            ("truth", "truth"),
            ("observed", "observation"),
            ("estimate", '<span data-part="caption"></span> <span data-part="score"></span>'),
            ("error", "error: estimate minus truth"),
            ("deviation", "standard deviation, on the scale of the error"),
        )
    )
    scales = "".join(
        f'<div><span class="quiet" data-part="{label}"></span>'
        f'<canvas class="bar" role="presentation" data-part="{bar}"></canvas>'
        f'<div class="ends quiet"><span data-part="{low}"></span><span data-part="{high}"></span></div></div>'
        for bar, label, low, high in (
            ("fieldbar", "fieldlabel", "low", "high"),
            ("errorbar", "errorlabel", "errorlow", "errorhigh"),
        )
    )
    return f"""<div id="browser"><div class="controls">{selects}
<label>Slice <span data-part="where"></span>
<input type="range" min="0" value="0" step="1" data-part="slice"></label></div>
<div class="pictures">{pictures}</div><div class="scales">{scales}</div>{note}</div>"""


def _failures(run: StoredRun, status: RunStatus) -> str:
    if not status.failures:
        return ""
    pieces = []
    shown = read_rows(run.path, keys={rows[0]["key"] for rows in status.failures.values()})
    diagnostics = {row["key"]: row.get("diagnostics", {}) for row in shown}
    for (method, outcome, error), rows in status.failures.items():
        trace = str(diagnostics.get(rows[0]["key"], {}).get("traceback", ""))
        where = ", ".join(
            f"{row['dataset']} rate {row['rate']:g} {run.draw_name(row['trial'], row['seed'])}" for row in rows[:5]
        )
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        details = f"<pre>{_text(trace)}</pre>" if trace else ""
        pieces.append(
            f"<details><summary><strong>{_text(method)}</strong>: {len(rows)} {outcome}: {_text(error)}</summary>"
            f"<p class='quiet'>{_text(where + more)}</p>{details}</details>"
        )
    return "\n".join(pieces)


def _trials(run: StoredRun) -> str:
    frame = run.frame
    varying = [name for name in (*SETTING, "seed") if frame[name].nunique() > 1]
    metrics = list(dict.fromkeys(setting.metric for setting in run.settings))
    metrics = [name for name in metrics if name in frame]
    columns = [
        TableColumn("method"),
        *(TableColumn(name, name in ("rate", "seed")) for name in varying),
        TableColumn("trial", True),
        TableColumn("status"),
        *(TableColumn(name.upper(), True) for name in metrics),
        TableColumn("seconds", True),
        TableColumn("error", long=True),
    ]
    shown = frame.head(MOST_TRIALS).to_dict("records")
    rows = [
        [
            row["method"],
            *(_level(name, row[name]) for name in varying),
            (row["trial"], str(row["trial"])),
            row["status"],
            *((row[name], significant(row[name])) for name in metrics),
            (row[SECONDS], f"{significant(row[SECONDS])} {_mark(row)}".strip()),
            row["error"],
        ]
        for row in shown
    ]
    cut = (
        ""
        if len(frame) <= MOST_TRIALS
        else f"<p>The first {MOST_TRIALS} of {len(frame)}; trials.jsonl has them all.</p>"
    )
    table = sortable("trials-table", "Single trials", columns, rows)
    used = {_mark(row) for row in shown}
    notes = "".join(f"<li>{_text(f'{mark} {meaning}')}</li>" for mark, meaning in MEANINGS.items() if mark in used)
    notes = f"<ul class='quiet'>{notes}</ul>" if notes else ""
    return f"{cut}<details><summary>All {len(frame)} trials</summary>{table}{notes}</details>"


def _mark(row: Mapping[Hashable, Any]) -> str:
    """What marks the seconds of a trial, if it has any."""
    return "" if math.isnan(row[SECONDS]) else MARKS[row["timed"] or "unknown"]


def _provenance(run: StoredRun) -> str:
    manifest = run.manifest
    sessions = manifest.sessions
    pieces = []
    commands = list(dict.fromkeys(_again(session.command) for session in sessions if session.command))
    if commands:
        which = "This command repeats it" if len(commands) == 1 else "Each of these commands repeats its part"
        lines = _text("\n".join(commands))
        pieces.append(f"<p>{which}, or goes on where it stopped:</p><pre>{lines}</pre>")
    for number, session in enumerate(sessions, 1):
        shown = {key: value for key, value in session.model_dump().items() if key != "command"}
        pieces.append(
            f"<details><summary>Session {number} of {len(sessions)}: machine and versions</summary>"
            f"{_listed(shown)}</details>"
        )
    return "\n".join(pieces)


def _again(command: Sequence[str]) -> str:
    """A session's command as a line that destroys nothing."""
    program = "fieldbench" if str(command[0]).endswith("fieldbench") else str(command[0])
    return shlex.join([program, *(str(item) for item in command[1:] if item not in ("--fresh", "--retry-failed"))])


def _listed(values: Mapping[str, Any]) -> str:
    lines = "".join(
        f"<dt>{_text(key.replace('_', ' '))}</dt><dd>{_value(value)}</dd>"
        for key, value in values.items()
        if value not in (None, {}, [])
    )
    return f"<dl>{lines}</dl>"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _text(", ".join(f"{key} {item}" for key, item in value.items() if item is not None))
    if isinstance(value, list):
        return _text(
            "; ".join(", ".join(map(str, item.values())) if isinstance(item, dict) else str(item) for item in value)
        )
    return _text(value)


def _plain_sentence(table: Table) -> str:
    cells = [cell for cell in table.cells() if cell["count"]]
    if not cells:
        return "No trial has ended well."
    cell = cells[0]
    unit = f" {cell['unit']}" if cell["unit"] else ""
    spread = "" if math.isnan(cell["interval"]) else f" ± {cell['interval']:.2g}"
    return (
        f"{cell['method']} has a mean {str(cell['metric']).upper()} of {cell['mean']:.3g}{spread}{unit} "
        f"on {cell['dataset']} at rate {label(cell['rate'], 'rate')} over {cell['count']} trials "
        f"({SPREADS['interval']})."
    )


def _level(name: str, value: Any) -> Any:
    if name == "rate":
        return float(value), label(value, name)
    return (float(value), str(value)) if name == "seed" else str(value)


def _varies(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return len({str(row.get(name)) for row in rows}) > 1


def _name(run: StoredRun) -> str:
    return run.path.resolve().name


def _text(value: Any) -> str:
    return html.escape(str(value))
