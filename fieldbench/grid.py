"""Grids of parameters: ``tap.epochs=500,1000`` makes of ``tap`` both ``tap[epochs=500]`` and ``tap[epochs=1000]``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fieldbench.errors import RequestError, nearest
from fieldbench.spec import Value, format_part, parse, parse_value, split


@dataclass(frozen=True)
class Assignment:
    """Values that one parameter of one plugin is to take."""

    name: str
    parameter: str
    values: tuple[Value, ...]
    text: str


def read_assignment(text: str) -> Assignment:
    """Read ``name.parameter=value[,value...]``.

    >>> read_assignment("tap.window=4x4x4,6x6x8").values
    ((4, 4, 4), (6, 6, 8))

    Raises:
        RequestError: if the text is not of this form.
    """
    left, equals, right = text.partition("=")
    name, dot, parameter = left.strip().partition(".")
    if not (equals and dot and name and parameter and right.strip()):
        raise RequestError(f"--set {text!r}: write name.parameter=value, such as tap.epochs=500,1000")
    return Assignment(name, parameter, tuple(parse_value(piece) for piece in split(right)), text)


def expand(specs: Mapping[str, Sequence[str]], assignments: Iterable[Assignment]) -> dict[str, list[str]]:
    """The specs of each kind (methods, datasets, ...), one for every choice among the values assigned to its plugins.

    Raises:
        RequestError: if no spec has such a plugin, or one sets the parameter itself.
    """
    listed = list(assignments)
    present = {part.name for texts in specs.values() for text in texts for part in parse(text)}
    for item in listed:
        if item.name not in present:
            raise RequestError(f"--set {item.text!r}: {item.name!r} is not in this run{nearest(item.name, present)}")
    return {kind: [made for text in texts for made in _variants(text, listed)] for kind, texts in specs.items()}


def _variants(text: str, assignments: list[Assignment]) -> Iterable[str]:
    parts = parse(text)
    relevant = [item for item in assignments if any(item.name == part.name for part in parts)]
    for item in relevant:
        if any(item.parameter in part.parameters for part in parts if part.name == item.name):
            raise RequestError(f"{text!r} sets {item.parameter!r} and --set does too; give it once")
    for values in itertools.product(*(item.values for item in relevant)):
        chosen: dict[str, dict[str, Value]] = {}
        for item, value in zip(relevant, values, strict=True):
            mine = chosen.setdefault(item.name, {})
            if item.parameter in mine:
                raise RequestError(f"--set {item.text!r}: {item.parameter!r} is set twice; give all values at once")
            mine[item.parameter] = value
        yield "+".join(format_part(part.name, {**part.parameters, **chosen.get(part.name, {})}) for part in parts)
