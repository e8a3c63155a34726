"""Tables: their numbers against numpy and scipy, their marks, and every format read back by a parser of it."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fieldbench.errors import RequestError
from fieldbench.report.comparison import compare
from fieldbench.report.formats import STYLES, Text, cell_text
from fieldbench.report.metadata import RunMetadata
from fieldbench.report.tables import Table, make_table
from tests.report.markup import parse

TEXTS = ("method", "dataset", "sampler", "noise", "select", "status", "device", "machine", "session", "timed")


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Records with the given values, everything else plain."""
    plain = {
        "method": "tap", "dataset": "ssf", "sampler": "random", "noise": "none", "select": "final", "rate": 0.1,
        "trial": 0, "seed": 0, "status": "ok", "error": "", "seconds": 1.0, "device": "cpu", "peak_memory": 1.0,
        "machine": "m1", "slots": 1, "session": "s1", "timed": "alone",
        "rmse": math.nan,
    }  # fmt: skip
    made = pd.DataFrame([{**plain, **row, "key": str(index)} for index, row in enumerate(rows)])
    return made.astype(dict.fromkeys(TEXTS, "category"))


def trials(scores: list[float], **rest: Any) -> list[dict[str, Any]]:
    return [{"rmse": score, "trial": number, **rest} for number, score in enumerate(scores)]


TAP, TNN, NEAREST = [0.5, 0.6, 0.7, 0.4], [0.9, 0.8, 0.95, 0.7], [2.0, 2.5, 1.5, 2.2]


@pytest.fixture
def three() -> pd.DataFrame:
    """Three methods at one rate, four trials each."""
    return frame(*trials(TAP), *trials(TNN, method="tnn"), *trials(NEAREST, method="nearest"))


def cells(table: Table, **levels: Any) -> list[dict[str, Any]]:
    return [cell for cell in table.cells() if all(cell[key] == value for key, value in levels.items())]


def only(table: Table, **levels: Any) -> dict[str, Any]:
    (cell,) = cells(table, **levels)
    return cell


def ranks(table: Table) -> dict[str, int]:
    (block,) = table.blocks
    return {row.text: block.cells[i, 0].rank for i, row in enumerate(block.rows)}


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        ("std", np.std(TAP, ddof=1)),
        ("stderr", stats.sem(TAP)),
        ("interval", np.ptp(stats.t.interval(0.95, 3, loc=np.mean(TAP), scale=stats.sem(TAP))) / 2),
    ],
)
def test_mean_and_spread(three: pd.DataFrame, spread: str, expected: float) -> None:
    cell = only(make_table(three, RunMetadata(), spread=spread), method="tap")
    assert cell["mean"] == pytest.approx(np.mean(TAP))
    assert cell[spread] == pytest.approx(expected)
    assert cell["count"] == cell["planned"] == 4


def test_the_command_the_page_and_the_site_show_one_spread_by_one_name(three: pd.DataFrame) -> None:
    table = make_table(three, RunMetadata())
    assert only(table, method="tap")["interval"] == pytest.approx(1.5911 * np.std(TAP, ddof=1), rel=1e-3)  # t(3) / 2
    assert table.notes[0] == "mean ± half width of the 95 % confidence interval over 4 trials"
    assert make_table(three, RunMetadata(), metric="seconds").notes[0].startswith("median ± standard deviation over 4")


def test_digits_follow_the_uncertainty() -> None:
    made = frame(
        *trials([0.512345, 0.512355, 0.512365], method="sharp"),
        *trials([0.2, 0.5, 0.9], method="vague"),
        *trials([0.1, 90.0, 250.0], method="wild"),
        *trials([0.123456], method="once"),
        *trials([0.25, 0.25], method="constant"),
    )
    text = str(make_table(made, RunMetadata()))
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()[3:8]}
    assert shown == {
        "sharp": "0.512355 ± 0.000025",  # two figures of 2.48 standard deviations of three values
        "vague": "0.53 ± 0.87",
        "wild": "113 ± 314",
        "once": "0.123 (1/3)",
        "constant": "0.250 ± 0.000 (2/3)",
    }


