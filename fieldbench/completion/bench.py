"""Fitting methods, each in its own process, several at once, and stopping one that takes too long."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.execution import Options, Pool, slots
from fieldbench.execution.frames import Frame
from fieldbench.execution.processes import Lost, clock
from fieldbench.execution.slot import WorkerSlot
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import Task
from fieldbench.records import OK, TIMEOUT
from fieldbench.registry import Registry

#: Bytes of an answer: estimate and deviation of a field that fits into memory several times over.
_LARGEST = 1 << 33
#: Seconds of a fit without a limit.
_FOREVER = 1e9
#: Entries of a field of which a slot keeps no process: what one has of it, several times over, is given back at once.
_LARGE = 300_000
#: How many seconds of wall-clock time a second of a limit is worth, on a machine that others use too.
_PATIENCE = 4.0

T = TypeVar("T")


@dataclass(frozen=True)
class FitResult:
    """What came of a fit.

    Attributes:
        made: the estimate, or None if there is none.
        seconds: processor time that it took, of all threads.
        wall: wall-clock time that it took.
        error: why there is no estimate, in one line.
        late: whether it was stopped because its time was up.
    """

    made: Estimate | None
    seconds: float
    wall: float
    error: str = ""
    late: bool = False

    @property
    def estimate(self) -> FloatArray | None:
        """The completed field, or None if there is none."""
        return None if self.made is None else self.made.mean

    @property
    def deviation(self) -> FloatArray | None:
        """Standard deviation of each entry in the field's unit, or None."""
        return None if self.made is None else self.made.spread()

    @property
    def charged(self) -> float:
        """What it counts in a budget: processor time, or part of a time in which it mostly waited."""
        return max(self.seconds, self.wall / _PATIENCE)


class Bench(contextlib.AbstractContextManager["Bench"]):
    """Fits methods in processes of their own. Use it in a ``with`` statement; at its end they are gone."""

    def __init__(self, registry: Registry, options: Options) -> None:
        """
        Args:
            registry: where methods are found.
            options: the device, how many fits run at once, and how many threads each may use.
        """
        self._registry, self._pool = registry, Pool(slots(options), registry, options)
        self._free: dict[str, SimpleQueue[WorkerSlot]] = {}
        for worker in self._pool.workers:
            self._free.setdefault(worker.slot.lane, SimpleQueue()).put(worker)
        #: How many fits run at once.
        self.width = len(self._pool.workers)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; fits that run now come back without an estimate."""
        self._pool.close()

    def fit(self, method: str, observation: Observation, seed: int, *, limit: float | None = None) -> FitResult:
        """Fit a method, for at most ``limit`` seconds of processor time, and a few times as much of wall-clock time.

        Starting its process does not count.

        Args:
            method: a spec.
            observation: what the method gets.
            seed: of the method.
            limit: seconds of processor time; no limit where None.
        """
        patience, task = _FOREVER if limit is None else _PATIENCE * limit, Task(observation, seed, 0)
        with self._lent(method, observation) as worker:
            start, before = clock(), 0.0
            try:
                process = worker.ready(method)
                before, start = _processor_time(process), clock()
                _allow(process, before + patience / _PATIENCE)
                frame = worker.ask_method(method, {"ask": "complete", "tasks": [task]}, "", patience, largest=_LARGEST)
            except Lost as lost:
                wall = clock() - start
                if lost.status == TIMEOUT or "SIGXCPU" in lost.message:
                    return FitResult(None, limit or wall, wall, f"took longer than {limit:.0f} s", late=True)
                return FitResult(None, wall, wall, lost.message)
            return _fit(frame, task.observation, _processor_time(process) - before, clock() - start)

    def pointwise(self, method: str) -> bool:
        """Whether a method predicts each entry from the observed ones alone, so that few can be asked for."""
        return self._registry.method(method).pointwise

    def unsuited(self, method: str, observation: Observation) -> str | None:
        """Why a method cannot work on an observation, or None if it can.

        Raises:
            RequestError: if it cannot be asked.
        """
        if refits := self._registry.refits(method):
            return f"{method}: +{refits[0].name} works in trials only, which withhold by a sampler; leave it out"
        question = {"ask": "suits", "tasks": [Task(observation, 0, 0)]}
        try:
            with self._lent(method, observation) as worker:
                frame = worker.ask_method(method, question, "", self._pool.question, largest=_LARGEST)
        except Lost as lost:
            raise RequestError(f"{method}: {lost.message}") from None
        reasons = (frame.get(name) for name in ("reason", "contradiction", "error"))
        return next((str(reason) for reason in reasons if reason), None)

    @contextlib.contextmanager
    def _lent(self, method: str, observation: Observation) -> Iterator[WorkerSlot]:
        free = self._free.get("gpu" if self._registry.method(method).uses_gpu else "cpu", self._free["cpu"])
        worker = free.get()
        try:
            yield worker
        finally:
            if observation.mask.size > _LARGE:
                worker.close()
            free.put(worker)


def at_once(bench: Bench, work: Callable[[str], T], methods: Sequence[str]) -> list[T]:
    """Do work for each method, as many at once as a bench has slots; what came of it, in order.

    Args:
        bench: where the work fits or asks methods; closed if the work raises.
        work: is given one method, in a thread.
        methods: specs.
    """
    with ThreadPoolExecutor(bench.width) as threads:
        try:
            return list(threads.map(work, methods))
        except BaseException:
            # Ctrl-C, for one, is not to wait for what is under way.
            threads.shutdown(wait=False, cancel_futures=True)
            bench.close()
            raise


def _processor_time(process: int) -> float:
    """Seconds of processor time that a process has used; 0 where it is gone."""
    import psutil

    try:
        used = psutil.Process(process).cpu_times()
    except psutil.Error:
        return 0.0
    return float(used.user + used.system)


def _allow(process: int, seconds: float) -> None:
    """Have the system end a process when it has used these seconds of processor time, where it can do that."""
    import psutil

    limit = getattr(psutil, "RLIMIT_CPU", None)
    if limit is not None:
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(process)
            own.rlimit(limit, (math.ceil(min(seconds, _FOREVER)), own.rlimit(limit)[1]))


def _fit(frame: Frame, observation: Observation, seconds: float, wall: float) -> FitResult:
    if frame.get("status") != OK:
        return FitResult(None, seconds, wall, str(frame.get("error")))
    try:
        (made,) = frame["estimates"]
        return FitResult(made.checked(observation.valid), seconds, wall)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return FitResult(None, seconds, wall, str(error))
