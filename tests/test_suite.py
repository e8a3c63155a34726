"""Suites carry the paper's numbers faithfully, and bad suite files are refused in one line."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

from fieldbench import suite
from fieldbench.errors import RequestError
from fieldbench.plan import Plan
from fieldbench.registry import Registry, Sources
from fieldbench.regression.matrix import narrowed
from fieldbench.report import reproduction
from fieldbench.report.formats import FORMATS
from tests.report.markup import parse

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
    path.write_text(text, encoding="latin-1")
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
        (('method = "nearest"', "method = []"), "method has 0 entries for 2 columns"),
        (("trials = 2", "select = []"), "select has 0 rules; a suite has one"),
        (("trials = 2", 'select = ["final", "oracle"]'), "select has 2 rules; a suite has one"),
        (("[1.0, 2.0]", "[1.0, inf]"), "infinite; write nan"),
        (("trials = 2", f"seed = {2**63}"), f"seed.* {2**63 - 1}"),
        (("Own field", "Own \xff"), "not a TOML file"),
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


def test_rows_of_one_label_under_two_headings_are_two(tmp_path: Path) -> None:
    again = '[[rows]]\nlabel = "Nearest"\nheading = "By distance"\nmethod = "idw"\n'
    small = suite.load(write(tmp_path, OWN + again))
    for named in (["nearest", "idw"], ["Nearest"], ["nearest", "Nearest"]):
        assert [row.method for row in narrowed(small, named).rows] == ["nearest", "idw"]


@pytest.mark.parametrize(
    ("metric", "complaint"),
    [
        ("rsme", "unknown metric 'rsme'; did you mean 'rmse'"),
        ("rmse.unobservd", "unknown metric 'rmse.unobservd'; did you mean 'rmse.unobserved'"),
        ("rmse.", "unknown metric 'rmse.'; did you mean 'rmse'"),
    ],
)
def test_an_unknown_metric_is_refused_before_anything_runs(tmp_path: Path, metric: str, complaint: str) -> None:
    table = suite.load(write(tmp_path, OWN.replace('"rmse"', f'"{metric}"')))
    with pytest.raises(RequestError, match=complaint):
        table.plan(Registry(Sources()))


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
    first = [trial for trial in trials if trial.cell.rate == 0.1]
    rows = [stored(first[0], 1.0, [3.0, 0.5]), stored(first[1], 2.0, [0.25, 4.0])]
    a, b = reproduction.compare(table, plan, rows)
    assert (a.mean, a.ratio, a.trials, a.planned) == (1.5, 1.5, 2, 2)
    assert a.oracle == pytest.approx((0.5 + 0.25) / 2)
    # std of {1, 2} is sqrt(1/2), so 2 sqrt(2) std / sqrt(2) = sqrt(2)
    assert a.joint_uncertainty == pytest.approx(math.sqrt(2))
    assert not a.further_off
    assert (math.isnan(b.mean), b.trials, math.isnan(b.ratio), b.further_off) == (True, 0, True, False)
    assert reproduction.within([a, b]) == (0, 1, 1)


def test_failed_trials_and_those_of_other_plans_do_not_count(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    trial = next(iter(plan))
    rows = [stored(trial, 1.0), stored(trial, 9.0) | {"key": "other"}, stored(trial, 9.0) | {"status": "failed"}]
    a, _ = reproduction.compare(table, plan, rows)
    assert (a.mean, a.trials) == (1.0, 1)


def with_published(tmp_path: Path, numbers: str, *changes: tuple[str, str]) -> tuple[suite.Suite, Plan]:
    text = OWN.replace("[1.0, 2.0]", numbers)
    for change in changes:
        text = text.replace(*change)
    table = suite.load(write(tmp_path, text))
    return table, table.plan(Registry(Sources()))


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ((math.inf, 1.0), "inf"),  # the mean is infinite, and nothing is known of the spread
        ((math.inf, -math.inf), "-"),
        ((math.nan, 1.0), "1.000 (1/2)"),
        ((math.nan, math.nan), "(0/2)"),
        ((1e200, 3e200), "2.00e+200"),  # squares of these are not numbers
        ((12.0, 16.0), "14 ± 25"),
        ((0.047, 0.055), "0.051 ± 0.051"),
        ((0.0041, 0.0043), "0.0042 ± 0.0013"),
        ((1e-5, 3e-5), "0.00002 ± 0.00013"),
        ((1e-7, 3e-7), "2.00e-07 ± 1.27e-06"),
        ((0.0, 0.0), "0.000 ± 0.000"),
    ],
)  # the half width of two is 12.706 (Student's t) times half their distance
def test_a_cell_shows_what_its_scores_are_worth(
    own: tuple[suite.Suite, Plan], scores: tuple[float, float], shown: str
) -> None:
    table, plan = own
    rows = [stored(trial, score) for trial, score in zip(plan, scores, strict=False)]
    cells = reproduction.compare(table, plan, rows)
    for format in FORMATS:
        assert reproduction.written(table, cells, format)
    (line,) = (line for line in reproduction.written(table, cells, "text").splitlines() if "ours  " in line)
    assert re.split(r"  +", line)[2] == shown


def test_estimates_that_are_no_numbers_are_never_the_best(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    curves = [[math.nan, 3.0], [math.nan, math.nan]]
    rows = [stored(trial, 4.0, curve) for trial, curve in zip(plan, curves, strict=False)]
    a, _ = reproduction.compare(table, plan, rows)
    assert a.oracle == pytest.approx((3.0 + 4.0) / 2)


def test_where_more_is_better_the_best_is_the_largest(tmp_path: Path) -> None:
    table, plan = with_published(tmp_path, "[0.5, 0.5]", ("trials = 2", "trials = 1"))
    by_rate = {0.1: (0.43, [0.2, 0.95]), 0.2: (0.42, [0.3])}  # 0.425 is 15 % worse than 0.5
    rows = [stored(trial, *by_rate[trial.cell.rate]) for trial in plan]
    a, b = cells = reproduction.compare(table, plan, rows, lower_is_better=False)
    assert (a.oracle, b.oracle) == (0.95, 0.42)
    assert reproduction.within(cells) == (1, 1, 2)


@pytest.mark.parametrize(
    ("numbers", "scores", "met"),
    [
        ("[nan, 2.0]", (1.0, 2.2), (1, 1)),  # a gap is not a number that could be met or not
        ("[0.0, 2.0]", (1.0, 2.2), (1, 2)),
        ("[0.0, 2.0]", (0.0, 2.4), (1, 2)),
        ("[-1.0, -2.0]", (-0.9, -1.6), (1, 2)),  # 10 and 20 % worse
    ],
)
def test_gaps_zeros_and_negative_numbers_may_be_published(
    tmp_path: Path, numbers: str, scores: tuple[float, float], met: tuple[int, int]
) -> None:
    table, plan = with_published(tmp_path, numbers, ("trials = 2", "trials = 1"))
    cells = reproduction.compare(table, plan, [stored(t, score) for t, score in zip(plan, scores, strict=True)])
    own, _, known = reproduction.within(cells)
    assert (own, known) == met
    text = reproduction.written(table, cells, "text")
    assert "nan" not in text
    assert f"{own} of {known} final" in text


@pytest.mark.parametrize(
    ("rule", "label", "mark", "met"),
    [
        ("final", "ours", False, "0 of 2 final, 0 by oracle"),
        ("holdout", "ours, holdout", False, "0 of 2 holdout, 0 by oracle"),
        ("oracle[every=10]", "ours, oracle*", True, "0 of 2 by oracle"),
    ],
)
def test_a_suite_says_by_which_rule_its_numbers_were_chosen(
    tmp_path: Path, rule: str, label: str, mark: bool, met: str
) -> None:
    table, plan = with_published(tmp_path, "[1.0, 2.0]", ("trials = 2", f'trials = 2\nselect = "{rule}"'))
    cells = reproduction.compare(table, plan, [stored(trial, 9.0) for trial in plan])
    text = reproduction.written(table, cells, "text")
    assert re.search(rf"^Nearest +{re.escape(label)}  ", text, re.MULTILINE)
    assert ("oracle*: the best estimate" in text) == mark
    assert f"or better: {met}." in text
    (line, _) = csv.DictReader(reproduction.written(table, cells, "csv").splitlines())
    assert line["select"] == rule


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_shows_ours_and_the_published_number(own: tuple[suite.Suite, Plan], format: str) -> None:
    table, plan = own
    rows = [stored(trial, 1.25) for trial in plan]
    text = reproduction.written(table, reproduction.compare(table, plan, rows), format)
    assert "1.25" in text
    assert "0.62" in text  # the ratio of 1.25 to the second published number, 2


@pytest.mark.parametrize(
    ("format", "ratios"),
    [
        ("text", r"ratio +1\.50 +2\.50 ≠$"),
        ("markdown", r"\| ratio +\| +1\.50 +\| +2\.50 ≠ +\|$"),
        ("latex", r"& ratio & 1\.50 & 2\.50 \$\\neq\$ \\\\$"),
    ],
)
def test_a_ratio_further_off_than_the_joint_uncertainty_has_a_mark(
    own: tuple[suite.Suite, Plan], format: str, ratios: str
) -> None:
    table, plan = own
    # 1.5 is 0.5 from 1, and 5 is 3 from 2, where means of {1, 2} and {4.5, 5.5} are uncertain by sqrt(2)
    by_rate = {0.1: [1.0, 2.0], 0.2: [4.5, 5.5]}
    rows = [stored(trial, by_rate[trial.cell.rate][trial.number]) for trial in plan]
    text = reproduction.written(table, reproduction.compare(table, plan, rows), format)
    assert re.search(ratios, text, re.MULTILINE)
    assert ": further off than the joint uncertainty" in text
    page = parse(reproduction.written(table, reproduction.compare(table, plan, rows), "html"))
    assert ["", "ratio", "1.50", "2.50 ≠"] in [[cell.text for cell in row] for row in page.rows()]


def test_csv_has_nothing_but_numbers_where_numbers_are_meant(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    rows = [stored(trial, 9.0 + trial.number) for trial in plan]
    lines = list(
        csv.DictReader(reproduction.written(table, reproduction.compare(table, plan, rows), "csv").splitlines())
    )
    assert [float(line["ratio"]) for line in lines] == [9.5, 4.75]


def test_a_bar_in_a_label_is_no_column_of_a_markdown_table(tmp_path: Path) -> None:
    table, plan = with_published(tmp_path, "[1.0, 2.0]", ('label = "a"', 'label = "|a|"'))
    text = reproduction.written(table, reproduction.compare(table, plan, []), "markdown")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 5
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}


def test_latex_has_its_notes_below_and_every_letter_escaped(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    text = reproduction.written(table, reproduction.compare(table, plan, [stored(t, 1.25) for t in plan]), "latex")
    rows, _, closing = text.partition("\\end{tabular}")
    assert r"\toprule" in rows
    assert r"ours: mean $\pm$ half width of the 95 \% confidence interval" in closing
    assert text.isascii()


def test_labels_rename_rows_and_columns(own: tuple[suite.Suite, Plan]) -> None:
    table, plan = own
    named = table.labelled({"nearest": "Ours & mine", "a": "one in ten"})
    text = reproduction.written(named, reproduction.compare(named, plan, []), "latex")
    assert r"Ours \& mine & ours" in text
    assert "one in ten" in text
    with pytest.raises(RequestError, match="'nearst', which this suite does not have; did you mean 'nearest'"):
        table.labelled({"nearst": "x"})
