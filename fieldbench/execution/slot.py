"""A worker slot with its processes: judges, and one process for each method. It runs one group of trials at a time.

The slot takes what a judge draws to the method's process, and the answer back to the judge.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ConfigDict, InstanceOf, TypeAdapter
from typing_extensions import TypedDict

from fieldbench.errors import RequestError, in_one_line, one_line
from fieldbench.execution.frames import BadFrame, Frame, largest_estimate
from fieldbench.execution.machine import Lane, Slot, gpu_lock, peak_memory, reset_peak
from fieldbench.execution.processes import (
    LOOK,
    NO_ANSWER,
    GivenUp,
    JudgeProcess,
    Limit,
    Lost,
    MethodProcess,
    Process,
)
from fieldbench.execution.provenance import machine
from fieldbench.execution.worker import checked_answer, checked_report
from fieldbench.judging import Apart, Task, drawn
from fieldbench.method import OfFits, Tuner
from fieldbench.metric import Metric
from fieldbench.reconstructions import Reconstruction
from fieldbench.records import FAILED, OUT_OF_MEMORY, Cell, Record, Status, Timed, Trial

if TYPE_CHECKING:
    from fieldbench.execution.pool import Pool

#: Processes of methods, and of judges, that a slot keeps warm. A method's on a GPU holds memory of it.
_WARM: dict[Lane, int] = {"cpu": 16, "gpu": 4}

#: How often a metric may take its process down before it is left out for good.
_PATIENCE = 3

AnyProcess = TypeVar("AnyProcess", bound=Process)


class _Diagnostics(TypedDict, total=False):
    """Of what else a judge says of a trial, what is read here."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    shape: list[int]
    not_scored: dict[str, str]


class _Judged(TypedDict):
    """What a judge says of a trial."""

    status: Status
    error: str
    metrics: dict[str, float]
    seconds: float | None
    diagnostics: _Diagnostics
    kept: InstanceOf[Reconstruction] | None


_JUDGED: TypeAdapter[Any] = TypeAdapter(list[_Judged])
_SCORES: TypeAdapter[dict[str, float]] = TypeAdapter(dict[str, float])


@dataclass(frozen=True)
class Outcome:
    """What a group of trials came to; trials that the caller gave up have no record."""

    records: tuple[Record, ...]
    #: How many such trials are worth computing at once, if that became known.
    batch_size: int | None = None
    #: By key, the fields of trials that ended well, where they are wanted.
    kept: Mapping[str, Reconstruction] = field(default_factory=dict)


