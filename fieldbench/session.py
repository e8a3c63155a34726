"""A run from request to results: what the command line and a notebook share."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pydantic

from fieldbench import datafile
from fieldbench.errors import RequestError, first_complaint, nearest
from fieldbench.execution import Options, Pool, Stop, check_backend, execute, slots
from fieldbench.execution.preflight import examine, floors
from fieldbench.execution.provenance import provenance
from fieldbench.method import parts
from fieldbench.plan import Plan, Request
from fieldbench.plugin import Plugin
from fieldbench.progress import Progress
from fieldbench.records import FAILURES, Cell, Record, cell_of
from fieldbench.registry import Registry, Sources
from fieldbench.report.metadata import RunMetadata, collect
from fieldbench.results import Results
from fieldbench.spec import name_of
from fieldbench.store.files import MANIFEST
from fieldbench.store.floors import read_floors, write_floors
from fieldbench.store.manifest import existing_run, read_manifest
from fieldbench.store.merge import joined_metadata
from fieldbench.store.merge import reuse as take_from_others
from fieldbench.store.run import RunStore, check_folder, read_rows
from fieldbench.store.secret import forget, keep, label, new_seed, secrets_of
from fieldbench.suite import Suite

#: A trial that has ended: its cell, status, score by the headline metric, and seconds.
Ended: TypeAlias = tuple[Cell, str, dict[str, float], float | None]

#: What a method, dataset, ... can be given as: a spec, an object, or a class (its default parameters).
Named: TypeAlias = str | Plugin | type[Plugin]


class Listener:
    """Hears how a run goes, to show it to people; this one shows nothing."""

    def start(self, progress: Progress) -> None:
        """The run begins; some of it may be done already."""

    def update(self, progress: Progress, record: Record) -> None:
        """A trial has ended."""

    def say(self, text: str) -> None:
        """Something about the run that is worth a line."""

    def stopping(self) -> None:
        """Somebody asked for an end; what is running is finished."""

    def close(self) -> None:
        """The run has ended, whatever the reason."""


class Session:
    """A plan, the folder it is kept in, and its execution."""

    def __init__(
        self,
        request: Request | Suite,
        *,
        sources: Sources | None = None,
        options: Options | None = None,
        out: str | Path | None = None,
        save_fields: bool = False,
        reuse: Sequence[str | Path] = (),
        secret: bool = False,
    ) -> None:
        """Validate the request and the devices; nothing is read or written yet.

        Args:
            out: the run's folder; by default one in ``runs/`` that the plan alone determines, so that the
                same request goes on where it stopped.
            save_fields: keep truth, observation and estimate of every trial that is run.
            reuse: folders of other runs; what they have finished is taken from there.
            secret: draw with a base seed that nobody knows until the run is complete, in place of the request's.

        Raises:
            RequestError: for anything wrong in it.
        """
        self._reuse = tuple(existing_run(folder) for folder in reuse)
        self.sources = Sources.from_environment() if sources is None else sources
        self.options = options or Options()
        self.registry = Registry(self.sources)
        self.plan = request.plan(self.registry)
        self.sources = replace(self.sources, data=datafile.locations())
        self._units: dict[str, str] = {}
        check_backend(self.options)
        # Devices of a cluster are looked for where they are.
        there = self.options.backend != "local"
        self.slots = slots(replace(self.options, device="cpu") if there else self.options)
        self.path = Path(out) if out is not None else default_folder(self.plan, secret)
        self._secret = self._secret_seed() if secret else None
        if save_fields:
            self.options = replace(self.options, save_fields=str(self.path.absolute()))
        self._pool = self._new_pool()

    def _secret_seed(self) -> int:
        """The secret seed of the run's folder, or a new one; the plan knows it by its label."""
        found = list(secrets_of(self.path).values())
        seed = found[-1] if found else new_seed()
        self.plan.request = self.plan.request.model_copy(update={"seed": label(seed)})
        self.options = replace(self.options, secrets={label(seed): seed})
        return seed

    @property
    def metadata(self) -> RunMetadata:
        """What tables must know of the plan; units as far as its data has been looked at, now or before."""
        metadata = collect(self.plan, self.registry, self._units)
        known = RunMetadata.of_run(read_manifest(self.path)).units if (self.path / MANIFEST).is_file() else {}
        return replace(metadata, units={**known, **metadata.units})

    def progress(self, *, fresh: bool = False, retry_failed: bool = False) -> Progress:
        """How much of the plan its folder holds.

        Raises:
            RequestError: if the folder cannot be the plan's.
        """
        check_folder(self.path, fresh=fresh)
        rows = read_rows(self.path, diagnostics=False) if self._goes_on(fresh) else []
        return self._progress(map(self._note(), rows), retry_failed)

    def _goes_on(self, fresh: bool) -> bool:
        return not fresh and (self.path / MANIFEST).is_file()

    def _new_pool(self) -> Pool:
        """The processes that run the plan, and answer for its plugins before."""
        pool = Pool(self.slots, self.registry, self.options)
        self.plan.fingerprint = pool.fingerprint
        return pool

    def _note(self) -> Callable[[Mapping[str, Any]], Ended | None]:
        """Tells what progress is made of, as far as a row is of this plan."""
        wanted = {cell: self.plan.identity(cell) for cell in self.plan.cells}
        headline = collect(self.plan, self.registry).headline

        def note(row: Mapping[str, Any]) -> Ended | None:
            cell = cell_of(row)
            planned = row["seed"] == self.plan.request.seed and row["identity"] == wanted.get(cell) != ""
            if not planned or row["trial"] not in self.plan.numbers:
                return None
            name = headline.get(cell.dataset, "")
            score = (row.get("metrics") or {}).get(name)
            return cell, row["status"], {} if score is None else {name: score}, row.get("seconds")

        return note

    def _progress(self, ended: Iterable[Ended | None], retry_failed: bool) -> Progress:
        asked = dict.fromkeys(self.plan.cells, self.plan.request.trials)
        progress = Progress(asked, collect(self.plan, self.registry).headline, len(self.slots))
        for item in ended:
            if item is not None and not (retry_failed and item[1] in FAILURES):
                progress.remember(*item)
        return progress

    def run(
        self,
        *,
        fresh: bool = False,
        retry_failed: bool = False,
        watch: Listener | None = None,
        stop: Stop | None = None,
    ) -> Progress:
        """Run what is missing; every trial is on disk when it ends.

        Args:
            fresh: delete what the folder holds and start over.
            retry_failed: run failed trials again.
            watch: shows how it goes.
            stop: lets the caller ask for an end.

        Raises:
            RequestError: if the folder is not a run, is in use, data is missing, or the plan turns out to be
                impossible on it.
            StorageError: if a record cannot be written; what is written stays.
        """
        watch, stop = watch or Listener(), stop or Stop()
        if self._pool.closed:  # this session has run before
            self._pool = self._new_pool()
        self._pool.stop = stop
        with contextlib.ExitStack() as stack:
            stack.callback(self._pool.close)
            goes_on = self._goes_on(fresh)
            if not goes_on:  # what cannot work leaves no folder
                check_folder(self.path, fresh=fresh)
                self._units = examine(self.plan, self._pool)
            store = stack.enter_context(RunStore.open(self.path, self.plan, fresh=fresh, note=self._note()))
            if goes_on and self._progress(store.noted, retry_failed).left:
                self._units = examine(self.plan, self._pool)
            taken = self._take_from_others(store, retry_failed)
            store.manifest.metadata = joined_metadata([store.manifest.metadata, self.metadata.as_dict()])
            store.begin({**provenance(self.slots), "plugins": self.registry.distributions})
            progress = self._progress(store.take_notes(), retry_failed)
            if said := _growth(self.path, progress, taken, store.superseded):
                watch.say(said)
            self._hide_seed(store, progress, watch)
            self._find_floors()
            done = store.finished(retry_failed)
            missing = (trial for trial in self.plan if trial.key not in done)
            records = execute(missing, self.sources, self.options, stop, self._pool)
            outcome = "interrupted"
            watch.start(progress)
            try:
                with contextlib.closing(records):  # whatever ends this, no worker goes on
                    for record in records:
                        store.append(replace(record, session=store.session))
                        store.note_machine(record.diagnostics.get("failed_on"))
                        progress.add(record.trial.cell, record.status, record.metrics, record.seconds)
                        watch.update(progress, record)
                outcome = "complete" if progress.left == 0 else "interrupted"
            finally:
                watch.close()
                store.end(outcome)
            if outcome == "complete":
                self._tell_seed(store, watch)
        return progress

    def _find_floors(self) -> None:
        """Add the floors of the plan's draws that the folder lacks."""
        known = read_floors(self.path)
        new = {floor.draw: floor for floor in floors(self.plan, self._pool, known)}
        if new:
            write_floors(self.path, {**known, **new}.values())

    def _hide_seed(self, store: RunStore, progress: Progress, watch: Listener) -> None:
        if self._secret is None:
            return
        if label(self._secret) not in store.manifest.secrets:
            keep(self.path, self._secret)
        elif progress.left:
            watch.say(
                f"the secret seed of {self.path} is known since its trials were complete; new ones are drawn with it"
            )

    def _tell_seed(self, store: RunStore, watch: Listener) -> None:
        if self._secret is None or label(self._secret) in store.manifest.secrets:
            return
        store.manifest.secrets[label(self._secret)] = f"{self._secret:032x}"
        store.manifest.write(self.path)
        forget(self.path)
        watch.say(f"the secret seed was {self._secret:032x}; {self.path / MANIFEST} has it")

    def _take_from_others(self, store: RunStore, retry_failed: bool) -> int:
        if not self._reuse:
            return 0
        done = store.finished(retry_failed)
        return take_from_others(store, self._reuse, {trial.key for trial in self.plan if trial.key not in done})


