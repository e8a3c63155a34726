"""A single-file plugin with one method, ``calibration``: a fixed job whose time is the unit of time.

The job meets each setting beside the methods, in the same workers, so that what slows a machine down slows the
job down too. Times of two runs are compared in multiples of it and never in seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import fieldbench
from fieldbench.method import Report


class Calibration(fieldbench.Method):
    """A fixed job of matrix products, sorting and small Python steps; its estimate is the observed mean."""

    name = "calibration"
    revision = "1"

    rounds: int = fieldbench.parameter(12, "repetitions of the job; more make a steadier unit", ge=1)

    def complete(self, observation: fieldbench.Observation, *, seed: int, device: str, report: Report) -> Any:
        numbers = np.linspace(0.0, 1.0, 160_000)
        square = numbers.reshape(400, 400)
        total = 0.0
        for _ in range(self.rounds):
            total += float((square @ square).trace())  # what BLAS does
            total += float(np.sort(np.sin(1e4 * numbers))[0])  # what numpy does entry by entry
            total += sum(i % 7 for i in range(20_000))  # what the interpreter does
        if not np.isfinite(total):
            raise ArithmeticError("the calibration job went wrong")
        return np.full(observation.shape, observation.observed.mean())


@fieldbench.hookimpl
def fieldbench_register_methods() -> list[type[fieldbench.Method]]:
    return [Calibration]
