"""``fieldbench complete FILE``: fill the gaps of a field of one's own."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fieldbench.cli.options import assigned
from fieldbench.cli.sources import Blocked, PluginFiles, sources
from fieldbench.cli.terminal import plain_console
from fieldbench.errors import RequestError

if TYPE_CHECKING:
    from fieldbench.completion import Completed
    from fieldbench.completion.filling import Filled
    from fieldbench.files import GriddedVariable

what = partial(typer.Option, rich_help_panel="What to read")
how = partial(typer.Option, rich_help_panel="How to complete it")
where = partial(typer.Option, rich_help_panel="Where to write it")


def complete(
    file: Annotated[
        Path, typer.Argument(help="NetCDF, Zarr, .npy, .npz, .mat, HDF5, GeoTIFF, or a CSV or Parquet table of points.")
    ],
    variable: Annotated[
        str | None,
        what(
            metavar="NAME,...",
            help="The variable (column, path in HDF5 or NetCDF) to complete, or several.",
            show_default="the only one",
        ),
    ] = None,
    coordinates: Annotated[
        str | None,
        what(
            metavar="NAME,...",
            help="Variables with the coordinates of each dimension; of a table, the columns that say where a row is. "
            "NetCDF knows its own, and HDF5 with dimension scales.",
        ),
    ] = None,
    grid: Annotated[
        str | None,
        what(
            metavar="20x20x10|step=0.5",
            help="For a table whose rows lie on no grid: grid points along each coordinate, or steps of a grid.",
        ),
    ] = None,
    mask: Annotated[
        str | None,
        what(
            metavar="NAME|FILE",
            help="Variable, or file, that is not zero where the field was observed; NaN and fill values are "
            "missing anyway.",
        ),
    ] = None,
    valid: Annotated[
        str | None,
        what(
            metavar="NAME|FILE",
            help="Variable, or file, that is zero where the field does not exist and must stay missing: land, "
            "buildings.",
        ),
    ] = None,
    at: Annotated[
        list[str],
        what(
            metavar="DIMENSION=INDEX|FILE",
            help="Complete one position along a dimension only: time=0 (may be repeated). For a table, a table of "
            "the points where the field is wanted.",
        ),
    ] = [],
    missing: Annotated[
        list[float],
        what(
            metavar="NUMBER",
            help="A number that stands for a missing value: -999. NaN and fill values do so anyway. May be repeated.",
        ),
    ] = [],
    cyclic: Annotated[
        list[str],
        what(
            metavar="AXIS[=PERIOD]",
            help="An axis whose ends are neighbours: hour=24. Longitudes around the earth are found to be. "
            "May be repeated.",
        ),
    ] = [],
    log_floor: Annotated[
        float | None,
        what(
            help="For positive values that vary over decades, such as power: work on logarithms, this added first.",
            show_default="not on logarithms",
        ),
    ] = None,
    known: Annotated[
        list[str], what(metavar="NAME=NUMBER", help="A fact that some methods need: emitters=7. May be repeated.")
    ] = [],
    method: Annotated[str, how(help="A method, or auto: the one that does best at withheld entries.")] = "auto",
    among: Annotated[
        str | None,
        how(metavar="METHOD,...", help="The methods that auto chooses among.", show_default="all that are installed"),
    ] = None,
    budget: Annotated[
        float,
        how(
            metavar="SECONDS",
            help="Time for comparing methods at withheld entries; completing the field comes on top. With a "
            "method named, 0 skips the estimate of its error.",
        ),
    ] = 110.0,
    folds: Annotated[int, how(help="How many times entries are withheld.")] = 3,
    share: Annotated[float, how(help="Share of the observed entries withheld each time.")] = 0.1,
    by_area: Annotated[bool, how("--by-area", help="On latitudes, weight errors and the mean by area.")] = False,
    max_gap: Annotated[
        list[str],
        how(
            metavar="DISTANCE",
            help="Fill only what lies so near to an observation: 3 (grid steps), 25km, 2d, or along an axis: depth=10, "
            "time=1steps. May be repeated; along an axis that is not named the observation is at the same position.",
            show_default="all gaps are filled",
        ),
    ] = [],
    within: Annotated[
        tuple[float, float] | None,
        how(metavar="LOWEST HIGHEST", help="The range of possible values; estimates outside are brought to its ends."),
    ] = None,
    positive: Annotated[
        bool,
        how(
            "--positive",
            help="Only values above zero are possible; other estimates become the lowest one observed above zero.",
        ),
    ] = False,
    denoise: Annotated[
        bool, how("--denoise", help="Replace observed entries by the method's estimate as well.")
    ] = False,
    seed: Annotated[int, how(help="Seed of everything random.")] = 0,
    device: Annotated[str, how(help="auto, cpu, or a GPU: cuda:0.")] = "auto",
    out: Annotated[
        Path | None,
        where(
            metavar="FILE",
            help="The file to write, in the format of the one read.",
            show_default="NAME_completed beside it",
        ),
    ] = None,
    force: Annotated[bool, where("--force", help="Overwrite it.")] = False,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> None:
    """Fill the gaps of a field in a file, by the method that does best at entries withheld on purpose.

    Where several can hardly be told apart, the mean of these fills them.

    The result is a file of the same format, with coordinates, attributes and all other variables kept. Of a table on
    a grid it is one row for each grid point, of scattered rows these rows, or the points that --at names. Beside the
    values it says which method made them, with the error to expect, holds their standard deviation if the method
    knows it, and marks what was filled. Observed entries stay as they are. The withheld entries make gaps as deep as
    the gaps, so that the error is that of the gaps; deep inside the widest of them it may be larger.

    **Examples**

        fieldbench complete cruise.nc --variable temp --valid mask_rho
        fieldbench complete power.npz --log-floor 1e-6 --budget 60
        fieldbench complete sst.nc --missing -999 --max-gap 25km --within -2 40
        fieldbench complete casts.csv --coordinates lon,lat,depth --variable temp --at sites.csv
        fieldbench complete cruise.nc --method 'tap[epochs=2000]' --at time=0 --out filled.nc
    """
    from fieldbench.completion.filling import fill, fillable
    from fieldbench.completion.limits import Limits
    from fieldbench.files import Selector, read, write
    from fieldbench.files.writing import check_target
    from fieldbench.spec import split

    target = file.parent / f"{file.stem}_completed{file.suffix}" if out is None else out
    limits = Limits(tuple(max_gap), within, positive)
    metadata = dict(assigned("--known", known, "NAME=NUMBER, such as emitters=7", _number))
    points, fixed = _points(at)
    several = [
        read(
            file,
            Selector(
                variable=name,
                coordinates=tuple(split(coordinates)) if coordinates else (),
                mask=mask,
                valid=valid,
                at=tuple(fixed),
                points=points,
                missing=tuple(missing),
                cyclic=tuple(cyclic),
                **_grid(grid),
            ),
        )
        for name in (split(variable) if variable else [None])
    ]
    check_target(file, target, overwrite=force)
    candidates = split(among) if among else []
    chosen_freely = method == "auto" and not candidates
    seen = [fillable(gridded, chosen_freely, log_floor, metadata, limits)[0] for gridded in several]
    completions = []
    for gridded, observation in zip(several, seen, strict=True):
        observed = int(observation.mask.sum())
        print(_description(gridded, observed, int(gridded.missing.sum())), *gridded.remarks, sep="\n")
        try:
            with _progress() as (watch, busy):
                filled = fill(
                    gridded,
                    method,
                    log_floor=log_floor,
                    metadata=metadata,
                    limits=limits,
                    by_area=by_area,
                    denoise=denoise,
                    candidates=candidates,
                    budget=budget,
                    folds=folds,
                    share=share,
                    seed=seed,
                    device=device,
                    sources=sources(plugin, no_plugin),
                    watch=watch,
                    busy=busy,
                )
        except KeyboardInterrupt:
            print(f"Stopped; nothing was written, and {file} is as it was", file=sys.stderr, flush=True)
            raise
        _tell(filled, by_area)
        completions.append(filled.completion)
    for path in write(file, target, *completions, overwrite=force):
        print(f"Wrote {path}")


def _grid(text: str | None) -> dict[str, tuple[Any, ...]]:
    """Points along each axis, or the steps of a grid: whole numbers are points unless ``step=`` is before them."""
    if text is None:
        return {}
    stepped = text.startswith("step=")
    try:
        numbers = [float(piece) for piece in text.removeprefix("step=").split("x")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise RequestError(f"grid {text!r} is neither a shape nor a step; write 20x20x10, or step=0.5x0.5x10")
    if stepped or not all(number.is_integer() for number in numbers):
        return {"step": tuple(numbers)}
    return {"grid": tuple(int(number) for number in numbers)}


def _points(texts: list[str]) -> tuple[Path | None, list[str]]:
    """The file of points among what --at names, and the fixed positions."""
    from fieldbench.datafile import expanded
    from fieldbench.files.format import TABLES

    files = [text for text in texts if Path(text).suffix.lower() in TABLES]
    if len(files) > 1:
        raise RequestError(f"--at names {len(files)} tables of points; give one")
    if files and not expanded(files[0]).is_file():
        raise RequestError(f"--at {files[0]!r} is not a file")
    return expanded(files[0]) if files else None, [text for text in texts if text not in files]


def _tell(filled: Filled, by_area: bool) -> None:
    """Print the comparison, what was filled, and what the user should know of it."""
    made, variable = filled.made, filled.completion.gridded.variable
    unit = variable.unit if made.metric == "rmse" else ""
    print()
    on_a_grid = variable.rows is None  # elsewhere a step from one coordinate to the next is not a distance
    print(_comparison(made, unit, by_area, on_a_grid))
    print()
    error = "" if made.expected_error != made.expected_error else f", {made.metric} {made.expected_error:.3g} {unit}"
    print(f"Completed {filled.gaps} entries with {made.method}{error.rstrip()}", *filled.remarks, sep="\n")
    out_of_time = sum(1 for item in made.comparison if not item.errors and item.out_of_time)
    if out_of_time:
        verb = "method was" if out_of_time == 1 else "methods were"
        print(
            f"{out_of_time} {verb} not compared, as time ran out; a larger --budget lets more in, --among asks fewer."
        )


@contextlib.contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """What tells the user what came of a fit, and what is being done; on a terminal with the seconds running."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = plain_console(stderr=True)
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


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError
    return int(number) if number.is_integer() else number


