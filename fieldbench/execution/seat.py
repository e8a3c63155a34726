"""A slot with its processes: a judge, and one process for each method. It runs one group of trials at a time."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import tempfile
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench import reconstructions
from fieldbench.errors import RequestError, one_line
from fieldbench.execution.allowance import Lender
from fieldbench.execution.frames import NO_ANSWER, BadFrame, Frame, encode, unpack, unpack_estimate
from fieldbench.execution.machine import Lane, Slot, peak_memory, reset_peak
from fieldbench.execution.processes import START, Asked, GivenUp, JudgeProcess, Lost, MethodProcess
from fieldbench.execution.provenance import machine
from fieldbench.execution.turns import turn
from fieldbench.execution.worker import Reply, Setup
from fieldbench.judging import Apart
from fieldbench.method import Method
from fieldbench.records import CRASHED, FAILED, OUT_OF_MEMORY, Record, Trial
from fieldbench.sources import Parcel

if TYPE_CHECKING:
    from fieldbench.execution.pool import Pool

#: Methods' processes that a slot keeps warm. One on a GPU holds memory of it.
_WARM: dict[Lane, int] = {"cpu": 16, "gpu": 4}

#: How often a metric may take a slot's judge down before it is left out for good.
_PATIENCE = 3


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


class Seat:
    """A slot with its judge and its methods' processes. One thread at a time uses it."""

    def __init__(self, slot: Slot, house: Pool, given_up: Callable[[], bool]) -> None:
        self.slot, self._house, self._options = slot, house, house.options
        self._given_up = given_up
        self._judge: JudgeProcess | None = None
        self._methods: OrderedDict[str, MethodProcess] = OrderedDict()
        self._shares = 1
        self._at_work: MethodProcess | None = None
        self._metric_deaths: Counter[str] = Counter()

    def allow(self, shares: int) -> None:
        """Let its trial use the CPU threads of so many slots, from now on."""
        self._shares = shares
        if (at_work := self._at_work) is not None:
            at_work.allow(shares * self._options.threads)

    def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
        """Run trials of one cell; whatever happens to the processes, each gets a record of its own.

        Args:
            trials: the group.
            busy: how many slots are at work now, for the records.
        """
        with turn(self.slot, self._given_up):
            try:
                hopeless = self._house.hopeless(trials[0])
                if hopeless is not None:
                    return Outcome(tuple(self._record(Record(trial, *hopeless), busy, "shared") for trial in trials))
                return self._together(trials, busy)
            except GivenUp:
                return Outcome(())
            except Apart:
                pass
        outcomes = [self.run([trial], busy) for trial in trials]
        return Outcome(
            tuple(itertools.chain.from_iterable(outcome.records for outcome in outcomes)),
            outcomes[0].batch_size,
            tuple(itertools.chain.from_iterable(outcome.kept for outcome in outcomes)),
        )

    def close(self) -> None:
        """End all its processes."""
        for process in self._methods.values():
            process.close()
        self._methods.clear()
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def ready(self, method: Method) -> None:
        """Have a method's process running.

        Raises:
            Lost, GivenUp: as :meth:`Asked.ask`.
        """
        self._method(method)

    def ask_method(
        self, method: Method, what: Reply, doing: str, limit: float | None = None, largest: int = 1 << 20
    ) -> Frame:
        """Ask a method's process something that is no trial.

        Args:
            method: whom to ask.
            what: header and arrays.
            doing: what is asked, for messages.
            limit: seconds that it may take, if not those of a small question.
            largest: bytes that the arrays of the answer may have.

        Raises:
            Lost, GivenUp: as :meth:`Asked.ask`.
        """
        process = self._method(method)
        process.child.channel.largest = largest
        try:
            return process.ask(what, self._house.question if limit is None else limit, doing)
        except (Lost, GivenUp):
            self._forget(process)
            raise

    def ask_judge(self, what: Reply, doing: str, limit: float | None, *known: tuple[str, str]) -> Frame:
        """Ask the judge something that is no trial.

        Args:
            what: header and arrays.
            doing: what is asked, for messages.
            limit: seconds that it may take.
            known: kind and spec of the plugins that it needs for it.

        Raises:
            Lost, GivenUp: as :meth:`Asked.ask`.
            RequestError: what the plugin itself has to say.
        """
        try:
            judge = self._present_judge()
            self._introduce(judge, known)
            frame = judge.ask(what, limit, doing)
        except (Lost, GivenUp):
            self._lose_judge()
            raise
        if "error" in frame.header:
            raise RequestError(str(frame.header["error"]))
        return frame

    def _together(self, trials: Sequence[Trial], busy: int) -> Outcome:
        left_out = {
            name: f"left out: {deaths} processes were lost over it"
            for name, deaths in self._metric_deaths.items()
            if deaths >= _PATIENCE
        }
        while True:
            try:
                return self._once(trials, busy, left_out)
            except Lost as lost:
                kind, _, metric = lost.stage.partition(" ")
                if kind == "metric" and metric not in (self._house.headline(trials[0]), *left_out):
                    left_out = {**left_out, metric: lost.message}
                    self._metric_deaths[metric] += 1
                elif len(trials) > 1:
                    raise Apart from None
                else:
                    diagnostics = {"output": lost.output} if lost.output else {}
                    record = Record(trials[0], lost.status, lost.message, diagnostics=diagnostics)
                    return Outcome((self._record(record, busy, "shared"),))

    def _once(self, trials: Sequence[Trial], busy: int, left_out: dict[str, str]) -> Outcome:
        cell, options = trials[0].cell, self._options
        method = self._house.registry.method(cell.method)
        known = [("dataset", cell.dataset), ("sampler", cell.sampler), ("noise", cell.noise)]
        known += [("selection", cell.select), ("metric", self._house.headline(trials[0]))]
        if self._house.registry.refits(cell.method):
            known.append(("refits", cell.method))
        try:
            judge = self._present_judge()
            self._introduce(judge, known)
        except (Lost, GivenUp):
            self._lose_judge()
            raise
        process = self._method(method)
        if process.number not in judge.methods:
            judge.tell({"ask": "meet", "number": process.number}, [process.child.channel.fileno()])
            judge.methods.add(process.number)
        request: dict[str, Any] = {
            "ask": "run",
            "cell": list(dataclasses.astuple(cell)),
            "seed": options.secrets.get(trials[0].seed, trials[0].seed),
            "numbers": [trial.number for trial in trials],
            "number": process.number,
            "left out": left_out,
            "fields": options.save_fields is not None,
        }
        first = cell.dataset not in process.met
        if options.timing and first:  # warming up does not count, and has as much time for itself
            self._ask(judge, process, {**request, "numbers": request["numbers"][:1], "fields": False})
        process.met.add(cell.dataset)
        process.child.forget_output()
        reset_peak(process.child.pid)
        frame = self._ask(judge, process, request, len(trials))
        if "apart" in frame.header:
            raise Apart
        if "error" in frame.header:  # of the harness itself
            raise Lost(FAILED, str(frame.header["error"]))
        timed = "alone" if options.timing else "first" if first else "shared"
        peak = peak_memory(process.child.pid)
        records = []
        for trial, said in zip(trials, frame.header["records"], strict=True):
            record = Record(trial, **said, peak_memory=peak)
            records.append(self._record(record, busy, timed))
        if any(record.status == OUT_OF_MEMORY for record in records):
            self._forget(process)  # what such a trial leaves behind in memory would trouble the next
        kept = [
            (trial.key, _reconstruction(header, arrays))
            for arrays in [deque(frame.arrays)]
            for trial, header in zip(trials, frame.header["fields"], strict=False)
            if header
        ]
        return Outcome(tuple(records), self._batch_size(method, records[0]), tuple(kept))

    def _ask(self, judge: JudgeProcess, process: MethodProcess, request: dict[str, Any], trials: int = 1) -> Frame:
        """Have a judge run trials with a method, and watch both."""
        limit = self._options.timeout
        limit = None if limit is None else limit * trials
        deadline = time.monotonic() + (math.inf if limit is None else limit)
        number, before = next(Asked.numbers), self._house.oom_kills()
        self._at_work = process
        process.allow(self._shares * self._options.threads)
        since, seen, answered = time.monotonic(), "", False
        try:
            judge.child.channel.send(encode({**request, "id": number}))
            while True:
                frame = judge.child.channel.poll(max(0.0, min(judge.look, deadline - time.monotonic())))
                if frame is not None:
                    if frame.header.get("id") != number:
                        raise BadFrame
                    answered = True
                    if "lost" in frame.header:
                        raise self._method_lost(process, str(frame.header["lost"]), before)
                    return frame
                if self._given_up():
                    raise GivenUp
                if judge.child.exit_code() is not None:
                    raise EOFError
                stage, now = judge.stage, time.monotonic()
                if stage != seen:
                    since, seen = now, stage
                at_method = stage in ("asking", "method")
                if at_method and process.child.exit_code() is not None:
                    raise self._method_lost(process, "", before)
                process.check_memory("")
                judge.check_memory(stage)
                small = stage == "asking" or stage.startswith("metric ")
                if limit is not None and now >= deadline:
                    spent = limit
                elif small and now - since >= self._house.question:
                    spent = self._house.question
                else:
                    continue
                if at_method:
                    raise process.too_late(spent, "applicable" if stage == "asking" else "")
                raise judge.too_late(spent, stage)
        except (EOFError, OSError):
            lost = judge.lost("judge", before)
            self._lose_judge()
            raise lost from None
        except BadFrame:
            stage = judge.stage
            self._lose_judge()
            raise Lost(CRASHED, f"{stage}: its process {NO_ANSWER}", stage=stage) from None
        except GivenUp:
            self._forget(process)
            self._lose_judge()
            raise
        except Lost as lost:
            if lost.stage not in ("", "applicable"):
                self._lose_judge()
            elif not answered:
                self._call_off(judge, number)
            if lost.stage in ("", "applicable"):
                self._forget(process)
            raise
        finally:
            self._at_work = None

    def _method_lost(self, process: MethodProcess, reason: str, before: int) -> Lost:
        if reason:
            process.child.kill()
            return Lost(CRASHED, f"the method's process {reason}", process.child.output())
        lost = process.lost("", before)
        lost.message = lost.message.replace("its process", "the method's process")
        return lost

    def _call_off(self, judge: JudgeProcess, number: int) -> None:
        """The method's process is gone; have the judge stop waiting for it, or be replaced."""
        judge.tell({"ask": "give up", "request": number, "id": 0})
        end = time.monotonic() + 5
        try:
            while (frame := judge.child.channel.poll(0.1)) is None or frame.header.get("id") != number:
                if time.monotonic() > end:
                    raise EOFError
        except (EOFError, BadFrame):
            self._lose_judge()

    def _batch_size(self, method: Method, record: Record) -> int | None:
        """How many such trials are worth computing at once; one, where the method cannot tell."""
        shape = record.diagnostics.get("shape")
        if shape is None or type(method).batch_size is Method.batch_size:
            return None
        key = (record.trial.cell.method, tuple(shape), self.slot.lane)
        if key not in self._house.batch_sizes:
            try:
                frame = self.ask_method(method, ({"ask": "batch size", "shape": shape}, []), "batch_size")
                size = frame.header.get("size", 1)
            except (Lost, GivenUp):  # the trial is computed; the next ones go singly
                size = 1
            self._house.batch_sizes[key] = size if isinstance(size, int) else 1
        return self._house.batch_sizes[key]

    def _record(self, record: Record, busy: int, timed: Any) -> Record:
        return dataclasses.replace(record, device=self.slot.name, slots=busy, timed=timed, machine=machine())

    def _method(self, method: Method) -> MethodProcess:
        """The warm process of a method, or a new one."""
        text = str(method)
        process = self._methods.get(text)
        if process is not None and (process.child.exit_code() is not None or process.child.channel.has_rest):
            self._forget(process)
            process = None
        if process is None:
            while len(self._methods) >= _WARM[self.slot.lane]:
                self._forget(next(iter(self._methods.values())))
            lender = Lender()
            setup = Setup(self._parcel(str(method), method), self.slot.device, self._options.threads)
            child = self._house.nursery.make(
                "worker", setup, files=[lender.reading], libraries=_libraries(method, self.slot.lane),
                environment=self.slot.environment,
            )  # fmt: skip
            lender.handed_over()
            process = self._methods[text] = MethodProcess(child, lender, self._options, self._given_up)
            try:
                process.wait_until_ready()
            except (Lost, GivenUp):
                self._forget(process)
                raise
        self._methods.move_to_end(text)
        return process

    def _present_judge(self) -> JudgeProcess:
        if self._given_up():
            raise GivenUp
        if self._judge is None:
            stage = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the judge
            child = self._house.nursery.make(
                "judge", self._parcel("the metrics", self._house.registry.metrics()), files=[stage.fileno()],
                environment={**self.slot.environment, "CUDA_VISIBLE_DEVICES": ""},
            )  # fmt: skip
            self._judge = JudgeProcess(child, stage, self._options, self._given_up)
            started = self._judge.ask(({"ask": "start"}, []), START, "metrics")
            if "error" in started.header:
                raise Lost(FAILED, f"the metrics could not be loaded: {started.header['error']}")
        return self._judge

    def _introduce(self, judge: JudgeProcess, known: Sequence[tuple[str, str]]) -> None:
        """Send a judge the plugins that it does not have yet."""
        for kind, text in known:
            if (kind, text) not in judge.knows:
                plugin = getattr(self._house.registry, kind)(text)
                parcel = pickle.dumps(self._parcel(f"{kind} {text}", {(kind, text): plugin}))
                what = f"{kind} {text}"
                frame = judge.ask(({"ask": "know", "what": what}, [np.frombuffer(parcel, np.uint8)]), START, what)
                if "error" in frame.header:
                    raise Lost(FAILED, f"{what} could not be loaded: {frame.header['error']}")
                judge.knows.add((kind, text))

    def _parcel(self, name: str, objects: Any) -> Parcel:
        try:
            return self._house.registry.parcel(objects)
        except Exception as error:
            raise Lost(FAILED, f"{name} cannot be sent to its process: {one_line(error)}") from None

    def _forget(self, process: MethodProcess) -> None:
        for text, kept in list(self._methods.items()):
            if kept is process:
                del self._methods[text]
        process.close()
        if self._judge is not None and process.number in self._judge.methods:
            self._judge.methods.discard(process.number)
            self._judge.tell({"ask": "part", "number": process.number, "id": 0})

    def _lose_judge(self) -> None:
        if self._judge is not None:
            self._judge.close()
            self._judge = None


def _reconstruction(header: dict[str, Any], arrays: deque[Any]) -> reconstructions.Reconstruction:
    truth, observation = unpack(header["truth"], arrays), unpack(header["observation"], arrays)
    return reconstructions.Reconstruction(truth, observation, unpack_estimate(header["estimate"], arrays))


def _libraries(method: Method, lane: Lane) -> list[str]:
    """The heavy libraries that a method's process should have at its start."""
    return [*method.libraries, *(["torch"] if method.uses_gpu and lane == "gpu" else [])]
