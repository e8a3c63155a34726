"""Processes as the parent sees them: one question at a time, each with a time limit, and what became of who was asked.

The parent owns every process and every limit. It believes nothing that comes up but frames (see
:mod:`fieldbench.execution.frames`), and it calls no plugin.
"""

from __future__ import annotations

import math
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pickle import dumps
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fieldbench.errors import in_one_line, one_line
from fieldbench.execution.forkserver import start
from fieldbench.execution.frames import BadFrame, Frame, encode
from fieldbench.execution.machine import oom_kills, resident_memory
from fieldbench.execution.shared_text import SharedText
from fieldbench.field import Mask
from fieldbench.records import CRASHED, FAILED, OUT_OF_MEMORY, TIMEOUT

if TYPE_CHECKING:
    from fieldbench.execution.pool import Pool

#: Seconds between looks at a working process: for its deadline and end, and for its memory if that is limited.
LOOK, _LOOK_AT_MEMORY = 0.2, 0.02

#: Seconds at most between two looks at the clock, unless this program was stopped.
_MOMENT = 1.0

#: What is said of a process whose frame cannot be an answer.
NO_ANSWER = "sent something that is not an answer"


class Lost(Exception):
    """A process ended before it answered: status, message and diagnostics as a record has them, and the stage, such as
    ``dataset ssf``.
    """

    def __init__(self, status: str, message: str, stage: str = "", **diagnostics: str | bool) -> None:
        self.status, self.message, self.stage, self.diagnostics = status, message, stage, diagnostics

    def __str__(self) -> str:
        return self.message


class GivenUp(Exception):
    """The caller no longer wants the answer."""


class _Clock:
    """Seconds that this program has waited for processes. It stands still while nobody looks for longer than a moment:
    the program was stopped then, as by Ctrl-Z.
    """

    def __init__(self) -> None:
        self._lock, self._seconds, self._looked = threading.Lock(), 0.0, 0.0

    def __call__(self) -> float:
        with self._lock:
            now = time.monotonic()
            self._seconds += min(now - self._looked, _MOMENT)
            self._looked = now
            return self._seconds


#: The clock of all limits.
clock = _Clock()


@dataclass(frozen=True)
class Limit:
    """Seconds that something may take, and when on the clock of this program they are over."""

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float | None) -> Limit:
        """A limit that begins now; none for None."""
        seconds = math.inf if seconds is None else seconds
        return cls(seconds, clock() + seconds)