def test_trials_on_one_field_are_said_to_tell_of_masks(three: pd.DataFrame) -> None:
    metadata = RunMetadata(fixed=("ssf",))
    said = "the trials on South China Sea share one field and differ in their masks"
    labels = {"ssf": "South China Sea"}
    assert any(note.startswith(said) for note in make_table(three, metadata, labels=labels).notes)
    once = three[three["trial"] == 0]
    assert not any(
        "masks" in note for note in [*make_table(three, RunMetadata()).notes, *make_table(once, metadata).notes]
    )


def test_the_user_says_what_comes_first(three: pd.DataFrame) -> None:
    (block,) = make_table(
        three, RunMetadata(order=("nearest", "tap", "tnn")), order={"method": ["tnn", "nearest"]}
    ).blocks
    assert [row.text for row in block.rows] == ["tnn", "nearest", "tap"]
    made = frame(*({"rate": rate, "rmse": rate} for rate in (0.1, 0.2, 0.4)))
    (block,) = make_table(made, RunMetadata(), order={"rate": ["0.4"]}).blocks
    assert [column.text for column in block.columns] == ["40 %", "10 %", "20 %"]
    with pytest.raises(RequestError, match="no record of method tap2; did you mean 'tap'"):
        make_table(three, RunMetadata(), order={"method": ["tap2"]})


