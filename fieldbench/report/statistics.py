"""Small statistics that tables, comparisons, figures and pages share."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

#: Of every interval and test.
CONFIDENCE = 0.95

#: The chance with which a difference that a run could have found is found.
POWER = 0.8


def half_width(deviation: float, count: int, together: int = 1) -> float:
    """Half of Student's 95 % interval of a mean.

    Args:
        deviation: standard deviation of the values.
        count: how many there are, at least two.
        together: how many intervals are to hold at once (Bonferroni's correction).
    """
    return _critical(count, together) * deviation / math.sqrt(count)


def detectable(deviation: float, count: int, together: int = 1) -> float:
    """The mean that Student's two-sided test at 5 % tells from zero in four of five samples (80 % power).

    Args:
        deviation: standard deviation of the values.
        count: how many there are, at least two.
        together: how many tests are corrected for.
    """
    return _shift(count, together) * deviation / math.sqrt(count)


@cache
def _critical(count: int, together: int) -> float:
    from scipy import stats

    return float(stats.t.isf((1 - CONFIDENCE) / 2 / together, count - 1))


@cache
def _shift(count: int, together: int) -> float:
    from scipy import optimize, stats

    # The deviation of a sample over the true one, at the middle of each of many equal shares of its distribution:
    # SciPy's noncentral t is NaN far out, where corrections for many tests lead.
    shares = (np.arange(2000) + 0.5) / 2000
    ends = _critical(count, together) * np.sqrt(stats.chi2.ppf(shares, count - 1) / (count - 1))

    def surplus(shift: float) -> float:
        return float((stats.norm.sf(ends - shift) + stats.norm.sf(ends + shift)).mean()) - POWER

    return float(optimize.brentq(surplus, 0, 2 * ends[-1] + 10))


def interval(values: ArrayLike, together: int = 1) -> tuple[float, float]:
    """Student's 95 % interval of a vector's mean; (NaN, NaN) for less than two values or one that is not finite."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return math.nan, math.nan
    mean, half = float(numbers.mean()), half_width(float(numbers.std(ddof=1)), len(numbers), together)
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
