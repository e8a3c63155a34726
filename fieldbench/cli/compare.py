"""``fieldbench compare RUN``: methods against each other, trial by trial."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, Only, RunFolders, TableFormat, Width, levels


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
    from fieldbench.cli.terminal import show
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
