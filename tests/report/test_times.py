"""Seconds: which of them count, which are marked, and what is said where they do not compare."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fieldbench.errors import RequestError
from fieldbench.records import Cell, Record, Trial, encode
from fieldbench.report.page import page
from fieldbench.report.stored import StoredRun
from fieldbench.report.tables import Table, make_table
from tests.command import command
from tests.report.markup import parse

ALONE: dict[str, Any] = {"machine": "m1", "slots": 1, "session": "s1", "timed": "alone"}
SHARED = {**ALONE, "slots": 4, "timed": "shared"}
FIRST = {**SHARED, "timed": "first"}
OLD: dict[str, Any] = {}


def took(
    method: str, seconds: list[float], how: dict[str, Any] | list[dict[str, Any]], rate: float = 0.2
) -> list[Record]:
    """Records of one cell, a trial for each number of seconds."""
    ways = how if isinstance(how, list) else [how] * len(seconds)
    return [
        Record(
            Trial(Cell(method, "sea", "random", "none", "final", 0.2), 0, number, "i"),
            "ok", metrics={"rmse": 1.0 + number}, seconds=time, **way,
        )
        for number, (time, way) in enumerate(zip(seconds, ways, strict=True))
    ]  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., StoredRun]:
    def written(*cells: list[Record]) -> StoredRun:
        folder = tmp_path / "run"
        folder.mkdir()
        (folder / "manifest.json").write_text('{"format": 1, "plans": []}')
        rows = [record.as_row() for records in cells for record in records]
        for row in rows:  # as an older fieldbench wrote them
            if not row["timed"]:
                for name in ("machine", "slots", "session", "timed"):
                    del row[name]
        (folder / "trials.jsonl").write_bytes(b"".join(map(encode, rows)))
        return StoredRun(folder)

    return written


def seconds(run: StoredRun, **arrangement: Any) -> Table:
    return make_table(run.frame, run.metadata, metric="seconds", **arrangement)


def cell(table: Table, method: str) -> dict[str, Any]:
    (found,) = (cell for cell in table.cells() if cell["method"] == method)
    return found


def line(text: str, method: str) -> str:
    (found,) = (line for line in text.splitlines() if line.split("  ")[0] == method)
    return found


def notes_of(table: Table, mark: str) -> list[str]:
    return [note for note in table.notes if note.startswith(mark)]


def test_the_start_up_of_a_process_is_not_in_a_method_s_seconds(write: Callable[..., StoredRun]) -> None:
    """4.1 s beside 0.02 s: the first trial of tnn's process loads what the others find loaded."""
    table = seconds(write(took("tnn", [4.1, 0.02, 0.02, 0.03], [FIRST, SHARED, SHARED, SHARED])))
    tnn = cell(table, "tnn")
    assert (tnn["median"], tnn["count"], tnn["left_out"], tnn["timing"]) == (0.02, 3, 1, "shared")
    assert "(3/4)" not in str(table), "it is not missing"
    assert any(note.startswith("1 first trial of a process is left out") for note in table.notes)


def test_first_trials_are_shown_and_marked_where_there_are_no_others(write: Callable[..., StoredRun]) -> None:
    table = seconds(write(took("tnn", [4.1], FIRST), took("tap", [1.0], ALONE)))
    assert cell(table, "tnn")["timing"] == "first"
    assert line(str(table), "tnn").endswith("4.10 §")
    (note,) = notes_of(table, "§")
    assert "--timing" in note
    assert not notes_of(table, "*")


def test_the_median_is_shown_and_not_the_mean(write: Callable[..., StoredRun]) -> None:
    table = seconds(write(took("tap", [1.0, 2.0, 9.0], ALONE)))
    assert cell(table, "tap")["median"] == 2.0
    assert "mean" not in cell(table, "tap")
    assert table.notes[0].startswith("median ± standard deviation over 3 trials")
    (row,) = csv.DictReader(io.StringIO(table.to("csv")))
    assert (float(row["median"]), row["timing"]) == (2.0, "alone")


@pytest.mark.parametrize("how", [SHARED, OLD])
def test_seconds_that_were_not_taken_alone_are_marked_and_not_ranked(
    write: Callable[..., StoredRun], how: dict[str, Any]
) -> None:
    table = seconds(write(took("tap", [1.0, 1.2], how), took("tnn", [3.0, 3.0], ALONE), took("rbf", [2.0, 2.0], ALONE)))
    assert re.search(r"^tap +1\.10 ± 0\.14 \*$", str(table), re.MULTILINE)
    (note,) = notes_of(table, "*")
    assert "--timing" in note
    ranks = {head.text: table.blocks[0].cells[i, 0].rank for i, head in enumerate(table.blocks[0].rows)}
    assert ranks == {"tap": 0, "tnn": 2, "rbf": 1}


@pytest.mark.parametrize(
    "other",
    [
        {**ALONE, "machine": "m2"},
        {**ALONE, "device": "cuda:0"},
        {**SHARED, "slots": 1},
        {**ALONE, "slots": 2},
        OLD,
    ],
)
def test_a_cell_of_several_machines_devices_or_ways_says_so(
    write: Callable[..., StoredRun], other: dict[str, Any]
) -> None:
    table = seconds(write(took("tap", [1.0, 3.0], [ALONE, other]), took("tnn", [3.0, 3.0], ALONE)))
    assert cell(table, "tap")["timing"] == "mixed"
    assert line(str(table), "tap").endswith(" ¶")
    (note,) = notes_of(table, "¶")
    assert "several machines" in note
    assert "--timing" in note


