"""``python -m fieldbench.regression``: run the small matrix and check it against its reference.

This is what ``tox -e regression`` calls. Methods that are not part of the matrix meet all of its columns, so
that a plugin's author gets the same check: ``tox -e regression -- --methods mine --against mine.csv``, the
first time with ``--freeze``.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.main import ALL_OK, INTERRUPTED, SOME_FAILED, run_app
from fieldbench.cli.options import Device, Jobs
from fieldbench.cli.sources import PluginFiles, sources


def regression(
    against: Annotated[Path, typer.Option(metavar="REFERENCE", help="The reference file, or another run.")],
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only these methods.", show_default="all of the suite")
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="table1 to table7 or a suite file.", show_default="the small matrix")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A run to go on with, or a new one.", show_default="a new one in runs/"),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Repetitions.", show_default="the suite's")] = None,
    jobs: Jobs = None,
    device: Device = "cpu",
    freeze: Annotated[bool, typer.Option("--freeze", help="Write the reference instead of checking it.")] = False,
    exact: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD=RTOL,...",
            help="Methods whose arithmetic is the same everywhere, as in `fieldbench freeze`; a reference file that is "
            "checked against must have been frozen so.",
            show_default="the suite's",
        ),
    ] = None,
    plugin: PluginFiles = [],
) -> int:
    """Run a matrix of methods and datasets and check its scores against a reference."""

    from fieldbench import suite as suites
    from fieldbench.cli.display import run_displayed
    from fieldbench.cli.references import report, tolerances
    from fieldbench.execution import Options
    from fieldbench.registry import Registry
    from fieldbench.regression import matrix, reference
    from fieldbench.session import Session
    from fieldbench.spec import split
    from fieldbench.store.files import write_whole

    given = tolerances(exact)
    found = sources(plugin, [])
    chosen = matrix.narrowed(suites.load(suite) if suite else matrix.small(), split(methods) if methods else [])
    table, left_out = matrix.available(chosen, Registry(found))
    if trials is not None:
        table = table.model_copy(update={"trials": trials})
    tolerated = {**table.exact, **given}
    if freeze:
        reference.ready(against)
    else:
        known = reference.load(against, tolerated)
    for line in left_out:
        print(line)
    # What was computed before a change must not answer for what is computed after it, so nothing is resumed unasked.
    folder = out or Path("runs") / f"regression-{datetime.now():%Y%m%d-%H%M%S-%f}"
    session = Session(table, sources=found, options=Options(device=device, jobs=jobs), out=folder)
    if freeze:
        reference.must_name_methods(given, session.plan.methods)
    else:
        reference.must_fit(known, session.plan.methods, given)
    progress = run_displayed(session)
    if progress.left:
        print(f"Stopped after {progress.done} of {progress.total} trials; go on with --out {session.path}")
        return INTERRUPTED
    print(f"Run: {session.path}")
    scores = reference.from_run(session.path, tolerated)
    if not freeze:
        return report(known, scores)
    write_whole(against, reference.write(scores))
    print(f"{len(scores.frame)} trials are frozen in {against}")
    return SOME_FAILED if progress.failed else ALL_OK


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(regression)

if __name__ == "__main__":
    run_app(app, "python -m fieldbench.regression")
