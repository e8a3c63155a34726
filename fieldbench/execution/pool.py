"""The processes of one run on this machine: who is free, who is asked, and what became of whom.

The parent owns every process and every deadline. It believes nothing that comes up but frames (see
:mod:`fieldbench.execution.frames`), and it calls no plugin.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pickle
import signal
import tempfile
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldbench import fields
from fieldbench.dataset import Dataset
from fieldbench.errors import FingerprintError, RequestError, one_line
from fieldbench.execution.allowance import Lender, shares
from fieldbench.execution.frames import BadFrame, Frame, encode, unpack
from fieldbench.execution.judge import NO_ANSWER
from fieldbench.execution.machine import Lane, Slot, oom_kills, peak_memory, reset_peak, resident_memory
from fieldbench.execution.nursery import Child, Nursery
from fieldbench.execution.options import Options
from fieldbench.execution.provenance import machine
from fieldbench.execution.queue import Group, Queue
from fieldbench.execution.stop import Stop
from fieldbench.execution.turns import turn
from fieldbench.execution.worker import Reply, Setup
from fieldbench.method import Method
from fieldbench.plan import cell_identity
from fieldbench.plugin import Plugin
from fieldbench.records import CRASHED, FAILED, OUT_OF_MEMORY, TIMEOUT, Record, Trial
from fieldbench.registry import Registry

#: Seconds between looks at a working process: for its deadline and end, and for its memory if that is limited.
_LOOK, _LOOK_AT_MEMORY = 0.2, 0.02

#: Seconds for a small question (``applicable``, ``check_shape``, ``batch_size``, ``fingerprint``, a metric's score)
#: where no time limit is given.
QUESTION = 60.0

#: Seconds that a process may take to import what it needs.
_START = 600.0

#: Methods' processes that a slot keeps warm. One on a GPU holds memory of it.
_WARM: dict[Lane, int] = {"cpu": 16, "gpu": 4}

#: How often a metric may take a slot's judge down before it is left out for good.
_PATIENCE = 3


class Lost(Exception):
    """A process ended, or was ended, before it answered.

    Attributes:
        status, message, output: as a record has them.
        stage: what it was doing: ``metric rmse``, ``method``.
    """

    def __init__(self, status: str, message: str, output: str = "", stage: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.output, self.stage = status, message, output, stage


class GivenUp(Exception):
    """The caller no longer wants the answer."""


class Apart(Exception):
    """Something went wrong with a group of several trials; each is to be run by itself."""


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
    kept: tuple[tuple[str, fields.Reconstruction], ...] = ()
    refusal: str = ""


class Asked:
    """A process of ours and the way it is asked: one question at a time, each with its own number."""

    numbers = itertools.count(1)

    def __init__(self, child: Child, options: Options, given_up: Callable[[], bool]) -> None:
        self.child, self._options, self._given_up = child, options, given_up
        self.number = next(self.numbers)

    def ask(self, what: Reply, limit: float | None, doing: str) -> Frame:
        """Ask, and wait for the answer.

        Args:
            what: header and arrays.
            limit: seconds that it may take.
            doing: what is asked, for messages.

        Raises:
            Lost: if there is none; the process is gone then.
            GivenUp: if the caller's wish to stop came first; the process is gone too.
        """
        number = next(self.numbers)
        deadline = time.monotonic() + (math.inf if limit is None else limit)
        try:
            self.child.channel.send(encode({**what[0], "id": number}, what[1]), until=deadline)
            return self.wait(number, limit, deadline, doing)
        except (EOFError, OSError):
            raise self.lost(doing) from None
        except BadFrame:
            self.child.kill()
            raise Lost(CRASHED, f"{doing}: its process {NO_ANSWER}", self.child.output()) from None

    def wait(self, number: int, limit: float | None, deadline: float, doing: str) -> Frame:
        """Wait for an answer that began to be waited for before."""
        while True:
            frame = self.child.channel.poll(max(0.0, min(self.look, deadline - time.monotonic())))
            if frame is not None:
                if frame.header.get("id") != number:
                    raise BadFrame
                if "began" not in frame.header:
                    return frame
            if self._given_up():
                self.child.kill()
                raise GivenUp
            if self.child.exit_code() is not None:  # a grandchild can keep the socket open after its end
                raise EOFError
            self.check_memory(doing)
            if time.monotonic() >= deadline:
                raise self.too_late(limit or 0.0, doing)

    @property
    def look(self) -> float:
        """Seconds between looks."""
        return _LOOK if self._options.memory_limit is None else _LOOK_AT_MEMORY

    def check_memory(self, doing: str) -> None:
        """
        Raises:
            Lost: if the process uses more memory than it may; it is gone then.
        """
        limit = self._options.memory_limit
        if limit is not None and resident_memory(self.child.pid) > limit:
            self.child.kill()
            message = f"used more than the {_readable(limit)} that --memory-limit allows"
            raise Lost(OUT_OF_MEMORY, _of(doing, message), self.child.output(), doing)

    def too_late(self, limit: float, doing: str) -> Lost:
        """End it, as its time is up."""
        self.child.signal(signal.SIGUSR1)  # it prints where it was, unless it is past that
        time.sleep(0.1)
        self.child.kill()
        reason = "that --timeout allows" if limit == self._options.timeout else "it is given for this"
        return Lost(TIMEOUT, _of(doing, f"ran longer than the {limit:g} s {reason}"), self.child.output(), doing)

    def lost(self, doing: str, before: int | None = None) -> Lost:
        """Why it is gone."""
        fate = self.child.fate()
        self.child.kill()
        if before is not None and "SIGKILL" in fate and oom_kills() > before:
            message = "killed by the kernel, which ran out of memory"
            return Lost(OUT_OF_MEMORY, _of(doing, message), self.child.output(), doing)
        return Lost(CRASHED, _of(doing, f"its process {fate}"), self.child.output(), doing)


class MethodProcess(Asked):
    """A running process of one method."""

    def __init__(self, child: Child, lender: Lender, options: Options, given_up: Callable[[], bool]) -> None:
        super().__init__(child, options, given_up)
        self._lender, self._allowed = lender, 0
        self.met: set[str] = set()

    def wait_until_ready(self) -> None:
        """Wait until it has imported what it needs; that does not count towards a trial's time.

        Raises:
            Lost, GivenUp: as :meth:`ask`.
        """
        try:
            self.wait(0, _START, time.monotonic() + _START, "")
        except (EOFError, OSError):
            raise self.lost("") from None
        except BadFrame:
            self.child.kill()
            raise Lost(CRASHED, f"its process {NO_ANSWER}", self.child.output()) from None

    def allow(self, threads: int) -> None:
        """Say how many CPU threads its trial may use from now on."""
        if threads != self._allowed:
            self._allowed = threads
            self._lender.allow(threads)

    def close(self) -> None:
        self.child.kill()
        self._lender.close()


class JudgeProcess(Asked):
    """A running judge, and what it has been told."""

    def __init__(self, child: Child, stage: Any, options: Options, given_up: Callable[[], bool]) -> None:
        super().__init__(child, options, given_up)
        self._stage = stage
        self.knows: set[tuple[str, str]] = set()
        self.methods: set[int] = set()

    @property
    def stage(self) -> str:
        """Which plugin it is calling now, as it says."""
        content = os.pread(self._stage.fileno(), 4096, 0)
        size = int.from_bytes(content[:4], "big")
        return content[4 : 4 + size].decode(errors="replace")

    def tell(self, header: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Say something that it does not answer. If it is gone, that shows when it is asked."""
        try:
            self.child.channel.send(encode(header), files)
        except OSError:
            return

    def lost(self, doing: str, before: int | None = None) -> Lost:
        stage = self.stage
        return super().lost(stage if stage not in ("", "asking", "method") else doing, before)

    def too_late(self, limit: float, doing: str) -> Lost:
        return super().too_late(limit, self.stage or doing)

    def close(self) -> None:
        self.child.kill()
        self._stage.close()