def runs(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([first.assign(run="one"), second.assign(run="two")], ignore_index=True).astype(
        dict.fromkeys(TEXTS, "category")
    )


def test_a_trial_of_two_runs_counts_once_and_the_good_one(three: pd.DataFrame) -> None:
    failed = three.assign(status="failed", rmse=math.nan).astype({"status": "category"})
    for both in (runs(three, failed), runs(failed, three), runs(three, three)):
        cell = only(make_table(both, RunMetadata()), method="tap")
        assert (cell["count"], cell["planned"], cell["mean"]) == (4, 4, pytest.approx(np.mean(TAP)))


def test_two_versions_of_a_method_are_not_mixed(three: pd.DataFrame) -> None:
    both = runs(three, three.assign(rmse=three["rmse"] + 1))
    with pytest.raises(RequestError, match="one and two have different scores of the same trials, as of tap on ssf"):
        make_table(both, RunMetadata())
    table = make_table(both, RunMetadata(), rows=["method", "run"])
    assert only(table, method="tap", run="two")["mean"] == pytest.approx(np.mean(TAP) + 1)


def test_one_trial_has_no_spread() -> None:
    table = make_table(frame(*trials([0.5])), RunMetadata())
    assert math.isnan(only(table)["interval"])
    assert "±" not in str(table)


@pytest.mark.parametrize(
    ("scores", "higher", "expected"),
    [
        ({"tap": TAP, "tnn": TNN, "nearest": NEAREST}, (), {"tap": 1, "tnn": 2, "nearest": 0}),
        ({"tap": TAP, "tnn": TNN, "nearest": NEAREST}, ("rmse",), {"tap": 0, "tnn": 2, "nearest": 1}),
        ({"a": [1.0], "b": [1.0], "c": [2.0]}, (), {"a": 1, "b": 1, "c": 2}),
        ({"a": [0.1, 0.9], "b": [0.101, 0.9], "c": [5.0, 5.5]}, (), {"a": 1, "b": 1, "c": 2}),
        ({"tap": [1.0, 2.0]}, (), {"tap": 0}),
    ],
    ids=[
        "best and second",
        "more is better",
        "equals share a rank",
        "and what reads alike",
        "one alone is not the best",
    ],
)
def test_ranks(scores: dict[str, list[float]], higher: tuple[str, ...], expected: dict[str, int]) -> None:
    made = frame(*(row for name, listed in scores.items() for row in trials(listed, method=name)))
    assert ranks(make_table(made, RunMetadata(higher_is_better=higher))) == expected


def test_failed_trials_are_neither_averaged_in_nor_hidden(three: pd.DataFrame) -> None:
    lost = frame(*trials([0.1, 0.2], method="lucky"), *trials([math.nan] * 2, method="lucky", status="timeout"))
    table = make_table(frame(*three.to_dict("records"), *lost.to_dict("records")), RunMetadata())
    cell = only(table, method="lucky")
    assert (cell["mean"], cell["count"], cell["planned"], cell["failed"]) == (pytest.approx(0.15), 2, 4, 2)
    assert ranks(table) == {"tap": 1, "tnn": 2, "nearest": 0, "lucky": 0}, "an incomplete cell is not ranked"
    assert "(2/4)" in str(table)
    assert "2 failed" in str(table)


def test_trials_that_are_not_there_yet_are_counted(three: pd.DataFrame) -> None:
    table = make_table(three, RunMetadata(trials={0: 10}))
    assert only(table, method="tap")["planned"] == 10
    assert "(4/10)" in str(table)
    assert "18 not there yet" in str(table)


def test_a_cell_of_failures_says_failed_and_one_that_does_not_apply_says_so(three: pd.DataFrame) -> None:
    more = frame(
        *trials([math.nan] * 4, method="broken", status="crashed"),
        *trials([math.nan] * 4, method="cubic", status="not-applicable"),
    )
    text = str(make_table(frame(*three.to_dict("records"), *more.to_dict("records")), RunMetadata()))
    assert re.search(r"^broken +failed$", text, re.MULTILINE)
    assert re.search(r"^cubic +n/a$", text, re.MULTILINE)


def test_every_trial_that_is_not_in_a_mean_is_accounted_for() -> None:
    outcomes = {"ok": 1.0, "unscored": math.nan, "not-applicable": math.nan, "failed": math.nan}
    made = frame(
        *(
            {"trial": number, "status": "ok" if name == "unscored" else name, "rmse": score}
            for number, (name, score) in enumerate(outcomes.items())
        ),
        *trials([math.nan] * 5, method="void"),
        *trials([math.nan] * 5, method="cubic", status="not-applicable"),
    )
    table = make_table(made, RunMetadata())
    counts = ("count", "unscored", "not_applicable", "failed", "planned")
    assert [only(table, method="tap")[name] for name in counts] == [1, 1, 1, 1, 5]
    assert [only(table, method="void")[name] for name in counts] == [0, 5, 0, 0, 5]
    assert "(1 failed, 1 not applicable, 6 without a score, 1 not there yet)" in str(table)
    assert re.search(r"^void +-$", str(table), re.MULTILINE)


def test_oracles_are_rows_of_their_own_marked_and_not_ranked(three: pd.DataFrame) -> None:
    oracle = frame(*trials([0.1, 0.1, 0.1, 0.1], select="oracle[every=10]"))
    table = make_table(frame(*three.to_dict("records"), *oracle.to_dict("records")), RunMetadata())
    assert ranks(table) == {
        "tap, final": 1, "tap, oracle[every=10]": 0, "tnn, final": 2, "nearest, final": 0,
    }  # fmt: skip
    text = str(table)
    assert "tap, oracle[every=10] †" in text
    assert "† oracle" in text
    assert only(table, select="oracle[every=10]")["oracle"]


def test_oracles_among_themselves_are_ranked(three: pd.DataFrame) -> None:
    table = make_table(frame(*({**row, "select": "oracle"} for row in three.to_dict("records"))), RunMetadata())
    assert ranks(table) == {"tap": 1, "tnn": 2, "nearest": 0}
    assert "tap †" in str(table)
    assert str(table).splitlines()[-1].endswith("not ranked beside others")


@pytest.mark.parametrize(
    ("mark", "sign", "meaning"),
    [
        ("trained", "‡", "trained on data beyond the observation"),
        ("refitted", "‖", "fitted several times in each trial; its seconds are of all fits"),
    ],
)
def test_what_a_method_rests_on_is_marked(three: pd.DataFrame, mark: str, sign: str, meaning: str) -> None:
    text = str(make_table(three, RunMetadata(**{mark: ("tnn",)})))
    assert f"tnn {sign}" in text
    assert f"{sign} {meaning}" in text
    assert f"tap {sign}" not in text


def test_a_score_that_is_a_bound_is_said_to_be_one(three: pd.DataFrame) -> None:
    flags = {"resolution.x": 8.0, "resolution.x.coarser": math.nan, "resolution.x.finer": math.nan}
    rows = [{**row, **flags} for row in three.to_dict("records")]
    assert "bound" not in str(make_table(frame(*rows), RunMetadata(), metric=["rmse", "resolution.x"]))
    rows[0]["resolution.x.finer"] = rows[1]["resolution.x.coarser"] = rows[2]["resolution.x.coarser"] = 1.0
    table = make_table(frame(*rows), RunMetadata(), metric=["rmse", "resolution.x"])
    assert (
        f"resolution.x: of {len(rows)} trials, in 2 no wave is resolved, and the value is a lower bound; "
        "in 1 all are, and it is an upper bound"
    ) in table.notes


def test_several_metrics_have_a_block_each(three: pd.DataFrame) -> None:
    table = make_table(three, RunMetadata(), metric=["seconds", "rmse"])
    assert [block.metric for block in table.blocks] == ["seconds", "rmse"]
    for name in ("seconds", "rmse"):
        (alone,) = make_table(three, RunMetadata(), metric=name).blocks
        assert alone in table.blocks
    with pytest.raises(RequestError, match="width9"):
        make_table(three, RunMetadata(), metric=["rmse", "width9"])


def test_blocks_for_what_else_varies_and_each_dataset_its_metric() -> None:
    made = frame(
        *trials([1.0, 2.0], noise="none"),
        *trials([3.0, 4.0], noise="gaussian"),
        *({"dataset": "radiomap1", "sampler": "fibers", "slnre": 0.2, "trial": number} for number in range(2)),
    )
    metadata = RunMetadata(
        headline={"ssf": "rmse", "radiomap1": "slnre"}, units={"ssf": "m/s"}, order=("ssf", "radiomap1")
    )
    table = make_table(made, metadata)
    assert [block.title for block in table.blocks] == [
        "ssf, noise gaussian: rmse (m/s)",
        "ssf, noise none: rmse (m/s)",
        "radiomap1, noise none: slnre",
    ]
    assert [only(table, noise="gaussian")["mean"], only(table, metric="slnre")["mean"]] == [3.5, pytest.approx(0.2)]


def test_rows_and_columns_by_any_factor() -> None:
    made = frame(
        *(
            {"noise": noise, "rate": rate, "rmse": rate + index, "method": method}
            for index, noise in enumerate(["none", "gaussian"])
            for rate in (0.2, 0.1)
            for method in ("tap", "tnn")
        )
    )
    table = make_table(made, RunMetadata(order=("none", "gaussian")), rows=["noise"], columns=["rate"])
    assert [block.title for block in table.blocks] == ["ssf, method tap: rmse", "ssf, method tnn: rmse"]
    block = table.blocks[0]
    assert [head.text for head in block.rows] == ["none", "gaussian"]
    assert [head.text for head in block.columns] == ["10 %", "20 %"], "rates are in order"
    assert [[block.cells[i, j].value for j in (0, 1)] for i in (0, 1)] == [[0.1, 0.2], [1.1, 1.2]]
    assert {cell.rank for cell in block.cells.values()} == {0}, "noises are not candidates"
    across = make_table(made, RunMetadata(), rows=["rate"], columns=["method"])
    assert {cell.rank for block in across.blocks for cell in block.cells.values()} == {1}, "equal methods share a rank"


def test_parameters_are_factors() -> None:
    made = frame(
        *trials([1.0, 1.2], method="tap[epochs=500]"),
        *trials([0.5, 0.7], method="tap"),
        *trials([3.0, 3.0], method="nearest"),
    )
    metadata = RunMetadata(parameters={"tap[epochs=500]": {"tap.epochs": "500"}, "tap": {"tap.epochs": "1000"}})
    for factor in ("epochs", "tap.epochs"):
        table = make_table(made, metadata, columns=[factor])
        (block,) = table.blocks
        assert [head.text for head in block.rows] == ["nearest", "tap"]
        assert [head.text for head in block.columns] == ["-", "500", "1000"], "numbers by size"
        assert only(table, method="tap", **{factor: "500"})["mean"] == pytest.approx(1.1)
        assert only(table, method="tap", **{factor: "1000"})["mean"] == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("specs", "bare", "full"),
    [
        (
            [("dineof[modes=2]", "waves"), ("dineof[modes=8]", "waves"), ("nearest", "waves")],
            "modes",
            ["dineof.modes", "waves.modes"],
        ),
        (
            [("flat[weight=1]+tv[weight=2]", "sea"), ("flat[weight=1]+tv[weight=3]", "sea")],
            "weight",
            ["flat.weight", "tv.weight"],
        ),
        ([("near[metric=l1]", "sea"), ("near[metric=l2]", "sea")], "metric", ["near.metric"]),
    ],
)
def test_a_name_that_may_mean_several_things_is_asked_for_in_full(
    specs: list[tuple[str, str]], bare: str, full: list[str]
) -> None:
    made = frame(
        *(
            row
            for score, (method, dataset) in enumerate(specs)
            for row in trials([float(score)] * 2, method=method, dataset=dataset)
        )
    )
    metadata = RunMetadata(trials={0: 2}, parameters={"waves": {"waves.modes": "20"}})
    with pytest.raises(RequestError, match=f"factor '{bare}' may be any of {', '.join(full)}; give one"):
        make_table(made, metadata, columns=[bare])
    for factor in full:
        table = make_table(made, metadata, columns=[factor])
        assert sorted(cell["mean"] for cell in table.cells() if cell["count"]) == [float(n) for n in range(len(specs))]
        assert not any("(k/n)" in note for note in table.notes), "no cell holds two methods, and none half a one"