class WorkerSlot:
    """A slot with its judges and its methods' processes. One thread at a time uses it.

    Whatever asks one of them raises ``Lost`` and ``GivenUp`` as :meth:`Process.ask`.
    """

    def __init__(self, slot: Slot, pool: Pool, given_up: Callable[[], bool]) -> None:
        self.slot, self._pool, self._options = slot, pool, pool.options
        self._given_up = given_up
        self._judges: OrderedDict[Hashable, JudgeProcess] = OrderedDict()
        self._methods: OrderedDict[Hashable, MethodProcess] = OrderedDict()
        self._losses: Counter[str] = Counter()

    def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
        """Run trials of one cell; whatever happens, each gets a record, in which stands how many slots are busy."""
        with gpu_lock(self.slot, self._given_up):
            try:
                if (hopeless := self._pool.hopeless(trials[0])) is not None:
                    return Outcome(tuple(self._record(Record(trial, *hopeless), busy) for trial in trials))
                return self._together(trials, busy)
            except GivenUp:
                return Outcome(())
            except (Apart, Lost, SystemExit) as error:  # an exit is a plugin's, where it is packed for its process
                if len(trials) == 1:
                    lost = error if isinstance(error, Lost) else Lost(FAILED, one_line(error))
                    record = Record(trials[0], lost.status, lost.message, diagnostics=lost.diagnostics)
                    return Outcome((self._record(record, busy),))
        alone = [self.run([trial], busy) for trial in trials]
        records = tuple(record for outcome in alone for record in outcome.records)
        kept = {key: made for outcome in alone for key, made in outcome.kept.items()}
        return Outcome(records, alone[0].batch_size, kept)

    def close(self) -> None:
        """End all its processes."""
        for process in [*self._methods.values(), *self._judges.values()]:
            process.close()
        self._methods.clear()
        self._judges.clear()

    def ready(self, method: str) -> int:
        """Have the process of a method (a spec) running, and say which it is."""
        return self._method(method).child.pid

    def ask_method(
        self, method: str, what: Frame, doing: str, limit: float | None = None, largest: int = 1 << 20
    ) -> Frame:
        """Ask a method's process something that is not a trial.

        Args:
            method, what: whom to ask, a spec, and the question.
            doing: what is asked, for messages.
            limit, largest: seconds that it may take, and bytes that the arrays of the answer may have.
        """
        process = self._method(method)
        process.child.channel.largest = largest
        within = Limit.of(self._pool.question if limit is None else limit)
        frame = process.ask(what, within, doing)
        return process.answer(within, doing) if "began" in frame else frame

    def ask_judge(self, what: Frame, doing: str, limit: float | None, *known: tuple[str, str], **said: type) -> Frame:
        """Ask a judge something that is not a trial.

        Args:
            what, doing, limit: as for :meth:`ask_method`.
            known: kind and spec of the plugins that it needs for it.
            said: names and types of what it answers.

        Raises:
            RequestError: if the plugin refuses or fails; its process goes on.
        """
        judge = self._judge(known)
        frame = judge.ask(what, Limit.of(limit), doing)
        if "error" in frame:
            raise RequestError(f"{doing}: {in_one_line(str(frame['error']))}")
        if not all(isinstance(frame.get(name), kind) for name, kind in said.items()):
            raise judge.no_answer(doing)
        return frame

    def _together(self, trials: Sequence[Trial], busy: int) -> Outcome:
        cell, options = trials[0].cell, self._options
        refits = self._pool.registry.refits(cell.method)
        several = bool(refits)
        judge, process = self._judge(self._needed(cell, refits)), self._method(cell.method)
        if several and process.met:
            process = self._renewed(cell.method)
        numbers, seed = [trial.number for trial in trials], trials[0].seed
        request = {"ask": "run", "cell": cell, "seed": options.secrets.get(seed, seed), "numbers": numbers}
        request["keep"] = options.save_fields is not None or bool(self._pool.metrics_apart)
        first = cell.dataset not in process.met
        if options.timing and first and not several:  # warming up does not count, and has as much time for itself
            self._judged(judge, {**request, "numbers": numbers[:1]}, several)
        process.met.add(cell.dataset)
        process.child.forget_output()
        reset_peak(process.child.pid)
        frame = self._judged(judge, request, several)
        try:
            said = _JUDGED.validate_python(frame.get("records"), strict=True)
            kept = [one.pop("kept") for one in said]
            records = [Record(trial, **one) for trial, one in zip(trials, said, strict=True)]
        except ValueError:
            raise judge.no_answer() from None
        process = self._methods[cell.method]
        peak = peak_memory(process.child.pid)
        if any(record.status == OUT_OF_MEMORY for record in records):
            process.close()  # what such a trial leaves behind in memory would trouble the next
        records = [self._scored(record, made) for record, made in zip(records, kept, strict=True)]
        timed: Timed = "alone" if options.timing else "first" if first else "shared"
        found = {trial.key: made for trial, made in zip(trials, kept, strict=True) if made is not None}
        return Outcome(
            tuple(self._record(replace(record, peak_memory=peak), busy, timed) for record in records),
            None if several else process.batch_size,
            found if options.save_fields is not None else {},
        )

    def _judged(self, judge: JudgeProcess, request: Frame, several: bool) -> Frame:
        """Have a judge run trials; what it says of them.

        A method that is fitted several times gets a new process where the one before has been handed an entry that is
        withheld from this fit.

        Raises:
            Apart: if each is to be run by itself.
        """
        method, seconds, doing = request["cell"].method, self._options.timeout, drawn(request["cell"])
        limit = Limit.of(None if seconds is None else seconds * len(request["numbers"]))
        frame, fits = judge.ask(request, limit, doing), 0
        while "fit" in frame:
            tasks, fits = frame["fit"], fits + 1
            wrong = not isinstance(tasks, list) or not tasks or any(type(task) is not Task for task in tasks)
            if wrong or (fits > 1 and not several):
                raise judge.no_answer(doing)
            process = self._methods[method]
            if several:
                mask, seen = tasks[0].observation.mask, process.seen
                if seen is not None and (seen.shape != mask.shape or (seen & ~mask).any()):
                    process = self._renewed(method)
                process.seen = mask
            lent = self._pool.loans.to(process.note) if self.slot.lane == "cpu" else contextlib.nullcontext()
            with lent:
                frame = self._fitted(judge, process, tasks, limit, doing)
        if "apart" in frame:
            raise Apart
        if "error" in frame:  # of the harness itself
            raise Lost(FAILED, in_one_line(str(frame["error"])))
        return frame

    def _renewed(self, method: str) -> MethodProcess:
        """A new process of a method in place of one that knows too much."""
        process = self._methods[method]
        process.close()
        new = self._method(method)
        new.met = process.met
        return new

    def _fitted(
        self, judge: JudgeProcess, process: MethodProcess, tasks: Sequence[Task], limit: Limit, doing: str
    ) -> Frame:
        """Have a method complete what a judge has drawn; what the judge says to its answer."""
        process.child.channel.largest = largest_estimate(tasks[0].observation.shape) * len(tasks)
        start = time.perf_counter()
        small, questions = Limit.of(self._pool.question), "applicable, check_shape or batch_size"
        frame = process.ask({"ask": "complete", "tasks": tasks}, small, questions)
        if "began" in frame:  # the small questions are answered
            frame = process.answer(limit, "")
        try:
            while "report" in frame:
                # The judge has a little longer, so that not it is named where a method reports until its time is up.
                later = replace(limit, end=limit.end + LOOK)
                said = judge.ask(checked_report(frame, tasks), later, doing)
                if "go on" not in said:  # enough of them
                    process.close()
                    return said
                frame = process.answer(limit, "")
            answer = checked_answer(frame, tasks)
            process.batch_size = answer.pop("size", process.batch_size)
        except BadFrame:
            raise process.no_answer() from None
        return judge.ask({**answer, "seconds": time.perf_counter() - start}, limit, doing)

    def _scored(self, record: Record, made: Reconstruction | None) -> Record:
        """A record with the scores of the metrics that have processes of their own."""
        if made is None:
            return record
        scores, missing = dict(record.metrics), dict(record.diagnostics.get("not_scored", {}))
        for metric in self._pool.metrics_apart:
            try:
                scores |= self._scores(metric, made)
            except (Lost, RequestError) as error:
                missing[metric.name] = str(error)
        headline = self._pool.headline(record.trial.cell.dataset)
        if headline in missing:
            return Record(record.trial, FAILED, f"metric {headline}: {missing[headline]}")
        diagnostics = {**record.diagnostics, **({"not_scored": missing} if missing else {})}
        return replace(record, metrics=scores, diagnostics=diagnostics)

    def _scores(self, metric: Metric, made: Reconstruction) -> dict[str, float]:
        """The scores by one metric, which can say nothing of another."""
        if self._losses[metric.name] >= _PATIENCE:
            raise Lost(FAILED, f"left out: {_PATIENCE} processes were lost over it")
        question, known = {"ask": "score", "metric": metric.name, "of": made}, ("metric", metric.name)
        try:
            frame = self.ask_judge(question, f"metric {metric.name}", self._pool.question, known, missing=dict)
        except Lost:
            self._losses[metric.name] += 1
            raise
        if metric.name in frame["missing"]:
            raise Lost(FAILED, in_one_line(str(frame["missing"][metric.name])))
        try:
            scores = _SCORES.validate_python(frame.get("scores"), strict=True)
        except ValueError:
            raise Lost(FAILED, f"its process {NO_ANSWER}") from None
        return {name: score for name, score in scores.items() if name.partition(".")[0] == metric.name}

    def _record(self, record: Record, busy: int, timed: Timed = "shared") -> Record:
        return replace(record, device=self.slot.name, slots=busy, timed=timed, machine=machine())

    def _needed(self, cell: Cell, refits: Sequence[OfFits]) -> list[tuple[str, str]]:
        """Kind and spec of the plugins that a judge needs for a cell."""
        headline = self._pool.headline(cell.dataset)
        names = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise)]
        spaces = [("space", cell.method)] if any(isinstance(refit, Tuner) for refit in refits) else []
        others = [*spaces, *(("modifier", str(refit)) for refit in refits)]
        return [*names, ("selection", cell.select), ("metric", headline), *others]

    def _method(self, text: str) -> MethodProcess:
        """The warm process of the method of a spec, or a new one; what the method calls itself does not count."""
        made = partial(self._pool.registry.method, text)

        def started() -> MethodProcess:
            # The heavy libraries that it should have at its start.
            method = made()
            torch = ["torch"] if method.uses_gpu and self.slot.lane == "gpu" else []
            return MethodProcess(self._pool, self._given_up, self.slot.environment, [*method.libraries, *torch])

        process = _warm(self._methods, text, started, _WARM[self.slot.lane])
        process.load("method", text, made, device=self.slot.device)
        return process

    def _judge(self, known: Sequence[tuple[str, str]]) -> JudgeProcess:
        """A judge that has some plugins, and the metrics that come with fieldbench.

        Plugins that do not come with fieldbench share none with others of their kind.
        """
        strangers = frozenset(item for item in known if self._pool.is_foreign(*item))

        def started() -> JudgeProcess:
            names = [f"{kind} {text}" for kind, text in sorted(strangers)]
            return JudgeProcess(self._pool, self._given_up, self.slot.environment, names)

        judge = _warm(self._judges, strangers, started, _WARM["cpu"])
        judge.load("metrics", "", lambda: self._pool.metrics_together)
        for kind, text in known:
            judge.load(kind, text, partial(getattr(self._pool.registry, kind), text))
        return judge


def _warm(
    processes: OrderedDict[Hashable, AnyProcess], key: Hashable, started: Callable[[], AnyProcess], most: int
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
