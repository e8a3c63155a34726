"""Small methods and datasets for the command line: a single-file plugin."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

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


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method] | type[fieldbench.Modifier]]:
    return [Mean, Hat, Windowed, Flaky, Cubic, Walk]


@fieldbench.hookimpl
def fieldbench_register_datasets() -> list[type[fieldbench.Dataset]]:
    return [Wave, Holey]