def test_only_the_parameter_of_the_column_leaves_the_name() -> None:
    made = frame(*trials([1.0], method="dineof[modes=2]", dataset="waves[modes=4]"))
    cell = only(make_table(made, RunMetadata(), columns=["dineof.modes"]))
    assert (cell["method"], cell["dineof.modes"], cell["dataset"]) == ("dineof", "2", "waves[modes=4]")
    made = frame(*({"method": f"flat+tv[weight={a}]+tv[weight={b}]", "rmse": a + b} for a in (1, 3) for b in (5, 9)))
    table = make_table(made, RunMetadata(), columns=["weight"])
    assert {(cell["method"], cell["weight"]): cell["mean"] for cell in table.cells()} == {
        (f"flat+tv[weight={a}]+tv", str(b)): a + b for a in (1, 3) for b in (5, 9)
    }


def test_taking_parameters_out_loses_neither_unit_nor_mark_nor_the_other_parameters_default() -> None:
    made = frame(*({"dataset": f"sea[depth={depth}]", "rmse": float(depth)} for depth in (1, 2)))
    units = {"sea[depth=1]": "K", "sea[depth=2]": "K"}
    (block,) = make_table(made, RunMetadata(units=units), columns=["depth"]).blocks
    assert block.title == "sea: rmse (K)"
    learnt = [f"net[steps={steps},weights=w1]+tv" for steps in (1, 2)]
    made = frame(*({"method": text, "rmse": 1.0} for text in (*learnt, "nearest")))
    (block,) = make_table(made, RunMetadata(trained=tuple(learnt)), columns=["steps"]).blocks
    assert {row.text: set(row.marks) for row in block.rows} == {"nearest": set(), "net[weights=w1]+tv": {"trained"}}
    parameters = {f"tap[epochs={n}]": {"tap.epochs": str(n), "tap.window": "6"} for n in (1, 2)}
    made = frame(*({"method": text, "rmse": 1.0} for text in parameters))
    table = make_table(made, RunMetadata(parameters=parameters), columns=["epochs", "window"])
    assert [column.levels for column in table.blocks[0].columns] == [("1", "6"), ("2", "6")]


