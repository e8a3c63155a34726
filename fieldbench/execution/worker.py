"""The program of a method's process: it holds one method, and is told no more than the method may know.

It answers what it is asked over one socket. What the method prints goes to a pipe, and whatever else it writes
anywhere reaches nobody. Trials and the fits of :func:`fieldbench.complete` are served alike.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from fieldbench.errors import in_one_line, one_line
from fieldbench.estimate import Estimate, as_estimate, as_field_array
from fieldbench.execution.frames import (
    BadFrame,
    Channel,
    Frame,
    encode,
    pack,
    pack_estimate,
    unpack,
    unpack_estimate,
)
from fieldbench.execution.thread_budget import ThreadBudget
from fieldbench.field import Observation
from fieldbench.judging import Task, failure
from fieldbench.method import Method
from fieldbench.records import FAILED, NOT_APPLICABLE, OK, OUT_OF_MEMORY
from fieldbench.sources import Parcel
from fieldbench.spec import format_value, parse_value

#: Where it is told how many threads it may use. Descriptors 0 to 2 are the usual ones, 3 is the socket, and 4 tells of
#: the parent's end.
THREADS = 5

#: What a trial may have come to as its method's process has it, and what it may say of it.
STATUSES = (OK, FAILED, NOT_APPLICABLE, OUT_OF_MEMORY)
DIAGNOSTICS = ("traceback", "threads", "peak_gpu_memory", "of_the_machine")

#: Numbers that may come with a report.
MOST_NUMBERS = 100

#: Trials that are computed at once at most.
MOST_AT_ONCE = 1 << 16

Reply = tuple[dict[str, Any], Sequence[Any]]


@dataclass(frozen=True)
class Setup:
    """What a method's process is made of: the method, its device, and how many CPU threads it may use at first."""

    method: Parcel
    device: str
    threads: int


def fit_request(what: str, tasks: Sequence[Task]) -> Reply:
    """Header and arrays that ask something about some tasks, such as to ``complete`` them."""
    packed = [pack(task.observation) for task in tasks]
    header = {
        "ask": what,
        "observations": [header for header, _ in packed],
        "seeds": [task.seed for task in tasks],
        "every": [task.every for task in tasks],
        "values": [{key: format_value(value) for key, value in task.values.items()} for task in tasks],
    }
    return header, [array for _, arrays in packed for array in arrays]


def checked_report(frame: Frame, every: Sequence[int], shape: tuple[int, ...]) -> Reply:
    """What a method's process reported, for the judge.

    Args:
        frame: what came.
        every: of each task, steps between the reports that it was asked for; 0 for none.
        shape: of the field.

    Raises:
        BadFrame: if it is not a report.
    """
    header = frame.header
    try:
        index, step = operator.index(header["report"]), operator.index(header["step"])
        wanted = 0 <= index < len(every) and every[index] > 0
        numbers = {str(name): float(value) for name, value in header["numbers"].items()}
        (estimate,) = _estimates(frame, [header["estimate"]])
        if not estimate.is_sure_of_nothing:  # a mean alone need not be finite
            estimate = estimate.checked(np.ones(shape, dtype=bool))
    except Exception:
        raise BadFrame from None
    if not wanted or np.shape(estimate.mean) != shape or len(numbers) > MOST_NUMBERS:
        raise BadFrame
    about, arrays = pack_estimate(estimate)
    return {"ask": "report", "report": index, "step": step, "numbers": numbers, "estimate": about}, arrays


def checked_answer(frame: Frame, tasks: int) -> Reply:
    """What a method's process answered, for the judge; the numbers of its estimates are not looked at.

    Raises:
        BadFrame: if it is not an answer.
    """
    header = frame.header
    status, error, said = header.get("status"), header.get("error", ""), header.get("diagnostics", {})
    texts = isinstance(status, str) and isinstance(error, str) and isinstance(said, dict)
    if not texts or status not in STATUSES:
        raise BadFrame
    try:
        packed = [pack_estimate(estimate) for estimate in _estimates(frame, header.get("estimates", ()))]
    except Exception:
        raise BadFrame from None
    if len(packed) != (tasks if status == OK else 0):
        raise BadFrame
    known = {name: said[name] for name in DIAGNOSTICS if name in said}
    answer = {"ask": "answer", "status": status, "error": error, "diagnostics": known}
    return {**answer, "estimates": [about for about, _ in packed]}, [part for _, parts in packed for part in parts]


