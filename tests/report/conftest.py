"""A small run with everything in it: curves, failures, kept fields, two rates."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import fieldbench
from fieldbench import Estimate, reconstructions
from fieldbench.plan import Plan, Request
from fieldbench.records import encode, trial_of
from fieldbench.registry import Registry, Sources
from fieldbench.report.metadata import collect
from fieldbench.report.stored import StoredRun
from fieldbench.store.run import RunStore
from tests.here import examined, keeping, run
from tests.report.chromium import scheme

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

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


PLAIN = {
    "method": "a", "dataset": "sea", "sampler": "random", "noise": "none", "select": "final", "rate": 0.2, "trial": 0,
    "seed": 0, "identity": "i", "error": "", "metrics": {}, "seconds": 1.0, "device": "cpu", "peak_memory": 1,
    "diagnostics": {},
}  # fmt: skip

CLASSES = (Sea, Learner, Flat, Half, Fussy)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "sea-run"
    registry = Registry(Sources(classes=CLASSES))
    plan = Plan(Request(methods=["learner", "flat", "half", "fussy"], datasets="sea", trials=4), registry)
    units = examined(plan, registry)
    with RunStore.open(folder, plan) as store:
        store.manifest.metadata = collect(plan, registry, units).as_dict()
        store.begin({"command": ["/somewhere/bin/fieldbench", "run", "--methods", "learner,flat,half,fussy"]})
        for trial in plan:
            keep = keeping(folder) if trial.number == 0 else None
            for record in run([trial], registry, keep=keep):
                store.append(record)
        store.end("complete")
    return folder


@pytest.fixture
def stored(run_folder: Path) -> StoredRun:
    return StoredRun(run_folder, Sources(classes=CLASSES))


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., StoredRun]:
    return functools.partial(written_run, tmp_path / "written")


def written_run(
    folder: Path, *given: dict[str, Any], manifest: dict[str, Any] | None = None, **metadata: Any
) -> StoredRun:
    """A run of records as they are given; what a record does not say is as in the plainest one."""
    folder.mkdir()
    (folder / "manifest.json").write_text(
        json.dumps({"format": 2, "cells": [], "metadata": metadata, **(manifest or {})})
    )
    rows = [{**PLAIN, **row} for row in given]
    keyed = ({"key": trial_of(row).key, "status": "ok", **row} for row in rows)
    (folder / "trials.jsonl").write_bytes(b"".join(map(encode, keyed)))
    return StoredRun(folder)


@pytest.fixture
def two_seeds(write_run: Callable[..., StoredRun]) -> StoredRun:
    """Two seeds joined, all fields kept; of seed 0, one method failed on the second trial.

    The truth's corner says which draw it is of, and every estimate is off by a quarter.
    """
    draws = [(seed, trial) for seed in (0, 2) for trial in (0, 1)]
    stored = write_run(
        *(
            {"method": method, "seed": seed, "trial": trial, "metrics": {"rmse": 0.25}}
            | ({"status": "failed"} if (method, seed, trial) == ("b", 0, 1) else {})
            for method in ("a", "b")
            for seed, trial in draws
        ),
        order=["a", "b"],
    )
    for row in stored.rows():
        if row["status"] == "ok":
            values = np.linspace(0, 1, 24).reshape(2, 3, 4) + 10 * row["seed"] + row["trial"]
            truth = fieldbench.Field(values)
            observation = fieldbench.Observation(values, np.ones(values.shape, dtype=bool), truth.axes)
            reconstructions.save(
                stored.path / "fields",
                row["key"],
                reconstructions.Reconstruction(truth, observation, Estimate(values + 0.25)),
            )
    return stored


@pytest.fixture(scope="session")
def browser() -> Iterator[WebDriver]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium with its driver on this machine (Debian: chromium and chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture
def scheme_of_the_system(browser: WebDriver) -> Iterator[None]:
    yield
    scheme(browser, "light")