class Process:
    """A new process, the way it is asked, and the plugins that it has been handed.

    Starting one raises ``GivenUp`` as :meth:`ask`.
    """

    called: ClassVar[str] = "its process"
    program: ClassVar[str]

    def __init__(
        self, pool: Pool, given_up: Callable[[], bool], environment: Mapping[str, str], libraries: Sequence[str] = ()
    ) -> None:
        if given_up():
            raise GivenUp
        self._pool, self._given_up, self.note = pool, given_up, SharedText()
        self.child = start(self.program, pool.loading, self.note.descriptor, libraries, environment, pool.arguments)
        self.number = self._oom_kills = 0
        self._knows: set[tuple[str, str]] = set()

    def load(self, kind: str, text: str, plugins: Callable[[], Any], **how: str) -> None:
        """Hand plugins over, which it has not yet; that does not count towards a trial's time.

        Args:
            kind, text: what they are known by there.
            plugins: gives one, or what holds several; not asked where the process has them.
            how: what else there is to say.

        Raises:
            Lost, GivenUp: as :meth:`ask`, and if they cannot be had there.
        """
        if (kind, text) in self._knows:
            return
        what = f"{kind} {text}".strip()
        try:
            parcel = np.frombuffer(dumps(self._pool.registry.parcel(plugins())), np.uint8)
        except Exception as error:
            raise Lost(FAILED, f"{what} cannot be sent to its process: {one_line(error)}", what) from None
        question = {"ask": "load", "kind": kind, "text": text, "what": what, "parcel": parcel, **how}
        frame = self.ask(question, Limit.of(self._pool.loading), what)
        if "error" in frame:
            reason = in_one_line(f"{what} could not be loaded: {frame['error']}")
            raise self.blamed(Lost(FAILED, reason, what, of_the_machine=True))
        self._knows.add((kind, text))

    @property
    def usable(self) -> bool:
        """Whether it can be asked, and nothing came that nobody asked for."""
        return not self.child.killed and self.child.exit_code() is None and not self.child.channel.has_rest

    def ask(self, what: Mapping[str, Any], limit: Limit, doing: str) -> Frame:
        """Ask, and wait for the answer.

        Args:
            what, limit: the question, and the limit of all of it.
            doing: what is asked, for messages.

        Raises:
            Lost: if there is none; the process is gone then.
            GivenUp: if the caller's wish to stop came first; the process is gone too.
        """
        self.number = secrets.randbits(52)  # nobody can answer what was not asked yet
        self._oom_kills = oom_kills()
        try:
            self.child.channel.send(encode({**what, "id": self.number}), lambda: self._keep_on(limit, doing))
        except (EOFError, OSError):
            raise self._lost(doing) from None
        return self.answer(limit, doing)

    def answer(self, limit: Limit, doing: str) -> Frame:
        """Wait for what is still to come to the last question; as :meth:`ask`."""
        look = LOOK if self._pool.options.memory_limit is None else _LOOK_AT_MEMORY
        try:
            while True:
                frame = self.child.channel.poll(min(look, limit.end - clock()))
                if frame is None or clock() > limit.end:  # whatever it sends, its time is up
                    self._keep_on(limit, doing)
                if frame is not None and frame.get("id") != self.number:
                    raise BadFrame
                if frame is not None:
                    return frame
        except (EOFError, OSError):
            raise self._lost(doing) from None
        except BadFrame:
            raise self.no_answer(doing) from None

    def blamed(self, lost: Lost) -> Lost:
        """The same, with those named that may be behind it."""
        return lost

    def no_answer(self, doing: str = "") -> Lost:
        """End it, as what it sent is not an answer."""
        return self._ended(CRASHED, f"{self.called} {NO_ANSWER}", doing)

    def close(self) -> None:
        """End it."""
        self.child.kill()

    def _ended(self, status: str, message: str, doing: str) -> Lost:
        """End it, and say why."""
        stage = self._stage(doing)
        self.child.kill()
        output = self.child.output()
        said = {"output": output} if output else {}
        return self.blamed(Lost(status, f"{stage}: {message}" if stage else message, stage, **said))

    def _stage(self, doing: str) -> str:
        return doing

    def _keep_on(self, limit: Limit, doing: str) -> None:
        """
        Raises:
            Lost, GivenUp, EOFError: if nothing is to be waited for any more.
        """
        if self._given_up():
            self.child.kill()
            raise GivenUp
        if self.child.exit_code() is not None:  # a grandchild can keep the socket open after its end
            raise EOFError
        allowed = self._pool.options.memory_limit
        if allowed is not None and resident_memory(self.child.pid) > allowed:
            message = f"used more than the {_readable(allowed)} that --memory-limit allows"
            raise self._ended(OUT_OF_MEMORY, message, doing)
        if clock() >= limit.end:
            self.child.signal(signal.SIGUSR1)  # it prints where it was, unless it is past that
            time.sleep(0.1)
            whose = "that --timeout allows" if limit.seconds == self._pool.options.timeout else "that it has for this"
            raise self._ended(TIMEOUT, f"ran longer than the {limit.seconds:g} s {whose}", doing)

    def _lost(self, doing: str) -> Lost:
        fate = self.child.fate()
        if "SIGKILL" in fate and oom_kills() > self._oom_kills:
            return self._ended(OUT_OF_MEMORY, "killed by the kernel, which ran out of memory", doing)
        return self._ended(CRASHED, f"{self.called} {fate}", doing)


class MethodProcess(Process):
    """A process of one method. Its note is how many CPU threads its trial may use."""

    called = "the method's process"
    program = "worker"

    def __init__(
        self, pool: Pool, given_up: Callable[[], bool], environment: Mapping[str, str], libraries: Sequence[str]
    ) -> None:
        super().__init__(pool, given_up, environment, libraries)
        self.note.write(str(pool.options.threads))
        #: How many trials like the last one it said are worth computing at once.
        self.batch_size: int | None = None
        #: Datasets that it has had a trial of.
        self.met: set[str] = set()
        #: What it was handed of one field, where entries are withheld from a method that is fitted several times.
        self.seen: Mask | None = None


class JudgeProcess(Process):
    """A judge with some foreign plugins, or none. Its note is which plugin it is calling."""

    program = "judge"

    def __init__(
        self, pool: Pool, given_up: Callable[[], bool], environment: Mapping[str, str], strangers: Sequence[str]
    ) -> None:
        super().__init__(pool, given_up, {**environment, "CUDA_VISIBLE_DEVICES": ""})
        self._strangers = strangers
        self._seen, self._since = (0, ""), 0.0

    def blamed(self, lost: Lost) -> Lost:
        """The same, with the foreign plugins named."""
        if self._strangers and not any(name in lost.message for name in self._strangers):
            lost.message += f" (beside {', '.join(self._strangers)})"
            lost.stage = self._strangers[0]
        return lost

    def _stage(self, doing: str) -> str:
        return in_one_line(self.note.read()) or doing

    def _keep_on(self, limit: Limit, doing: str) -> None:
        """A score is a small question, however long the trial may take."""
        stage = self._stage(doing)
        if (self.number, stage) != self._seen:
            self._seen, self._since = (self.number, stage), clock()
        if stage.startswith("metric "):
            small = Limit(self._pool.question, self._since + self._pool.question)
            limit = min(limit, small, key=lambda one: one.end)
        super()._keep_on(limit, doing)


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
