"""``fieldbench merge``: join runs of the same comparison."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

SHOWN = 10


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
