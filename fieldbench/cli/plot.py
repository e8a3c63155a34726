"""``fieldbench plot RUN``: figures for print."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fieldbench.cli.options import Label, LabelFile, Only, RunFolder, assigned, levels
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.errors import RequestError, nearest

#: Inches of text on a page: a figure that is higher fits none.
PAGE = 9.5

field = partial(typer.Option, rich_help_panel="Kinds that show fields")


def plot(
    run: RunFolder,
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND,...",
            help="settings, rate, param, epoch, cost, strips, calibration, ranks, slices, deviation, attention; or all "
            "that this run has something to show of without computing fields again.",
        ),
    ] = "all",
    format: Annotated[str, typer.Option(metavar="FORMAT,...", help="png, pdf, svg.")] = "pdf",
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the figures go.", show_default="figures/ in the run")
    ] = None,
    width: Annotated[
        str, typer.Option(metavar="column|text|INCHES", help="How wide: 3.5 inches, 7.16 inches, or a number of them.")
    ] = "text",
    style: Annotated[str, typer.Option(metavar="STYLE", help="paper, talk (larger), dark.")] = "paper",
    colour: Annotated[
        list[str], typer.Option(metavar="METHOD=COLOUR", help="Of a method, such as tap=#d55e00. May be repeated.")
    ] = [],
    only: Only = [],
    labels: LabelFile = None,
    label: Label = [],
    trial: Annotated[int | None, field(help="Which trial.", show_default="the first")] = None,
    axis: Annotated[str | None, field(help="Axis that is cut, by name or number.", show_default="the last")] = None,
    at: Annotated[
        str | None, field(metavar="I,J,...", help="Indices of the slices along it.", show_default="three")
    ] = None,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Draw figures of a run and print where they are.

    settings: every setting in one figure. rate: error against sampling rate. param: error against a parameter that was
    run at several values. epoch: error and core sparsity against epoch. cost: error against seconds. strips: every
    trial. calibration: coverage of intervals. ranks: critical differences. slices: truth, observation, reconstructions,
    errors and deviations. deviation: stated against actual error. attention: attention maps.

    slices, deviation and attention need whole fields: kept ones (`fieldbench run --save-fields`), or the trial is
    computed again, and then kept.

    **Examples**

        fieldbench plot runs/tap-tnn-radiomap1-1a2b3c4d
        fieldbench plot RUN --kind rate,strips --format pdf,svg --out figures
        fieldbench plot RUN --kind cost --width column --style talk --colour nearest=black
        fieldbench plot RUN --kind slices --only rate=0.1 --trial 2 --at 0,5,10
    """
    from fieldbench.report.figures import FORMATS, KINDS, NothingToDraw, View, draw, must_take, save, width_of_page
    from fieldbench.report.labels import read_labels
    from fieldbench.report.stored import StoredRun
    from fieldbench.spec import split

    every = kind == "all"
    kinds = [name for name, known in KINDS.items() if not known.of_fields] if every else split(kind)
    for name in kinds:
        if name not in KINDS:
            hint = "; all goes alone" if name == "all" else nearest(name, KINDS)
            raise RequestError(f"unknown kind of figure {name!r}{hint}")
    formats = split(format)
    for name in formats:
        if name not in FORMATS:
            raise RequestError(f"unknown format {name!r}{nearest(name, FORMATS)}")
    try:
        positions = tuple(int(text) for text in split(at)) if at else ()
    except ValueError:
        raise RequestError(f"--at {at!r} is not a list of indices; write --at 0,5,10") from None
    colours = dict(assigned("--colour", colour, "--colour tap=#d55e00", cut=str.rpartition))
    view = View(width_of_page(width), style, colours, trial=trial, axis=axis, at=positions)
    must_take(kinds, view.asked)
    stored = StoredRun(run, sources(plugin, no_plugin), levels(only), read_labels(labels, label))
    folder = out or stored.path / "figures"
    if stored.frame.empty:
        raise RequestError(f"{run} has nothing to draw")
    written = 0
    for name in kinds:
        try:
            figures = draw(stored, name, view.of_kind(name))
        except NothingToDraw as error:
            if not every:
                raise
            typer.echo(f"no {name}: {error}", err=True)
            continue
        for title, figure in figures.items():
            for ending in formats:
                print(save(figure, folder / f"{title}.{ending}"))
                written += 1
            if (height := figure.get_figheight()) > PAGE:
                said = f"{title} is {height:.0f} inches high, more than a page"
                typer.echo(f"{said}; --width column, --at or --only makes it lower", err=True)
    if not written:
        raise RequestError(f"{run} has nothing to draw")
