"""Small methods and datasets to list, run and disturb: a single-file plugin.

A troubled method misbehaves only while the file that TOY_TROUBLE names exists, and in the way that it says.
The first trial to find it signs it with its seed, and is from then on the culprit; all others behave.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import fieldbench
from fieldbench.field import Axis, Field
from fieldbench.method import Report


class Wave(fieldbench.Dataset):
    """A plane wave of random phase."""

    name = "wave"
    default_rates = (0.3,)

    rows: int = fieldbench.parameter(6, "points along x", unit="grid steps", ge=2, source="nowhere in particular")

    def draw(self, rng: np.random.Generator) -> Field:
        values = np.sin(np.arange(self.rows)[:, np.newaxis] + np.arange(5) + 6 * rng.random())
        return Field(values, (Axis.regular("x", self.rows), Axis.regular("y", 5)), unit="m/s")


class Holey(Wave):
    """A wave with a hole that is not marked as one."""

    name = "holey"

    def draw(self, rng: np.random.Generator) -> Field:
        values = np.array(super().draw(rng).values)
        values[0, 0] = np.nan
        return Field(values)


class Mean(fieldbench.Method):
    """The mean of what is observed."""

    name = "mean"
    accepts = frozenset({"hat"})

    shift: float = fieldbench.parameter(0.0, "added to the mean", unit="m/s")
    nap: float = fieldbench.parameter(0.0, "how long it sleeps", unit="s", ge=0)

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        time.sleep(self.nap)
        return np.full(observation.shape, observation.observed.mean() + self.shift)


class Hat(fieldbench.Modifier):
    """Puts a hat on the mean, which changes nothing."""

    name = "hat"

    height: float = fieldbench.parameter(1.0, "height of the hat", unit="m", gt=0)


class Windowed(Mean):
    """The mean, with a window that is never used but must fit."""

    name = "windowed"

    window: int = fieldbench.parameter(3, "edge of the window", ge=1)

    def check_shape(self, shape: Sequence[int]) -> None:
        if self.window > min(shape):
            raise ValueError(f"window {self.window} is larger than the field, {tuple(shape)}; use at most {min(shape)}")


class Flaky(Mean):
    """The mean, where the first observed value is not negative; else it raises."""

    name = "flaky"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        if observation.observed[0] < 0:
            raise ValueError("a negative value came first")
        return super().complete(observation, seed=seed, device=device, report=report)


class Cubic(Mean):
    """The mean, of three-dimensional fields alone."""

    name = "cubic"
    orders = (3,)


class Walk(Mean):
    """Comes near the mean and walks away from it."""

    name = "walk"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        for step in range(1, 101):
            if report.due(step):
                report(step, np.full(observation.shape, observation.observed.mean() + abs(step - 50)))
        return np.full(observation.shape, observation.observed.mean() + 50)


class Steady(fieldbench.Method):
    """The mean of what is observed, and a little of its own randomness."""

    name = "steady"

    seconds: float = fieldbench.parameter(0.0, "how long it takes")

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        time.sleep(self.seconds)
        noise = np.random.default_rng(seed).normal(size=observation.values.shape)
        return np.nanmean(observation.values) + 0.01 * noise


class Hesitant(Steady):
    """Steady, but the time goes into the question whether it applies."""

    name = "hesitant"

    def applicable(self, observation: fieldbench.Observation) -> str | None:
        time.sleep(self.seconds)
        return None

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        return Steady().complete(observation, seed=seed, device=device, report=report)


class Asks(Steady):
    """Steady, but asks how many threads it may use, until they are enough or its time is up."""

    name = "asks"

    until: int = fieldbench.parameter(0, "threads to wait for; none: ask for the given time")

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        deadline = time.monotonic() + (30 if self.until else self.seconds)
        while report.threads < self.until or not self.until:
            if time.monotonic() > deadline:
                if self.until:
                    raise TimeoutError(f"never more than {report.threads} threads")
                break
            time.sleep(0.005)
        return super().complete(observation, seed=seed, device=device, report=report)


class Troubled(Steady):
    """Steady, but for one trial while there is trouble."""

    name = "troubled"
    alone_too: ClassVar[bool] = True

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        kind = _trouble(seed, may_sign=self.alone_too)
        if kind:
            print("trouble begins", flush=True)
            getattr(self, "_" + kind.replace("-", "_"))()
        return super().complete(observation, seed=seed, device=device, report=report)

    def _raise(self) -> None:
        raise ArithmeticError("this trial raises")

    def _exit(self) -> None:
        os._exit(3)

    def _chatter(self) -> None:
        for _ in range(300):  # each is read by itself
            os.write(1, b".")
            time.sleep(0.001)
        os._exit(3)

    def _sys_exit(self) -> None:
        sys.exit(4)

    def _segv(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)

    def _memory(self) -> None:
        hoard = []
        while True:
            hoard.append(np.ones(2**20))

    def _memory_error(self) -> None:
        np.ones(2**50)

    def _loop(self) -> None:
        while True:
            pass

    def _deadlock(self) -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    def _stuck(self) -> None:
        Path(os.environ["TOY_TROUBLE"]).with_suffix(".stuck").touch()
        re.match(r"(a*)*b", "a" * 60)  # one call that keeps the interpreter to itself for ages

    def _close(self) -> None:
        os.closerange(3, 64)
        time.sleep(60)


class Batched(Troubled):
    """Steady by the batch; the culprit is the first of one."""

    name = "batched"
    alone_too: ClassVar[bool] = False

    size: int = fieldbench.parameter(4, "trials worth computing at once")

    def batch_size(self, shape: Sequence[int], device: str) -> int:
        return self.size if tuple(shape) == (6, 5) else 1

    def complete_batch(
        self,
        observations: Sequence[fieldbench.Observation],
        *,
        seeds: Sequence[int],
        device: str,
        reports: Sequence[Report],
    ) -> list[Any]:
        _trouble(seeds[0], may_sign=True)
        return super().complete_batch(observations, seeds=seeds, device=device, reports=reports)


class Probe(fieldbench.Method):
    """Reports what its worker process is like, as numbers of the curve."""

    name = "probe"
    uses_gpu = True

    ballast: int = fieldbench.parameter(0, "MiB to allocate for a moment")
    ballast_once: bool = fieldbench.parameter(False, "whether only the process's first trial does so")

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        global _calls
        _calls += 1
        if self.ballast and not (self.ballast_once and _calls > 1):
            np.ones(self.ballast * 2**17).sum()
        visible = os.environ["CUDA_VISIBLE_DEVICES"]
        report(
            0,
            np.zeros(observation.values.shape),
            threads=float(os.environ["OMP_NUM_THREADS"]),
            numba=float(os.environ["NUMBA_NUM_THREADS"]),
            visible=float(visible or -1),
            gpu=float(device != "cpu"),
            pid=float(os.getpid()),
            calls=float(_calls),
        )
        return np.zeros(observation.values.shape)


_calls = 0


class WaitsForCpu(fieldbench.Method):
    """A GPU method that ends only when a CPU method has been at work beside it."""

    name = "waits-for-cpu"
    uses_gpu = True

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        deadline = time.monotonic() + 30
        while not Path(os.environ["TOY_MARK"]).exists():
            if time.monotonic() > deadline:
                raise TimeoutError("no CPU method came")
            time.sleep(0.01)
        return np.zeros(observation.values.shape)


class MarksCpu(fieldbench.Method):
    """A CPU method that says it is at work."""

    name = "marks-cpu"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        Path(os.environ["TOY_MARK"]).touch()
        return np.zeros(observation.values.shape)


class NeedsAFile(Steady):
    """Steady, where a file is there."""

    name = "needs-a-file"

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        if os.environ.get("TOY_LACKS"):
            Path("/nonexistent/weights").read_bytes()
        return super().complete(observation, seed=seed, device=device, report=report)


def _trouble(seed: int, *, may_sign: bool) -> str:
    """What the trial of this seed has to do wrong, or nothing."""
    path = Path(os.environ.get("TOY_TROUBLE", "/nonexistent"))
    if not path.exists():
        return ""
    signature = path.with_suffix(".signed")
    if may_sign:
        with contextlib.suppress(FileExistsError), signature.open("x") as file:
            file.write(str(seed))
    culprit = signature.exists() and signature.read_text() == str(seed)
    return path.read_text() if culprit else ""


@fieldbench.hookimpl
def fieldbench_register_datasets() -> list[type[fieldbench.Dataset]]:
    return [Wave, Holey]


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method] | type[fieldbench.Modifier]]:
    means = [Mean, Hat, Windowed, Flaky, Cubic, Walk]
    return [*means, Steady, Hesitant, Asks, Troubled, Batched, Probe, WaitsForCpu, MarksCpu, NeedsAFile]
