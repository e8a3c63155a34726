"""``fieldbench complete FILE``: fill the gaps of a field of one's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console

if TYPE_CHECKING:
    from fieldbench.completion import Completed
    from fieldbench.files import Content

WHAT, HOW, WHERE = "What to read", "How to complete it", "Where to write it"


def complete(
    file: Annotated[
        Path,
        typer.Argument(help="NetCDF, .npy, .npz, .mat, HDF5, or a CSV or Parquet table of points.", show_default=False),
    ],
    variable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The variable (column, path in HDF5) to complete.",
            rich_help_panel=WHAT,
            show_default="the only one",
        ),
    ] = None,
    coordinates: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Variables with the coordinates of each dimension; of a table, the columns that say where a row is. "
            "NetCDF knows its own, and HDF5 with dimension scales.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="20x20x10",
            help="Grid points along each coordinate, for a table whose rows lie on no grid.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Variable, or file, that is not zero where the field was observed; NaN and fill values are "
            "missing anyway.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Variable, or file, that is zero where the field does not exist and must stay missing: land, "
            "buildings.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        list[str],
        typer.Option(
            metavar="DIMENSION=INDEX",
            help="Complete one position along a dimension only: time=0. May be repeated.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer reads the default and never changes it
    log_floor: Annotated[
        float | None,
        typer.Option(
            help="For positive values that vary over decades, such as power: work on logarithms, this added first.",
            rich_help_panel=WHAT,
            show_default="not on logarithms",
        ),
    ] = None,
    known: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=NUMBER",
            help="A fact that some methods need: emitters=7. May be repeated.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = [],  # noqa: B006
    method: Annotated[
        str,
        typer.Option(help="A method, or auto: the one that does best at held-out entries.", rich_help_panel=HOW),
    ] = "auto",
    among: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD,...",
            help="The methods that auto chooses among.",
            rich_help_panel=HOW,
            show_default="all that are installed",
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Time for comparing methods at held-out entries; completing the field comes on top. With a "
            "method named, 0 skips the estimate of its error.",
            rich_help_panel=HOW,
        ),
    ] = 300.0,
    folds: Annotated[int, typer.Option(help="How many times entries are held out.", rich_help_panel=HOW)] = 3,
    share: Annotated[
        float, typer.Option(help="Share of the observed entries held out each time.", rich_help_panel=HOW)
    ] = 0.1,
    denoise: Annotated[
        bool,
        typer.Option(
            "--denoise", help="Replace observed entries by the method's estimate as well.", rich_help_panel=HOW
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything random.", rich_help_panel=HOW)] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, or a GPU: cuda:0.", rich_help_panel=HOW)] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file to write, in the format of the one read.",
            rich_help_panel=WHERE,
            show_default="NAME_completed beside it",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite it.", rich_help_panel=WHERE)] = False,
    plugin: PluginFiles = [],  # noqa: B006
    no_plugin: Blocked = [],  # noqa: B006
) -> None:
    """Fill the gaps of a field in a file, by the method that does best at entries held out on purpose.

    The result is a file of the same format, with coordinates, attributes and all other variables kept; of a
    table, one row for each grid point, without its other columns. Beside the values it says which method made
    them, with the error to expect, and holds their standard deviation if the method knows it. Observed entries
    stay as they are. The held-out entries make holes as deep as the gaps, so that the error is that of the gaps;
    deep inside the widest of them it may be larger.

    **Examples**

        fieldbench complete cruise.nc --variable temp --valid mask_rho
        fieldbench complete power.npz --log-floor 1e-6 --budget 60
        fieldbench complete casts.csv --coordinates lon,lat,depth --variable temp --grid 40x40x20
        fieldbench complete cruise.nc --method 'tap[epochs=2000]' --at time=0 --out filled.nc
    """
    from fieldbench.completion import complete as completed
    from fieldbench.errors import RequestError
    from fieldbench.files import Completion, Wanted, read, write
    from fieldbench.files.writing import check_target
    from fieldbench.spec import parse_value, split

    shape = (parse_value(grid),) if grid and "x" not in grid else parse_value(grid) if grid else ()
    flat = shape if isinstance(shape, tuple) else (shape,)
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in flat):
        raise RequestError(f"grid {grid!r} is no shape; write 20x20x10")
    wanted = Wanted(
        variable=variable,
        coordinates=tuple(split(coordinates)) if coordinates else (),
        grid=tuple(size for size in flat if isinstance(size, int)),
        mask=mask,
        valid=valid,
        at=tuple(at),
    )
    target = file.parent / f"{file.stem}_completed{file.suffix}" if out is None else out
    content = read(file, wanted)
    check_target(file, target, overwrite=force)
    gaps = int(content.missing.sum())
    observation = content.observation(log_floor, _facts(known))
    print(_description(content, int(observation.mask.sum()), gaps), *content.variable.remarks, sep="\n")
    if not gaps:
        raise RequestError(f"{content.name} has no gap to fill")
    with _progress() as (watch, busy):
        made = completed(
            observation,
            method,
            candidates=split(among) if among else (),
            budget=budget,
            folds=folds,
            share=share,
            seed=seed,
            device=device,
            sources=sources(plugin, no_plugin),
            watch=watch,
            busy=busy,
        )
    unit = content.variable.unit if made.metric == "rmse" else ""
    print()
    print(_comparison(made, unit))
    values = made.values.copy()
    if not denoise:
        values[observation.mask] = observation.observed
    note = _note(made, seed, share, budget)
    written = write(file, target, content, Completion(values, made.deviation, note), overwrite=force)
    print()
    error = "" if made.expected_error != made.expected_error else f", {made.metric} {made.expected_error:.3g} {unit}"
    print(f"Completed {gaps} entries with {made.method}{error.rstrip()}")
    out_of_time = sum(1 for item in made.comparison if not item.errors and item.out_of_time)
    if out_of_time:
        verb = "method was" if out_of_time == 1 else "methods were"
        print(
            f"{out_of_time} {verb} not compared for want of time; a larger --budget lets more in, --among asks fewer."
        )
    for path in written:
        print(f"Wrote {path}")


@contextlib.contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """What tells the user what came of a fit, and what is being done; on a terminal with the seconds running."""
    import sys

    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = plain_console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield lambda line: print(line, file=sys.stderr, flush=True), lambda work: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:

        def busy(work: str) -> None:
            for task in shown.task_ids:
                shown.remove_task(task)
            shown.add_task(work, total=None)

        yield lambda line: console.print(line, soft_wrap=True), busy


def _facts(texts: list[str]) -> dict[str, float]:
    from fieldbench.errors import RequestError

    facts = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not equals or not name.strip() or number != number:
            raise RequestError(f"--known {text!r}: write NAME=NUMBER, such as emitters=7")
        facts[name.strip()] = int(number) if number.is_integer() else number
    return facts


def _description(content: Content, observed: int, gaps: int) -> str:
    axes = " x ".join(f"{axis.name} {len(axis)}" for axis in content.axes)
    unit = f" in {content.variable.unit}" if content.variable.unit else ""
    absent = content.values.size - observed - gaps
    land = f", {absent} not valid" if absent else " and to be filled (--valid says what must stay missing)"
    return f"{content.name}{unit}: {axes}; {observed} entries observed, {gaps} missing{land}"


def _comparison(made: Completed, unit: str) -> str:
    """The candidates as a table, best first, and below it those that were not compared."""
    import math
    import statistics

    from tabulate import tabulate

    head = ["method", f"{made.metric} {f'({unit})' if unit else ''}".strip(), "spread", "folds", "seconds", ""]
    rows = [
        [
            item.method,
            f"{item.expected:.4g}",
            f"{statistics.stdev(item.errors):.2g}" if len(item.errors) > 1 and math.isfinite(item.expected) else "-",
            len(item.errors),
            f"{item.seconds:.1f}",
            item.note,
        ]
        for item in made.comparison
        if not math.isnan(item.expected)
    ]
    rest = [f"{item.method}: {item.note}" for item in made.comparison if math.isnan(item.expected)]
    if not rows:
        return "\n".join(["No error was estimated.", *rest])
    title = f"Error at {made.withheld} held-out entries a fold"
    table = tabulate(rows, head, tablefmt="simple", disable_numparse=True, colalign=("left", *["right"] * 4, "left"))
    return "\n".join([title, "\n".join(line.rstrip() for line in table.splitlines()), *(["", *rest] if rest else [])])


def _note(made: Completed, seed: int, share: float, budget: float) -> dict[str, str | float]:
    """What is written beside the values."""
    from fieldbench import __version__

    note: dict[str, str | float] = {"method": made.method, "version": __version__, "seed": seed}
    if made.expected_error == made.expected_error:
        note[f"estimated_{made.metric}"] = made.expected_error
        ranked = [item for item in made.comparison if item.expected == item.expected]
        folds = next(len(item.errors) for item in ranked if item.method == made.method)
        times = "in 1 fold" if folds == 1 else f"in each of {folds} folds"
        note["estimated_by"] = f"{made.withheld} observed entries held out {times} (share {share:g})"
        if len(ranked) > 1:
            note["chosen_among"] = "; ".join(f"{item.method} {item.expected:.4g}" for item in ranked)
            note["budget_seconds"] = budget
    return note
