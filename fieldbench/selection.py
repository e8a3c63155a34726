"""Selection: which of the estimates that a method reported is the one that counts.

``final`` takes what the method returns. ``holdout`` withholds a share of the observed entries from the
method and takes the reported estimate that fits them best. ``oracle`` takes the reported estimate that
is best against the truth: no user can do that, so tables mark it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fieldbench.estimate import Estimate
from fieldbench.field import Field, FloatArray, Mask
from fieldbench.metric import Metric, doubled, for_field, score_one
from fieldbench.plugin import Plugin, parameter

#: Points of a curve that are kept of one trial.
MOST_REPORTS = 20_000


class Selection(Plugin):
    """Base of the three selection rules."""

    uses_truth: ClassVar[bool] = False
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
    uses_truth = True

    every: int = parameter(25, "steps between the estimates that a method is asked to report", ge=1)


RULES: dict[str, type[Selection]] = {rule.name: rule for rule in (Final, Holdout, Oracle)}


class Recorder:
    """Receives one trial's reports: keeps the curves, and the best estimate where the rule asks for it."""

    def __init__(
        self,
        rule: Selection,
        metric: Metric,
        truth: Field,
        withheld: Mask | None,
        measured: FloatArray,
    ) -> None:
        """
        Args:
            rule, truth: of the trial.
            metric: the headline metric; it draws the curve and ranks the estimates.
            withheld: True = withheld from the method.
            measured: the noisy field at observed entries, which is all that ``holdout`` may look at.
        """
        self._rule, self._metric, self._truth = rule, for_field(metric, truth), doubled(truth)
        self._observed, self._withheld = np.isfinite(measured), withheld
        self._target = self._truth
        if withheld is not None:
            self._target = Field(measured, truth.axes, truth.unit, truth.quantity, withheld, truth.log_floor)
        self._best: tuple[float, int, Estimate] | None = None
        self._curve: dict[str, list[float]] = {}

    def __call__(self, step: int, estimate: Estimate, diagnostics: Mapping[str, float]) -> None:
        """Take note of a reported estimate, of the field's shape; it need not be finite."""
        if len(self._curve.get("step", ())) == MOST_REPORTS:
            raise ValueError(f"it reported more than {MOST_REPORTS} estimates; ask report.due(step) before each")
        error = self._error(estimate, self._truth)
        row = {**diagnostics, "step": step, self._metric.name: error}
        judged = error
        if self._withheld is not None:
            judged = self._error(estimate, self._target)
            row["withheld"] = judged
        if (self._rule.uses_truth or self._rule.withholds) and np.isfinite(judged):
            rank = self._metric.rank(judged)
            better = self._best is None or rank < self._best[0]
            if better and np.isfinite(estimate.mean[self._truth.valid]).all():
                self._best = (rank, step, copy.deepcopy(estimate))
        # What is reported at some steps only has NaN at the others: entries of all curves belong together.
        before = len(self._curve.get("step", ()))
        for name in {**self._curve, **row}:
            self._curve.setdefault(name, [math.nan] * before).append(row.get(name, math.nan))

    def choose(self, final: Estimate) -> tuple[Estimate, dict[str, Any]]:
        """The estimate that counts, and the diagnostics to keep (``curve``, ``selected_step``).

        A method that reported nothing has only its final estimate, whatever the rule; one that did is
        judged on its final estimate too.
        """
        diagnostics: dict[str, Any] = {"curve": self._curve} if self._curve else {}
        if not (self._rule.uses_truth or self._rule.withholds):
            return final, diagnostics
        if self._best is None or self._metric.rank(self._error(final, self._target)) <= self._best[0]:
            return final, {**diagnostics, "selected_step": "final"}
        return self._best[2], {**diagnostics, "selected_step": self._best[1]}

    def _error(self, estimate: Estimate, target: Field) -> float:
        """The score over all entries of a target."""
        return score_one(self._metric, estimate, target, target.valid, self._observed)