def _description(gridded: GriddedVariable, observed: int, gaps: int) -> str:
    axes = " x ".join(f"{axis.name} {len(axis)}" for axis in gridded.axes)
    unit = f" in {gridded.variable.unit}" if gridded.variable.unit else ""
    absent = gridded.values.size - observed - gaps
    land = f", {absent} not valid" if absent else " and to be filled (--valid says what must stay missing)"
    return f"{gridded.name}{unit}: {axes}; {observed} entries observed, {gaps} missing{land}"


def _comparison(made: Completed, unit: str, by_area: bool, by_distance: bool) -> str:
    """The candidates as a table, best first, and below it those that were not compared."""
    import statistics

    head = ["method", f"{made.metric} {f'({unit})' if unit else ''}".strip(), "std", "ratio", "folds", "seconds", ""]
    rows = [
        [
            item.method,
            "-" if math.isnan(item.expected) else f"{item.expected:.4g}",
            f"{statistics.stdev(item.errors):.2g}" if len(item.errors) > 1 and math.isfinite(item.expected) else "-",
            f"{item.ratio:.2f}" if item.ratio < 1000 else f"{item.ratio:.1e}",
            len(item.errors),
            f"{item.seconds:.1f}",
            item.note,
        ]
        for item in made.comparison
        if item.errors
    ]
    rest = [f"{item.method}: {item.note}" for item in made.comparison if not item.errors]
    if not rows:
        return "\n".join(["No error was estimated.", *rest])
    title = f"Error at {made.withheld} withheld entries a fold{', weighted by area' if by_area else ''}"
    distances = ["", *_distances(made)] if by_distance else []
    return "\n".join([title, *_table(head, rows), *(["", *rest] if rest else []), *distances])


def _distances(made: Completed) -> list[str]:
    """The chosen method's errors by distance to the nearest observation, beside how many gaps are so far from one."""
    head = ["grid steps to an observation", made.metric, "withheld", "gaps"]
    rows = [
        [
            f"{item.nearest:g} to {item.farthest:g}" if item.farthest < float("inf") else f"over {item.nearest:g}",
            f"{item.error:.4g}" if item.withheld else "not known",
            item.withheld,
            item.gaps,
        ]
        for item in made.by_distance
    ]
    return [f"Error of {made.method} by distance", *_table(head, rows)]


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    """The lines of a table whose first column, and one without a name, are of words, and the others of numbers."""
    from tabulate import tabulate

    sides = ["left" if name in (head[0], "") else "right" for name in head]
    table = tabulate(rows, head, tablefmt="simple", disable_numparse=True, colalign=sides)
    return [line.rstrip() for line in table.splitlines()]