def test_a_block_has_one_unit() -> None:
    made = frame(*({"dataset": name, "rmse": mean} for name, mean in (("heat", 1.0), ("ice", 2.0), ("air", 3.0))))
    metadata = RunMetadata(units={"heat": "K", "ice": "m", "air": "K"}, order=("heat", "ice", "air"))
    table = make_table(made, metadata, columns=["dataset"])
    shown = {block.title: [column.text for column in block.columns] for block in table.blocks}
    assert shown == {"rmse (K)": ["heat", "air"], "rmse (m)": ["ice"]}
    assert {cell["dataset"]: cell["unit"] for cell in table.cells()} == metadata.units


def test_parameters_of_datasets_are_factors_but_no_candidates() -> None:
    made = frame(*({"dataset": f"radiomap[eta={eta}]", "rmse": float(eta)} for eta in (12, 6, 9)))
    (block,) = make_table(made, RunMetadata(), rows=["eta"], columns=["method"]).blocks
    assert [head.text for head in block.rows] == ["6", "9", "12"]
    assert {cell.rank for cell in block.cells.values()} == {0}


def test_other_metrics_and_measures(three: pd.DataFrame) -> None:
    table = make_table(three, RunMetadata(), metric="seconds")
    assert only(table, method="tnn")["median"] == 1.0
    assert only(table, method="tnn")["unit"] == "s"


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([0.5678, 12.3456], ["0.568", "12.346"]),
        ([0.012345, 0.5], ["0.0123", "0.5000"]),
        ([123.4, 456.7], ["123", "457"]),
        ([1.5e-9, 2.5e-9], ["1.50e-09", "2.50e-09"]),
    ],
)
def test_three_figures_of_the_smallest_mean(means: list[float], expected: list[str]) -> None:
    made = frame(*({"rmse": mean, "method": f"m{index}"} for index, mean in enumerate(means)))
    text = make_table(made, RunMetadata()).to("text")
    assert [line.split()[1] for line in text.splitlines()[3:5]] == expected


