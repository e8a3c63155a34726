"""A run from request to results: what the command line and a notebook share."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import pydantic

from fieldbench import datafile
from fieldbench.errors import RequestError
from fieldbench.execution import Options, Stop, check_backend, execute, slots
from fieldbench.plan import Plan, Plannable, Request
from fieldbench.plugin import Plugin
from fieldbench.preflight import examine
from fieldbench.progress import Progress, in_words
from fieldbench.records import FAILURES, Record, Trial, cell_of
from fieldbench.registry import Registry, Sources
from fieldbench.report.facts import Facts, gather
from fieldbench.spec import parse
from fieldbench.store import MANIFEST, RunStore, check_folder, read_manifest, read_rows
from fieldbench.trial import Records

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fieldbench.report.comparison import Comparison
    from fieldbench.report.stored import StoredRun
    from fieldbench.report.tables import Table

#: What a method, dataset, ... can be given as: a spec, an object, or a class (its default parameters).
Named: TypeAlias = str | Plugin | type[Plugin]


class Watch(Protocol):
    """Shows people how a run goes."""

    def start(self, progress: Progress) -> None:
        """The run begins; some of it may be done already."""

    def update(self, progress: Progress, record: Record) -> None:
        """A trial has ended."""

    def stopping(self) -> None:
        """Somebody asked for an end; what is running is finished."""

    def close(self) -> None:
        """The run has ended, whatever the reason."""


class Unwatched:
    """Shows nothing."""

    def start(self, progress: Progress) -> None:
        return None

    def update(self, progress: Progress, record: Record) -> None:
        return None

    def stopping(self) -> None:
        return None

    def close(self) -> None:
        return None


class Session:
    """A plan, the folder it is kept in, and its execution."""

    def __init__(
        self,
        request: Plannable,
        *,
        sources: Sources | None = None,
        options: Options | None = None,
        out: str | Path | None = None,
        save_fields: bool = False,
    ) -> None:
        """Validate the request and the devices; nothing is read or written yet.

        Args:
            request: what to compare: a :class:`fieldbench.plan.Request` or a :class:`fieldbench.suite.Suite`.
            sources: plugins besides the installed ones.
            options: how to execute.
            out: the run's folder; by default one in ``runs/`` that the plan alone determines, so that the
                same request goes on where it stopped.
            save_fields: keep truth, observation and estimate of every trial that is run.

        Raises:
            RequestError: for anything wrong in it.
        """
        self.sources = Sources.from_environment() if sources is None else sources
        self.options = options or Options()
        self.registry = Registry(self.sources)
        self.plan = request.plan(self.registry)
        self.sources = replace(self.sources, data=datafile.locations())
        self._units: dict[str, str] = {}
        self.slots = slots(self.options)
        check_backend(self.options)
        self.path = Path(out) if out is not None else default_folder(self.plan)
        if save_fields:
            self.options = replace(self.options, save_fields=str(self.path.absolute()))

    @property
    def facts(self) -> Facts:
        """What tables must know of the plan; units as far as its data has been looked at, now or before."""
        facts = gather(self.plan, self.registry, self._units)
        known = read_facts(self.path).units if (self.path / MANIFEST).is_file() else {}
        return replace(facts, units={**known, **facts.units})

    def progress(self, *, fresh: bool = False, retry_failed: bool = False) -> Progress:
        """How much of the plan its folder holds.

        Raises:
            RequestError: if the folder cannot be the plan's.
        """
        check_folder(self.path, self.plan, fresh=fresh)
        if fresh or not (self.path / MANIFEST).is_file():
            return self._nothing_yet()
        return self._stored_progress(retry_failed)

    def _nothing_yet(self) -> Progress:
        return Progress(self.plan, gather(self.plan, self.registry).headline, len(self.slots))

    def _stored_progress(self, retry_failed: bool) -> Progress:
        progress = self._nothing_yet()
        wanted = {cell: self.plan.identity(cell) for cell in self.plan.cells}
        for row in read_rows(self.path, diagnostics=False):
            cell = cell_of(row)
            planned = row["seed"] == self.plan.request.seed and wanted.get(cell) == row["identity"]
            status = row["status"]
            if row["trial"] in self.plan.numbers and planned and not (retry_failed and status in FAILURES):
                progress.remember(cell, status, row.get("metrics") or {}, row.get("seconds"))
        return progress

    def run(
        self,
        *,
        fresh: bool = False,
        retry_failed: bool = False,
        watch: Watch | None = None,
        stop: Stop | None = None,
    ) -> Progress:
        """Run what is missing; every trial is on disk when it ends.

        Args:
            fresh: delete what the folder holds and start over.
            retry_failed: run failed trials again.
            watch: shows how it goes.
            stop: lets the caller ask for an end.

        Raises:
            RequestError: if the folder is of another plan or in use, data is missing, or the plan turns
                out to be impossible on it.
        """
        watch, stop = watch or Unwatched(), stop or Stop()
        self._ready(fresh, retry_failed)
        with RunStore.open(self.path, self.plan, fresh=fresh) as store:
            store.manifest["facts"] = self.facts.as_dict()
            store.begin(self._provenance())
            progress = self._stored_progress(retry_failed)
            records = self._records(store, retry_failed, stop)
            outcome = "interrupted"
            watch.start(progress)
            try:
                with contextlib.closing(records):  # whatever ends this, no worker goes on
                    for record in records:
                        store.append(record)
                        progress.add(record.trial.cell, record.status, record.metrics, record.seconds)
                        watch.update(progress, record)
                outcome = "complete" if progress.left == 0 else "interrupted"
            finally:
                watch.close()
                store.end(outcome)
        return progress

    def _ready(self, fresh: bool, retry_failed: bool) -> None:
        """Look at the data before the folder is made, unless nothing is left to be done."""
        if fresh or self.progress(retry_failed=retry_failed).left:
            self._units = examine(self.plan, self.registry)

    def _records(self, store: RunStore, retry_failed: bool, stop: Stop) -> Records:
        done = store.finished(retry_failed)
        missing: Iterator[Trial] = (trial for trial in self.plan if trial.key not in done)
        return execute(missing, self.sources, self.options, stop)

    def _provenance(self) -> dict[str, Any]:
        from fieldbench.execution.provenance import provenance

        return {**provenance(self.slots), "plugins": self.registry.distributions}


class Results:
    """The results of a run, for a notebook."""

    def __init__(self, path: str | Path, *, sources: Sources | None = None, keep: object = None) -> None:
        """
        Args:
            path: a run directory.
            sources: plugins besides the installed ones, for fields that have to be computed again.
            keep: anything that must live as long as the results, such as a temporary folder.

        Raises:
            RequestError: if there is no run at ``path``.
        """
        self.path = Path(path)
        self._facts = read_facts(self.path)
        self._sources = sources
        self._keep = keep

    @cached_property
    def _frame(self) -> pd.DataFrame:
        from fieldbench.report.frame import read_frame

        return read_frame(self.path)

    def frame(self) -> pd.DataFrame:
        """The records as a pandas frame, one row a trial, metrics as columns."""
        return self._frame.copy()

    def table(
        self,
        *,
        rows: str | Sequence[str] | None = None,
        columns: str | Sequence[str] = "rate",
        metric: str | None = None,
        spread: str = "std",
    ) -> Table:
        """A table of means, as :func:`fieldbench.report.tables.make_table` describes it.

        Raises:
            RequestError: for an unknown factor, metric or spread.
        """
        from fieldbench.report.tables import make_table

        rows = [rows] if isinstance(rows, str) else rows
        columns = [columns] if isinstance(columns, str) else columns
        table = make_table(self._frame, self._facts, rows=rows, columns=columns, metric=metric, spread=spread)
        here, asked = len(self._frame), self._facts.size
        return replace(table, unfinished=f"unfinished: {here} of {asked} trials are here" if here < asked else "")

    def compare(
        self,
        *,
        metric: str | None = None,
        average: str | Sequence[str] = (),
        only: Mapping[str, Sequence[object]] | None = None,
    ) -> Comparison:
        """Every pair of methods, trial by trial, as :func:`fieldbench.report.comparison.compare` describes it.

        Args:
            metric: what is compared; by default the headline metric of each dataset.
            average: factors over which each trial's scores are averaged first.
            only: levels of factors: ``{"method": ["tap", "tnn"], "rate": [0.1]}``.

        Raises:
            RequestError: for an unknown factor or metric, or fewer than two methods.
        """
        from fieldbench.report.comparison import compare

        stored = self._stored(only)
        average = [average] if isinstance(average, str) else average
        return compare(stored.frame, stored.facts, metric=metric, average=average)

    def plot(
        self,
        kind: str,
        *,
        only: Mapping[str, Sequence[object]] | None = None,
        trial: int | None = None,
        axis: str | int | None = None,
        at: Sequence[int] = (),
    ) -> dict[str, Figure]:
        """Figures of one kind, by name.

        Args:
            kind: ``rate``, ``epoch``, ``slices``, ``attention``, ``cost``, ``strips`` or ``ranks``.
            only: levels of factors, as in :meth:`compare`.
            trial, axis, at: for the kinds that show fields: which trial, the axis that is cut, indices along it.

        Raises:
            RequestError: if this run has nothing to show of that kind.
        """
        from fieldbench.report.figures import View, draw

        return draw(self._stored(only), kind, View(trial=trial, axis=None if axis is None else str(axis), at=tuple(at)))

    def report(self, path: str | Path | None = None, *, recompute: bool = False) -> Path:
        """Write the run as one HTML file (``report.html`` in its folder by default), and return where it is.

        Args:
            path: the file.
            recompute: compute fields again that were not kept, for the slice browser.
        """
        from fieldbench.report.page import write_page

        stored = self._stored(None)
        return write_page(stored, Path(path) if path else stored.path / "report.html", recompute=recompute)

    def _stored(self, only: Mapping[str, Sequence[object]] | None) -> StoredRun:
        from fieldbench.report.stored import StoredRun

        chosen = {
            factor: [str(level) for level in ([levels] if isinstance(levels, str) else levels)]
            for factor, levels in (only or {}).items()
        }
        return StoredRun(self.path, self._sources or Sources.from_environment(), chosen)

    def __repr__(self) -> str:
        return f"Results of {self.path}\n\n{self.table()}" if len(self._frame) else f"Results of {self.path}: no trials"

    def _repr_html_(self) -> str:
        from html import escape

        table = self.table().to("html") if len(self._frame) else "no trials"
        return f"{table}\n<p><small>{escape(str(self.path))}</small></p>"


def run(
    methods: Named | Sequence[Named],
    datasets: Named | Sequence[Named],
    *,
    rates: float | Sequence[float] = (),
    noises: Named | Sequence[Named] = "none",
    samplers: Named | Sequence[Named] = (),
    select: str | Sequence[str] = "final",
    trials: int = 3,
    seed: int = 0,
    first_trial: int = 0,
    device: str = "auto",
    jobs: int | None = None,
    out: str | Path | Literal[False] | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    save_fields: bool = False,
    plugins: Iterable[str | Path] = (),
    progress: bool = True,
    **options: Any,
) -> Results:
    """Compare methods on datasets, and return the results.

    >>> import fieldbench
    >>> results = fieldbench.run(["tap", "tnn"], "radiomap1", rates=[0.1, 0.2])  # doctest: +SKIP
    >>> results.table(columns="rate")  # doctest: +SKIP

    Args:
        methods, datasets, noises, samplers: one or several specs (``"tap[epochs=500]"``), objects
            (``TAP(epochs=500)``) or classes; a class may be defined in a notebook cell.
        rates: sampling rates in (0, 1]; by default each dataset's own.
        select: ``final``, ``holdout`` or ``oracle``, or several.
        trials, seed, first_trial: Monte-Carlo repetitions, base seed, number of the first repetition.
        device, jobs, options: as in :class:`fieldbench.execution.Options`.
        out: folder of the run; by default one in ``runs/`` where the same call goes on. ``False`` uses a
            temporary folder that goes with the results.
        fresh: start over.
        retry_failed: run failed trials again.
        save_fields: keep truth, observation and estimate of every trial that is run.
        plugins: single-file plugins, or folders of them.
        progress: whether to print how it goes.

    Returns:
        The results, as far as there are any: interrupted once (Ctrl-C, a notebook's stop button), the run
        finishes what is running and returns.

    Raises:
        RequestError: for anything wrong in the request.
    """
    classes: dict[type[Plugin], None] = {}
    texts = {
        name: _texts(given, classes)
        for name, given in {"methods": methods, "datasets": datasets, "noises": noises, "samplers": samplers}.items()
    }
    try:
        request = Request(
            **texts,
            rates=[rates] if isinstance(rates, int | float) else list(rates),
            select=[select] if isinstance(select, str) else list(select),
            trials=trials,
            seed=seed,
            first_trial=first_trial,
        )
    except pydantic.ValidationError as error:
        raise RequestError(first_problem(error)) from None
    unknown = set(options) - set(Options.__dataclass_fields__)
    if unknown:
        from fieldbench.errors import nearest

        name = min(unknown)
        raise RequestError(f"unknown option {name!r}{nearest(name, Options.__dataclass_fields__)}")
    folder = tempfile.TemporaryDirectory(prefix="fieldbench-") if out is False else None
    session = Session(
        request,
        sources=Sources.from_environment(map(str, plugins), classes),
        options=Options(device=device, jobs=jobs, **options),
        out=Path(folder.name) if folder else out or None,
        save_fields=save_fields,
    )
    for kind, given in (("method", methods), ("dataset", datasets), ("noise", noises), ("sampler", samplers)):
        _must_read_back(kind, given, session.registry)
    stop = Stop()
    watch = Line() if progress else Unwatched()
    with interruptible(stop, watch):
        session.run(fresh=fresh, retry_failed=retry_failed, stop=stop, watch=watch)
    return Results(session.path, sources=session.sources, keep=folder)


class Line:
    """One line that is written over and over: trials done and the time to go."""

    def __init__(self) -> None:
        self._width, self._note = 0, ""

    def start(self, progress: Progress) -> None:
        self._show(progress)

    def update(self, progress: Progress, record: Record) -> None:
        self._show(progress)

    def stopping(self) -> None:
        self._note = "; finishing what is running, interrupt again to stop now"
        sys.stderr.write(self._note)
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")

    def _show(self, progress: Progress) -> None:
        text = f"{progress.done} of {progress.total} trials"
        if progress.failed:
            text += f", {progress.failed} failed"
        if progress.left:
            text += self._note or f", to go: {in_words(progress.seconds_left())}"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


@contextlib.contextmanager
def interruptible(stop: Stop, watch: Watch) -> Iterator[None]:
    """Let Ctrl-C ask for an end: once to finish what is running, twice to stop at once."""

    def ask(*_: object) -> None:
        stop.request()
        if not stop.now:
            watch.stopping()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_facts(path: Path) -> Facts:
    """What a run's manifest knows of its specs and plans.

    Raises:
        RequestError: if there is no run at ``path``.
    """
    return Facts.of_run(read_manifest(path))


def default_folder(plan: Plan) -> Path:
    """``runs/tap-tnn-radiomap1-1a2b3c4d``: readable, and the same for the same plan."""
    methods, datasets = (_short(texts) for texts in (plan.methods, [setting.dataset for setting in plan.settings]))
    return Path("runs") / f"{methods}-{datasets}-{plan.digest[:8]}"


def first_problem(error: pydantic.ValidationError) -> str:
    """The first complaint about a request, in one line."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "the request"
    message = first["msg"].removeprefix("Value error, ")
    return f"{name} {first['input']!r}: {message[0].lower()}{message[1:]}"


def _short(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys("+".join(part.name for part in parse(text)) for text in texts))
    shown = "-".join(names[:3]) + (f"-and-{len(names) - 3}-more" if len(names) > 3 else "")
    return re.sub(r"[^a-z0-9+-]", "", shown)


def _texts(given: Named | Sequence[Named], classes: dict[type[Plugin], None]) -> list[str]:
    """The specs of what was given; classes that the registry may not know are collected."""
    listed = [given] if isinstance(given, str | Plugin | type) else list(given)
    return [_text(item, classes) for item in listed]


def _must_read_back(kind: str, given: Named | Sequence[Named], registry: Registry) -> None:
    """Refuse an object that its text does not describe: trials are known by their text alone."""
    for item in [given] if isinstance(given, str | Plugin | type) else given:
        if isinstance(item, Plugin) and getattr(registry, kind)(str(item)) != item:
            raise RequestError(f"{kind} {item!s} is read back as something else; its parameters must be plain values")


def _text(item: Named, classes: dict[type[Plugin], None]) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, type):
        if not isinstance(getattr(item, "name", None), str):
            raise RequestError(f"{item.__name__} needs a name to be called by: name = {item.__name__.lower()!r}")
        classes[item] = None
        return str(item.name)
    for part in (item, *getattr(item, "modifiers", ())):
        classes[getattr(part, "derived_from", None) or type(part)] = None
    return str(item)
