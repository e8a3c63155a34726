"""Between a training loop, which knows scaled values, and a report, which wants the field's unit."""

from __future__ import annotations

from fieldbench.field import FloatArray
from fieldbench.method import Report
from fieldbench_methods.scaling import Scaling


class Relay:
    """Passes scaled estimates on to a report, in the field's unit."""

    def __init__(self, report: Report, scaling: Scaling) -> None:
        self._report, self._scaling = report, scaling

    def due(self, step: int) -> bool:
        return self._report.due(step)

    def __call__(self, step: int, estimate: FloatArray, support: float | None) -> None:
        diagnostics = {} if support is None else {"support": support}
        self._report(step, self._scaling.inverse(estimate), **diagnostics)
