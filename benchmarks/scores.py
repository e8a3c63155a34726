"""Milliseconds that scores add to a trial of 20 x 20 x 20.

    python benchmarks/scores.py

Of a mean alone, of a stated deviation and of eight members: what the errors take, and what the scores of uncertainty,
the effective resolution and the histogram of probability transforms add. Medians of many calls, on one thread.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

# Before numpy is imported, which reads them once.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np

from fieldbench import Estimate
from fieldbench.field import Field
from fieldbench.judging import probability_histogram
from fieldbench.metric import score_all
from fieldbench.registry import Registry

SHAPE, OBSERVED, CALLS = (20, 20, 20), 0.1, 200
ERRORS = ("rmse", "mae", "nmse", "slnre")


def main() -> None:
    rng = np.random.default_rng(0)
    field, mask = Field(rng.normal(size=SHAPE)), rng.random(SHAPE) < OBSERVED
    estimates = {
        "a mean alone": Estimate(np.zeros(SHAPE)),
        "a deviation": Estimate(np.zeros(SHAPE), np.ones(SHAPE)),
        "eight members": Estimate(np.zeros(SHAPE), members=rng.normal(size=(8, *SHAPE))),
    }
    metrics = Registry().metrics()
    errors = [metric for metric in metrics if metric.name in ERRORS]
    without_resolution = [metric for metric in metrics if metric.name != "resolution"]
    print(f"{'':<16}{'errors':>12}{'sureness':>12}{'resolution':>12}{'histogram':>12}   ms more")
    for name, estimate in estimates.items():
        total = [
            median(lambda chosen=chosen, made=estimate: score_all(chosen, made, field, mask))
            for chosen in (errors, without_resolution, metrics)
        ]
        histogram = median(lambda made=estimate: probability_histogram(made, field, mask))
        added = [total[0], total[1] - total[0], total[2] - total[1], histogram]
        print(f"{name:<16}" + "".join(f"{value:>12.2f}" for value in added))


def median(work: Callable[[], object]) -> float:
    """Milliseconds of processor time that a call takes."""
    times = []
    for _ in range(CALLS):
        start = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


if __name__ == "__main__":
    main()
