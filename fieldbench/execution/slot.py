"""A worker slot with its processes: judges, and one process for each method. It runs one group of trials at a time.

The slot takes what a judge draws to the method's process, and the answer back to the judge.
"""

from __future__ import annotations

import itertools
import pickle
import tempfile
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fieldbench import reconstructions
from fieldbench.errors import RequestError, one_line
from fieldbench.execution import forkserver
from fieldbench.execution.frames import BadFrame, Frame, largest_estimate, pack, pack_estimate, unpack, unpack_estimate
from fieldbench.execution.gpu_lock import gpu_lock
from fieldbench.execution.machine import Lane, Slot, peak_memory, reset_peak
from fieldbench.execution.processes import GivenUp, JudgeProcess, Limit, Lost, MethodProcess, Process, Raised
from fieldbench.execution.provenance import machine
from fieldbench.execution.thread_budget import Lender
from fieldbench.execution.worker import Reply, Setup, checked_answer, checked_report
from fieldbench.judging import Apart, drawn
from fieldbench.method import Method, Tuner
from fieldbench.metric import Metric
from fieldbench.records import FAILED, OUT_OF_MEMORY, Cell, Record, Trial
from fieldbench.sources import Parcel

if TYPE_CHECKING:
    from fieldbench.execution.pool import Pool

#: Processes of methods, and of judges, that a slot keeps warm. A method's on a GPU holds memory of it.
_WARM: dict[Lane, int] = {"cpu": 16, "gpu": 4}

#: How often a metric may take its process down before it is left out for good.
_PATIENCE = 3

AnyProcess = TypeVar("AnyProcess", bound=Process)


@dataclass(frozen=True)
class Outcome:
    """What a group of trials came to.

    Attributes:
        records: one for each trial that was run; trials that the caller gave up have none.
        batch_size: how many such trials are worth computing at once, if that became known.
        kept: by key, the fields of trials that ended well, where they are wanted.
        refusal: why the process could not even try: the options do not fit its machine.
    """

    records: tuple[Record, ...]
    batch_size: int | None = None
    kept: tuple[tuple[str, reconstructions.Reconstruction], ...] = ()
    refusal: str = ""