def test_a_cell_of_several_machines_is_split_by_a_column_of_machines(write: Callable[..., StoredRun]) -> None:
    run = write(took("tap", [1.0, 3.0], [ALONE, {**ALONE, "machine": "m2"}]))
    table = seconds(run, columns=["machine"])
    assert {cell["machine"]: (cell["median"], cell["timing"]) for cell in table.cells()} == {
        "m1": (1.0, "alone"),
        "m2": (3.0, "alone"),
    }
    assert "¶" not in str(table)


def test_methods_of_different_machines_are_not_ranked(write: Callable[..., StoredRun]) -> None:
    table = seconds(write(took("tap", [1.0], ALONE), took("tnn", [2.0], {**ALONE, "machine": "m2"})))
    assert {found.rank for found in table.blocks[0].cells.values()} == {0}
    assert any("several machines" in note for note in table.notes)


@pytest.mark.parametrize("format", ["text", "markdown", "latex", "html"])
def test_every_format_has_the_mark_and_its_note(write: Callable[..., StoredRun], format: str) -> None:
    run = write(took("a", [1.0], SHARED), took("b", [1.0], FIRST), took("c", [1.0, 3.0], [ALONE, SHARED]))
    text = seconds(run, spread="none").to(format)
    marks = {"latex": ("{*}", r"\S{}", r"\P{}"), "markdown": (r"\*", "§", "¶")}.get(format, ("*", "§", "¶"))
    assert [text.count(mark) for mark in marks] == [2, 2, 2], "in a cell and in a note"
    if format == "latex":
        assert text.isascii()


@pytest.mark.parametrize("spread", ["stderr", "interval"])
def test_a_spread_of_means_is_refused_for_medians(write: Callable[..., StoredRun], spread: str) -> None:
    with pytest.raises(RequestError, match=f"'{spread}' is of a mean, and seconds are shown as medians"):
        seconds(write(took("tap", [1.0, 2.0], ALONE)), spread=spread)


def test_other_metrics_are_means_of_all_trials_without_marks(write: Callable[..., StoredRun]) -> None:
    run = write(took("tap", [4.0, 1.0, 1.0, 1.0], [FIRST, SHARED, {**SHARED, "machine": "m2"}, OLD]))
    table = make_table(run.frame, run.metadata)
    assert (cell(table, "tap")["mean"], cell(table, "tap")["count"]) == (2.5, 4)
    assert not re.search("[§¶*]", str(table))


def test_a_comparison_of_seconds_warns(write: Callable[..., StoredRun]) -> None:
    run = write(
        took("tap", [4.0, 1.0, 1.5], [FIRST, SHARED, SHARED]),
        took("tnn", [2.0, 2.0, 2.0], [{**SHARED, "machine": "m2"}] * 3),
    )
    text = command("compare", run.path, "--metric", "seconds").shown
    assert "these seconds do not compare" in text
    assert "several machines" in text
    assert "start-up" in text
    assert "--timing" in text
    (row,) = command("compare", run.path, "--metric", "seconds", "--format", "csv").rows
    assert "these seconds do not compare" in row["caution"]
    assert "seconds" not in command("compare", run.path).shown


def test_a_comparison_of_seconds_taken_alone_on_one_machine_does_not_warn(write: Callable[..., StoredRun]) -> None:
    """A method on a GPU and one on the processor compare: each device is part of how its method is used."""
    run = write(took("tap", [4.0, 5.0], {**ALONE, "device": "cuda:0"}), took("tnn", [2.0, 2.0], ALONE))
    assert "do not compare" not in command("compare", run.path, "--metric", "seconds").shown


def written_in(figure: Any) -> str:
    """All words of a figure, on one line."""
    from matplotlib.text import Text

    return " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())


def test_cost_is_drawn_at_medians_without_start_up_and_says_what_does_not_compare(
    write: Callable[..., StoredRun],
) -> None:
    pytest.importorskip("matplotlib", reason="figures come with the extra plots")
    from fieldbench.report.figures import draw

    run = write(took("tnn", [4.1, 0.02, 0.03, 0.07], [FIRST, SHARED, SHARED, SHARED]), took("tap", [1.0], ALONE))
    (figure,) = draw(run, "cost").values()
    (ax,) = figure.axes
    drawn = [tuple(point) for line in ax.lines for point in line.get_xydata().tolist()]
    assert (0.03, 2.5) in drawn, "the median of the seconds that count, the mean of all scores"
    assert max(x for x, _ in drawn) == 1.0
    said = written_in(figure)
    assert "these seconds do not compare" in said
    assert "1 first trial of a process is left out" in said


def test_a_page_marks_the_seconds_of_its_trials(write: Callable[..., StoredRun]) -> None:
    root = parse(page(write(took("tnn", [4.1, 0.02, 0.5, 0.25], [FIRST, SHARED, OLD, ALONE])), []))
    seconds = [row[-2] for row in root.one(id="trials-table").rows()]
    assert [(cell.attributes["data-value"], cell.text) for cell in seconds] == [
        ("4.1", "4.1 §"), ("0.02", "0.02 *"), ("0.5", "0.5 *"), ("0.25", "0.25"),
    ]  # fmt: skip
    assert [item.text[:2] for item in root.every("li") if item.text[:2] in ("§ ", "* ")] == ["§ ", "* "]
