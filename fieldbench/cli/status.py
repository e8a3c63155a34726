"""``fieldbench status``: what of a run is done, failed and missing."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import RunFolder
from fieldbench.cli.terminal import plain_console


def status(
    run: RunFolder,
    failures: Annotated[
        bool, typer.Option("--failures", help="List every failed trial with its message.", show_default=False)
    ] = False,
) -> None:
    """Say what of a run is done, what failed and why, what is missing, and whether it is running now.

    **Examples**

        fieldbench status runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench status runs/tap-tnn-radiomap1-1a2b3c4d --failures

    The command that made the run does what is missing; with --retry-failed it also runs failed trials
    again.
    """
    from rich.table import Table
    from rich.text import Text

    from fieldbench.store.status import run_status

    found = run_status(run)
    console = plain_console(highlight=False)
    console.print(f"{run}: {found.done} of {found.planned} trials are done", markup=False, soft_wrap=True)
    if found.damage:
        console.print(found.damage, markup=False, soft_wrap=True)
    if found.writer:
        console.print(f"It is being written by {found.writer}.", markup=False, soft_wrap=True)
    for line in found.sessions:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print()

    columns = ["ok", "not applicable", "failed", "missing", "superseded"]
    used = [name for name in columns if name == "ok" or any(counts[name] for counts in found.methods.values())]
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    for _ in used:
        grid.add_column(justify="right")
    grid.add_row("", *used, style="dim")
    for method, counts in found.methods.items():
        grid.add_row(Text(method, style="cyan"), *(str(counts[name]) for name in used))
    console.print(grid)

    if found.failures:
        console.print("\nFailures", style="bold")
    for (method, status, error), rows in found.failures.items():
        times = "once" if len(rows) == 1 else f"{len(rows)} times"
        console.print(f"  {method}, {times}, {status}: {error}", markup=False, soft_wrap=True)
        for row in rows if failures else ():
            where = f"{row['dataset']}, {row['sampler']} {100 * row['rate']:g} %, noise {row['noise']}, {row['select']}"
            console.print(f"    trial {row['trial']} of seed {row['seed']}: {where}", markup=False, soft_wrap=True)