def run(
    methods: Named | Sequence[Named],
    datasets: Named | Sequence[Named],
    *,
    rates: float | Sequence[float] = (),
    noises: Named | Sequence[Named] = "none",
    samplers: Named | Sequence[Named] = (),
    select: str | Sequence[str] = "final",
    trials: int = 3,
    seed: int | Literal["secret"] = 0,
    first_trial: int = 0,
    device: str = "auto",
    jobs: int | None = None,
    out: str | Path | Literal[False] | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    save_fields: bool = False,
    reuse: Sequence[str | Path] = (),
    plugins: Iterable[str | Path] = (),
    progress: bool = True,
    **options: Any,
) -> Results:
    """Compare methods on datasets, and return the results.

    >>> import fieldbench
    >>> fields = "ssf-synthetic[shape=6x6x6]"
    >>> results = fieldbench.run("nearest", fields, rates=[0.2, 0.4], trials=2, out=False, progress=False)
    >>> len(results.frame())
    4

    Args:
        methods, datasets, noises, samplers: one or several specs (``"tap[epochs=500]"``), objects
            (``TAP(epochs=500)``) or classes; a class may be defined in a notebook cell.
        rates: sampling rates in (0, 1]; by default each dataset's own.
        select: ``final``, ``holdout`` or ``oracle``, or several.
        trials, seed, first_trial: Monte-Carlo repetitions, base seed, number of the first repetition. The seed
            ``"secret"`` is drawn at random and told when the run is complete.
        device, jobs, options: as in :class:`fieldbench.execution.Options`.
        out: folder of the run; by default one in ``runs/`` where the same call goes on. ``False`` uses a
            temporary folder that goes with the results.
        fresh: start over.
        retry_failed: run failed trials again.
        save_fields: keep truth, observation and estimate of every trial that is run.
        reuse: folders of other runs; what they have finished is taken from there.
        plugins: single-file plugins, or folders of them.
        progress: whether to print how it goes.

    Returns:
        The results, as far as there are any: interrupted once (Ctrl-C, a notebook's stop button), the run
        finishes what is running and returns.

    Raises:
        RequestError: for anything wrong in the request.
    """
    named = {"methods": methods, "datasets": datasets, "noises": noises, "samplers": samplers}
    given = {name: [item] if isinstance(item, str | Plugin | type) else list(item) for name, item in named.items()}
    classes: dict[type[Plugin], None] = {}
    texts = {name: [_text(item, classes) for item in items] for name, items in given.items()}
    try:
        request = Request(
            **texts,
            rates=[rates] if isinstance(rates, int | float) else list(rates),
            select=[select] if isinstance(select, str) else list(select),
            trials=trials,
            seed=0 if seed == "secret" else seed,
            first_trial=first_trial,
        )
    except pydantic.ValidationError as error:
        raise RequestError(first_complaint(error, quoted=True)) from None
    unknown = set(options) - set(Options.__dataclass_fields__)
    if unknown:
        name = min(unknown)
        raise RequestError(f"unknown option {name!r}{nearest(name, Options.__dataclass_fields__)}")
    folder = tempfile.TemporaryDirectory(prefix="fieldbench-") if out is False else None
    session = Session(
        request,
        sources=Sources.from_environment(map(str, plugins), classes),
        options=Options(device=device, jobs=jobs, **options),
        out=Path(folder.name) if folder else out or None,
        save_fields=save_fields,
        reuse=reuse,
        secret=seed == "secret",
    )
    for name, items in given.items():
        kind = name.removesuffix("s")
        for item in items:  # trials are known by their text alone
            if isinstance(item, Plugin) and getattr(session.registry, kind)(str(item)) != item:
                raise RequestError(
                    f"{kind} {item!s} is read back as something else; its parameters must be plain values"
                )
    stop = Stop()
    watch = Line() if progress else Listener()
    with interruptible(stop, watch):
        session.run(fresh=fresh, retry_failed=retry_failed, stop=stop, watch=watch)
    return Results(session.path, sources=session.sources, keep=folder)


