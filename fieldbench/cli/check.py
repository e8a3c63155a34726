"""``fieldbench check NAME``: whether a plugin does all that the harness relies on."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError, nearest


def check(
    name: Annotated[str, typer.Argument(help="A plugin's name, or a spec such as 'tap[epochs=3]+tv'.")],
    kind: Annotated[
        str | None, typer.Option(help="method, dataset, noise, sampler or metric, where a name is used twice.")
    ] = None,
    only: Annotated[list[str], typer.Option(metavar="CHECK", help="Do this check alone. May be repeated.")] = [],
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Check that a plugin does all that fieldbench relies on, and say what a right one does where it does not.

    The exit code is 1 if a check failed, or a dataset has no field to check. Failures that the plugin declares, with
    a reason, do not count. Where a library cannot be imported, no more is tried.

    **Examples**

        fieldbench check nearest
        fieldbench check mine --plugin mine.py
        fieldbench check mine --plugin mine.py --only deterministic
    """
    from rich.text import Text

    from fieldbench.conformance import checks
    from fieldbench.registry import Registry

    registry = Registry(sources(plugin, no_plugin))
    for broken in registry.broken:
        file = broken.source.label
        if file in plugin and not broken.brings:
            rest = f"`fieldbench plugins {broken.name}` shows the rest"
            raise RequestError(f"{file} does not load: {broken.reason}; {rest}")
    found = {item.name: item for item in checks(name, kind=kind, registry=registry)}
    for text in only:
        if text not in found:
            raise RequestError(f"--only {text}: there is no such check here{nearest(text, found)}")

    styles = {"passed": "green", "failed": "bold red", "skipped": "yellow", "expected": "yellow"}
    console = plain_console()
    counts = dict.fromkeys(styles, 0)
    missing, drawn = None, True
    for item in [item for item in found.values() if item.name in only or not only]:
        start = time.perf_counter()
        outcome = item.outcome()
        seconds = f"{time.perf_counter() - start:.1f} s"
        counts[outcome.status] += 1
        drawn = drawn and (item.name, outcome.status) != ("draws-a-field", "skipped")
        shown = (f"{outcome.status:>8}", styles[outcome.status])
        console.print(Text.assemble(shown, f"  {item.name}  ", (seconds, "dim")))
        if outcome.message:
            console.print(Text(outcome.message), style="dim" if outcome.status != "failed" else "", soft_wrap=True)
        if outcome.status == "failed" and (missing := _missing_import(outcome.cause)) is not None:
            break
    summary = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    stopped = f"; stopped, as it cannot import: {missing}" if missing is not None else ""
    stopped += "" if drawn else "; no field was drawn, so that this says little"
    print(f"{name}: {summary}{stopped}")
    return 1 if counts["failed"] or not drawn else 0


def _missing_import(error: BaseException | None) -> str | None:
    """What could not be imported, if that is behind an error."""
    while error is not None:
        if isinstance(error, ImportError):
            return str(error)
        error = error.__cause__ or error.__context__
    return None
