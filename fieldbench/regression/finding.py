"""Something that has moved, and the words for it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that has moved.

    Attributes:
        measure: ``rmse``, ``rmse.unobserved``, ``error`` (of several metrics), ``failures``, ``memory`` or ``time``.
        method: whose.
        where: the slice of its trials.
        direction: ``worse``, ``better`` or, for what cannot be told, ``changed``.
        before, after: mean of the measure (median of memory and time), or a count.
        change: by how much, in words.
        trials: over how many trials.
        sure: why this is no chance.
        counts: whether it fails the check.
    """

    measure: str
    method: str
    where: str
    direction: str
    before: str
    after: str
    change: str
    trials: int
    sure: str
    counts: bool = True


def direction(change: float) -> str:
    if math.isnan(change):
        return "changed"
    return "worse" if change > 0 else "better"


def relative(before: float, after: float) -> str:
    return f"{after / before - 1:+.2g}" if before and math.isfinite(before) and math.isfinite(after / before) else "-"
