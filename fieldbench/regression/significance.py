"""How sure a change is: tests against a margin, and Holm's correction of all tests of a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench.regression.finding import Finding
from fieldbench.report.comparison import holm
from fieldbench.report.numbers import p_text

#: Chance of any false alarm in a check, shared equally among the families of tests.
ALPHA = 0.01
FAMILIES = ("error", "trial", "failures", "memory", "time")

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Suspicion:
    """What may be a finding, once its p-value is corrected together with the others of its family.

    Attributes:
        subject: method and measure.
        p: before the correction.
        rows: the trials that speak for it.
        finding: made only if it is sure.
    """

    subject: tuple[str, str]
    p: float
    rows: frozenset[int]
    finding: Callable[[], Finding]


def surest(suspicions: list[Suspicion]) -> Iterator[Finding]:
    """Those that remain after Holm's correction, surest first; of slices that overlap only the surest."""
    corrected = holm([suspicion.p for suspicion in suspicions])
    level = ALPHA / len(FAMILIES)
    sure = [
        (suspicion.p, p, at) for at, (suspicion, p) in enumerate(zip(suspicions, corrected, strict=True)) if p < level
    ]
    shown: dict[tuple[str, str], set[int]] = {}
    for _, p, at in sorted(sure, key=lambda item: (item[0], -len(suspicions[item[2]].rows))):
        suspicion = suspicions[at]
        covered = shown.setdefault(suspicion.subject, set())
        if covered.isdisjoint(suspicion.rows):
            covered |= suspicion.rows
            finding = suspicion.finding()
            text = f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"
            yield replace(finding, sure=f"{text} ({finding.sure})")


def beyond(mean: float, error: float, freedom: float, margin: float) -> float:
    """p-value of the hypothesis that the true mean lies within ± margin."""
    from scipy import stats

    if not math.isfinite(mean):
        return 0.0
    if error == 0:
        return 0.0 if abs(mean) > margin else 1.0
    nearer, farther = (abs(mean) - margin) / error, (abs(mean) + margin) / error
    return min(1.0, float(stats.t.sf(nearer, freedom) + stats.t.sf(farther, freedom)))


def outside(excess: float, spread: float, freedom: float) -> float:
    """p-value of a difference between two independent trials of this spread."""
    from scipy import stats

    if excess == 0 or spread == 0:
        return 0.0 if excess > 0 else 1.0
    return min(1.0, 2 * float(stats.t.sf(excess / spread, freedom)))


def standard_error(values: Vector) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))
