"""The folders of runs: what of one is done, several joined, a manifest made anew, numbers computed again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.options import Device, Jobs, RunFolder
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import bold, plain_console
from fieldbench.errors import RequestError

#: Conflicts of a merge that are printed.
SHOWN = 10


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


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="Folders of the runs.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the merged run.")],
) -> int:
    """Join runs of the same comparison that were made on other machines, with other trials or other seeds.

    All rows are kept once. If two runs have different scores for the same trial, the first one's are
    taken, the other row goes to conflicts.jsonl in the new folder, and the exit code is 1.

    **Examples**

        fieldbench run --methods tap --datasets ssf --trials 5 --out here
        fieldbench run --methods tap --datasets ssf --trials 5 --first-trial 5 --out there
        fieldbench merge here there --out both
    """
    from fieldbench.store.files import CONFLICTS
    from fieldbench.store.merge import merge as join

    merged = join(runs, out)
    print(f"{merged.trials} trials from {len(runs)} runs are in {out}")
    if merged.alike:
        print(f"In several of them, with nothing to choose between: {merged.alike}")
    if not merged.conflicts:
        return 0
    print(f"Trials with different scores: {len(merged.conflicts)}", file=sys.stderr)
    for conflict in merged.conflicts[:SHOWN]:
        row = conflict.row
        print(
            f"  {row['method']} on {row['dataset']}, rate {row['rate']:g}, trial {row['trial']} of seed {row['seed']}: "
            f"{conflict.metric} {row['metrics'].get(conflict.metric)} was taken, "
            f"{conflict.other['metrics'].get(conflict.metric)} is in {conflict.folder}",
            file=sys.stderr,
        )
    if len(merged.conflicts) > SHOWN:
        print(f"  and {len(merged.conflicts) - SHOWN} more", file=sys.stderr)
    print(f"The rows not taken are in {out / CONFLICTS}", file=sys.stderr)
    return 1


def repair(
    run: RunFolder,
) -> None:
    """Make the manifest of a run anew from its records, where it is damaged or gone.

    The damaged one stays beside it as manifest.json.damaged. Units, headline metrics and the order of the methods
    come back when the run is gone on with: `fieldbench run` with the same --out.

    **Examples**

        fieldbench repair runs/tap-tnn-radiomap1-1a2b3c4d
    """
    from fieldbench.store.run import repair as make_anew

    cells, trials = make_anew(run)
    print(f"{run}: the manifest is made anew from {trials} trials in {cells} cells")


def verify(
    run: RunFolder,
    share: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of its trials to compute again.")] = 0.05,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Relative difference of a score that counts as none.")] = (
        1e-6
    ),
    seed: Annotated[
        int | None, typer.Option(help="Chooses the trials.", show_default="another each time", min=0)
    ] = None,
    environment: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the versions that the run was made with, as pip reads them, and compute nothing.",
        ),
    ] = None,
    device: Device = "auto",
    jobs: Jobs = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Compute a random share of a run's trials again, and say whether they agree. The run is only read.

    Trials whose plugins or data differ here from those of the run cannot be verified, and are counted apart.
    The exit code is 1 if a score differs or nothing could be verified.

    **Examples**

        fieldbench verify runs/theirs --share 0.05
        fieldbench verify runs/theirs --environment requirements.txt
    """
    import numpy as np

    from fieldbench import verification
    from fieldbench.execution import Options
    from fieldbench.store.files import write_whole

    if environment is not None:
        write_whole(environment, "\n".join(verification.environment(run)) + "\n")
        print(f"{environment} has the versions that {run} was made with")
        return 0
    if share <= 0:
        raise RequestError(f"--share {share:g}: a share is above 0 and at most 1")
    options, rng = Options(device=device, jobs=jobs), np.random.default_rng(seed)
    found = verification.verify(run, sources(plugin, no_plugin), options, share=share, tolerance=tolerance, rng=rng)
    count = found.agreeing + len(found.differing) + len(found.unlike)
    print(f"{found.agreeing} of {count} trials agree, chosen at random from the {found.stored} of {run}")
    for title, lines in (("differ", found.differing), ("cannot be verified here", found.unlike)):
        if lines:
            print(f"{len(lines)} {title}:", *lines, sep="\n  ", file=sys.stderr)
    return 0 if found.agreeing and not found.differing else 1
