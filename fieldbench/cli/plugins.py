"""``fieldbench plugins``: which plugins were found, and what is wrong with broken ones."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError, nearest


def plugins(
    name: Annotated[str | None, typer.Argument(help="A plugin; of a broken one the whole traceback is shown.")] = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Show where plugins came from and whether they work.

    **Examples**

        fieldbench plugins
        fieldbench plugins mine --plugin mine.py
    """
    from rich.text import Text

    from fieldbench.registry import Registry

    registry = Registry(sources(plugin, no_plugin))
    brought: dict[str, list[str]] = {}
    for kind in ("method", "dataset", "noise", "sampler", "metric"):
        for key, entry in registry.entries(kind).items():
            brought.setdefault(str(entry.source), []).append(f"{kind} {key}")
    broken = {item.name for item in registry.broken}
    console = plain_console()
    if name is not None:
        sources_named = [label for label in brought if name in (label, label.partition(" ")[0])]
        if name not in broken and not sources_named:
            known = [*broken, *(label.partition(" ")[0] for label in brought)]
            raise RequestError(f"unknown plugin {name!r}{nearest(name, known)}")
        brought = {label: brought[label] for label in sources_named}
    for label, things in brought.items():
        console.print(Text(label, style="bold"))
        for thing in things:
            console.print(f"  {thing}")
    for item in registry.broken:
        if name in (None, item.name):
            line = Text.assemble((f"{item.name} is broken", "bold red"), f" ({item.source}): {item.reason}")
            console.print(line, soft_wrap=True)
            if name is not None and item.details:
                console.print(item.details, end="", soft_wrap=True)