def _estimates(frame: Frame, headers: Sequence[Mapping[str, Any]]) -> list[Estimate]:
    """The estimates that make up a frame's arrays.

    Raises:
        BadFrame: if some arrays belong to none.
    """
    arrays = deque(frame.arrays)
    found = [unpack_estimate(header, arrays) for header in headers]
    if arrays:
        raise BadFrame
    return found


def main(setup: Setup, channel: Channel) -> None:
    """Serve until the socket is closed."""
    try:
        method: Method | None = setup.method.open()
        reason = ""
    except Exception as error:
        method, reason = None, f"its plugin could not be loaded: {one_line(error)}"
    channel.send(encode({"id": 0}))  # ready
    lock = threading.Lock()

    def tell(header: Mapping[str, Any], arrays: Sequence[Any] = ()) -> None:
        with lock:  # the method may report from any thread
            channel.send(encode(header, arrays))

    desk = Desk(method, reason, setup.device, ThreadBudget(THREADS, setup.threads), tell)
    here = os.getpid()
    while True:
        try:
            frame = channel.receive()
        except EOFError:
            os._exit(0)
        header, arrays = desk.reply(frame)
        if os.getpid() != here:  # a copy of this process, which the method has made; it has no say
            os._exit(0)
        tell({**header, "id": frame.header["id"]}, arrays)


class Desk:
    """Answers questions to one method."""

    def __init__(
        self,
        method: Method | None,
        reason: str = "",
        device: str = "cpu",
        threads: Callable[[], int] = lambda: 1,
        tell: Callable[[Mapping[str, Any], Sequence[Any]], None] = lambda header, arrays: None,
    ) -> None:
        """
        Args:
            method: whom to ask; none where it could not be had, for the reason given.
            reason: see there.
            device: where it may work.
            threads: tells how many CPU threads it may use now.
            tell: is given header and arrays of what comes before an answer.
        """
        self._method, self._reason, self._allowed, self.tell = method, reason, threads, tell
        self._most_threads = 1
        self._device = device if method is not None and method.uses_gpu else "cpu"

    def reply(self, frame: Frame) -> Reply:
        """Header and arrays of the answer to a question."""
        if self._method is None:
            return {"status": FAILED, "error": self._reason, "diagnostics": {"of_the_machine": True}}, []
        questions: dict[str, Callable[[Method, Frame], Reply]] = {
            "complete": self._complete,
            "suits": self._suits,
            "batch size": self._batch_size,
            "fingerprint": self._fingerprint,
            "attention": self._attention,
        }
        try:
            return questions[frame.header["ask"]](self._method, frame)
        except Exception as error:
            status, message, diagnostics = failure(error)
            return {"status": status, "error": message, "diagnostics": diagnostics}, []

    def _complete(self, method: Method, frame: Frame) -> Reply:
        observations, seeds = _observations(frame), frame.header["seeds"]
        if values := frame.header["values"][0]:
            method = method.with_values({key: parse_value(text) for key, text in values.items()})
        reasons = [_applicable(method, observation) for observation in observations]
        if any(reason is not None for reason in reasons):
            if len(observations) > 1:
                raise ValueError("some trials of the batch are not applicable")
            return {"status": NOT_APPLICABLE, "error": reasons[0]}, []
        method.check_shape(observations[0].shape)
        self._began(frame)
        reports = [
            _Report(self, frame.header["id"], index, every, observations[0].shape)
            for index, every in enumerate(frame.header["every"])
        ]
        how: dict[str, Any] = {"device": self._device}
        if len(observations) == 1:
            made = [method.complete(observations[0], seed=seeds[0], report=reports[0], **how)]
        else:
            made = list(method.complete_batch(observations, seeds=seeds, reports=reports, **how))
            if len(made) != len(observations):
                raise ValueError(f"complete_batch returned {len(made)} fields for {len(observations)} observations")
        packed = [
            pack_estimate(as_estimate(estimate).checked(observation.valid))
            for estimate, observation in zip(made, observations, strict=True)
        ]
        for report in reports:
            report.close()
        header = {"status": OK, "diagnostics": self._diagnostics(), "estimates": [about for about, _ in packed]}
        return header, [array for _, arrays in packed for array in arrays]

    def _suits(self, method: Method, frame: Frame) -> Reply:
        (observation,) = _observations(frame)
        reason = _applicable(method, observation)
        if reason is None:
            try:
                method.check_shape(observation.shape)
            except ValueError as error:
                return {"status": OK, "contradiction": one_line(error).partition(": ")[2] or one_line(error)}, []
        return {"status": OK, "reason": reason}, []

    def _batch_size(self, method: Method, frame: Frame) -> Reply:
        found = method.batch_size(tuple(frame.header["shape"]), self._device)
        size = operator.index(found) if isinstance(found, SupportsIndex) else 0
        if size < 1:
            raise ValueError(f"batch_size returned {found!r:.60}; it should return a whole number of at least 1")
        return {"status": OK, "size": min(size, MOST_AT_ONCE)}, []

    def _fingerprint(self, method: Method, frame: Frame) -> Reply:
        return {"status": OK, "fingerprint": as_fingerprint(method.fingerprint())}, []

    def _attention(self, method: Method, frame: Frame) -> Reply:
        (observation,), (seed,) = _observations(frame), frame.header["seeds"]
        made = method.attention(observation, seed=seed, device="cpu")  # type: ignore[attr-defined]
        return {"status": OK}, [as_field_array(made)]

    def _began(self, frame: Frame) -> None:
        """Say that the small questions are answered and the work begins."""
        self.tell({"id": frame.header["id"], "began": True}, [])

    @property
    def threads(self) -> int:
        """CPU threads that the method may use now; the most that it was ever told is kept."""
        threads = self._allowed()
        self._most_threads = max(self._most_threads, threads)
        return threads

    def _diagnostics(self) -> dict[str, Any]:
        found: dict[str, Any] = {"threads": self._most_threads}
        self._most_threads = 1
        torch = sys.modules.get("torch")
        if self._device.startswith("cuda") and torch is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize(self._device)
            found["peak_gpu_memory"] = int(torch.cuda.max_memory_allocated(self._device))
            torch.cuda.reset_peak_memory_stats(self._device)
        return found


