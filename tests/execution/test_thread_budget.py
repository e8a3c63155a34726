"""Threads of idle slots, lent to the last trials."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from fieldbench.execution.lending import ThreadLoans
from fieldbench.execution.shared_text import SharedText
from tests.execution.conftest import records


@pytest.mark.parametrize(
    ("busy", "waits", "expected"),
    [
        (4, False, ["3", "3", "3", "3"]),
        (3, False, ["6", "3", "3"]),
        (2, False, ["6", "6"]),
        (1, False, ["12"]),
        (1, True, ["3"]),
        (3, True, ["3", "3", "3"]),
    ],
)
def test_idle_slots_are_dealt_out_once_nothing_waits(busy: int, waits: bool, expected: list[str]) -> None:
    loans, notes = ThreadLoans(slots=4, threads=3), [SharedText() for _ in range(busy)]
    with contextlib.ExitStack() as fits:
        for note in notes:
            fits.enter_context(loans.to(note))
        loans.while_waiting(waits)
        assert [note.read() for note in notes] == expected


def test_fits_are_lent_threads_in_their_midst() -> None:
    loans, first, second = ThreadLoans(slots=3, threads=1), SharedText(), SharedText()
    with loans.to(first):
        assert first.read() == "1"  # whatever waits is not known yet
        with loans.to(second):
            loans.while_waiting(False)
            assert (first.read(), second.read()) == ("2", "1")
        assert first.read() == "3"
        with loans.to(second):
            assert (first.read(), second.read()) == ("2", "1")
            loans.while_waiting(True)
            assert (first.read(), second.read()) == ("1", "1")


def told(result: Sequence[Any]) -> dict[str, int]:
    assert {record.status for record in result} == {"ok"}
    return {record.trial.cell.method: record.diagnostics["threads"] for record in result}


@pytest.mark.parametrize(("threads", "expected"), [(1, 2), (2, 4)])
def test_a_worker_hears_of_it_while_it_computes(threads: int, expected: int) -> None:
    # It ends only when it may use this many, which it may not until the other one is done.
    result = records(["steady", f"asks[until={expected}]"], 1, jobs=2, threads=threads)
    assert told(result) == {"steady": 1, f"asks[until={expected}]": expected}


@pytest.mark.parametrize("options", [{"jobs": 1}, {"timing": True}])
def test_without_idle_slots_there_is_one_thread(options: dict[str, Any]) -> None:
    assert told(records("asks[seconds=0.1]", 1, **options)) == {"asks[seconds=0.1]": 1}


def test_a_method_that_does_not_ask_is_not_said_to_use_more() -> None:
    assert told(records("steady[seconds=0.1]", 1, jobs=2)) == {"steady[seconds=0.1]": 1}


def test_nothing_is_lent_while_a_trial_waits() -> None:
    # As the first one begins, the other slot is still idle, and then busy with all that waits.
    result = records(["asks", "steady[seconds=0.2]"], 8, jobs=2)
    first = next(record for record in result if record.trial.cell.method == "asks" and record.trial.number == 0)
    assert first.diagnostics["threads"] == 1