class Line(Listener):
    """One line that is written over and over: trials done and the time to go."""

    def __init__(self) -> None:
        self._width, self._note = 0, ""

    def start(self, progress: Progress) -> None:
        self._show(progress)

    def update(self, progress: Progress, record: Record) -> None:
        self._show(progress)

    def say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def stopping(self) -> None:
        self._note = "; finishing what is running, interrupt again to stop now"
        sys.stderr.write(self._note)
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")

    def _show(self, progress: Progress) -> None:
        text = progress.sentence(self._note)
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


@contextlib.contextmanager
def interruptible(stop: Stop, watch: Listener) -> Iterator[None]:
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


def _growth(path: Path, progress: Progress, taken: int, superseded: int) -> str:
    """What a run has already that goes on, in words; an empty text where there is nothing to say."""
    said = []
    if progress.done and progress.left:
        said.append(f"{path} has {progress.done} of these {progress.total} trials; {progress.left} are computed now")
    if taken:
        said.append(f"{taken} trials were taken from other runs")
    if superseded:
        said.append(f"{superseded} trials of an earlier version of their plugins or data are kept and not counted")
    return "; ".join(said)


def default_folder(plan: Plan, secret: bool = False) -> Path:
    """``runs/tap-tnn-radiomap1-1a2b3c4d``: readable, and the same for the same plan."""
    methods, datasets = (_short(texts) for texts in (plan.methods, [setting.dataset for setting in plan.settings]))
    return Path("runs") / f"{methods}-{datasets}-{plan.digest[:8]}{'-secret' * secret}"


def _short(texts: Iterable[str]) -> str:
    names = list(dict.fromkeys(map(name_of, texts)))
    shown = "-".join(names[:3]) + (f"-and-{len(names) - 3}-more" if len(names) > 3 else "")
    return re.sub(r"[^a-z0-9+-]", "", shown)


def _text(item: Named, classes: dict[type[Plugin], None]) -> str:
    """The spec of what was given; classes that the registry may not know are collected."""
    if isinstance(item, str):
        return item
    if isinstance(item, type):
        if not isinstance(getattr(item, "name", None), str):
            raise RequestError(f"{item.__name__} needs a name to be called by: name = {item.__name__.lower()!r}")
        classes[item] = None
        return str(item.name)
    for part in parts(item):
        classes[type(part)] = None
    return str(item)
