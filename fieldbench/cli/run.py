"""``fieldbench run``: the main job; and ``fieldbench reproduce``, the same of a published table."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from fieldbench.cli.options import (
    MOST,
    Device,
    DryRun,
    Jobs,
    Label,
    LabelFile,
    OutFolder,
    RetryFailed,
    TableFormat,
    how,
    where,
)
from fieldbench.cli.sources import Blocked, PluginFiles, must_name_something, sources
from fieldbench.errors import RequestError, first_complaint, nearest

if TYPE_CHECKING:
    import pydantic

    from fieldbench.plan import Request
    from fieldbench.progress import Progress
    from fieldbench.session import Session
    from fieldbench.suite import Suite

M = TypeVar("M", bound="pydantic.BaseModel")

what = partial(typer.Option, rich_help_panel="What to compare")


def run(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUITE]",
            help="A suite file (TOML) that lists what to compare, or table1 to table7, ocean, radio, gaps; then "
            "--methods and --trials narrow it, and nothing else of What to compare applies.",
        ),
    ] = None,
    methods: Annotated[
        str | None, what(metavar="A,B,...", help="Methods, with parameters in brackets: tap,'tnn[epochs=500]'.")
    ] = None,
    datasets: Annotated[str | None, what(metavar="A,B,...", help="Datasets, likewise.")] = None,
    rates: Annotated[
        str | None,
        what(metavar="0.1,0.2,...", help="Shares of the entries that are observed.", show_default="the dataset's own"),
    ] = None,
    noise: Annotated[
        str | None, what(metavar="A,B,...", help="Measurement noise: 'gaussian[sigma=0.1]'.", show_default="none")
    ] = None,
    samplers: Annotated[
        str | None,
        what(
            metavar="A,B,...",
            help="Which entries are observed: random, fibers, blocks.",
            show_default="the dataset's own",
        ),
    ] = None,
    select: Annotated[
        str | None,
        what(
            metavar="RULE,...",
            help="Which estimate of an iterative method counts: final, the last; holdout, the best on observed "
            "entries withheld from it; oracle, the best against the truth (marked in tables).",
            show_default="final",
        ),
    ] = None,
    trials: Annotated[int | None, what(help="Repetitions of every cell.", show_default="3, or the suite's")] = None,
    seed: Annotated[
        str | None,
        what(
            metavar="NUMBER",
            help="Base seed; or secret: drawn at random, and told when the run is complete.",
            show_default="0",
        ),
    ] = None,
    first_trial: Annotated[
        int | None, what(help="Number of the first repetition, to spread a run over machines.", show_default="0")
    ] = None,
    set_: Annotated[
        list[str],
        what(
            "--set",
            metavar="NAME.PARAMETER=V,...",
            help="Set a parameter wherever NAME stands; several values make a grid: tap.epochs=500,1000. "
            "May be repeated.",
        ),
    ] = [],
    device: Device = "auto",
    jobs: Jobs = None,
    threads: Annotated[int, how(max=MOST, help="CPU threads of each trial.")] = 1,
    slots_per_device: Annotated[int, how(max=MOST, help="Trials at once on each GPU.")] = 1,
    timeout: Annotated[
        float | None, how(metavar="SECONDS", help="Stop a trial that takes longer.", show_default="none")
    ] = None,
    memory_limit: Annotated[
        str | None, how(metavar="SIZE", help="Stop a trial that uses more memory: 8GiB, 500MB.", show_default="none")
    ] = None,
    backend: Annotated[str, how(help="local, or dask for a cluster.")] = "local",
    scheduler: Annotated[str | None, how(metavar="ADDRESS", help="With --backend dask: tcp://host:port.")] = None,
    timing: Annotated[bool, how("--timing", help="One trial at a time, for seconds that compare.")] = False,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    out: OutFolder = None,
    reuse: Annotated[
        list[Path], where(metavar="RUN", help="Take what another run has finished from there. May be repeated.")
    ] = [],
    fresh: Annotated[bool, where("--fresh", help="Delete what the folder holds and start over.")] = False,
    save_fields: Annotated[
        bool,
        where("--save-fields", help="Keep truth, observation and estimate of every trial, compressed, for figures."),
    ] = False,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Compare methods on datasets: every combination of methods, datasets, rates and noises, several times.

    All methods meet the same observations. Each trial is kept when it ends; the same command again does
    only what is missing, and more --trials extend a run. Ctrl-C once finishes what is running.

    **Examples**

        fieldbench run --methods tap,tnn --datasets radiomap1
        fieldbench run --methods tap,tnn --datasets ssf --rates 0.05,0.1 --trials 10
        fieldbench run --methods 'tap[dropout=0]+tv' --datasets ssf
        fieldbench run --methods tap --datasets ssf --set tap.epochs=500,1000
        fieldbench run --methods tnn --datasets ssf --noise 'gaussian[sigma=0.3]'
        fieldbench run --methods tap,tnn --datasets ssf --select final,oracle

    Quote names with brackets, since shells take brackets for patterns of file names; or use --set.
    The exit code is 0 if all trials went well, 1 if some failed, 2 if the request was wrong, 130 if
    it was interrupted.
    """
    from fieldbench.execution import Options
    from fieldbench.session import Session

    asked = {
        "datasets": datasets,
        "rates": rates,
        "noise": noise,
        "samplers": samplers,
        "select": select,
        "seed": seed,
        "first-trial": first_trial,
        "set": set_ or None,
    }
    for name, text in {"methods": methods, **asked}.items():
        if isinstance(text, str):
            must_name_something(name, text)
    secret = seed == "secret"
    request: Request | Suite
    table: Suite | None = None
    if suite is not None:
        given = [name for name, value in asked.items() if value is not None]
        if given:
            raise RequestError(f"--{given[0]} does not go with a suite; change it in the file, or leave the file out")
        request = table = _read_suite(suite, methods, trials)
    elif methods is None or datasets is None:
        missing = "methods" if methods is None else "datasets"
        raise RequestError(f"--{missing} is missing; `fieldbench list` shows what there is")
    else:
        request = _read_request(
            {"methods": methods, "datasets": datasets, "noises": noise, "samplers": samplers, "select": select},
            set_,
            {"rates": rates, "trials": trials, "seed": None if secret else seed, "first_trial": first_trial},
        )
    if scheduler is not None and backend != "dask":
        raise RequestError("--scheduler needs --backend dask")
    if scheduler is not None and not re.fullmatch(r"(\w+://)?[^/]+:\d+", scheduler):
        raise RequestError(f"--scheduler {scheduler!r} is not an address; write tcp://HOST:PORT")
    options = Options(
        device=device,
        jobs=jobs,
        slots_per_device=slots_per_device,
        threads=threads,
        timeout=timeout,
        memory_limit=None if memory_limit is None else _bytes(memory_limit),
        backend=backend,
        scheduler=scheduler,
        timing=timing,
    )
    session = Session(
        request,
        sources=sources(plugin, no_plugin),
        options=options,
        out=out,
        save_fields=save_fields,
        reuse=reuse,
        secret=secret,
    )
    return _perform(session, suite=table, dry_run=dry_run, fresh=fresh, retry_failed=retry_failed)


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="table1 to table7, ocean, radio, gaps, or a suite file of your own."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables that ship with fieldbench.")] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of every cell.", show_default="the suite's")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only the rows of these methods.", show_default="all")
    ] = None,
    jobs: Jobs = None,
    device: Device = "auto",
    labels: LabelFile = None,
    label: Label = [],
    format: TableFormat = "text",
    out: OutFolder = None,
    dry_run: DryRun = False,
    retry_failed: RetryFailed = False,
    plugin: PluginFiles = [],
    no_plugin: Blocked = [],
) -> int:
    """Compute a table of the FieldFormer paper and print our numbers beside the published ones.

    The settings of each table, its published numbers and their source are in a suite: a TOML file that
    `--list` names. A file of your own in the same form runs the same way. Finished trials are kept; the
    same command goes on where it stopped. The published tables are means of 10 trials.

    **Examples**

        fieldbench reproduce --list
        fieldbench reproduce table1
        fieldbench reproduce table1 --trials 2 --methods tap
        fieldbench reproduce table4 --label 'TAP+TV=Ours' --format latex > table4.tex
        fieldbench reproduce my-suite.toml
    """
    from fieldbench import suite as suites
    from fieldbench.execution import Options
    from fieldbench.report.formats import FORMATS
    from fieldbench.report.labels import read_labels
    from fieldbench.session import Session

    if list_:
        for shipped in suites.built_in():
            table = suites.load(shipped)
            numbers = sum(len(row.published) for row in table.rows)
            print(f"{shipped:<10}{table.title} ({numbers} numbers; {table.source})")
        return 0
    if name is None:
        raise RequestError("name a table; `fieldbench reproduce --list` lists them")
    if format not in FORMATS:
        raise RequestError(f"unknown format {format!r}{nearest(format, FORMATS)}")
    suite = _read_suite(name, methods, trials).labelled(read_labels(labels, label))
    session = Session(suite, sources=sources(plugin, no_plugin), options=Options(device=device, jobs=jobs), out=out)
    return _perform(session, suite=suite, dry_run=dry_run, retry_failed=retry_failed, format=format)