class WorkerSlot:
    """A slot with its judges and its methods' processes. One thread at a time uses it."""

    def __init__(self, slot: Slot, pool: Pool, given_up: Callable[[], bool]) -> None:
        self.slot, self._pool, self._options = slot, pool, pool.options
        self._given_up = given_up
        self._judges: OrderedDict[Any, JudgeProcess] = OrderedDict()
        self._methods: OrderedDict[Any, MethodProcess] = OrderedDict()
        self._shares = 1
        self._at_work: MethodProcess | None = None
        self._losses: Counter[str] = Counter()

    def allow(self, shares: int) -> None:
        """Let its trial use the CPU threads of this many slots from now on."""
        self._shares = shares
        if (at_work := self._at_work) is not None:
            at_work.allow(shares * self._options.threads)

    def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
        """Run trials of one cell; whatever happens to the processes, each gets a record of its own.

        Args:
            trials: the group.
            busy: how many slots are at work now, for the records.
        """
        with gpu_lock(self.slot, self._given_up):
            try:
                hopeless = self._pool.hopeless(trials[0])
                if hopeless is not None:
                    return Outcome(tuple(self._record(Record(trial, *hopeless), busy, "shared") for trial in trials))
                return self._together(trials, busy)
            except GivenUp:
                return Outcome(())
            except Apart:
                pass
            except Lost as lost:
                if len(trials) == 1:
                    diagnostics = {"output": lost.output} if lost.output else {}
                    record = Record(trials[0], lost.status, lost.message, diagnostics=diagnostics)
                    return Outcome((self._record(record, busy, "shared"),))
        outcomes = [self.run([trial], busy) for trial in trials]
        return Outcome(
            tuple(itertools.chain.from_iterable(outcome.records for outcome in outcomes)),
            outcomes[0].batch_size,
            tuple(itertools.chain.from_iterable(outcome.kept for outcome in outcomes)),
        )

    def close(self) -> None:
        """End all its processes."""
        for process in [*self._methods.values(), *self._judges.values()]:
            process.close()
        self._methods.clear()
        self._judges.clear()

    def ready(self, method: Method) -> int:
        """Have a method's process running, and say which it is.

        Raises:
            Lost, GivenUp: as :meth:`Process.ask`.
        """
        return self._method(method).child.pid

    def ask_method(
        self, method: Method, what: Reply, doing: str, limit: float | None = None, largest: int = 1 << 20
    ) -> Frame:
        """Ask a method's process something that is not a trial.

        Args:
            method: whom to ask.
            what: header and arrays.
            doing: what is asked, for messages.
            limit: seconds that it may take, if not those of a small question.
            largest: bytes that the arrays of the answer may have.

        Raises:
            Lost, GivenUp: as :meth:`Process.ask`.
        """
        process = self._method(method)
        process.child.channel.largest = largest
        return process.ask(what, Limit.of(self._pool.question if limit is None else limit), doing)

    def ask_judge(self, what: Reply, doing: str, limit: float | None, *known: tuple[str, str]) -> Frame:
        """Ask a judge something that is not a trial.

        Args:
            what: header and arrays.
            doing: what is asked, for messages.
            limit: seconds that it may take.
            known: kind and spec of the plugins that it needs for it.

        Raises:
            Lost, GivenUp: as :meth:`Process.ask`.
            Raised: what the plugin raises.
            RequestError: what the plugin refuses.
        """
        frame = self._judge(known).ask(what, Limit.of(limit), doing)
        if "error" in frame.header:
            said = str(frame.header["error"])
            raise RequestError(said) if frame.header["refused"] else Raised(f"{doing}: {said}", doing)
        return frame

    def _together(self, trials: Sequence[Trial], busy: int) -> Outcome:
        cell, options = trials[0].cell, self._options
        method, apart = self._pool.registry.method(cell.method), self._pool.metrics_apart
        judge, process = self._judge(self._needed(cell)), self._method(method)
        request: dict[str, Any] = {
            "ask": "run",
            "cell": list(astuple(cell)),
            "seed": options.secrets.get(trials[0].seed, trials[0].seed),
            "numbers": [trial.number for trial in trials],
            "fields": options.save_fields is not None or bool(apart),
        }
        alone = method if self._pool.registry.refits(cell.method) else None
        if alone is not None and process.met:
            process = self._renewed(process, method)
        first = cell.dataset not in process.met
        if options.timing and first and alone is None:  # warming up does not count, and has as much time for itself
            self._judged(judge, process, {**request, "numbers": request["numbers"][:1]})
        process.met.add(cell.dataset)
        process.child.forget_output()
        reset_peak(process.child.pid)
        frame, process = self._judged(judge, process, request, len(trials), alone)
        timed = "alone" if options.timing else "first" if first else "shared"
        records = [Record(trial, **said) for trial, said in zip(trials, frame.header["records"], strict=True)]
        peak = peak_memory(process.child.pid)
        if any(record.status == OUT_OF_MEMORY for record in records):
            process.close()  # what such a trial leaves behind in memory would trouble the next
        arrays = deque(frame.arrays)
        kept = [_reconstruction(header, arrays) if header else None for header in frame.header["fields"]]
        if apart:
            records = [self._scored(record, made) for record, made in zip(records, kept, strict=True)]
        return Outcome(
            tuple(self._record(replace(record, peak_memory=peak), busy, timed) for record in records),
            self._batch_size(method, records[0]),
            tuple(
                (trial.key, made)
                for trial, made in zip(trials, kept, strict=False)
                if options.save_fields is not None and made is not None
            ),
        )

    def _judged(
        self,
        judge: JudgeProcess,
        process: MethodProcess,
        request: dict[str, Any],
        trials: int = 1,
        alone: Method | None = None,
    ) -> tuple[Frame, MethodProcess]:
        """Have a judge run trials with a method, and say which process was asked last.

        Args:
            judge: who draws and scores.
            process: the method's.
            request: what to run.
            trials: how many trials that is.
            alone: the method, if it is fitted several times: then no process that has been handed an entry is asked
                for a fit from which it is withheld.

        Raises:
            Lost, GivenUp: as :meth:`Process.ask`.
            Apart: if each is to be run by itself.
        """
        seconds, doing = self._options.timeout, drawn(Cell(*request["cell"]))
        limit = Limit.of(None if seconds is None else seconds * trials)
        frame = judge.ask((request, []), limit, doing)
        while "fit" in frame.header:
            if alone is not None:
                mask = frame.arrays[1]
                if process.seen is not None and (process.seen & ~mask).any():
                    process = self._renewed(process, alone)
                process.seen = mask
            self._at_work = process
            process.allow(self._shares * self._options.threads)
            try:
                frame = self._fitted(judge, process, frame, limit, doing)
            finally:
                self._at_work = None
        if "apart" in frame.header:
            raise Apart
        if "error" in frame.header:  # of the harness itself
            raise Lost(FAILED, str(frame.header["error"]))
        return frame, process

    def _renewed(self, process: MethodProcess, method: Method) -> MethodProcess:
        """A new process of a method in place of one that knows too much."""
        met = process.met
        process.close()
        new = self._method(method)
        new.met = met
        return new

    def _fitted(self, judge: JudgeProcess, process: MethodProcess, wish: Frame, limit: Limit, doing: str) -> Frame:
        """Have a method complete what a judge has drawn; what the judge says to its answer."""
        question = wish.header["fit"]
        tasks, shape = len(question["seeds"]), wish.arrays[0].shape
        process.child.channel.largest = largest_estimate(shape) * tasks
        start = time.perf_counter()
        frame = process.ask((question, wish.arrays), limit, "", first=Limit.of(self._pool.question))
        try:
            while "report" in frame.header:
                said = judge.ask(checked_report(frame, question["every"], shape), limit, doing)
                if "go on" not in said.header:  # enough of them
                    process.close()
                    return said
                frame = process.answer(limit, "")
            answer, arrays = checked_answer(frame, tasks)
        except BadFrame:
            raise process.no_answer() from None
        return judge.ask(({**answer, "seconds": time.perf_counter() - start}, arrays), limit, doing)

    def _scored(self, record: Record, made: reconstructions.Reconstruction | None) -> Record:
        """A record with the scores of the metrics that have processes of their own."""
        if made is None:
            return record
        scores, missing = dict(record.metrics), dict(record.diagnostics.get("not_scored", {}))
        (truth, arrays), (estimate, parts) = pack(made.truth), pack_estimate(made.made)
        what = {"ask": "score", "truth": truth, "estimate": estimate}, [*arrays, made.observation.mask, *parts]
        for metric in self._pool.metrics_apart:
            try:
                if self._losses[metric.name] >= _PATIENCE:
                    raise Lost(FAILED, f"left out: {_PATIENCE} processes were lost over it")
                frame = self._judge((), metric).ask(what, Limit.of(self._pool.question), f"metric {metric.name}")
                scores |= frame.header["scores"]
                missing |= frame.header["missing"]
            except Lost as lost:
                self._losses[metric.name] += 1
                missing[metric.name] = lost.message
        headline = self._pool.headline(record.trial)
        if headline in missing:
            return Record(record.trial, FAILED, f"metric {headline}: {missing[headline]}")
        diagnostics = {**record.diagnostics, **({"not_scored": missing} if missing else {})}
        return replace(record, metrics=scores, diagnostics=diagnostics)

    def _batch_size(self, method: Method, record: Record) -> int | None:
        """How many such trials are worth computing at once.

        Raises:
            Lost: if the method says nothing of use; none of its trials is tried any more.
        """
        shape = record.diagnostics.get("shape")
        several = type(method).batch_size is not Method.batch_size
        if shape is None or not several or self._pool.registry.refits(str(method)):
            return None
        key = (record.trial.cell.method, tuple(shape), self.slot.lane)
        if key not in self._pool.batch_sizes:
            try:
                header = self.ask_method(method, ({"ask": "batch size", "shape": shape}, []), "batch_size").header
                if not isinstance(header.get("size"), int):
                    raise Lost(FAILED, str(header.get("error")))
            except Lost as lost:
                self._pool.doom("method", str(method), lost)
                raise
            self._pool.batch_sizes[key] = header["size"]
        return self._pool.batch_sizes[key]

    def _record(self, record: Record, busy: int, timed: Any) -> Record:
        return replace(record, device=self.slot.name, slots=busy, timed=timed, machine=machine())

    def _needed(self, cell: Cell) -> list[tuple[str, str]]:
        """Kind and spec of the plugins that a judge needs for a cell."""
        headline = self._pool.registry.dataset(cell.dataset).metric
        names = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise)]
        refits = self._pool.registry.refits(cell.method)
        spaces = [("space", cell.method)] if any(isinstance(refit, Tuner) for refit in refits) else []
        others = [*spaces, *(("modifier", str(refit)) for refit in refits)]
        return [*names, ("selection", cell.select), ("metric", headline), *others]

    def _method(self, method: Method) -> MethodProcess:
        """The warm process of a method, or a new one."""

        def started() -> MethodProcess:
            lender = Lender()
            setup = Setup(self._parcel(str(method), method), self.slot.device, self._options.threads)
            child = self._started("worker", setup, lender.reading, _libraries(method, self.slot.lane))
            lender.handed_over()
            process = MethodProcess(child, self._pool, self._given_up, lender)
            process.wait_until_ready()
            return process

        return _warm(self._methods, str(method), started, _WARM[self.slot.lane])

    def _judge(self, known: Sequence[tuple[str, str]], metric: Metric | None = None) -> JudgeProcess:
        """A judge that has some plugins. Those that do not come with fieldbench share none with others of their kind.

        Args:
            known: kind and spec of what it draws with.
            metric: the one that it scores by, if not by those that come with fieldbench.
        """
        metrics = [metric] if metric is not None else self._pool.metrics_together

        strangers = frozenset(item for item in known if self._pool.is_foreign(*item))
        names = [f"{kind} {text}" for kind, text in sorted(strangers)]

        def started() -> JudgeProcess:
            stage = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the judge
            child = self._started("judge", self._parcel("the metrics", metrics), stage.fileno())
            process = JudgeProcess(child, self._pool, self._given_up, stage, names)
            self._load(process, {"ask": "start"}, None, "metrics" if metric is None else f"metric {metric.name}")
            return process

        judge = _warm(self._judges, metric.name if metric is not None else strangers, started, _WARM["cpu"])
        for kind, text in known:
            if (kind, text) not in judge.knows:
                plugin = getattr(self._pool.registry, kind)(text)
                parcel = pickle.dumps(self._parcel(f"{kind} {text}", {(kind, text): plugin}))
                self._load(judge, {"ask": "know"}, parcel, f"{kind} {text}")
                judge.knows.add((kind, text))
        return judge

    def _load(self, judge: JudgeProcess, header: dict[str, Any], parcel: bytes | None, what: str) -> None:
        arrays = [] if parcel is None else [np.frombuffer(parcel, np.uint8)]
        frame = judge.ask(({**header, "what": what}, arrays), Limit.of(self._pool.loading), what)
        if "error" in frame.header:
            raise judge.blamed(Lost(FAILED, f"{what} could not be loaded: {frame.header['error']}", stage=what))

    def _started(self, program: str, payload: object, file: int, libraries: Sequence[str] = ()) -> forkserver.Child:
        if self._given_up():
            raise GivenUp
        environment = {**self.slot.environment, **({"CUDA_VISIBLE_DEVICES": ""} if program == "judge" else {})}
        return forkserver.start(
            program, payload, self._pool.loading, files=[file], libraries=libraries, environment=environment,
            arguments=self._pool.arguments,
        )  # fmt: skip

    def _parcel(self, name: str, objects: Any) -> Parcel:
        try:
            return self._pool.registry.parcel(objects)
        except Exception as error:
            raise Lost(FAILED, f"{name} cannot be sent to its process: {one_line(error)}") from None


def _warm(
    processes: OrderedDict[Any, AnyProcess], key: object, started: Callable[[], AnyProcess], most: int
) -> AnyProcess:
    """The process of a key if it can be asked, or a new one in place of the one that was used least recently."""
    if key in processes and not processes[key].usable:
        processes.pop(key).close()
    if key not in processes:
        while len(processes) >= most:
            processes.popitem(last=False)[1].close()
        processes[key] = started()
    processes.move_to_end(key)
    return processes[key]


def _reconstruction(header: dict[str, Any], arrays: deque[Any]) -> reconstructions.Reconstruction:
    truth, observation = unpack(header["truth"], arrays), unpack(header["observation"], arrays)
    return reconstructions.Reconstruction(truth, observation, unpack_estimate(header["estimate"], arrays))


def _libraries(method: Method, lane: Lane) -> list[str]:
    """The heavy libraries that a method's process should have at its start."""
    return [*method.libraries, *(["torch"] if method.uses_gpu and lane == "gpu" else [])]
