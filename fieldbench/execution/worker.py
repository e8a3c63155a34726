"""The program of a method's process: it holds one method, and is told no more than the method may know.

It answers what it is asked over one socket. What the method prints goes to a pipe, and whatever else it writes
anywhere reaches nobody. Trials and the fits of :func:`fieldbench.complete` are served alike.
"""

from __future__ import annotations

import operator
import os
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, InstanceOf, TypeAdapter, ValidationError
from pydantic import Field as Limited
from typing_extensions import TypedDict

from fieldbench.errors import in_one_line, one_line
from fieldbench.estimate import Estimate, as_estimate, as_field_array
from fieldbench.execution.frames import BadFrame, Channel, Frame, encode
from fieldbench.execution.shared_text import DESCRIPTOR, SharedText
from fieldbench.field import Observation
from fieldbench.judging import Task, failure
from fieldbench.method import Method
from fieldbench.records import NOT_APPLICABLE, OK
from fieldbench.sources import Parcel

#: Trials that are computed at once at most.
MOST_AT_ONCE = 1 << 16


class _Diagnostics(TypedDict, total=False):
    """What a method's process may say of a trial beside estimates."""

    traceback: str
    threads: int
    peak_gpu_memory: int
    of_the_machine: bool


class _Answer(TypedDict, total=False):
    status: Literal["ok", "failed", "not-applicable", "out-of-memory"]
    error: str
    diagnostics: _Diagnostics
    estimates: list[InstanceOf[Estimate]]
    #: How many such trials are worth computing at once.
    size: Annotated[int, Limited(ge=1)]


class _Reported(TypedDict):
    __pydantic_config__ = ConfigDict(strict=True)  # type: ignore[misc]

    report: Annotated[int, Limited(ge=0)]
    step: int
    numbers: Annotated[dict[str, float], Limited(max_length=100)]
    estimate: InstanceOf[Estimate]


_ANSWER: TypeAdapter[Any] = TypeAdapter(_Answer)
_REPORTED: TypeAdapter[Any] = TypeAdapter(_Reported)


def checked_report(frame: Frame, tasks: Sequence[Task]) -> Frame:
    """What a method's process reported, for the judge.

    Raises:
        BadFrame: if it is not a report on one of the tasks, or none was asked for.
    """
    try:
        said = _REPORTED.validate_python(frame)
        task, estimate = tasks[said["report"]], said["estimate"]
        if not estimate.is_sure_of_nothing:  # a mean alone need not be finite
            estimate = estimate.checked(np.ones(task.observation.shape, dtype=bool))
        wanted = task.every > 0 and estimate.mean.shape == task.observation.shape
    except Exception:
        raise BadFrame from None
    if not wanted:
        raise BadFrame
    return {**said, "ask": "report", "estimate": estimate}


def checked_answer(frame: Frame, tasks: Sequence[Task]) -> Frame:
    """What a method's process answered, for the judge; the numbers of its estimates are not looked at.

    Raises:
        BadFrame: if it is not an answer.
    """
    try:
        said = {"error": "", "diagnostics": {}, "estimates": [], **_ANSWER.validate_python(frame, strict=True)}
    except ValidationError:
        raise BadFrame from None
    done = said.setdefault("status", "") == OK
    if not said["status"] or len(said["estimates"]) != (len(tasks) if done else 0):
        raise BadFrame
    reason = "" if done else in_one_line(said["error"]) or "its process gave no reason"
    return {**said, "ask": "answer", "error": reason}


def main(channel: Channel) -> None:
    """Serve a method."""
    lock = threading.Lock()

    def tell(said: Frame) -> None:
        with lock:  # the method may report from any thread
            channel.send(encode(said))

    threads = SharedText(DESCRIPTOR)
    desk = Desk(threads=lambda: int(threads.read()), tell=tell)
    here = os.getpid()
    while True:
        frame = channel.receive()
        reply = desk.reply(frame)
        if os.getpid() != here:  # a copy of this process, which the method has made; it has no say
            os._exit(0)
        tell({**reply, "id": frame["id"]})


