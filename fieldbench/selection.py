"""Selection: which of the estimates that a method reported is the one that counts.

``final`` takes what the method returns. ``holdout`` withholds a share of the observed entries from the
method and takes the reported estimate that fits them best. ``oracle`` takes the reported estimate that
is best against the truth: no user can do that, so tables mark it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fieldbench.field import Field, FloatArray, Mask
from fieldbench.method import as_field_array
from fieldbench.metric import Metric
from fieldbench.plugin import Plugin, parameter


class Selection(Plugin):
    """Base of the three selection rules."""

    peeks: ClassVar[bool] = False
    withholds: ClassVar[bool] = False

    every: int = parameter(100, "steps between the estimates that a method is asked to report", ge=1)


class Final(Selection):
    """The estimate that the method returns."""

    name = "final"
    revision = "1"


class Holdout(Selection):
    """The reported estimate that fits withheld observed entries best."""

    name = "holdout"
    revision = "1"
    withholds = True

    every: int = parameter(25, "steps between the estimates that a method is asked to report", ge=1)
    share: float = parameter(0.1, "share of the observed entries (or whole fibers) that is withheld", gt=0, lt=1)


class Oracle(Selection):
    """The reported estimate that is best against the truth (marked in tables: no user can do this)."""

    name = "oracle"
    revision = "1"
    peeks = True

    every: int = parameter(25, "steps between the estimates that a method is asked to report", ge=1)


RULES: dict[str, type[Selection]] = {rule.name: rule for rule in (Final, Holdout, Oracle)}


class Recorder:
    """Receives one trial's reports: keeps the curves, and the best estimate where the rule asks for it."""

    def __init__(
        self,
        rule: Selection,
        metric: Metric,
        truth: Field,
        mask: Mask,
        withheld: Mask | None,
        measured: FloatArray,
        allowance: Callable[[], int] = lambda: 1,
    ) -> None:
        """
        Args:
            rule: the selection rule.
            metric: the headline metric; it draws the curve and ranks the estimates.
            truth: the field.
            mask: True = observed.
            withheld: True = withheld from the method, or None.
            measured: the noisy field at observed entries, which is all that ``holdout`` may look at.
            allowance: how many CPU threads the method may use now.
        """
        self._rule, self._metric, self._truth = rule, metric.for_field(truth), truth
        self._withheld, self._measured = withheld, measured
        self._allowance = allowance
        self.most_threads = 1
        self._best: tuple[float, int, FloatArray] | None = None
        self._curve: dict[str, list[float]] = {}

    @property
    def threads(self) -> int:
        """CPU threads that the method may use now; the most that it was ever told is kept."""
        threads = self._allowance()
        self.most_threads = max(self.most_threads, threads)
        return threads

    def due(self, step: int) -> bool:
        return step % self._rule.every == 0

    def __call__(self, step: int, estimate: ArrayLike, **diagnostics: Any) -> None:
        array = as_field_array(estimate)
        if array.shape != self._truth.shape:
            raise ValueError(f"report() was given shape {array.shape}, the field has {self._truth.shape}")
        error = self._error(array, self._truth.values, self._truth.existing)
        row = {"step": step, self._metric.name: error}
        judged = error
        if self._withheld is not None:
            judged = self._error(array, self._measured, self._withheld)
            row["withheld"] = judged
        if (self._rule.peeks or self._rule.withholds) and np.isfinite(judged):
            rank = judged if self._metric.lower_is_better else -judged
            better = self._best is None or rank < self._best[0]
            if better and np.isfinite(array[self._truth.existing]).all():
                self._best = (rank, step, array.copy())
        row.update({name: float(value) for name, value in diagnostics.items()})
        # What is reported at some steps only has NaN at the others: entries of all curves belong together.
        before = len(self._curve.get("step", ()))
        for name in {**self._curve, **row}:
            self._curve.setdefault(name, [math.nan] * before).append(row.get(name, math.nan))

    def choose(self, final: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
        """The estimate that counts, and the diagnostics to keep (``curve``, ``selected_step``).

        A method that reported nothing has only its final estimate, whatever the rule; one that did is
        judged on its final estimate too.
        """
        diagnostics: dict[str, Any] = {"curve": self._curve} if self._curve else {}
        if not (self._rule.peeks or self._rule.withholds):
            return final, diagnostics
        entries = self._truth.existing if self._withheld is None else self._withheld
        target = self._truth.values if self._withheld is None else self._measured
        judged = self._error(final, target, entries)
        rank = judged if self._metric.lower_is_better else -judged
        if self._best is None or rank <= self._best[0]:
            return final, {**diagnostics, "selected_step": "final"}
        return self._best[2], {**diagnostics, "selected_step": self._best[1]}

    def _error(self, estimate: FloatArray, target: FloatArray, entries: Mask) -> float:
        return self._metric.score(estimate[entries], target[entries].astype(float))
