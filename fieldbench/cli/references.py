"""References: a run's scores kept as a small file, and whether anything has moved since."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.options import assigned

if TYPE_CHECKING:
    from fieldbench.regression.reference import Scores

FinishedRun = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]


def freeze(
    run: FinishedRun,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The reference file.", show_default="the terminal")
    ] = None,
    exact: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD=RTOL,...",
            help="Methods whose arithmetic is the same everywhere, each with the relative difference it may make.",
        ),
    ] = None,
) -> None:
    """Write the scores of a run as a reference that later runs are checked against.

    One line a trial, in order and without versions, dates or paths but for the lines above them: so a
    change of it is a change of numbers, and git shows which. Methods are compared statistically unless
    --exact says to how many digits their arithmetic is the same on every machine.

    **Examples**

        fieldbench freeze runs/mine --out tests/reference.csv
        fieldbench freeze runs/mine --exact nearest=1e-9,linear=1e-9 --out tests/reference.csv
    """
    from fieldbench.regression import reference
    from fieldbench.store.files import write_whole

    given = tolerances(exact)
    scores = reference.from_run(run, given)
    reference.must_name_methods(given, scores.frame["method"].unique())
    if out is None:
        print(reference.write(scores), end="")
        return
    reference.ready(out)
    write_whole(out, reference.write(scores))
    print(f"{len(scores.frame)} trials are frozen in {out}")


def tolerances(exact: str | None) -> dict[str, float]:
    """What ``--exact`` says, by method.

    Raises:
        RequestError: if it is not understood.
    """
    from fieldbench.spec import split

    def read(text: str) -> float:
        value = float(text)
        if not 0 < value < 1:
            raise ValueError
        return value

    texts, form = split(exact) if exact else [], "METHOD=RTOL, such as nearest=1e-9"
    return dict(assigned("--exact", texts, form, read, cut=str.rpartition))


def check_results(
    run: FinishedRun,
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
