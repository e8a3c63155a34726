"""The process that makes processes: it has the heavy libraries loaded, and forks itself when it is asked to.

A process made so starts in milliseconds, holds nothing of the program that asked for it, and imports the plugin it
needs by itself. The standard library's forkserver would import the user's main script again and unpickle what it
is sent; this one runs no code but ours, and reports how each child ended. It never runs two threads. The parent is
its only customer: when the parent ends, however it ends, so does everything that was made here.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import json
import os
import pickle
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldbench.errors import FieldbenchError
from fieldbench.execution.frames import LARGEST_HEADER, LARGEST_METHOD_HEADER, Channel, encode
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

#: How often the nursery is started for one process.
_ATTEMPTS = 3

#: Seconds that a process whose socket has closed is given to end by itself, so that its exit code is known.
_FAREWELL = 3.0

#: Seconds in which the nursery has to load a method's libraries and fork.
_BIRTH = 600.0

_STATUS = struct.Struct(">i")
_START = "import sys; sys.path[:] = sys.argv[1:]; from fieldbench.execution.nursery import main; main()"
#: Linux's F_SETSIG (fcntl(2)); Python's fcntl module does not name it.
_F_SETSIG = 10


class Nursery:
    """The parent's side. It is started with the first process, and again when it was lost."""

    def __init__(self, arguments: Sequence[str] = ("",)) -> None:
        """
        Args:
            arguments: what ``sys.argv`` is in every process. A script's own are worth having, for a module that reads
                them; those of fieldbench's command hold the base seed.
        """
        self._arguments = list(arguments)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._children: list[Child] = []

    def make(
        self,
        program: str,
        payload: object,
        *,
        files: Sequence[int] = (),
        libraries: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start a process.

        Args:
            program: ``judge`` or ``worker``.
            payload: what its main function is given, pickled.
            files: descriptors that it is given after its own three.
            libraries: of :data:`HEAVY`, what should be loaded before.
            environment: variables that are set in it, before any pool of threads or CUDA exists.
        """
        header = {"program": program, "libraries": list(libraries), "environment": dict(environment or {})}
        header["argv"] = self._arguments
        content = pickle.dumps(payload)
        request = encode({**header, "size": len(content)}) + content
        largest_header = LARGEST_HEADER if program == "judge" else LARGEST_METHOD_HEADER
        for _ in range(_ATTEMPTS):
            child, nursery = self._made(request, files, largest_header)
            if child.pid:
                with self._lock:
                    self._children = [*(made for made in self._children if not made.killed), child]
                return child
            child.kill()
            with self._lock:
                if nursery is self._process:  # it was lost before it came to this; a new one is started
                    self._end()
        raise FieldbenchError("the process that starts all others does not start")

    def _made(self, request: bytes, files: Sequence[int], largest_header: int) -> tuple[Child, Any]:
        ours, theirs = socket.socketpair()
        status, their_status = socket.socketpair()
        lifeline, our_lifeline = os.pipe()
        our_output, output = os.pipe()
        nursery = None
        with self._lock, contextlib.suppress(OSError):
            control, nursery = self._started(), self._process
            given = [their_status.fileno(), output, theirs.fileno(), lifeline, *files]
            sent = socket.send_fds(control, [request], given)
            control.sendall(memoryview(request)[sent:])
        for own in (theirs, their_status):
            own.close()
        os.close(lifeline)
        os.close(output)
        return Child(Channel(ours, largest_header=largest_header), status, our_lifeline, our_output), nursery

    def close(self) -> None:
        """End it, and all that it made."""
        with self._lock:
            for child in self._children:
                child.kill()
            self._children.clear()
            self._end()

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._control, theirs = socket.socketpair()
        single = dict.fromkeys(THREAD_VARIABLES, "1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *sys.path],
            env={**os.environ, **single, "PYTHONUNBUFFERED": "1"},
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        return self._control


class Child:
    """A process that the nursery made, as the parent sees it."""

    def __init__(self, channel: Channel, status: socket.socket, lifeline: int, output: int) -> None:
        self.channel = channel
        self._status, self._lifeline = status, lifeline
        self._code: int | None = None
        self._ended = False
        self._tail = bytearray()
        self._drainer = threading.Thread(target=self._drain, args=(output,), daemon=True)
        self._drainer.start()
        status.settimeout(_BIRTH)
        told = b""
        with contextlib.suppress(TimeoutError):
            told = status.recv(_STATUS.size, socket.MSG_WAITALL)
        self.pid = _STATUS.unpack(told)[0] if len(told) == _STATUS.size else 0

    def exit_code(self, wait: float = 0.0) -> int | None:
        """How it ended, negative for a signal as in :mod:`subprocess`; None if it runs or nobody knows."""
        if self._code is None and not self._ended and self.pid:
            self._status.settimeout(wait or 1e-6)
            with contextlib.suppress(TimeoutError, OSError):
                told = self._status.recv(_STATUS.size)
                self._ended = True  # without a code: the nursery itself has gone
                if len(told) == _STATUS.size:
                    self._code = _STATUS.unpack(told)[0]
        return self._code if self.pid else 1

    def fate(self) -> str:
        """How it ended, in words; asked when its socket has closed."""
        code = self.exit_code(_FAREWELL)
        if code is None:
            return "closed its socket"
        return f"exited with code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"

    def signal(self, number: int) -> None:
        """Send it a signal, if it is there."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pid:
                os.kill(self.pid, number)

    @property
    def killed(self) -> bool:
        """Whether :meth:`kill` was called."""
        return self._lifeline < 0

    def kill(self) -> None:
        """End the process and all that it started. There is nothing that it would have to save."""
        if self.killed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        os.close(self._lifeline)
        self._lifeline = -1
        self.exit_code(_FAREWELL)
        self.channel.close()
        self._status.close()

    def forget_output(self) -> None:
        """What it prints from now on explains its end."""
        self._tail.clear()

    def output(self) -> str:
        """What it printed last; ask when it is gone. A grandchild can keep the pipe open after its end."""
        self._drainer.join(_FAREWELL)
        return bytes(self._tail).decode(errors="replace").strip()

    def _drain(self, output: int) -> None:
        """Keep the last of what it prints; a pipe that nobody reads would block it."""
        while chunk := os.read(output, 1 << 16):
            self._tail += chunk
            del self._tail[:-_TAIL]
        os.close(output)


def main() -> None:
    """Serve until the parent is gone."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("0")
    for module in _COMMON:
        importlib.import_module(module)
    _Forks(control).serve()


class _Forks:
    """The nursery's side."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, socket.socket] = {}
        self._over: dict[int, socket.socket] = {}

    def serve(self) -> None:
        reading, writing = socket.socketpair()
        writing.setblocking(False)
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            waiting = select.poll()
            for link in (self._control, reading, *self._over.values()):
                waiting.register(link, select.POLLIN)
            ready = {number for number, _ in waiting.poll()}
            if reading.fileno() in ready:
                reading.recv(4096)
            self._report()
            self._bury(ready)
            if self._control.fileno() in ready:
                self._answer()

    def _answer(self) -> None:
        start, files = self._take(16)
        if not start:
            self._end()
        _, header_size, _ = struct.unpack(">4sIQ", start)
        header = json.loads(self._take(header_size)[0])
        payload, _ = self._take(header["size"])
        for module in header["libraries"]:
            with contextlib.suppress(Exception):  # the method's own import of it will say so
                if module in HEAVY and module not in sys.modules:
                    importlib.import_module(module)
        if not files:
            return
        gc.freeze()  # what is loaded stays shared with the children
        pid = os.fork()
        if pid == 0:
            _become(header, payload, files)
        status = socket.socket(fileno=files[0])
        for number in files[1:]:
            os.close(number)
        self._running[pid] = status
        with contextlib.suppress(OSError):
            status.send(_STATUS.pack(pid))

    def _take(self, size: int) -> tuple[bytes, list[int]]:
        """So many bytes of a request, and what files came with them; nothing where the parent has gone."""
        content, files = b"", list[int]()
        while len(content) < size:
            piece, found, _, _ = socket.recv_fds(self._control, size - len(content), 16)
            if not piece:
                return b"", files
            content += piece
            files += found
        return content, files

    def _report(self) -> None:
        """Tell how each child ended that has. It keeps its number until the parent has taken note."""
        for pid, status in list(self._running.items()):
            code = _ended(pid)
            if code is not None:
                with contextlib.suppress(OSError):
                    status.send(_STATUS.pack(code))
                self._over[pid] = self._running.pop(pid)

    def _bury(self, ready: set[int]) -> None:
        for pid, status in list(self._over.items()):
            if status.fileno() in ready:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
                self._over.pop(pid).close()

    def _end(self) -> None:
        for pid in self._running:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        os._exit(0)


def _ended(pid: int) -> int | None:
    """The exit code of a child that has ended. Where the system can, its number is not free for others yet."""
    try:
        if hasattr(os, "waitid"):
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return None
            return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        done, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None
    except ChildProcessError:
        return 1


def _become(header: Mapping[str, Any], payload: bytes, files: Sequence[int]) -> None:
    """What a child does: take its place, and never come back."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _, output, *kept = files
        # First out of the way of one another, then to their places: input, output, errors, and all that is given.
        high = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in (output, output, *kept)]
        for place, number in enumerate(high, 1):
            os.dup2(number, place, inheritable=False)
        os.set_inheritable(1, True)
        os.set_inheritable(2, True)
        os.closerange(len(high) + 1, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20))
        hold_on_to(4)
        faulthandler.enable()
        faulthandler.register(signal.SIGUSR1)
        with contextlib.suppress(OSError):  # if memory runs out, the kernel shall take this process
            Path("/proc/self/oom_score_adj").write_text("1000")
        set_process_option(15, f"fb-{header['program']}".encode())  # PR_SET_NAME: what it is called in lists
        os.environ.update(header["environment"])
        sys.argv[:] = header["argv"]
        _use_threads(int(os.environ.get(THREAD_VARIABLES[0], "1")))
        importlib.import_module("numpy").random.seed()  # not the same for every child
        program = importlib.import_module(f"fieldbench.execution.{header['program']}")
        channel = Channel(socket.socket(fileno=3), files=header["program"] == "judge")
        program.main(pickle.loads(payload), channel)
        os._exit(0)
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
        os._exit(code & 255 if isinstance(code, int) else int(code is not None))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def hold_on_to(lifeline: int) -> None:
    """End this process's whole group as soon as the other end of a pipe is closed.

    On Linux the kernel itself is asked to send SIGKILL then, so that it also reaches a process whose interpreter
    is stuck in compiled code. Elsewhere a thread waits for the end of the pipe.

    Args:
        lifeline: the reading end of a pipe; nothing is ever written to it. The process must lead a group
            of its own.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([lifeline], [], [], 0)[0]:  # it was closed before
            os.killpg(os.getpgrp(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait, args=(lifeline,), name="lifeline", daemon=True).start()


def set_process_option(option: int, value: Any) -> None:
    """Linux's prctl(2), which Python does not have; elsewhere nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wait(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


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
