"""Factors: what the rows and columns of a table can be."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fieldbench.errors import RequestError, nearest
from fieldbench.report.facts import Facts
from fieldbench.spec import format_part, parse

#: The level of a parameter where a spec has no such parameter.
ABSENT = "-"

#: The factors that every record has.
FACTORS = ("method", "dataset", "sampler", "noise", "select", "rate", "seed", "device")

#: Factors that hold specs, whose parameters are factors too.
SPECS = ("method", "dataset", "sampler", "noise", "select")


def with_parameter(frame: pd.DataFrame, name: str, facts: Facts) -> pd.DataFrame:
    """The frame with a column for one parameter, which is taken out of the specs.

    ``epochs`` is that parameter of whatever has it, ``tap.epochs`` that of tap alone. So
    ``tap[epochs=500]`` becomes method ``tap`` with ``500`` in the new column; a spec without such a
    parameter gets ``-``.

    Raises:
        RequestError: if nothing in the frame has this parameter.
    """
    frame = frame.copy()
    column = pd.Series(ABSENT, index=frame.index, dtype=object)
    found = False
    for spec in SPECS:
        for text in map(str, frame[spec].cat.categories):
            values = [value for key, value in facts.parameters_of(text).items() if _matches(key, name)]
            if values:
                found = True
                column[frame[spec] == text] = values[0]
        shorter = {text: _without(str(text), name) for text in frame[spec].cat.categories}
        frame[spec] = frame[spec].astype(object).map(shorter).astype("category")
    if not found:
        raise RequestError(f"unknown factor {name!r}{nearest(name, choices(frame, facts))}")
    frame[name] = column
    return frame


def is_of_methods(name: str, frame: pd.DataFrame, facts: Facts) -> bool:
    """Whether a factor is a parameter of methods (or of their selection) and of nothing observed."""
    having = {
        spec
        for spec in SPECS
        for text in frame[spec].cat.categories
        if any(_matches(key, name) for key in facts.parameters_of(str(text)))
    }
    return bool(having) and having <= {"method", "select"}


def choices(frame: pd.DataFrame, facts: Facts) -> list[str]:
    """Every factor that the frame can be arranged by."""
    parameters = {
        key for spec in SPECS for text in frame[spec].cat.categories for key in facts.parameters_of(str(text))
    }
    return [*FACTORS, *parameters, *{key.partition(".")[2] for key in parameters}]


def ordered(values: Sequence[object], factor: str, facts: Facts) -> list[object]:
    """Levels of a factor in the order in which they are read: numbers by size, specs as asked for."""
    distinct = list(dict.fromkeys(values))
    try:
        return sorted(distinct, key=lambda value: float(str(value)))
    except ValueError:
        pass
    if factor not in SPECS:
        return sorted(distinct, key=str)
    names = [_name(text) for text in facts.order]

    def place(value: object) -> tuple[int, str]:
        text = str(value)
        if text in facts.order:
            return facts.order.index(text), text
        return names.index(_name(text)) if _name(text) in names else len(names), text

    return sorted(distinct, key=place)


def label(value: object, factor: str) -> str:
    """How a level is written as the head of a row or column."""
    if factor == "rate":
        return f"{100 * float(str(value)):.6g} %"
    return str(value)


def _matches(key: str, name: str) -> bool:
    return key == name or key.partition(".")[2] == name


def _without(text: str, name: str) -> str:
    parts = [
        format_part(
            part.name,
            {key: value for key, value in part.parameters.items() if not _matches(f"{part.name}.{key}", name)},
        )
        for part in parse(text)
    ]
    return "+".join(parts)


def _name(text: str) -> str:
    return "+".join(part.name for part in parse(text))