def _read_suite(name: str, methods: str | None, trials: int | None) -> Suite:
    """A suite by name or file, narrowed to some methods and another number of trials where these are given."""
    from fieldbench import suite as suites
    from fieldbench.spec import split

    if methods is not None:
        must_name_something("methods", methods)
    suite = suites.load(name).narrowed(split(methods) if methods else [])
    return suite if trials is None else _validated(suites.Suite, {**dict(suite), "trials": trials})


def _perform(
    session: Session,
    *,
    suite: Suite | None,
    dry_run: bool,
    retry_failed: bool,
    fresh: bool = False,
    format: str = "text",
) -> int:
    """Run what is missing, print the table (a suite's beside the published numbers); the exit code."""
    from fieldbench.cli.display import run_displayed
    from fieldbench.results import Results

    if dry_run:
        _preview(session, session.progress(fresh=fresh, retry_failed=retry_failed))
        return 0
    progress = run_displayed(session, fresh=fresh, retry_failed=retry_failed)
    if progress.done:
        _show_table(session, suite, format)
    # Where the table is meant for a file, what is said about the run stays out of it.
    said = sys.stdout if format == "text" else sys.stderr
    folder = shlex.quote(str(session.path))
    if progress.left:
        again = [argument for argument in sys.argv[1:] if argument != "--fresh"]
        print(f"\nStopped after {progress.done} of {progress.total} trials, kept in {folder}", file=said)
        print(f"Go on with: fieldbench {shlex.join(again)}", file=said)
        return 130
    print(f"\nRun:  {folder}", file=said)
    print(f"Show: fieldbench table {folder}", file=said)
    leaks = Results(session.path).leaks
    for leak in leaks:
        print(leak, file=sys.stderr)
    if progress.failed:
        print(f"{progress.failed} of {progress.total} trials failed: fieldbench status {folder}", file=sys.stderr)
    return 1 if progress.failed or leaks else 0


