"""What is printed: texts of plugins and files as text, never as orders to the terminal; whether or not one reads it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

#: All that a terminal may take for an order, but ends of lines and tabs, and (kept) the bold and underline of tables.
_ORDERS = re.compile(r"(\x1b\[(?:1|22|4|24)m)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str, *, styled: bool = False) -> str:
    r"""The text with every control character written out: ``\x1b``.

    >>> print(printable("red: \x1b[31m"))
    red: \x1b[31m

    Args:
        text: what somebody else wrote.
        styled: whether bold and underlined stay what they are.
    """
    return _ORDERS.sub(lambda found: found[1] if styled and found[1] else _written_out(found[0]), text)


def _written_out(characters: str) -> str:
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in characters)


class Output:
    """A standard stream that prints all it is given as text, and goes on when its reader (``head``) has gone."""

    def __init__(self, stream: TextIO, *, as_text: bool = True) -> None:
        self._stream, self._as_text = stream, as_text

    @property
    def rich_proxied_file(self) -> Output:
        """Where rich writes, which has cleaned the texts itself (:func:`plain_console`) and gives orders of its own."""
        return Output(self._stream, as_text=False)

    def write(self, text: str) -> int:
        try:
            self._stream.write(printable(text, styled=self._stream.isatty()) if self._as_text else text)
        except BrokenPipeError:
            self._let_it_go()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._let_it_go()

    def _let_it_go(self) -> None:
        """Send what is left to nowhere: the exit code tells how the command ended, not how long somebody read."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def show(write: Callable[..., str], format: str, width: int | None = None) -> None:
    """Print a table, on a terminal as wide as it, bold and underlined (unless the NO_COLOR convention asks for none).

    Args:
        write: writes it, as :meth:`fieldbench.report.tables.Table.to` does.
        format: its first argument.
        width: of a line in characters; where None, that of the terminal, or what COLUMNS says.
    """
    if width is None and format == "text" and (sys.stdout.isatty() or os.environ.get("COLUMNS")):
        width = shutil.get_terminal_size().columns
    print(write(format, styled=_is_styled(), width=width))


def bold(text: str) -> str:
    """The text, bold where it is printed on a terminal."""
    return f"\x1b[1m{text}\x1b[22m" if _is_styled() else text


def _is_styled() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def plain_console(**options: Any) -> Console:
    """A console of rich that prints all texts as text, as they are; ``options`` are rich's own."""
    from rich.console import Console
    from rich.segment import Segment

    class Plain(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Plain(highlight=False, markup=False, **options)
