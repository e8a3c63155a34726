"""``fieldbench site RUNS...``: runs as static pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile
from fieldbench.cli.sources import Blocked, PluginFiles, sources


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
