"""``fieldbench list``: what there is to compare."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles
from fieldbench.cli.terminal import bold
from fieldbench.errors import RequestError, nearest

if TYPE_CHECKING:
    from fieldbench.cli.listing import Listed


def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help="methods, datasets, noises, samplers, metrics or modifiers; all of them by default."),
    ] = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """List methods, datasets, noises, samplers and metrics, and where each came from.

    **Examples**

        fieldbench list
        fieldbench list methods
        fieldbench list --plugin mine.py
    """
    from fieldbench.cli.listing import PLURALS, listing

    groups = [PLURALS["method"], "Modifiers", *list(PLURALS.values())[1:]]
    if kind is not None:
        known = {group.lower(): group for group in groups}
        if kind.lower() not in known:
            raise RequestError(f"unknown kind {kind!r}{nearest(kind, known)}")
        groups = [known[kind.lower()]]

    rows, broken = listing(plugin, no_plugin)
    rows = [row for row in rows if row.group in groups]
    width = max((len(row.name) for row in rows), default=0) + 4
    for group in groups:
        origins = Counter(row.source for row in rows if row.group == group)
        for origin, _ in origins.most_common():
            print(f"{bold(group)}  from {origin}")
            for row in rows:
                if (row.group, row.source) == (group, origin):
                    _print_row(row, width)
            print()
    if broken:
        print(bold("Broken plugins"))
        for item in broken:
            print(f"  {item.name} ({item.source}): {item.reason}")
        print("`fieldbench plugins NAME` shows where it broke.")


def _print_row(row: Listed, width: int) -> None:
    columns = shutil.get_terminal_size().columns
    lines = textwrap.wrap(row.summary, max(columns - width, 20), break_on_hyphens=False)
    print(f"  {row.name}".ljust(width) + ("\n" + " " * width).join(lines))