class _Report:
    """What a method is given to report to."""

    def __init__(self, desk: Desk, request: str, index: int, every: int, shape: tuple[int, ...]) -> None:
        self._desk, self._request, self._index, self._every, self._shape = desk, request, index, every, shape
        self._open = True

    @property
    def threads(self) -> int:
        return self._desk.threads

    def due(self, step: int) -> bool:
        return self._every > 0 and step % self._every == 0

    def __call__(self, step: int, estimate: ArrayLike | Estimate, **diagnostics: Any) -> None:
        given = as_estimate(estimate)
        mean = as_field_array(given.mean)
        if mean.shape != self._shape:
            raise ValueError(f"report() was given shape {mean.shape}, the field has {self._shape}")
        numbers = {name: float(value) for name, value in diagnostics.items()}
        if self._open and self._every:
            sound = np.isfinite(mean).all() and not given.is_sure_of_nothing
            about, arrays = pack_estimate(given.checked(np.isfinite(mean)) if sound else Estimate(mean))
            header = {"id": self._request, "report": self._index, "step": operator.index(step), "numbers": numbers}
            self._desk.tell({**header, "estimate": about}, arrays)

    def close(self) -> None:
        """The answer is made; nothing more is to be reported."""
        self._open = False


def as_fingerprint(value: Any) -> str:
    """What a plugin's ``fingerprint`` returned.

    Raises:
        ValueError: if it is not a text.
    """
    if not isinstance(value, str):
        raise ValueError(f"fingerprint returned {value!r:.60}; it should return a text")
    return str(value)


def _applicable(method: Method, observation: Observation) -> str | None:
    reason = method.applicable(observation)
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"applicable returned {reason!r:.60}; it should return None or a text")
    return in_one_line(reason) or None if reason else None


def _observations(frame: Frame) -> list[Observation]:
    arrays = deque(frame.arrays)
    return [unpack(header, arrays) for header in frame.header["observations"]]
