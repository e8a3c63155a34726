"""``fieldbench compare RUN``: methods against each other, trial by trial."""

from __future__ import annotations

from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, Only, RunFolder


def compare(
    run: RunFolder,
    metric: Annotated[
        str | None,
        typer.Option(help="What is compared: a metric or seconds.", show_default="that of the dataset"),
    ] = None,
    average: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR,...",
            help="Average each trial's scores over rate, noise or sampler first: one comparison for all of them.",
            show_default=False,
        ),
    ] = None,
    only: Only = [],  # noqa: B006 - typer reads the default and never changes it
    labels: LabelFile = None,
    label: Label = [],  # noqa: B006
    format: Annotated[str, typer.Option(help="text, or csv: one line a pair.")] = "text",
) -> None:
    """Compare every pair of methods on the trials that both finished.

    All methods meet the same observations, so trials are compared one by one: mean difference with its 95 %
    interval, wins, and a p-value (Wilcoxon's signed ranks, or a paired t where there are too few trials),
    corrected by Holm's procedure; over several settings also the mean ranks. A method without a score on some
    trial is not ranked there. `fieldbench plot RUN --kind ranks` draws critical differences of the ranks.

    **Examples**

        fieldbench compare runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench compare RUN --average rate --only method=tap,tnn
        fieldbench compare RUN --metric seconds --format csv
    """
    from fieldbench.cli.choices import levels
    from fieldbench.errors import RequestError, nearest
    from fieldbench.report.comparison import compare
    from fieldbench.report.formats import csv_text
    from fieldbench.report.labels import read_labels
    from fieldbench.report.stored import StoredRun
    from fieldbench.spec import split

    if format not in ("text", "csv"):
        raise RequestError(f"unknown format {format!r}{nearest(format, ['text', 'csv'])}")
    stored = StoredRun(run, only=levels(only), labels=read_labels(labels, label))
    averaged = split(average) if average else ()
    made = compare(stored.frame, stored.metadata, metric=metric, average=averaged, labels=stored.labels)
    if format == "text":
        print(made)
        return
    if rows := list(made.pairs()):
        print(csv_text(rows))
