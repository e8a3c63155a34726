"""A small run with everything in it: curves, failures, kept fields, two rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

import fieldbench
from fieldbench import fields
from fieldbench.plan import Plan, Request
from fieldbench.registry import Registry, Sources
from fieldbench.report.facts import gather
from fieldbench.report.stored import StoredRun
from fieldbench.store import RunStore
from fieldbench.trial import run

NASTY = "</script><b>too sparse</b> & 'quoted'"


class Sea(fieldbench.Dataset):
    """Waves over depth, with both signs."""

    name = "sea"
    revision = "1"
    default_rates = (0.2, 0.4)

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        x, y, z = np.meshgrid(np.arange(6), np.arange(7), np.arange(5), indexing="ij")
        values = np.sin(x + rng.random()) + np.cos(y) * z / 3
        axes = (
            fieldbench.Axis.regular("x", 6, 8.0, "km"),
            fieldbench.Axis.regular("y", 7, 8.0, "km"),
            fieldbench.Axis.regular("depth", 5, 10.0, "m"),
        )
        return fieldbench.Field(values, axes, unit="m/s", quantity="sound speed anomaly")


class Learner(fieldbench.Method):
    """Comes closer to the observed mean step by step, and reports how sparse it is."""

    name = "learner"
    revision = "1"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> ArrayLike:
        noise = np.random.default_rng(seed).standard_normal(observation.shape)
        mean = float(observation.observed.mean())
        for step in range(1, 301):
            if report.due(step):
                report(step, mean + noise * (1 + 100 / step), support=1 / step)
        return mean + noise


class Fussy(fieldbench.Method):
    """Zero everywhere, or an error where little is observed."""

    name = "fussy"
    revision = "1"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> ArrayLike:
        if observation.rate < 0.3:
            raise ValueError(NASTY)
        return np.zeros(observation.shape)

    def attention(self, observation: fieldbench.Observation, *, seed: int, device: str) -> ArrayLike:
        return np.eye(8) / 2 + 1 / 16


class Flat(fieldbench.Method):
    """The mean of what is observed."""

    name = "flat"
    revision = "1"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> ArrayLike:
        return np.full(observation.shape, observation.observed.mean())


class Half(Flat):
    """Half of that."""

    name = "half"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> ArrayLike:
        return np.full(observation.shape, observation.observed.mean() / 2)


CLASSES = (Sea, Learner, Flat, Half, Fussy)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sea-run"
    registry = Registry(Sources(classes=CLASSES))
    plan = Plan(Request(methods=["learner", "flat", "half", "fussy"], datasets="sea", trials=4), registry)
    plan.prepare()
    with RunStore.open(folder, plan) as store:
        store.manifest["facts"] = gather(plan, registry).as_dict()
        store.begin({"command": ["/somewhere/bin/fieldbench", "run", "--methods", "learner,flat,half,fussy"]})
        for trial in plan:
            keep = fields.keeping(folder) if trial.trial == 0 else None
            for record in run([trial], registry, keep=keep):
                store.append(record)
        store.end("complete")
    return folder


@pytest.fixture
def stored(run_folder: Path) -> StoredRun:
    return StoredRun(run_folder, Sources(classes=CLASSES))
