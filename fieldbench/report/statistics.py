"""Small statistics that tables, comparisons, figures and pages share."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

#: Of every interval and test.
CONFIDENCE = 0.95


def half_width(deviation: float, count: int) -> float:
    """Half of Student's 95 % interval of a mean.

    Args:
        deviation: standard deviation of the values.
        count: how many there are, at least two.
    """
    from scipy import stats

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * deviation / math.sqrt(count))


def interval(values: ArrayLike) -> tuple[float, float]:
    """Student's 95 % interval of a vector's mean; (NaN, NaN) for less than two values or one that is not finite."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return math.nan, math.nan
    mean, half = float(numbers.mean()), half_width(float(numbers.std(ddof=1)), len(numbers))
    return mean - half, mean + half


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
