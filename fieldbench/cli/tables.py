"""Tables: the means of a run, and its methods against each other."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, Only, RunFolders, TableFormat, Width, levels
from fieldbench.cli.terminal import show


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


def compare(
    runs: RunFolders,
    metric: Annotated[
        str | None, typer.Option(help="What is compared: a metric or seconds.", show_default="that of the dataset")
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR,...",
            help="Average each trial's scores over rate, noise or sampler first: one comparison for all of them.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Test each other method against this one only, and correct for these tests alone.",
            show_default="every pair",
        ),
    ] = None,
    only: Only = [],
    labels: LabelFile = None,
    label: Label = [],
    format: TableFormat = "text",
    width: Width = None,
) -> None:
    """Compare every pair of methods on the trials that both finished.

    All methods meet the same observations, so trials are compared one by one: mean difference with its 95 %
    interval, wins, the smallest difference that these trials could have found, and from five trials on a p-value
    (Wilcoxon's signed ranks, or a paired t where these are too few for ranks). All that is shown is corrected together.
    Over several settings there are mean ranks, too. A method without a score on some trial is not ranked there.
    `fieldbench plot RUN --kind ranks` draws critical differences of the ranks.

    **Examples**

        fieldbench compare runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench compare RUN1 RUN2
        fieldbench compare RUN --average rate --only method=tap,tnn
        fieldbench compare RUN --baseline tap --label tap=Ours --format latex
        fieldbench compare RUN --metric seconds --format csv
    """
    from fieldbench.report.comparison import compare
    from fieldbench.report.labels import read_labels
    from fieldbench.report.stored import StoredRun
    from fieldbench.spec import split

    stored = StoredRun(runs[0], beside=tuple(runs[1:]), only=levels(only), labels=read_labels(labels, label))
    averaged = split(average) if average else ()
    made = compare(
        stored.frame, stored.metadata, metric=metric, average=averaged, baseline=baseline, labels=stored.labels
    )
    show(made.to, format, width)
