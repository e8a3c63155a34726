"""``fieldbench status``: what of a run is done, failed and missing."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import RunFolder
from fieldbench.cli.terminal import bold, plain_console


def status(
    run: RunFolder,
    failures: Annotated[bool, typer.Option("--failures", help="List every failed trial with its message.")] = False,
) -> None:
    """Say what of a run is done, what failed and why, what is missing, and whether it is running now.

    **Examples**

        fieldbench status runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench status runs/tap-tnn-radiomap1-1a2b3c4d --failures

    The command that made the run does what is missing; with --retry-failed it also runs failed trials
    again.
    """
    from rich.table import Column, Table
    from rich.text import Text

    from fieldbench.store.status import run_status

    found = run_status(run)
    print(f"{run}: {found.done} of {found.planned} trials are done")
    if found.damage:
        print(found.damage)
    if found.writer:
        print(f"It is being written by {found.writer}.")
    print(*(f"  {line}" for line in found.sessions), "", sep="\n")

    columns = ["ok", "not applicable", "failed", "missing", "superseded"]
    used = [name for name in columns if name == "ok" or any(counts[name] for counts in found.methods.values())]
    grid = Table.grid("method", *(Column(justify="right") for _ in used), padding=(0, 2))
    grid.add_row("", *used, style="dim")
    for method, counts in found.methods.items():
        grid.add_row(Text(method, style="cyan"), *(str(counts[name]) for name in used))
    plain_console().print(grid)

    if found.failures:
        print(f"\n{bold('Failures')}")
    for (method, status, error), rows in found.failures.items():
        times = "once" if len(rows) == 1 else f"{len(rows)} times"
        print(f"  {method}, {times}, {status}: {error}")
        for row in rows if failures else ():
            where = f"{row['dataset']}, {row['sampler']} {100 * row['rate']:g} %, noise {row['noise']}, {row['select']}"
            print(f"    trial {row['trial']} of seed {row['seed']}: {where}")