def test_text_in_a_terminal_is_bold_and_underlined(three: pd.DataFrame) -> None:
    text = make_table(three, RunMetadata()).to("text", styled=True)
    assert "\x1b[1m0.55\x1b[22m" in text
    assert "\x1b[4m0.84\x1b[24m" in text
    plain = re.sub(r"\x1b\[\d+m", "", text)
    assert plain == make_table(three, RunMetadata()).to("text"), "styles do not move columns"


def test_csv_is_read_back_by_a_csv_reader(three: pd.DataFrame) -> None:
    read = list(csv.DictReader(io.StringIO(make_table(three, RunMetadata()).to("csv"))))
    means = {row["method"]: float(row["mean"]) for row in read}
    assert means == pytest.approx({"tap": np.mean(TAP), "tnn": np.mean(TNN), "nearest": np.mean(NEAREST)}, rel=1e-12)


def test_markdown_is_read_back_by_a_markdown_parser() -> None:
    from markdown_it import MarkdownIt

    made = frame(*trials(TAP), *trials(TNN, method="tnn[a_b=1]"), *trials(NEAREST, method="nearest"))
    page = MarkdownIt("commonmark").enable("table").render(make_table(made, RunMetadata()).to("markdown"))
    root = parse(page)
    assert len(root.rows()) == 3
    assert "0.55" in [item.text for item in root.every("strong")]
    assert "tnn[a_b=1]" in [row[0].text for row in root.rows()]


def test_html_is_read_back_by_an_html_parser(three: pd.DataFrame) -> None:
    root = parse(make_table(three, RunMetadata(units={"ssf": "<m/s>"})).to("html"))
    assert [item.text for item in root.every("th")][:2] == ["method", "10 %"]
    assert [cell.text for cell in root.rows()[0]] == ["nearest", "2.05 ± 0.67"]
    assert "0.55" in [item.text for item in root.every("strong")]
    assert "<m/s>" in root.text


def latex(table: Table) -> str:
    return table.to("latex")


