"""``fieldbench tune METHOD``: parameters for a dataset, found once on development trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.options import Device, Jobs
from fieldbench.cli.sources import Blocked, PluginFiles, sources

if TYPE_CHECKING:
    from fieldbench.spec import Value
    from fieldbench.tuning import TriedPoint


def tune(
    method: Annotated[
        str, typer.Argument(help="A method; parameters in brackets that differ from their defaults are kept.")
    ],
    dataset: Annotated[str, typer.Option(help="What it is tuned on.")],
    rate: Annotated[
        float | None, typer.Option(help="Share of the entries that is observed.", show_default="the dataset's own")
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="Which entries are observed.", show_default="the dataset's own")
    ] = None,
    noise: Annotated[str, typer.Option(help="Measurement noise.")] = "none",
    tuner: Annotated[
        str,
        typer.Option(metavar="SPEC", help="What says which point to try: 'tuned[budget=100]', 'tuned[seconds=600]'."),
    ] = "tuned",
    trials: Annotated[int, typer.Option(min=1, help="Development trials of every point.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another number gives other development trials.")] = 0,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where what was tried is kept.", show_default="studies/...")
    ] = None,
    device: Device = "auto",
    jobs: Jobs = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Find the parameters of a method for a dataset, and print the spec to paste.

    Every point is fitted on development trials, whose seeds no run has. Observed entries alone are used: a share of
    them is withheld, as the sampler withholds, and the point with the least mean error there is chosen. The same
    command with a larger budget goes on.

    **Examples**

        fieldbench tune idw --dataset ssf-synthetic
        fieldbench tune lrtc --dataset radiomap1 --rate 0.1 --tuner 'tuned[budget=100]'
    """
    from fieldbench.execution import Options
    from fieldbench.study import tune as search
    from fieldbench.tuning import in_words

    def tell(values: Mapping[str, Value], outcome: TriedPoint, least: float) -> None:
        came = outcome.reason or f"{outcome.error:.5g}{' *' * (outcome.error == least)}"
        typer.echo(f"{in_words(values)}: {came}")

    options = Options(device=device, jobs=jobs)
    found = search(
        method, dataset, tuner=tuner, rate=rate, sampler=sampler, noise=noise, trials=trials, seed=seed, study=study,
        sources=sources(plugin, no_plugin), options=options, tell=tell,
    )  # fmt: skip
    typer.echo(f"\n{found.points} points, {found.seconds:.3g} s of fits, kept in {found.study}")
    typer.echo(f"{found.metric} at withheld entries: {found.error:.5g}; {found.before:.5g} as it was")
    typer.echo(f"Use: '{found.method}'")
