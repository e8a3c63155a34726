"""Processes as the parent sees them: one question at a time, each with a deadline, and what became of who was asked.

The parent owns every process and every deadline. It believes nothing that comes up but frames (see
:mod:`fieldbench.execution.frames`), and it calls no plugin.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

from fieldbench.execution.allowance import Lender
from fieldbench.execution.frames import NO_ANSWER, BadFrame, Frame, encode
from fieldbench.execution.machine import oom_kills, resident_memory
from fieldbench.execution.nursery import Child
from fieldbench.execution.options import Options
from fieldbench.execution.worker import Reply
from fieldbench.records import CRASHED, OUT_OF_MEMORY, TIMEOUT

#: What a process does before it answers anything.
LOADING = "loading the plugin"

#: Seconds between looks at a working process: for its deadline and end, and for its memory if that is limited.
LOOK, _LOOK_AT_MEMORY = 0.2, 0.02

#: Seconds in which a process has to load its plugin, if neither time limit is longer; and those without a limit.
START, PATIENT_START = 60.0, 600.0


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


def start_limit(options: Options) -> float:
    """Seconds in which a process has to load its plugin."""
    return PATIENT_START if options.timeout is None else max(START, options.timeout)


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
        return LOOK if self._options.memory_limit is None else _LOOK_AT_MEMORY

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
        reason = "that --timeout allows" if limit == self._options.timeout else "that it has for this"
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
            limit = start_limit(self._options)
            self.wait(0, limit, time.monotonic() + limit, LOADING)
        except (EOFError, OSError):
            raise self.lost(LOADING) from None
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


def _of(doing: str, message: str) -> str:
    return f"{doing}: {message}" if doing else message


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
