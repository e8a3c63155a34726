"""``fieldbench report RUN``: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, RunFolder
from fieldbench.cli.sources import Blocked, PluginFiles, sources


def report(
    run: RunFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write.", show_default="report.html in the run")
    ] = None,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute",
            help="Compute the first trial of every setting again where its fields were not kept, for the slice "
            "browser. Takes as long as those trials took.",
        ),
    ] = False,
    labels: LabelFile = None,
    label: Label = [],
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Write a run as one HTML file that opens offline: to look at, to mail, to print.

    It holds the summary sentence, a table that sorts, filters and hides rows, figures, slices of all methods
    side by side, the comparison, failures, where the numbers come from, and the command that repeats them.

    **Examples**

        fieldbench report runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench report RUN --recompute --out results.html
    """
    from fieldbench.report.labels import read_labels
    from fieldbench.report.page import write_page
    from fieldbench.report.stored import StoredRun

    stored = StoredRun(run, sources(plugin, no_plugin), labels=read_labels(labels, label))
    print(f"Wrote {write_page(stored, out or stored.path / 'report.html', recompute=recompute)}")
