"""Runs as pages: one file, a site, or live while the run goes on."""

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


def site(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS...", help="Folders of the runs.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the pages go.")],
    labels: LabelFile = None,
    label: Label = [],
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Write runs as a site: pages of each run, dataset and method that open from disk, without a server.

    A run's page has its tables with floors, ranks with intervals, figures, the command that made it, and all
    records to download. Each row has an address that stays the same when runs are added.

    **Examples**

        fieldbench site runs/ocean runs/radio --out public
        fieldbench site runs/ocean --out public --label tap=Ours
    """
    from fieldbench.report.labels import read_labels
    from fieldbench.report.site import write_site

    print(f"Wrote {write_site(runs, out, sources(plugin, no_plugin), read_labels(labels, label))}")


def watch(
    run: RunFolder,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine.", show_default="a free one")] = 0,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Show the page of a run while it runs, in a browser on this machine.

    Tables, comparison and the time to go follow every trial, figures a little later. Nothing is written, nobody else on
    the network can see it, and Ctrl-C ends it; the run does not notice.

    **Examples**

        fieldbench watch runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench watch RUN --port 8000 --no-open
    """
    import webbrowser

    from fieldbench.report.watch import LOOPBACK, serve

    with serve(run, port) as server:
        address = f"http://{LOOPBACK}:{server.server_port}/"
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if show:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
