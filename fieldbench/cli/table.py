"""``fieldbench table RUN``: means and spreads of a run, in any format."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, Only, RunFolders, TableFormat, Width, levels


def table(
    runs: RunFolders,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR",
            help="What the rows are: method, dataset, rate, noise, sampler, select, seed, device, machine, run, or a "
            "parameter such as epochs or tap.epochs; several joined by commas.",
            show_default="method",
        ),
    ] = None,
    columns: Annotated[str, typer.Option(metavar="FACTOR", help="What the columns are, likewise.")] = "rate",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="METRIC,...",
            help="What the cells hold: a metric, its variant over unobserved entries only (rmse.unobserved), "
            "seconds or peak_memory; several have a block each.",
            show_default="that of the dataset",
        ),
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="SPREAD",
            help="Behind the mean: interval (half width of the 95 % interval), std, stderr or none.",
            show_default="interval; of seconds std",
        ),
    ] = None,
    only: Only = [],
    order: Annotated[
        list[str],
        typer.Option(
            metavar="FACTOR=LEVEL,...",
            help="What comes first, in this order: method=tap,tnn. May be repeated.",
            show_default="as the run has it",
        ),
    ] = [],
    labels: LabelFile = None,
    label: Label = [],
    format: TableFormat = "text",
    width: Width = None,
) -> None:
    """Print the table of one run or several: mean and spread of every cell, the best bold, the second best underlined.

    A cell with failed or missing trials says how many count. Rows chosen by looking at the truth (oracle)
    are marked and not ranked. Seconds are shown by their median, and marked where they do not compare.
    Factors that vary and are neither rows nor columns make one block each.

    **Examples**

        fieldbench table runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench table RUN1 RUN2 --order method=tap,tnn
        fieldbench table RUN --rows noise --columns method --spread std
        fieldbench table RUN --columns epochs --metric seconds
        fieldbench table RUN --metric crps,coverage90,width90
        fieldbench table RUN --only method=tap,tnn --label tap=Ours --format latex > table.tex
    """
    from fieldbench.cli.terminal import show
    from fieldbench.report.labels import read_labels
    from fieldbench.results import Results
    from fieldbench.spec import split

    chosen = None if metric is None else split(metric)
    made = Results(runs[0]).table(
        rows=None if rows is None else split(rows),
        columns=split(columns),
        metric=chosen,
        spread=spread,
        beside=runs[1:],
        order=levels(order, "--order"),
        only=levels(only),
        labels=read_labels(labels, label),
    )
    show(made.to, format, width)
