"""Plugins that note who calls them where, look for what they should not have, and disturb: a single-file plugin.

Every hook writes its name and its process to the file that SPY_LOG names.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import fieldbench
from fieldbench import hookimpl
from fieldbench.field import Field, grid_axes
from fieldbench.metric import RMSE
from fieldbench.sampler import RandomEntries


def note(hook: str) -> None:
    if "SPY_LOG" in os.environ:
        with open(os.environ["SPY_LOG"], "a") as file:
            file.write(f"{hook} {os.getpid()}\n")


class Scene(fieldbench.Dataset):
    """Numbers that are found nowhere else."""

    name = "scene"
    default_rates = (0.5,)
    default_sampler = "spied-random"

    def prepare(self) -> None:
        note("prepare")

    def fingerprint(self) -> str:
        note("dataset-fingerprint")
        return "scene"

    def draw(self, rng: np.random.Generator) -> Field:
        note("draw")
        return Field(1e6 + rng.normal(size=(8, 8)), grid_axes((8, 8)))


class SpiedRandom(RandomEntries):
    """Random entries."""

    name = "spied-random"

    def draw(self, *what: Any) -> Any:
        note("sampler")
        return super().draw(*what)


class Hiss(fieldbench.Noise):
    """No noise."""

    name = "hiss"

    def draw(self, shape: Any, rng: np.random.Generator) -> Any:
        note("noise")
        return np.zeros(shape)


class Spied(RMSE):
    """The error."""

    name = "spied"

    def score(self, estimate: Any, truth: Any, where: Any, mask: Any) -> float:
        note("metric")
        return super().score(estimate, truth, where, mask)


class Mean(fieldbench.Method):
    """The mean of what is observed, and a little randomness."""

    name = "mean"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        note(f"complete-{self.name}")
        return observation.observed.mean() + np.random.default_rng(seed).normal(size=observation.shape)

    def applicable(self, observation: Any) -> None:
        note("applicable")

    def check_shape(self, shape: Any) -> None:
        note("check_shape")

    def batch_size(self, shape: Any, device: str) -> int:
        note("batch_size")
        return 1

    def fingerprint(self) -> str:
        note("fingerprint")
        return "mean"


class Other(Mean):
    """Another one."""

    name = "other"


class Searcher(Mean):
    """Looks through all of its memory, and says how often it finds something that must not be there."""

    name = "searcher"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        coded = bytes.fromhex(os.environ["SPY_SECRET"])
        secret, decoy = bytes(byte ^ 1 for byte in coded), bytes(byte ^ 2 for byte in coded)
        report(
            0,
            np.zeros(observation.shape),
            fields=float(sum(isinstance(item, Field) for item in gc.get_objects())),
            secrets=float(_occurrences(secret) - _occurrences(decoy)),
            told=float(secret in Path("/proc/self/cmdline").read_bytes()),
            seed=float(seed),
        )
        return np.zeros(observation.shape)


class Patches(Mean):
    """Changes all that it can reach."""

    name = "patches"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        import resource

        import fieldbench.judging
        import fieldbench.metric
        import fieldbench.selection

        np.random.default_rng = lambda *_: 1 / 0  # type: ignore
        np.seterr(all="raise")
        fieldbench.metric.RMSE.score = lambda *_: 0.0  # type: ignore
        fieldbench.judging.draw = fieldbench.judging.checked = None  # type: ignore
        fieldbench.selection.Recorder.choose = None  # type: ignore
        time.perf_counter = lambda: 0.0
        for name in list(os.environ):
            os.environ[name] = "1"
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
        signal.alarm(2)
        return np.zeros(observation.shape)


class Hides(Mean):
    """Takes half a second, and would have it unseen."""

    name = "hides"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        time.perf_counter = time.monotonic = lambda: 0.0
        time.sleep(0.5)
        return np.zeros(observation.shape)


class Scribbles(Mean):
    """Writes to every descriptor, and sleeps."""

    name = "scribbles"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        for number in range(3, 20):
            try:
                os.write(number, b"nonsense" * 10)
            except OSError:
                continue
        time.sleep(600)


class Forks(Mean):
    """Returns twice."""

    name = "forks"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        first = os.fork() == 0
        return np.full(observation.shape, 1e6 if first else 2e6)


class Clings(Mean):
    """Dies, and leaves a process behind that keeps its socket open."""

    name = "clings"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        if os.fork() == 0:
            os.setsid()
            time.sleep(15)
            os._exit(0)
        os._exit(5)


class Explodes(Mean):
    """Returns what ends a process that unpickles it."""

    name = "explodes"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        class Bomb:
            def __reduce__(self) -> Any:
                return os._exit, (77,)

        return np.full(observation.shape, Bomb())


class Murders(Mean):
    """Kills the process that made its own."""

    name = "murders"

    def complete(self, observation: Any, *, seed: int, device: str, report: Any) -> Any:
        if os.getppid() > 1:  # the first time
            os.kill(os.getppid(), signal.SIGKILL)
        return np.zeros(observation.shape)


class Leaves(Mean):
    """Leaves at a question."""

    name = "leaves"
    at: str = fieldbench.parameter("applicable", "which")

    def _at(self, hook: str) -> None:
        if self.at == hook:
            sys.exit(0)
        if self.at == f"{hook}-for-ever":
            while True:
                pass

    def applicable(self, observation: Any) -> None:
        self._at("applicable")

    def check_shape(self, shape: Any) -> None:
        self._at("check_shape")

    def fingerprint(self) -> str:
        self._at("fingerprint")
        return ""


class Ends(Scene):
    """A dataset that ends its process."""

    name = "ends"
    at: str = fieldbench.parameter("draw", "where")
    calls: ClassVar[int] = 0

    def prepare(self) -> None:
        if self.at == "prepare":
            sys.exit(0)

    def draw(self, rng: np.random.Generator) -> Field:
        if self.at == "draw":
            ctypes.string_at(0)
        if self.at == "loop":
            while True:
                pass
        return super().draw(rng)


def _occurrences(needle: bytes) -> int:
    found = 0
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in Path("/proc/self/maps").read_text().splitlines():
            where, rights = line.split()[:2]
            if rights.startswith("rw"):
                start, end = (int(number, 16) for number in where.split("-"))
                memory.seek(start)
                try:
                    found += memory.read(end - start).count(needle)
                except OSError:
                    continue
    return found


@hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Mean, Other, Searcher, Patches, Hides, Scribbles, Forks, Clings, Explodes, Murders, Leaves]


@hookimpl
def fieldbench_register_datasets() -> list[type[fieldbench.Dataset]]:
    return [Scene, Ends]


@hookimpl
def fieldbench_register_samplers() -> list[Any]:
    return [SpiedRandom]


@hookimpl
def fieldbench_register_noises() -> list[Any]:
    return [Hiss]


@hookimpl
def fieldbench_register_metrics() -> list[Any]:
    return [Spied]


if "SPY_LOG" in os.environ:
    with open(f"{os.environ['SPY_LOG']}-imports", "a") as imports:
        imports.write(f"{os.getpid()} {os.getppid()}\n")
