"""What a plugin or file says is printed as text, whatever a terminal would make of it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from fieldbench.cli.terminal import Output, plain_console, printable

LOUD = "\x1b[2Jloud\x07\x9b31m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_line_ends_tabs_and_letters_stay() -> None:
    text = "a\n\tδ °C 東"
    assert printable(text) == text


def test_bold_and_underline_are_for_terminals_alone() -> None:
    text = "\x1b[1mbest\x1b[22m \x1b[4msecond\x1b[24m \x1b[31mred"
    seen, kept = Terminal(), io.StringIO()
    Output(seen).write(text)
    Output(kept).write(text)
    assert seen.getvalue() == text.replace("\x1b[31m", r"\x1b[31m")
    assert "\x1b" not in kept.getvalue()


@pytest.mark.parametrize("thing", [LOUD, Text(LOUD, style="red")], ids=["text", "styled text"])
def test_a_console_gives_its_own_orders_only(thing: Any) -> None:
    seen = Terminal()
    console = plain_console(file=seen, force_terminal=True, width=200)
    table = Table("what")
    table.add_row(thing)
    console.print(thing, markup=False, highlight=False)
    console.print(table)
    for order in ("\x1b[2J", "\x07", "\x9b"):
        assert order not in seen.getvalue()
    assert seen.getvalue().count(r"\x1b[2Jlou") == 2
