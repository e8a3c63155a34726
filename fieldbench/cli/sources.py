"""The options by which plugins are added or left out, the same in every command."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.errors import RequestError

if TYPE_CHECKING:
    from fieldbench.registry import Sources

of_plugins = partial(typer.Option, rich_help_panel="Plugins")

PluginFiles = Annotated[
    list[str],
    of_plugins(metavar="FILE", help="Load a single-file plugin, or every one in a folder. May be repeated."),
]

Blocked = Annotated[
    list[str],
    of_plugins(
        metavar="NAME",
        help="Leave out a plugin: an entry point, a distribution, a file, or one method. May be repeated.",
    ),
]


def must_name_something(option: str, text: str) -> None:
    """
    Raises:
        RequestError: if the option's text is blank, as that of a shell's variable that is not set.
    """
    if not text.strip():
        raise RequestError(f"--{option} is empty; name something, or leave it out")


def sources(files: list[str], blocked: list[str]) -> Sources:
    """What these options and the environment say."""
    from fieldbench.registry import Sources

    for option, given in (("plugin", files), ("no-plugin", blocked)):
        for text in given:
            must_name_something(option, text)
    return Sources.from_environment(files, blocked=blocked)
