"""The parent's side of a worker process: start it, ask it, and know what became of it."""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cloudpickle

from fieldbench.execution.allowance import Lender
from fieldbench.execution.options import Options
from fieldbench.execution.slots import Slot
from fieldbench.execution.worker import Answer, Setup
from fieldbench.records import CRASHED, OUT_OF_MEMORY, TIMEOUT, Trial
from fieldbench.registry import Sources

#: Seconds between looks at a working process: for its deadline and end, and for its memory if that is limited.
_LOOK, _LOOK_AT_MEMORY = 0.2, 0.02

#: Seconds that a process whose socket has closed is given to end by itself, so that its exit code is known; and
#: that its output is awaited.
_FAREWELL = 3.0

#: Bytes of a worker's output that are kept to explain its end: the stacks of all its threads, printed when its
#: time is up, take thousands, and what the method said before them matters most.
_TAIL = 20_000

_START = """
import sys
descriptors, paths, sys.argv[1:] = sys.argv[1:4], int(sys.argv[4]), sys.argv[5:]
sys.path[:], sys.argv[:] = sys.argv[1 : paths + 1], sys.argv[paths + 1 :]
from fieldbench.execution.worker import main
main(*map(int, descriptors))
"""


class Lost(Exception):
    """A worker ended before it answered."""

    def __init__(self, status: str, message: str, output: str) -> None:
        super().__init__(message)
        self.status, self.message, self.output = status, message, output


class GivenUp(Exception):
    """The caller no longer wants the answer."""


class Worker:
    """A running worker process of one slot."""

    def __init__(self, slot: Slot, sources: Sources, options: Options, given_up: Callable[[], bool]) -> None:
        """Start it, without waiting until it is ready.

        Args:
            slot: decides the device and the environment.
            sources: where it finds plugins.
            options: its limits.
            given_up: asked while waiting; True ends the wait.
        """
        self._options, self._given_up = options, given_up
        self._link, theirs = multiprocessing.Pipe()
        lifeline, self._lifeline = os.pipe()
        self._lender = Lender()
        descriptors = (theirs.fileno(), lifeline, self._lender.reading)
        # Modules that a program's classes import may ask, as they are imported, how the program was called.
        argv = sys.argv if sources.classes else [""]
        command = [sys.executable, "-P", "-c", _START, *map(str, descriptors), str(len(sys.path)), *sys.path, *argv]
        self._process = subprocess.Popen(
            command,
            pass_fds=descriptors,
            env={**os.environ, **slot.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        theirs.close()
        os.close(lifeline)
        self._lender.handed_over()
        self._output = bytearray()
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()
        self._ready = False
        self._oom_kills, self._counted = 0, -math.inf
        setup = cloudpickle.dumps(Setup(sources, slot.device, options.timing, options.save_fields))
        self._send(functools.partial(self._link.send_bytes, setup))

    def run(self, trials: Sequence[Trial]) -> Answer:
        """Have trials of one cell computed.

        Raises:
            Lost: if the process crashed, ran out of time or memory; it is gone then.
            GivenUp: if the caller's wish to stop came first; the process is gone too.
        """
        if not self._ready:
            self._await(None)  # starting does not count towards a trial's time
            self._receive_sign()
            self._ready = True
        self._output.clear()
        self._count_oom_kills()
        self._send(functools.partial(self._link.send, list(trials)))
        limit = self._options.timeout
        if self._options.timing:  # nor does warming up, which has as much time for itself
            self._await(limit)
            self._receive_sign()
        self._await(None if limit is None else limit * len(trials))
        try:
            answer = self._link.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        except Exception as error:  # whatever a plugin wrote into the socket is no answer
            self.kill()
            raise Lost(CRASHED, f"the worker's answer is unreadable: {error}", self._tail()) from None
        assert isinstance(answer, Answer)
        return answer

    def allow(self, threads: int) -> None:
        """Say how many CPU threads its trial may use from now on."""
        self._lender.allow(threads)

    def kill(self) -> None:
        """End the process and all that it started. There is nothing that it would have to save."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in a driver cannot be waited for
            self._process.wait(_FAREWELL)
        self._link.close()
        self._lender.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _receive_sign(self) -> None:
        """Take the message that is there, which says no more than that it came, unless what came is the end."""
        try:
            self._link.recv_bytes()
        except (EOFError, OSError):
            raise self._ended() from None

    def _send(self, send: Callable[[], None]) -> None:
        """Send a message. A process that is gone shows when the answer is awaited."""
        with contextlib.suppress(OSError):
            send()

    def _await(self, limit: float | None) -> None:
        """Wait until there is something to read, be it only the end."""
        deadline = None if limit is None else time.monotonic() + limit
        look = _LOOK if self._options.memory_limit is None else _LOOK_AT_MEMORY
        while True:
            left = look if deadline is None else min(look, max(0.0, deadline - time.monotonic()))
            if self._link.poll(left):
                break
            if self._given_up():
                self.kill()
                raise GivenUp
            # A grandchild can keep the socket open after the worker's end, so that is looked for as well.
            if self._process.poll() is not None:
                raise self._ended()
            if self._too_large():
                self.kill()
                size = _readable(self._options.memory_limit or 0)
                raise Lost(OUT_OF_MEMORY, f"used more than the {size} that --memory-limit allows", self._tail())
            if deadline is not None and time.monotonic() >= deadline:
                raise self._timed_out(limit or 0)

    def _timed_out(self, limit: float) -> Lost:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)  # it prints where it was, unless it is past that
        time.sleep(0.1)
        self.kill()
        return Lost(TIMEOUT, f"ran longer than the {limit:g} s that --timeout allows", self._tail())

    def _ended(self) -> Lost:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_FAREWELL)
        code = self._process.returncode
        self.kill()
        if code is None:
            return Lost(CRASHED, "the worker process closed its socket", self._tail())
        if code >= 0:
            return Lost(CRASHED, f"the worker process exited with code {code}", self._tail())
        if -code == signal.SIGKILL and _oom_kills() > self._oom_kills:
            return Lost(OUT_OF_MEMORY, "killed by the kernel, which ran out of memory", self._tail())
        return Lost(CRASHED, f"the worker process was killed by {signal.Signals(-code).name}", self._tail())

    def _count_oom_kills(self) -> None:
        """Note what is not this trial's doing. For trials of milliseconds, once a second will do."""
        if time.monotonic() - self._counted > 1:
            self._oom_kills, self._counted = _oom_kills(), time.monotonic()

    def _too_large(self) -> bool:
        if self._options.memory_limit is None:
            return False
        import psutil

        try:
            return bool(psutil.Process(self._process.pid).memory_info().rss > self._options.memory_limit)
        except psutil.Error:
            return False

    def _drain(self) -> None:
        """Keep the last of what the worker prints; a pipe that nobody reads would block it."""
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while chunk := os.read(stream.fileno(), 1 << 16):
                self._output += chunk
                del self._output[:-_TAIL]

    def _tail(self) -> str:
        """What it printed last; ask when it is gone. A grandchild can keep the pipe open after the worker's end."""
        self._drainer.join(_FAREWELL)
        return bytes(self._output).decode(errors="replace").strip()


def _oom_kills() -> int:
    """How many processes this machine's kernel has killed for want of memory (0 where it does not say)."""
    with contextlib.suppress(OSError):
        _, found, rest = Path("/proc/vmstat").read_bytes().partition(b"\noom_kill ")
        if found:
            return int(rest.split(maxsplit=1)[0])
    return 0


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
