"""Small statistics that figures and pages share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean of a vector; (NaN, NaN) for fewer than two values or one that is not finite."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return math.nan, math.nan
    from scipy import stats

    half = stats.t.ppf((1 + confidence) / 2, len(numbers) - 1) * numbers.std(ddof=1) / math.sqrt(len(numbers))
    return float(numbers.mean() - half), float(numbers.mean() + half)


def front(points: dict[str, tuple[float, float]]) -> list[str]:
    """Names of the points that no other beats in both coordinates (smaller is better), by the first.

    >>> front({"quick": (1, 9), "good": (5, 2), "poor": (6, 3)})
    ['quick', 'good']
    """
    best = math.inf
    chosen = []
    for name, (_, second) in sorted(points.items(), key=lambda item: item[1]):
        if second < best:
            best = second
            chosen.append(name)
    return chosen
