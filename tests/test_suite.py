"""Suites carry the paper's numbers faithfully, and bad suite files are refused in one line."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from fieldbench import suite
from fieldbench.errors import RequestError
from fieldbench.plan import Plan
from fieldbench.registry import Registry, Sources
from fieldbench.report import reproduction

PAPER = Path(__file__).resolve().parents[2] / "shared" / "paper" / "tables.csv"

OWN = """
title = "Own field"
metric = "rmse"
trials = 2
dataset = "radiomap[grid=12x12]"

[[columns]]
label = "a"
rate = 0.1

[[columns]]
label = "b"
rate = 0.2

[[rows]]
label = "Nearest"
method = "nearest"
published = [1.0, 2.0]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_seven_tables_ship_with_the_paper_s_162_numbers() -> None:
    tables = {name: suite.load(name) for name in suite.built_in() if name.startswith("table")}
    assert sorted(tables) == [f"table{number}" for number in range(1, 8)]
    counts = {name: sum(len(row.published) for row in table.rows) for name, table in tables.items()}
    assert counts == {
        "table1": 20, "table2": 45, "table3": 18, "table4": 32, "table5": 15, "table6": 16, "table7": 16,
    }  # fmt: skip
    assert sum(counts.values()) == 162


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's tables.csv is not beside the repository")
def test_every_published_number_stands_in_its_cell() -> None:
    with PAPER.open() as file:
        rows = list(csv.DictReader(file))
    for name in sorted({row["table"] for row in rows}):
        table = suite.load(name)
        expected = sorted((float(row["rho"]), float(row["value"])) for row in rows if row["table"] == name)
        found = sorted(
            (column.rate, number)
            for row in table.rows
            if row.published
            for column, number in zip(table.columns, row.published, strict=True)
        )
        assert found == expected
        for row in (item for item in rows if item["table"] == name and item["noise"] != "none"):
            noise = f"{row['noise']}[sigma={row['sigma']}]"
            column = next(c for c in table.columns if c.noise == noise and c.rate == float(row["rho"]))
            label = {"tucker-als": "Tucker-ALS"}.get(row["method"], row["method"].upper())
            line = next(item for item in table.rows if item.label == label)
            assert line.published[table.columns.index(column)] == float(row["value"])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("published = [1.0, 2.0]", "published = [1.0]"), "published has 1 entries for 2 columns"),
        (('dataset = "radiomap[grid=12x12]"', ""), "names no dataset"),
        (('metric = "rmse"', ""), "metric"),
        (("rate = 0.2", "rate = high"), "not a TOML file"),
        (('label = "Nearest"', 'label = "Nearest"\ncolour = 3'), "colour"),
    ],
)
def test_a_wrong_suite_file_is_refused_in_one_line(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = write(tmp_path, OWN.replace(*change))
    with pytest.raises(RequestError, match=complaint) as caught:
        suite.load(path)
    assert "\n" not in str(caught.value).strip()


def test_an_unknown_suite_offers_the_nearest_name() -> None:
    with pytest.raises(RequestError, match="did you mean 'table1'"):
        suite.load("tabel1")


def test_narrowing_keeps_the_named_rows_only() -> None:
    table = suite.load("table4")
    assert {row.label for row in table.narrowed(["tap", "tnn+tv"]).rows} == {"TAP", "TNN+TV"}
    with pytest.raises(RequestError, match="no row has the method 'tapp'"):
        table.narrowed(["tapp"])


def stored(trial: object, value: float, curve: list[float] | None = None) -> dict[str, object]:
    diagnostics = {"curve": {"rmse": curve}} if curve else {}
    return {"key": trial.key, "status": "ok", "metrics": {"rmse": value}, "diagnostics": diagnostics}  # type: ignore[attr-defined]


@pytest.fixture
def own(tmp_path: Path) -> tuple[suite.Suite, Plan]:
    table = suite.load(write(tmp_path, OWN))
    return table, table.plan(Registry(Sources()))


def test_comparison_takes_means_ratios_and_joint_uncertainty(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    trials = list(plan)
    assert len(trials) == 4
    first = [trial for trial in trials if trial.rate == 0.1]
    rows = [stored(first[0], 1.0, [3.0, 0.5]), stored(first[1], 2.0, [0.25, 4.0])]
    a, b = reproduction.compare(table, plan, rows)
    assert (a.mean, a.ratio, a.done, a.planned) == (1.5, 1.5, 2, 2)
    assert a.oracle == pytest.approx((0.5 + 0.25) / 2)
    # std of {1, 2} is sqrt(1/2), so 2 sqrt(2) std / sqrt(2) = sqrt(2)
    assert a.joint_uncertainty == pytest.approx(math.sqrt(2))
    assert not a.further_off
    assert (b.mean, b.done, b.ratio, b.further_off) == (None, 0, None, False)
    assert reproduction.within([a, b]) == (0, 1, 1)


def test_failed_trials_and_those_of_other_plans_do_not_count(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    trial = next(iter(plan))
    rows = [stored(trial, 1.0), stored(trial, 9.0) | {"key": "other"}, stored(trial, 9.0) | {"status": "failed"}]
    a, _ = reproduction.compare(table, plan, rows)
    assert (a.mean, a.done) == (1.0, 1)


@pytest.mark.parametrize("format", reproduction.FORMATS)
def test_every_format_shows_ours_and_the_published_number(own: tuple[suite.Suite, Plan], format: str) -> None:
    table, plan = own
    rows = [stored(trial, 1.25) for trial in plan]
    text = reproduction.written(table, reproduction.compare(table, plan, rows), format)
    assert "1.25" in text
    assert "0.62" in text  # the ratio of 1.25 to the second published number, 2


def test_latex_comments_what_is_no_table(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    text = reproduction.written(table, reproduction.compare(table, plan, [stored(t, 1.25) for t in plan]), "latex")
    rows, _, closing = text.partition("\\end{tabular}")
    after = closing.strip().splitlines()
    assert after
    assert all(line.startswith("%") for line in after)
    assert "±" not in rows
