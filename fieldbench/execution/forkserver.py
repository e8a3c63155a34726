"""Processes forked from one that has the heavy libraries loaded, by the standard library's forkserver.

Such a process starts in milliseconds, holds nothing of the program that asked for it, and imports the plugin it needs
by itself. ``multiprocessing.Process`` would import the user's main script there; the server is asked directly instead.
It serves all runs of this program and ends with it. A process ends with the program too, however that ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.forkserver import ForkServer, get_inherited_fds, read_signed
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any, NoReturn

from fieldbench.errors import FieldbenchError
from fieldbench.execution.frames import Channel, readable
from fieldbench.execution.machine import THREAD_VARIABLES

#: What every process here may want. Imported once, it costs none of them time.
_COMMON = (
    "numpy.random",
    "scipy.interpolate",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.spatial",
    "threadpoolctl",
    "fieldbench",
    "fieldbench.execution.judge",
    "fieldbench.execution.worker",
)

#: What is imported before the fork for a method that says it needs it: :attr:`fieldbench.Method.libraries`.
HEAVY = ("numba", "torch")

#: Bytes of a process's output that are kept to explain its end: the stacks of all its threads, printed when its
#: time is up, take thousands, and what the method said before them matters most.
_TAIL = 20_000

#: Seconds that a process whose socket has closed is given to end by itself, so that its exit code is known.
_FAREWELL = 3.0

#: Linux's F_SETSIG (fcntl(2)); Python's fcntl module does not name it.
_F_SETSIG = 10

#: A server for each set of heavy libraries that was asked for.
_SERVERS: dict[tuple[str, ...], ForkServer] = {}
_LOCK = threading.Lock()


def start(
    program: str,
    limit: float,
    note: int,
    libraries: Sequence[str],
    environment: Mapping[str, str],
    arguments: Sequence[str],
) -> Child:
    """Start a process.

    Args:
        program: ``judge`` or ``worker``.
        limit: seconds in which it has to be there.
        note: the file of its :class:`fieldbench.execution.shared_text.SharedText`.
        libraries: of :data:`HEAVY`, what should be loaded before.
        environment: variables that are set in it besides this program's, before any pool of threads or CUDA exists.
        arguments: what ``sys.argv`` is in it. A script's own are worth having, for a module that reads them; those of
            fieldbench's command hold the base seed.

    Raises:
        FieldbenchError: if there is none.
    """
    folder = ""
    with contextlib.suppress(OSError):  # it is gone
        folder = os.getcwd()
    beginning = _Beginning(program, {**os.environ, **environment}, list(arguments), list(sys.path), folder)
    heavy = tuple(sorted(set(libraries) & set(HEAVY)))
    for loaded in (heavy, heavy, ()):  # a method may have killed the server, and a library may not be loadable
        with contextlib.suppress(OSError, EOFError):
            return _forked(loaded, beginning, note, limit)
        _SERVERS.pop(loaded, None)
        time.sleep(0.1)  # one that was just killed looks alive for a moment
    raise FieldbenchError("the process that starts all others does not answer")


@atexit.register
def _wake() -> None:
    """Let what somebody has stopped see that this program ends."""
    numbers = [getattr(server, "_forkserver_pid", None) for server in _SERVERS.values()]
    for number in [*numbers, getattr(resource_tracker._resource_tracker, "_pid", None)]:
        if number is not None:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGCONT)


def _forked(libraries: tuple[str, ...], beginning: _Beginning, note: int, limit: float) -> Child:
    """
    Raises:
        OSError, EOFError: if the server has gone, or says nothing within the limit.
    """
    ours, theirs = socket.socketpair()
    parent_death, parent_alive = os.pipe()
    our_output, output = os.pipe()
    # A server loads libraries with one thread each, as it must have none to fork itself.
    wanted = {**dict.fromkeys(THREAD_VARIABLES, "1"), "PYTHONUNBUFFERED": "1"}
    try:
        with _LOCK, _variables(wanted):
            os.makedirs(get_temp_dir(), mode=0o700, exist_ok=True)  # a method may have removed it
            if libraries not in _SERVERS:
                _SERVERS[libraries] = ForkServer()
                _SERVERS[libraries].set_forkserver_preload([*_COMMON, *libraries])
            server = _SERVERS[libraries]
            if (number := getattr(server, "_forkserver_pid", None)) is not None:  # a method may have stopped it
                os.kill(number, signal.SIGCONT)
            status, writing = server.connect_to_new_process([output, theirs.fileno(), parent_death, note])
        with open(writing, "wb") as stream:
            stream.write(pickle.dumps({}) + pickle.dumps(beginning))
    finally:
        theirs.close()
        os.close(parent_death)
        os.close(output)
    return Child(Channel(ours, of_method=beginning.program == "worker"), status, parent_alive, our_output, limit)


@contextlib.contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Some variables of the environment for a moment."""
    before = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name)
        os.environ.update(before)


