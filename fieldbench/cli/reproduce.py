"""``fieldbench reproduce``: a published table, ours beside it."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import Device, DryRun, Jobs, Label, LabelFile, OutFolder, RetryFailed, TableFormat
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.errors import RequestError, nearest


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="table1 to table7, ocean, radio, gaps, or a suite file of your own."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables that ship with fieldbench.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of every cell.", show_default="the suite's")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only the rows of these methods.", show_default="all")
    ] = None,
    jobs: Jobs = None,
    device: Device = "auto",
    labels: LabelFile = None,
    label: Label = [],
    format: TableFormat = "text",
    out: OutFolder = None,
    dry_run: DryRun = False,
    retry_failed: RetryFailed = False,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Compute a table of the FieldFormer paper and print our numbers beside the published ones.

    The settings of each table, its published numbers and their source are in a suite: a TOML file that
    `--list` names. A file of your own in the same form runs the same way. Finished trials are kept; the
    same command goes on where it stopped. The published tables are means of 10 trials.

    **Examples**

        fieldbench reproduce --list
        fieldbench reproduce table1
        fieldbench reproduce table1 --trials 2 --methods tap
        fieldbench reproduce table4 --label 'TAP+TV=Ours' --format latex > table4.tex
        fieldbench reproduce my-suite.toml
    """
    from fieldbench import suite as suites
    from fieldbench.cli.run import perform, preview, read_suite
    from fieldbench.execution import Options
    from fieldbench.report.formats import FORMATS
    from fieldbench.report.labels import read_labels
    from fieldbench.session import Session

    if list_:
        for shipped in suites.built_in():
            table = suites.load(shipped)
            numbers = sum(len(row.published) for row in table.rows)
            print(f"{shipped:<10}{table.title} ({numbers} numbers; {table.source})")
        return 0
    if name is None:
        raise RequestError("name a table; `fieldbench reproduce --list` lists them")
    if format not in FORMATS:
        raise RequestError(f"unknown format {format!r}{nearest(format, FORMATS)}")
    suite = read_suite(name, methods, trials).labelled(read_labels(labels, label))
    session = Session(suite, sources=sources(plugin, no_plugin), options=Options(device=device, jobs=jobs), out=out)
    if dry_run:
        preview(session, session.progress(retry_failed=retry_failed))
        return 0
    return perform(session, suite=suite, format=format, retry_failed=retry_failed)