def test_latex_has_the_parts_of_booktabs(three: pd.DataFrame) -> None:
    oracle = frame(*trials([0.1] * 4, method="tap[a_b=50]", select="oracle"))
    text = latex(
        make_table(frame(*three.to_dict("records"), *oracle.to_dict("records")), RunMetadata(trained=("tnn",)))
    )
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"\textbf{0.55}", r"\underline{0.84}", r"10 \%"):
        assert part in text
    assert r"tap{[}a\_b=50{]}, oracle $\dagger$" in text
    assert r"$\ddagger$" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\") and "&" in line]
    assert {line.count("&") for line in body} == {1}
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert text.isascii()


def test_latex_writes_a_minus_and_keeps_hyphens() -> None:
    style = STYLES["latex"]
    assert style.text("thin-plate, 2026-11-29: [-0.5, 1e-07]") == "thin-plate, 2026-11-29: {[}$-$0.5, 1e-07{]}"
    assert style.text("run more (--trials)") == "run more (-{}-trials)"  # two hyphens would be a dash


def many(methods: int = 25, rates: int = 8) -> pd.DataFrame:
    """Three trials of many methods with long names at many rates; one of them failed everywhere, one once."""
    rng = np.random.default_rng(0)
    names = [f"method-{number}[regularisation=0.00{number},iterations=1000]" for number in range(methods)]
    return frame(
        *(
            {"method": name, "rate": round(0.05 * (rate + 1), 2), "trial": trial, "rmse": score, "status": status}
            for number, name in enumerate(names)
            for rate in range(rates)
            for trial, score in enumerate(rng.lognormal(0, 2, 3))
            for status in ["failed" if number == 0 or (number, rate, trial) == (1, 1, 1) else "ok"]
        )
    )


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no TeX is installed")
@pytest.mark.parametrize("environment", ["table", "table*"])
@pytest.mark.parametrize("rows", [["method"], ["rate"]])
def test_latex_has_no_overfull_box_in_two_columns(rows: list[str], environment: str, tmp_path: Path) -> None:
    frame, metadata = many(), RunMetadata(trained=("method-3",), fixed=("ssf",), units={"ssf": "m/s"})
    columns = ["rate"] if rows == ["method"] else ["method"]
    table = make_table(frame, metadata, rows=rows, columns=columns)
    (tmp_path / "table.tex").write_text(table.to("latex"))
    few = frame[frame["method"].isin(list(frame["method"].unique())[:6])]
    (tmp_path / "pairs.tex").write_text(compare(few, metadata).to("latex"))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage{booktabs,graphicx}\begin{document}Text."
        rf"\begin{{{environment}}}\centering\input{{table}}\caption{{A table}}\end{{{environment}}}"
        r"\clearpage\onecolumn\input{pairs}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.findall(r"Overfull \\hbox.*", done.stdout)


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_broken(width: int) -> None:
    frame, metadata = many(), RunMetadata(units={"ssf": "m/s"}, fixed=("ssf",))
    for made in (make_table(frame, metadata), make_table(frame, metadata, rows=["rate"], columns=["method"])):
        text = made.to("text", width=width)
        assert max(map(len, text.splitlines())) <= width
        printed = Counter(NUMBER.findall(text))
        missing = [
            number
            for cell in made.blocks[0].cells.values()
            if cell.count
            for number in NUMBER.findall(cell_text(cell, Text()))
            if not printed[number]
        ]
        assert missing == []
    few = frame[frame["method"].isin(list(frame["method"].unique())[:5])]
    pairs = compare(few, metadata)
    text = pairs.to("text", width=width)
    assert max(map(len, text.splitlines())) <= width
    interval = re.compile(r"\[-?\d[\d.]*,\s-?\d[\d.]*\]")
    assert interval.findall(text.replace("\n", " ")) == interval.findall(str(pairs))


def test_a_factor_named_twice_counts_once(three: pd.DataFrame) -> None:
    twice = make_table(three, RunMetadata(), rows=["method", "method"], columns=["rate", "rate"])
    assert twice.to("csv") == make_table(three, RunMetadata(), rows=["method"], columns=["rate"]).to("csv")


def test_no_records_make_no_table(three: pd.DataFrame) -> None:
    with pytest.raises(RequestError, match="no records"):
        make_table(three.iloc[:0], RunMetadata())
