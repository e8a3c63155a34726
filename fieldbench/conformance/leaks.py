"""A check of harness and method together: of white noise, nobody can know more than its mean."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fieldbench.conformance.check import NotChecked, fail
from fieldbench.dataset import Dataset
from fieldbench.execution import Options, Pool, slots
from fieldbench.field import Field, grid_axes
from fieldbench.method import Method, parts
from fieldbench.plan import Plan, Request
from fieldbench.plugin import Plugin
from fieldbench.records import NOT_APPLICABLE, OK, Record, Trial
from fieldbench.registry import Registry

#: Entries of a field along each axis, trials, and the share that is observed.
EDGE, TRIALS, RATE = 8, 4, 0.3

#: Standard deviations of an honest score that a score may lie below one; chance does so once in three million checks.
PATIENCE = 5.0

Run = Callable[[Sequence[Trial], Registry], list[Record]]


class WhiteNoise(Dataset):
    """Independent normal entries from a generator that nobody can seed again."""

    name = "white-noise"
    revision = "1"
    default_rates = (RATE,)

    def draw(self, rng: np.random.Generator) -> Field:
        secret = np.random.default_rng(secrets.randbits(128))
        shape = (EDGE, EDGE, EDGE)
        return Field(secret.normal(size=shape), grid_axes(shape))


def beats_no_white_noise(method: Method, registry: Registry, run: Run | None = None) -> None:
    """The error at unobserved entries is no smaller than the deviation of the noise.

    Args:
        method: who completes.
        registry: where it is found.
        run: runs trials; by default in processes, as every run does.

    Raises:
        ConformanceFailure: if it is smaller than chance explains: the truth has reached the method.
        NotChecked: if the method does not work on such a field.
    """
    known = registry.entries("method")
    new: list[type[Plugin]] = [type(part) for part in parts(method) if part.name not in known]
    classes: tuple[type[Plugin], ...] = (*registry.sources.classes, WhiteNoise, *new)
    there = Registry(replace(registry.sources, classes=classes))
    plan = Plan(Request(methods=str(method), datasets=WhiteNoise.name, trials=TRIALS), there)
    records = (run or _in_processes)(list(plan), there)
    if any(record.status == NOT_APPLICABLE for record in records):
        raise NotChecked(f"not applicable to a field of white noise: {records[0].error}")
    done = f"completing {TRIALS} fields of white noise that were drawn in secret"
    for record in records:
        if record.status != OK:
            fail(done, f"{record.status}: {record.error}", "returns an estimate")
    squares = [record.metrics["rmse.unobserved"] ** 2 for record in records]
    entries = sum(EDGE**3 - int(record.diagnostics["observed"]) for record in records)
    least = 1 - PATIENCE * math.sqrt(2 / entries)
    if float(np.mean(squares)) < least:
        fail(
            done,
            f"the mean square error at unobserved entries is {np.mean(squares):.3g}, where without any knowledge of "
            f"them it is at least {least:.3g}",
            "knows nothing of what is not observed",
        )


def _in_processes(trials: Sequence[Trial], registry: Registry) -> list[Record]:
    options = Options(device="cpu", jobs=1)
    with Pool(slots(options), registry, options) as pool:
        return [record for trial in trials for record in pool.run([trial]).records]
