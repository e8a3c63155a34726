"""A process that fits methods one after the other and can be stopped when one takes too long."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from fieldbench.errors import one_line
from fieldbench.execution.lifeline import hold_on_to
from fieldbench.execution.slots import Slot
from fieldbench.field import FloatArray, Observation
from fieldbench.method import Method, Silent, as_field_array
from fieldbench.registry import Registry, Sources

#: What most methods import. Done at the start, it does not count as the time of the first of them.
_COMMON = ("scipy.interpolate", "scipy.ndimage", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial")

#: Seconds that one fit may take at most; a wait for much longer is more than the operating system can count.
_LONGEST = 1e6

_START = "import sys; sys.path[:] = sys.argv[3:]; from fieldbench.completion.bench import main; main()"


@dataclass(frozen=True)
class Task:
    """One fit.

    Attributes:
        method: spec of the method.
        observation: what it may see.
        seed: its seed.
        uncertainty: whether the standard deviation is wanted too.
    """

    method: str
    observation: Observation
    seed: int
    uncertainty: bool = False


@dataclass(frozen=True)
class Fit:
    """What came of a task.

    Attributes:
        estimate: the completed field, or None if there is none.
        deviation: standard deviation of each entry, or None.
        seconds: how long it took.
        error: why there is no estimate, in one line.
        late: whether it was stopped because its time was up.
    """

    estimate: FloatArray | None
    deviation: FloatArray | None
    seconds: float
    error: str = ""
    late: bool = False


class Bench:
    """Fits methods in one worker process, which is started when needed and again after it was stopped.

    Use it in a ``with`` statement; at its end the process is gone.
    """

    def __init__(self, slot: Slot, sources: Sources) -> None:
        """
        Args:
            slot: the device, and the environment of the process.
            sources: where it finds plugins.
        """
        self._slot, self._sources = slot, sources
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None
        self._lifeline: int | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def fit(self, task: Task, limit: float | None = None) -> Fit:
        """Fit a method, for at most ``limit`` seconds (starting the process does not count)."""
        link = self._started()
        start = time.monotonic()
        try:
            link.send_bytes(cloudpickle.dumps(task))
            if not link.poll(None if limit is None else min(limit, _LONGEST)):
                self._stop()
                return Fit(None, None, time.monotonic() - start, f"took longer than {limit:.0f} s", late=True)
            answer = pickle.loads(link.recv_bytes())
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._stop()
            reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            return Fit(None, None, time.monotonic() - start, f"its process {reason}")
        except BaseException:
            self._stop()
            raise
        assert isinstance(answer, Fit)
        return answer

    def _started(self) -> Connection:
        if self._link is not None:
            return self._link
        self._link, theirs = multiprocessing.Pipe()
        lifeline, self._lifeline = os.pipe()
        descriptors = (theirs.fileno(), lifeline)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, *map(str, descriptors), *sys.path],
            pass_fds=descriptors,
            env={**os.environ, **self._slot.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        os.close(lifeline)
        with contextlib.suppress(OSError, EOFError):  # if it could not start, the first fit will say so
            self._link.send_bytes(cloudpickle.dumps((self._sources, self._slot.device)))
            self._link.recv_bytes()
        return self._link

    def _stop(self) -> int:
        """End the process and all that it started; returns its exit code."""
        process, link, lifeline = self._process, self._link, self._lifeline
        self._process = self._link = self._lifeline = None
        if process is None or link is None or lifeline is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)  # one that died by itself shall be known by its own exit code
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        link.close()
        os.close(lifeline)
        return code


def main() -> None:
    """Serve until the socket is closed. Arguments: file descriptors of the socket and of the lifeline."""
    link = Connection(int(sys.argv[1]))
    hold_on_to(int(sys.argv[2]))
    sources, device = pickle.loads(link.recv_bytes())
    registry = Registry(sources)
    for module in _COMMON:
        importlib.import_module(module)
    link.send_bytes(b"ready")
    while True:
        try:
            task = pickle.loads(link.recv_bytes())
        except EOFError:
            return
        link.send_bytes(pickle.dumps(_fitted(task, registry, device)))


def _fitted(task: Task, registry: Registry, device: str) -> Fit:
    start = time.monotonic()
    try:
        method = registry.method(task.method)
        place = device if method.uses_gpu else "cpu"
        fit = method.predict if task.uncertainty else _without_uncertainty(method)
        made, spread = fit(task.observation, seed=task.seed, device=place, report=Silent())
        estimate = as_field_array(made)
        deviation = None if spread is None else as_field_array(spread)
    except Exception as error:
        return Fit(None, None, time.monotonic() - start, one_line(error))
    seconds = time.monotonic() - start
    if estimate.shape != task.observation.shape:
        return Fit(None, None, seconds, f"it returned shape {estimate.shape}")
    valid = task.observation.valid
    if not np.isfinite(estimate if valid is None else estimate[valid]).all():
        return Fit(None, None, seconds, "it returned NaN or infinite entries")
    if deviation is not None and deviation.shape != estimate.shape:
        return Fit(None, None, seconds, f"its uncertainty has shape {deviation.shape}")
    return Fit(estimate, deviation, seconds)


def _without_uncertainty(method: Method) -> Callable[..., tuple[ArrayLike, None]]:
    return lambda *what, **how: (method.complete(*what, **how), None)
