"""``fieldbench check NAME``: whether a plugin does all that the harness relies on."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console


def check(
    name: Annotated[
        str, typer.Argument(help="A plugin's name, or a spec such as 'tap[epochs=3]+tv'.", show_default=False)
    ],
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="method, dataset, noise, sampler or metric, where a name is used twice."),
    ] = None,
    plugin: PluginFiles = [],  # noqa: B006 - typer reads the default and never changes it
    no_plugin: Blocked = [],  # noqa: B006
) -> int:
    """Check that a plugin does all that fieldbench relies on, and say what a right one does where it does not.

    The exit code is 1 if a check failed. Failures that the plugin declares, with a reason, do not count.

    **Examples**

        fieldbench check nearest
        fieldbench check mine --plugin mine.py
    """
    from rich.text import Text

    from fieldbench.conformance import checks
    from fieldbench.registry import Registry

    styles = {"passed": "green", "failed": "bold red", "skipped": "yellow", "expected": "yellow"}
    console = plain_console(highlight=False)
    counts = dict.fromkeys(styles, 0)
    for item in checks(name, kind=kind, registry=Registry(sources(plugin, no_plugin))):
        outcome = item.outcome()
        counts[outcome.status] += 1
        console.print(Text.assemble((f"{outcome.status:>8}", styles[outcome.status]), f"  {item.name}"))
        if outcome.message:
            console.print(Text(outcome.message), style="dim" if outcome.status != "failed" else "", soft_wrap=True)
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    console.print(f"{name}: {summary}", markup=False)
    return 1 if counts["failed"] else 0