class Desk:
    """Answers questions to one method, which is given or the first to be loaded.

    ``threads`` tells how many CPU threads it may use now, and ``tell`` is given what comes before an answer.
    """

    def __init__(
        self,
        method: Method | None = None,
        device: str = "cpu",
        threads: Callable[[], int] = lambda: 1,
        tell: Callable[[Frame], None] = lambda said: None,
    ) -> None:
        self._allowed, self.tell, self._most_threads = threads, tell, 1
        if method is not None:
            self._take(method, device)

    def _take(self, method: Method, device: str) -> None:
        self._method, self._device = method, device if method.uses_gpu else "cpu"

    def reply(self, frame: Frame) -> Frame:
        """The answer to a question."""
        try:
            return {"status": OK, **getattr(self, f"_{frame['ask']}")(frame)}
        except Exception as error:
            status, message, diagnostics = failure(error)
            return {"status": status, "error": message, "diagnostics": diagnostics}

    def _load(self, frame: Frame) -> Frame:
        self._take(opened(frame), frame["device"])
        return {}

    def _complete(self, frame: Frame) -> Frame:
        tasks: list[Task] = frame["tasks"]
        method = self._method
        observations, seeds = [task.observation for task in tasks], [task.seed for task in tasks]
        if tasks[0].values:
            method = method.with_values(tasks[0].values)
        reasons = [_applicable(method, observation) for observation in observations]
        if any(reason is not None for reason in reasons):
            if len(tasks) > 1:
                raise ValueError("some trials of the batch are not applicable")
            return {"status": NOT_APPLICABLE, "error": reasons[0]}
        method.check_shape(observations[0].shape)
        size = {"size": self._batch_size(method, observations[0].shape)} if len(tasks) == 1 else {}
        self.tell({"id": frame["id"], "began": True})  # the small questions are answered, the work begins
        reports = [_Report(self, frame["id"], index, task) for index, task in enumerate(tasks)]
        how: dict[str, Any] = {"device": self._device}
        if len(tasks) == 1:
            made = [method.complete(observations[0], seed=seeds[0], report=reports[0], **how)]
        else:
            made = list(method.complete_batch(observations, seeds=seeds, reports=reports, **how))
            if len(made) != len(tasks):
                raise ValueError(f"complete_batch returned {len(made)} fields for {len(tasks)} observations")
        estimates = [  # by the base class, whatever a subclass would say of itself
            Estimate.checked(as_estimate(one), task.observation.valid) for one, task in zip(made, tasks, strict=True)
        ]
        for report in reports:
            report.open = False
        return {"diagnostics": self._diagnostics(), "estimates": estimates, **size}

    def _suits(self, frame: Frame) -> Frame:
        (task,) = frame["tasks"]
        reason = _applicable(self._method, task.observation)
        if reason is None:
            try:
                self._method.check_shape(task.observation.shape)
            except ValueError as error:
                return {"contradiction": one_line(error).partition(": ")[2] or one_line(error)}
        return {"reason": reason}

    def _batch_size(self, method: Method, shape: tuple[int, ...]) -> int:
        found = method.batch_size(shape, self._device)
        size = operator.index(found) if isinstance(found, SupportsIndex) else 0
        if size < 1:
            raise ValueError(f"batch_size returned {found!r:.60}; it should return a whole number of at least 1")
        return min(size, MOST_AT_ONCE)

    def _fingerprint(self, frame: Frame) -> Frame:
        return {"fingerprint": as_fingerprint(self._method.fingerprint())}

    def _attention(self, frame: Frame) -> Frame:
        (task,) = frame["tasks"]
        made = self._method.attention(task.observation, seed=task.seed, device="cpu")  # type: ignore[attr-defined]
        return {"map": as_field_array(made)}

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

    def __init__(self, desk: Desk, request: int, index: int, task: Task) -> None:
        self._desk, self._request, self._index = desk, request, index
        self._every, self._shape = task.every, task.observation.shape
        #: Whether the answer is not made yet; afterwards nothing more is reported.
        self.open = True

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
        if self.open and self._every:
            sound = np.isfinite(mean).all() and not given.is_sure_of_nothing
            made = Estimate.checked(given, np.isfinite(mean)) if sound else Estimate(mean)
            about = {"report": self._index, "step": operator.index(step), "numbers": numbers}
            self._desk.tell({"id": self._request, **about, "estimate": made})


def opened(frame: Frame) -> Any:
    """The plugins that came with a question.

    Raises:
        Exception: whatever the import of their modules raises.
    """
    parcel: Parcel = pickle.loads(frame["parcel"].tobytes())
    return parcel.open()


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
