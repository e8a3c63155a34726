"""The options by which plugins are added or left out, the same in every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fieldbench.registry import Sources

PANEL = "Plugins"

PluginFiles = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Load a single-file plugin, or every one in a folder. May be repeated.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]

Blocked = Annotated[
    list[str],
    typer.Option(
        "--no-plugin",
        metavar="NAME",
        help="Leave out a plugin: an entry point, a distribution, a file, or one method. May be repeated.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]


def sources(files: list[str], blocked: list[str]) -> Sources:
    """What these options and the environment say."""
    from fieldbench.registry import Sources

    return Sources.from_environment(files, blocked=blocked)