class Child:
    """A process, as the one that asked for it sees it."""

    def __init__(self, channel: Channel, status: int, parent_alive: int, output: int, limit: float) -> None:
        self.channel, self._status, self._ended = channel, status, False
        self._code: int | None = None
        #: Lets it notice that the parent is done with it, also when this object is forgotten.
        self._let_go = weakref.finalize(self, os.close, parent_alive)
        self._tail = bytearray()
        self._drainer = threading.Thread(target=_drain, args=(output, self._tail), daemon=True)
        self._drainer.start()
        self.pid = self._told(limit) or 0
        if not self.pid:
            self.kill()
            raise EOFError

    def exit_code(self, wait: float = 0.0) -> int | None:
        """How it ended, negative for a signal as in :mod:`subprocess`; None if it runs or nobody knows."""
        if self._code is None:
            self._code = self._told(wait)
        return self._code

    def fate(self) -> str:
        """How it ended, in words; asked when its socket has closed."""
        if (code := self.exit_code(_FAREWELL)) is None:
            return "closed its socket"
        return f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    @property
    def killed(self) -> bool:
        """Whether :meth:`kill` was called."""
        return not self._let_go.alive

    def kill(self) -> None:
        """End the process and all that it started. There is nothing that it would have to save."""
        if self.killed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        self._let_go()
        self.exit_code(_FAREWELL)
        self._ended = True
        self.channel.close()
        os.close(self._status)

    def forget_output(self) -> None:
        """What it prints from now on explains its end."""
        self._tail.clear()

    def output(self) -> str:
        """What it printed last; ask when it is gone. A grandchild can keep the pipe open after its end."""
        self._drainer.join(_FAREWELL)
        return bytes(self._tail).decode(errors="replace").strip()

    def _told(self, wait: float) -> int | None:
        """The next number that the server tells of it."""
        if self._ended or not readable(self._status, wait):
            return None
        try:
            return int(read_signed(self._status))
        except EOFError:  # the server itself has gone
            self._ended = True
            return None


def _drain(output: int, tail: bytearray) -> None:
    """Keep the last of what a process prints; a pipe that nobody reads would block it."""
    while chunk := os.read(output, 1 << 16):
        tail += chunk
        del tail[:-_TAIL]
    os.close(output)


@dataclass(frozen=True)
class _Beginning:
    """What the server's child is sent in place of a ``multiprocessing.Process``."""

    program: str
    environment: dict[str, str]
    arguments: list[str]
    path: list[str]
    folder: str

    def _bootstrap(self, parent_sentinel: int) -> NoReturn:
        """Called by the standard library in the new process: take its place, and never come back."""
        try:
            self._take_place(get_inherited_fds() or [])
            program = importlib.import_module(f"fieldbench.execution.{self.program}")
            program.main(Channel(socket.socket(fileno=3)))
            os._exit(0)
        except SystemExit as error:
            code = error.code
            if code is not None and not isinstance(code, int):
                print(code, file=sys.stderr)
            os._exit(code & 255 if isinstance(code, int) else int(code is not None))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    def _take_place(self, files: Sequence[int]) -> None:
        gc.freeze()  # what was loaded before stays shared with other processes
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        output, *kept = files
        # First out of the way of one another, then to their places: output, errors, and all that is given.
        high = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in (output, output, *kept)]
        for descriptor, number in enumerate(high, 1):
            os.dup2(number, descriptor, inheritable=descriptor < 3)
        for number, name in ((1, "stdout"), (2, "stderr")):
            if getattr(sys, name) is None:  # the server was started with the stream closed
                setattr(sys, name, open(number, "w", encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115
        os.closerange(len(high) + 1, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20))
        end_with(4)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
        with contextlib.suppress(OSError):  # if memory runs out, the kernel shall take this process
            Path("/proc/self/oom_score_adj").write_text("1000")
        set_process_option(15, f"fb-{self.program}".encode())  # PR_SET_NAME: what it is called in lists
        with contextlib.suppress(OSError):
            os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv[:], sys.path[:] = self.arguments, self.path
        _use_threads(int(os.environ.get(THREAD_VARIABLES[0], "1")))
        importlib.import_module("numpy").random.seed()  # not the same for every child


def end_with(parent_death: int) -> None:
    """End this process's whole group, which it must lead, as soon as the other end of a pipe is closed.

    On Linux the kernel itself is asked to send SIGKILL then, so that it also reaches a process whose interpreter
    is stuck in compiled code. Elsewhere a thread waits for the end of the pipe, to which nothing is ever written.
    """
    if sys.platform == "linux":
        fcntl.fcntl(parent_death, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent_death, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent_death, fcntl.F_SETFL, fcntl.fcntl(parent_death, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([parent_death], [], [], 0)[0]:  # it was closed before
            os.killpg(os.getpgrp(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait, args=(parent_death,), name="parent-death", daemon=True).start()


def _wait(parent_death: int) -> None:
    os.read(parent_death, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def set_process_option(option: int, value: Any) -> None:
    """Linux's prctl(2), which Python does not have; elsewhere nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _use_threads(count: int) -> None:
    """Give the libraries that were loaded for one thread as many as this process may use."""
    if count == 1:
        return
    import threadpoolctl

    threadpoolctl.threadpool_limits(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
    if "numba" in sys.modules:
        sys.modules["numba"].core.config.reload_config()
