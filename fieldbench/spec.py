"""The text form of a plugin with parameters: ``tap[window=4x4x4,stride=2]+tv[weight=0.1]``.

A spec is one or more parts joined by ``+``; a part is a name, optionally followed by parameters in
square brackets. Values are numbers, ``true``/``false``, ``none``, words, and tuples written ``6x6x8``
or ``(0.5,2)``; a text that would be read as something else is written in double quotes, as in JSON. A name
may have an argument behind a colon, which is its parameter ``path``: ``file:ocean.nc[variable=temp]``, and in
quotes where it holds a ``+``, comma, bracket or quote: ``file:"a+b,c.nc"``. This module knows the grammar and
nothing of what the names mean.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TypeAlias

from fieldbench.errors import RequestError

Scalar: TypeAlias = int | float | bool | str | None
Value: TypeAlias = Scalar | tuple[Scalar, ...]

_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*\Z")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CROSS = re.compile(r"\d+(?:x\d+)+\Z")
_INTEGER = re.compile(r"[+-]?\d+\Z")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_QUOTED_ARGUMENT = re.compile(r"""([^[":]*:\s*"(?:[^"\\]|\\.)*")\s*(?:(\[)(.*))?\Z""", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"""[][(),"\\]|^\s|\s$|^$""")
_NOT_BEHIND_A_COLON = re.compile(r"""[][(),"+]|^\s|\s$|^$""")
_CLOSING = {"[": "]", "(": ")"}


@dataclass(frozen=True)
class Part:
    """One name with its parameters as written (not yet validated)."""

    name: str
    parameters: dict[str, Value] = field(default_factory=dict)


def name_of(text: str) -> str:
    """A spec without its parameters.

    >>> name_of("tap[epochs=500]+tv[weight=0.1]")
    'tap+tv'
    """
    return "+".join(part.name for part in parse(text))


def parse(text: str) -> tuple[Part, ...]:
    """Read a spec; the first part is the plugin, the others are modifiers added with ``+``.

    >>> parse("tap[window=4x4x4,dropout=0.2]+tv")
    (Part(name='tap', parameters={'window': (4, 4, 4), 'dropout': 0.2}), Part(name='tv', parameters={}))

    Raises:
        RequestError: if the text is not of the grammar.
    """
    if not text.strip():
        raise RequestError("a name is empty; write one such as tap or 'tap[window=4]'")
    return tuple(_parse_part(part, text) for part in split(text, "+"))


def is_name(text: str) -> bool:
    """Whether a plugin can be called so: lower case letters and digits, in words joined by hyphens."""
    return bool(_NAME.match(text))


def split(text: str, separator: str = ",") -> list[str]:
    """Split at each separator that stands outside all brackets and quotes; empty pieces are an error.

    >>> split("tap[epochs=5,window=2],tnn")
    ['tap[epochs=5,window=2]', 'tnn']
    """
    pieces, open_brackets, start = [], list[str](), 0
    # Quoted text of the same length in its place cannot be mistaken for a bracket or a separator.
    for position, letter in enumerate(_QUOTED.sub(lambda quoted: "_" * len(quoted.group()), text)):
        if letter in _CLOSING:
            open_brackets.append(_CLOSING[letter])
        elif letter in _CLOSING.values():
            if not open_brackets or open_brackets.pop() != letter:
                raise RequestError(f"{text!r}: {letter!r} closes nothing; write name[parameter=value]")
        elif letter == separator and not open_brackets:
            pieces.append(text[start:position])
            start = position + 1
    if open_brackets:
        raise RequestError(f"{text!r}: {open_brackets[-1]!r} is missing; write name[parameter=value]")
    pieces.append(text[start:])
    stripped = [piece.strip() for piece in pieces]
    if not all(stripped):
        raise RequestError(f"{text!r}: there is nothing beside a {separator!r}; remove it or complete it")
    return stripped


def format_part(name: str, parameters: dict[str, Value]) -> str:
    """The inverse of reading one part; parameters keep their order."""
    rest = dict(parameters)
    path = rest.get("path")
    if isinstance(path, str):
        del rest["path"]
        name = f"{name}:{json.dumps(path, ensure_ascii=False) if _NOT_BEHIND_A_COLON.search(path) else path}"
    if not rest:
        return name
    return f"{name}[{','.join(f'{key}={format_value(value)}' for key, value in rest.items())}]"


def format_value(value: Value) -> str:
    """Write one value so that :func:`parse_value` reads it back unchanged.

    >>> format_value((6, 6, 8)), format_value(0.5), format_value(True), format_value((0.5, 2.0))
    ('6x6x8', '0.5', 'true', '(0.5,2.0)')
    """
    if isinstance(value, tuple | list):
        if len(value) > 1 and all(type(item) is int and item >= 0 for item in value):
            return "x".join(map(str, value))
        inside = ",".join(format_value(item) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, str) and (_NEEDS_QUOTES.search(value) or parse_value(value) != value):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def parse_value(text: str) -> Value:
    """Read one value: number, ``true``/``false``, ``none``, ``6x6x8``, ``(a,b)``, a quoted text or a word."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        inside = text[1:-1].strip().removesuffix(",")
        return tuple(_parse_scalar(item) for item in split(inside)) if inside else ()
    if _CROSS.match(text):
        return tuple(_integer(item) for item in text.split("x"))
    return _parse_scalar(text)


def _parse_scalar(text: str) -> Scalar:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            raise RequestError(
                f"{text}: a quoted text ends with a double quote, as it begins; one within it, and a backslash, "
                "take a backslash before them"
            ) from None
    words: dict[str, Scalar] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    if _INTEGER.match(text):
        return _integer(text)
    try:
        return float(text)
    except ValueError:
        return text


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python reads a few thousand digits
        raise RequestError(f"{text[:12]}... has {len(text)} digits; no parameter takes so large a number") from None


def _parse_part(text: str, whole: str) -> Part:
    quoted = _QUOTED_ARGUMENT.match(text)
    name, bracket, rest = text.partition("[") if quoted is None else quoted.groups("")
    # A name may carry an argument after a colon (`file:PATH`), which becomes the parameter `path`.
    name, colon, argument = name.strip().partition(":")
    if not _NAME.match(name):
        # What follows a + or comma of a path looks like one more name.
        path = "; a path with + or , in it goes in quotes: 'file:\"a+b.nc\"'" if re.search(r"[./\\]", name) else ""
        raise RequestError(f"{whole!r}: {name!r} is not a name; names are lower case letters, digits and hyphens{path}")
    if argument.startswith('"') and quoted is None:
        if whole.count('"') == 1:
            raise RequestError(f"{whole!r}: the quote that begins the path is not closed; end the path with another")
        raise RequestError(
            f'{whole!r}: after a path in quotes only [parameter=value] may follow, as in {name}:"a+b.nc"'
        )
    parameters: dict[str, Value] = {"path": _parse_scalar(argument.strip()) if quoted else argument} if colon else {}
    if bracket:
        if not rest.endswith("]"):
            raise RequestError(f"{whole!r}: what follows the ']' of {name!r} is not understood; use + to compose")
        inside = rest[:-1].strip()
        for item in split(inside) if inside else []:
            key, equals, value = (piece.strip() for piece in item.partition("="))
            if not equals or not _PARAMETER.match(key) or not value:
                raise RequestError(f"{whole!r}: {item!r} is not a parameter; write {name}[parameter=value]")
            if key in parameters:
                raise RequestError(f"{whole!r}: {key!r} is given twice; give it once")
            parameters[key] = parse_value(value)
    return Part(name, parameters)
