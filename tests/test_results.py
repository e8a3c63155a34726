"""The runs of suites in results/reference are whole, and of the suites that they are named for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldbench import suite as suites
from fieldbench.records import FAILURES
from fieldbench.regression import reference
from fieldbench.results import Results
from fieldbench.store.status import run_status

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
RUNS = sorted(path.parent for path in REFERENCE.glob("*/manifest.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_is_whole_and_of_its_suite(run: Path) -> None:
    suite, frame = suites.load(run.name), Results(run).frame()
    assert len(frame) == len(suite.rows) * len(suite.columns) * 10
    assert not set(frame["status"]) & FAILURES
    assert {name.partition("[")[0] for name in frame["method"].astype(str)} == {
        str(row.method).partition("[")[0] for row in suite.rows
    }
    status = run_status(run)
    assert status.done == status.planned


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_no_method_knows_more_than_it_observed(run: Path) -> None:
    assert Results(run).leaks == []


def test_there_are_runs() -> None:
    assert {run.name for run in RUNS} >= {"ocean", "radio", "gaps"}


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "table4", "table5"])
def test_a_table_of_the_paper_holds_methods_that_are_the_same_everywhere_to_their_digits(table: str) -> None:
    suite, frame = suites.load(table), reference.read(REFERENCE / f"{table}.csv").frame
    digits = {str(method): set(rows["rtol"]) for method, rows in frame.groupby("method")}
    exact = {method: suite.exact.get(method.partition("[")[0]) for method in digits}
    assert {method: digits[method] for method, rtol in exact.items() if rtol} == {
        method: {rtol} for method, rtol in exact.items() if rtol
    }
