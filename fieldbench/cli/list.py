"""``fieldbench list``: what there is to compare."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console

PLURALS = {"method": "Methods", "dataset": "Datasets", "noise": "Noises", "sampler": "Samplers", "metric": "Metrics"}


def list_plugins(
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
    from collections import Counter

    from rich.table import Table
    from rich.text import Text

    from fieldbench.errors import RequestError, nearest
    from fieldbench.method import Modifier
    from fieldbench.registry import Registry

    registry = Registry(sources(plugin, no_plugin))
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for name, plural in PLURALS.items():
        for key, entry in registry.entries(name).items():
            group = "Modifiers" if issubclass(entry.cls, Modifier) else plural
            shown = f"+{key}" if group == "Modifiers" else key
            groups.setdefault(group, {})[shown] = (entry.cls.summary(), str(entry.source))
    if kind is not None:
        known = {group.lower(): group for group in [*PLURALS.values(), "Modifiers"]}
        if kind.lower() not in known:
            raise RequestError(f"unknown kind {kind!r}{nearest(kind, known)}")
        groups = {known[kind.lower()]: groups.get(known[kind.lower()], {})}

    console = plain_console()
    width = max((len(name) for group in groups.values() for name in group), default=0)
    for group in [item for item in dict.fromkeys(("Methods", "Modifiers", *PLURALS.values())) if item in groups]:
        origins = Counter(source for _, source in groups[group].values())
        for origin, _ in origins.most_common():
            console.print(Text.assemble((group, "bold"), (f"  from {origin}", "dim")), soft_wrap=True)
            grid = Table.grid(padding=(0, 2))
            grid.add_column(min_width=width + 2, no_wrap=True, style="cyan")
            grid.add_column()
            for name, (summary, source) in groups[group].items():
                if source == origin:
                    grid.add_row(Text(f"  {name}"), Text(summary))
            console.print(grid)
            console.print()
    if registry.broken:
        console.print(Text("Broken plugins", style="bold red"))
        for item in registry.broken:
            line = Text.assemble(("  " + item.name, "red"), f" ({item.source}): {item.reason}")
            console.print(line, soft_wrap=True)
        console.print(Text("`fieldbench plugins NAME` shows where it broke.", style="dim"))