class Seat:
    """A slot with its judge and its methods' processes. One thread at a time uses it."""

    def __init__(self, slot: Slot, house: Pool) -> None:
        self.slot, self._house, self._options = slot, house, house.options
        self._judge: JudgeProcess | None = None
        self._methods: OrderedDict[str, MethodProcess] = OrderedDict()
        self._shares, self._at_work = 1, None
        self._metric_deaths: Counter[str] = Counter()

    def allow(self, shares: int) -> None:
        """Let its trial use the CPU threads of so many slots, from now on."""
        self._shares = shares
        at_work: MethodProcess | None = self._at_work
        if at_work is not None:
            at_work.allow(shares * self._options.threads)

    def run(self, trials: Sequence[Trial], busy: int) -> Outcome:
        """Run trials of one cell; whatever happens to the processes, each gets a record of its own.

        Args:
            trials: the group.
            busy: how many slots are at work now, for the records.
        """
        hopeless = self._house.hopeless(trials[0])
        if hopeless is not None:
            return Outcome(tuple(self._record(Record(trial, *hopeless), busy, "shared") for trial in trials))
        with turn(self.slot, self._house.given_up):
            try:
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
        request = {
            "ask": "run",
            "cell": list(dataclasses.astuple(cell)),
            "seed": trials[0].seed,
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
                if self._house.given_up():
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
                allowed = self._house.question if small else limit
                if now >= deadline or (small and now - since >= self._house.question):
                    if not at_method:
                        raise judge.too_late((limit if now >= deadline else allowed) or 0.0, stage)
                    raise process.too_late(
                        (limit if now >= deadline else allowed) or 0.0, "applicable" if stage == "asking" else ""
                    )
        except (EOFError, OSError):
            lost = judge.lost("judge", before)
            self._lose_judge()
            raise lost from None
        except BadFrame:
            self._lose_judge()
            raise Lost(CRASHED, f"the judge {NO_ANSWER}") from None
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
            except Lost:  # the trial is computed; the next ones go singly
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
            setup = Setup(self._house.registry.parcel(method), self.slot.device, self._options.threads)
            child = self._house.nursery.make(
                "worker", setup, files=[lender.reading], libraries=_libraries(method, self.slot.lane),
                environment=self.slot.environment,
            )  # fmt: skip
            lender.handed_over()
            process = self._methods[text] = MethodProcess(child, lender, self._options, self._house.given_up)
            try:
                process.wait_until_ready()
            except (Lost, GivenUp):
                self._forget(process)
                raise
        self._methods.move_to_end(text)
        return process

    def _present_judge(self) -> JudgeProcess:
        if self._house.given_up():
            raise GivenUp
        if self._judge is None:
            stage = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the judge
            child = self._house.nursery.make(
                "judge", self._house.registry.parcel(self._house.registry.metrics()), files=[stage.fileno()],
                environment={**self.slot.environment, "CUDA_VISIBLE_DEVICES": ""},
            )  # fmt: skip
            self._judge = JudgeProcess(child, stage, self._options, self._house.given_up)
            self._judge.ask(({"ask": "start"}, []), _START, "metrics")
        return self._judge

    def _introduce(self, judge: JudgeProcess, known: Sequence[tuple[str, str]]) -> None:
        """Send a judge the plugins that it does not have yet."""
        for kind, text in known:
            if (kind, text) not in judge.knows:
                plugin = getattr(self._house.registry, kind)(text)
                parcel = pickle.dumps(self._house.registry.parcel({(kind, text): plugin}))
                what = f"{kind} {text}"
                frame = judge.ask(({"ask": "know", "what": what}, [np.frombuffer(parcel, np.uint8)]), _START, what)
                if "error" in frame.header:
                    raise Lost(FAILED, f"{what} could not be loaded: {frame.header['error']}")
                judge.knows.add((kind, text))

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


class Pool:
    """The slots of this machine for one run. At its end no process is left."""

    def __init__(
        self, slots: Sequence[Slot], registry: Registry, options: Options, *, elsewhere: bool = False
    ) -> None:
        """
        Args:
            slots: what it consists of.
            registry: where plugins are found.
            options: limits.
            elsewhere: whether the trials were planned on another machine.
        """
        self._elsewhere = elsewhere
        self.registry, self.options = registry, options
        self.stop = Stop()
        self.nursery = Nursery()
        self.batch_sizes: dict[Any, int] = {}
        self.closed = False
        self._changed = threading.Condition()
        self.seats = [Seat(slot, self) for slot in slots]
        # Taken from the end, so that GPUs go in their order and processes that are warm are used before new ones.
        self._free: dict[Lane, list[Seat]] = {"gpu": [], "cpu": []}
        for seat in reversed(self.seats):
            self._free[seat.slot.lane].append(seat)
        self._busy = 0
        #: Where everything is asked that is no trial; it never runs one, and only who has the lock may ask.
        self.questions = Seat(Slot("cpu", "cpu", next(item.environment for item in reversed(slots))), self)
        self.asking = threading.RLock()
        self._fingerprints: dict[str, str | Lost] = {}
        self._hopeless: dict[tuple[str, str], tuple[str, str]] = {}
        self._checked: dict[Any, tuple[str, str] | None] = {}
        self._oom_kills, self._counted = 0, 0.0
        weakref.finalize(self, self.nursery.close)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sizes(self) -> dict[Lane, int]:
        """How many slots each lane has."""
        lanes = [seat.slot.lane for seat in self.seats]
        return {"gpu": lanes.count("gpu"), "cpu": lanes.count("cpu")}

    @property
    def question(self) -> float:
        """Seconds for a small question."""
        return QUESTION if self.options.timeout is None else self.options.timeout

    def headline(self, trial: Trial) -> str:
        """The name of the metric of a trial's dataset."""
        return self.registry.dataset(trial.cell.dataset).metric

    def given_up(self) -> bool:
        """Whether nobody waits for an answer any more."""
        return self.closed or self.stop.now

    def oom_kills(self) -> int:
        """How many processes the kernel had killed; for trials of milliseconds, once a second will do."""
        if time.monotonic() - self._counted > 1:
            self._oom_kills, self._counted = oom_kills(), time.monotonic()
        return self._oom_kills

    # Questions before and beside trials.

    def fingerprint(self, plugin: Plugin) -> str:
        """The fingerprint of a plugin, asked of its own process or a judge, once.

        Raises:
            FingerprintError: if it cannot be had.
        """
        bases = [base for base in (Method, Dataset) if isinstance(plugin, base)]
        if not bases or type(plugin).fingerprint is bases[0].fingerprint:  # type: ignore[attr-defined]
            return ""
        key = f"{bases[0].__name__.lower()} {plugin}"
        with self.asking:
            if key not in self._fingerprints:
                self._fingerprints[key] = self._asked_fingerprint(plugin)
            found = self._fingerprints[key]
        if isinstance(found, Lost):
            raise FingerprintError(found.message)
        return found

    def _asked_fingerprint(self, plugin: Plugin) -> str | Lost:
        seat, doing = self.questions, "fingerprint"
        try:
            if isinstance(plugin, Method):
                frame = seat.ask_method(plugin, ({"ask": "fingerprint"}, []), doing)
            else:
                text = str(plugin)
                header = {"ask": "fingerprint", "dataset": text}
                frame = seat.ask_judge((header, []), doing, self.question, ("dataset", text))
            found = frame.header.get("fingerprint")
            return found if isinstance(found, str) else Lost(FAILED, f"{doing}: {frame.header.get('error')}")
        except Lost as lost:
            return lost
        except RequestError as error:
            return Lost(FAILED, f"{doing}: {error}")

    def doom(self, kind: str, text: str, lost: Lost) -> None:
        """No trial of this method or dataset is worth trying: its processes end before one begins."""
        self._hopeless[kind, text] = lost.status, lost.message

    def hopeless(self, trial: Trial) -> tuple[str, str] | None:
        """Status and reason, where a trial need not be tried."""
        cell = trial.cell
        for key in (("method", cell.method), ("dataset", cell.dataset)):
            if key in self._hopeless:
                return self._hopeless[key]
        if (cell, trial.identity) not in self._checked:
            self._checked[cell, trial.identity] = self._other_plugins(trial)
        return self._checked[cell, trial.identity]

    def _other_plugins(self, trial: Trial) -> tuple[str, str] | None:
        """Why something else would be computed than the trial's key says, or nothing."""
        cell = trial.cell
        try:
            for plugin in (self.registry.method(cell.method), self.registry.dataset(cell.dataset)):
                self.fingerprint(plugin)
            here = cell_identity(self.registry, cell, self.fingerprint)
        except FingerprintError as error:
            return FAILED, str(error)
        except Exception as error:  # a plugin that has gone, or is half written
            return FAILED, one_line(error)
        # A class of the running program has no version that two machines could compare.
        if here != trial.identity and not (self._elsewhere and self.registry.sources.classes):
            place = os.uname().nodename
            return FAILED, f"plugins or data on {place} differ from those the run was planned with; start the run again"
        return None

    # Trials.

    def has_nothing_for(self, queue: Queue) -> bool:
        """Whether every trial of a queue that is served here has been handed out."""
        with self._changed:
            return queue.empty

    def serve(self, queue: Queue) -> Outcome:
        """Run the next group that suits a free slot; nothing if there is none left or a stop was asked for."""
        with self._changed:
            while (leased := self._match(queue)) is None:
                if queue.empty or self.stop.asked or self.closed:
                    return Outcome(())
                self._changed.wait(_LOOK)
            seat, group = leased
            self._busy += 1
            busy = self._busy
            self._share_out(queue)
        try:
            outcome = seat.run(group.trials, busy)
        finally:
            self._release(seat)
        with self._changed:
            if outcome.batch_size is not None:
                queue.learn(group.trials[0], outcome.batch_size)
            self._share_out(queue)
        return outcome

    def run(self, group: Group) -> Outcome:
        """Run one group as soon as its lane has a free slot."""
        lane: Lane = group.lane if self.sizes[group.lane] else "cpu"
        with self._changed:
            while not self._free[lane]:
                if self.stop.asked or self.closed:
                    return Outcome(())
                self._changed.wait(_LOOK)
            seat = self._free[lane].pop()
            self._busy += 1
            busy = self._busy
        try:
            return seat.run(group.trials, busy)
        finally:
            self._release(seat)

    def close(self) -> None:
        """End all processes; who still waits for one gets nothing."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            for seats in self._free.values():
                for seat in seats:
                    seat.close()
            self.questions.close()
            if not self._busy:
                self.nursery.close()

    def _match(self, queue: Queue) -> tuple[Seat, Group] | None:
        if self.stop.asked or self.closed:
            return None
        group = queue.take([lane for lane, seats in self._free.items() if seats])
        return None if group is None else (self._free[group.lane].pop(), group)

    def _share_out(self, queue: Queue) -> None:
        """Lend the threads of CPU slots for which there is nothing left to the trials on the others."""
        busy = [seat for seat in self.seats if seat.slot.lane == "cpu" and seat not in self._free["cpu"]]
        for seat, share in zip(busy, shares(self.sizes["cpu"], len(busy), queue.waits("cpu")), strict=True):
            seat.allow(share)

    def _release(self, seat: Seat) -> None:
        with self._changed:
            self._busy -= 1
            if self.closed:
                seat.close()
                if not self._busy:
                    self.nursery.close()
            self._free[seat.slot.lane].append(seat)
            self._changed.notify_all()


def _reconstruction(header: dict[str, Any], arrays: deque[Any]) -> fields.Reconstruction:
    truth = unpack(header["truth"], arrays)
    return fields.Reconstruction(truth, unpack(header["observation"], arrays), arrays.popleft())


def _libraries(method: Method, lane: Lane) -> list[str]:
    """The heavy libraries that a method's process should have at its start."""
    return [*method.libraries, *(["torch"] if method.uses_gpu and lane == "gpu" else [])]


def _of(doing: str, message: str) -> str:
    return f"{doing}: {message}" if doing else message


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
