"""``fieldbench check-results RUN --against REFERENCE``: has anything moved?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fieldbench.regression.reference import Scores


def check_results(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    against: Annotated[Path, typer.Option(metavar="REFERENCE", help="A file of `fieldbench freeze`, or another run.")],
) -> int:
    """Check a run against a reference: what has moved, by how much, and how sure that is.

    Trials that both have, by what was asked for and not by versions, are compared in pairs; those of another seed
    are not. The exit code is 1 if an error, a number of failures or memory has moved by more than arithmetic or
    chance allows. Better errors fail too: freeze again if they are meant.

    **Examples**

        fieldbench check-results runs/new --against tests/reference.csv
        fieldbench check-results runs/new --against runs/old
    """
    from fieldbench.regression import reference

    return report(reference.load(against), reference.from_run(run))


def report(known: Scores, scores: Scores) -> int:
    """Print what has moved; the exit code."""
    from fieldbench.regression.drift import compare

    drift = compare(known, scores)
    print(drift)
    return 1 if drift.findings else 0
