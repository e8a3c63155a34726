"""Fitting methods one after the other, each in its own process, and stopping one that takes too long."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from fieldbench.errors import RequestError
from fieldbench.estimate import Estimate
from fieldbench.execution import Options, Pool, slots
from fieldbench.execution.frames import Frame, unpack_estimate
from fieldbench.execution.processes import Lost
from fieldbench.execution.worker import Reply, fit_request
from fieldbench.field import FloatArray, Observation
from fieldbench.judging import Task
from fieldbench.records import OK, TIMEOUT
from fieldbench.registry import Registry

#: Bytes of an answer: estimate and deviation of a field that fits into memory several times over.
_LARGEST = 1 << 33


@dataclass(frozen=True)
class Fit:
    """What came of a fit.

    Attributes:
        made: the estimate, or None if there is none.
        seconds: how long it took.
        error: why there is no estimate, in one line.
        late: whether it was stopped because its time was up.
    """

    made: Estimate | None
    seconds: float
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


class Bench:
    """Fits methods in processes of their own. Use it in a ``with`` statement; at its end they are gone."""

    def __init__(self, registry: Registry, options: Options) -> None:
        """
        Args:
            registry: where methods are found.
            options: the device, and how many threads a process may use; the first slot is taken.
        """
        places = slots(options)
        self._registry, self._pool = registry, Pool(places, registry, options)
        self._workers = {worker.slot.lane: worker for worker in reversed(self._pool.workers)}

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def fit(self, method: str, observation: Observation, seed: int, *, limit: float | None = None) -> Fit:
        """Fit a method, for at most ``limit`` seconds (starting its process does not count)."""
        task = fit_request("complete", [Task(observation, seed, 0)])
        seconds = 1e9 if limit is None else limit
        start = time.monotonic()
        try:
            start, frame = self._asked(method, task, seconds)
        except Lost as lost:
            spent = time.monotonic() - start
            if lost.status == TIMEOUT:
                return Fit(None, spent, f"took longer than {seconds:.0f} s", late=True)
            return Fit(None, spent, lost.message)
        return _fit(frame, observation, time.monotonic() - start)

    def unsuited(self, method: str, observation: Observation) -> str | None:
        """Why a method cannot work on an observation, or None if it can.

        Raises:
            RequestError: if it cannot be asked.
        """
        if refits := self._registry.refits(method):
            return f"{method}: +{refits[0].name} works in trials only, which withhold by a sampler; leave it out"
        try:
            _, frame = self._asked(method, fit_request("suits", [Task(observation, 0, 0)]), self._pool.question)
        except Lost as lost:
            raise RequestError(f"{method}: {lost.message}") from None
        reasons = (frame.header.get(name) for name in ("reason", "contradiction", "error"))
        return next((str(reason) for reason in reasons if reason), None)

    def _asked(self, method: str, what: Reply, limit: float) -> tuple[float, Frame]:
        plugin = self._registry.method(method)
        worker = self._workers.get("gpu" if plugin.uses_gpu else "cpu", self._workers["cpu"])
        worker.ready(plugin)
        return time.monotonic(), worker.ask_method(plugin, what, "", limit, largest=_LARGEST)


def _fit(frame: Frame, observation: Observation, seconds: float) -> Fit:
    if frame.header.get("status") != OK:
        return Fit(None, seconds, str(frame.header.get("error")))
    try:
        (about,) = frame.header["estimates"]
        return Fit(unpack_estimate(about, deque(frame.arrays)).checked(observation.valid), seconds)
    except (ValueError, KeyError, IndexError) as error:
        return Fit(None, seconds, str(error))