def _show_table(session: Session, suite: Suite | None, format: str) -> None:
    from fieldbench.cli.terminal import show
    from fieldbench.report import reproduction
    from fieldbench.report.floors import read_floor_frame
    from fieldbench.results import Results
    from fieldbench.store.run import read_rows

    if suite is None:
        show(Results(session.path).table().to, format)
        return
    lower_is_better = session.metadata.lower_is_better(suite.metric)
    cells = reproduction.compare(suite, session.plan, read_rows(session.path), lower_is_better=lower_is_better)
    floors = reproduction.floors_of_columns(suite, session.plan, read_floor_frame(session.path))
    show(partial(reproduction.written, suite, cells, floors=floors), format)


def _preview(session: Session, progress: Progress) -> None:
    """Print what a run would do, what of it is done, and how long the rest should take."""
    from fieldbench.progress import in_words
    from fieldbench.records import percent

    plan = session.plan
    lines = [("methods", ", ".join(plan.methods))]
    for setting in plan.settings:
        noise = "" if setting.noise == "none" else f", noise {setting.noise}"
        lines.append(("on", f"{setting.dataset}, {setting.sampler} {percent(setting.rate)}{noise}"))
    left = progress.seconds_left() if progress.left else 0.0
    failed = f" ({progress.failed} failed)" if progress.failed else ""
    slots = Counter(slot.name for slot in session.slots)
    trials = f"{progress.total} = {len(plan.cells)} cells x {plan.request.trials}, base seed {plan.request.seed}"
    lines += [
        ("select", ", ".join(plan.selections)),
        ("trials", trials),
        ("done", f"{progress.done}{failed}"),
        ("to go", f"{progress.left} trials, " + ("unknown until some have run" if left is None else in_words(left))),
        ("slots", ", ".join(f"{count} x {name}" for name, count in slots.items())),
        ("folder", str(session.path)),
    ]
    for name, text in lines:
        print(f"{name:<10}{text}")


def _read_request(
    texts: dict[str, str | None], assignments: list[str], numbers: dict[str, str | int | None]
) -> Request:
    """The request that the options describe; what is not given has the request's own default."""
    from fieldbench.grid import expand, read_assignment
    from fieldbench.plan import Request
    from fieldbench.spec import split

    specs = expand(
        {name: split(text) for name, text in texts.items() if text is not None},
        [read_assignment(text) for text in assignments],
    )
    rest: dict[str, object] = {name: value for name, value in numbers.items() if value is not None}
    if isinstance(rates := rest.get("rates"), str):
        rest["rates"] = [_number(text) for text in split(rates)]
    if isinstance(seed := rest.get("seed"), str):
        if not re.fullmatch(r"\s*[+-]?\d{1,40}\s*", seed):
            raise RequestError(f"seed {seed!r:.60} is not a whole number; write --seed 7, or --seed secret")
        rest["seed"] = int(seed)
    return _validated(Request, {**specs, **rest})


def _validated(model: type[M], values: Mapping[str, object]) -> M:
    import pydantic

    try:
        return model.model_validate(values)
    except pydantic.ValidationError as error:
        raise RequestError(first_complaint(error, quoted=True)) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RequestError(f"rate {text!r} is not a number; write --rates 0.1,0.2") from None


def _bytes(text: str) -> int:
    """A size such as ``8GiB``, ``500MB`` or a plain number of bytes."""
    from fieldbench.records import LARGEST

    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    size = float(match[1]) * units.get(match[2].upper(), 0) if match else 0.0
    if not 0 < size < LARGEST:
        raise RequestError(f"memory limit {text!r} is not a size; write 8GiB or 500MB")
    return round(size)
