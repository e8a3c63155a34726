"""Grids of parameters: what ``--set`` makes of specs."""

from __future__ import annotations

import pytest

from fieldbench.errors import RequestError
from fieldbench.grid import expand, read_assignment


def grid(methods: list[str], *assignments: str, **others: list[str]) -> dict[str, list[str]]:
    return expand({"methods": methods, **others}, map(read_assignment, assignments))


def test_one_value_sets_a_parameter_and_keeps_the_others() -> None:
    assert grid(["tap[dropout=0.2]", "tnn"], "tap.epochs=5")["methods"] == ["tap[dropout=0.2,epochs=5]", "tnn"]


def test_several_values_make_a_grid() -> None:
    made = grid(["tap", "tnn"], "tap.epochs=5,10", "tap.window=4x4x4,(2,3)")["methods"]
    assert made == [
        "tap[epochs=5,window=4x4x4]",
        "tap[epochs=5,window=2x3]",
        "tap[epochs=10,window=4x4x4]",
        "tap[epochs=10,window=2x3]",
        "tnn",
    ]


def test_modifiers_and_other_kinds_can_be_set() -> None:
    made = grid(["tap+tv", "tap"], "tv.weight=0.1,0.2", "radiomap.eta=6,9", datasets=["radiomap", "ssf"])
    assert made["methods"] == ["tap+tv[weight=0.1]", "tap+tv[weight=0.2]", "tap"]
    assert made["datasets"] == ["radiomap[eta=6]", "radiomap[eta=9]", "ssf"]


def test_nothing_to_set_changes_nothing() -> None:
    assert grid(["tap[epochs=500]+tv"]) == {"methods": ["tap[epochs=500]+tv"]}


@pytest.mark.parametrize("text", ["epochs=5", "tap.epochs", "tap.=5", ".epochs=5", "tap.epochs=", "tap.epochs=5,"])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        read_assignment(text)


def test_a_name_that_is_not_in_the_run_is_refused() -> None:
    with pytest.raises(RequestError, match="did you mean 'tap'"):
        grid(["tap"], "tapp.epochs=5")


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(RequestError, match="give it once"):
        grid(["tap[epochs=5]"], "tap.epochs=10")
    with pytest.raises(RequestError, match="set twice"):
        grid(["tap"], "tap.epochs=10", "tap.epochs=20")
