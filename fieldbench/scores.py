"""Scores of a predicted distribution, entry by entry; formulas only, on vectors of n entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fieldbench.field import FloatArray

#: Bins of a histogram of probability transforms.
PIT_BINS = 10


def power_of_two(*arrays: FloatArray) -> float:
    """A scale of these values: divided by it no digit changes, and no square overflows or vanishes.

    >>> power_of_two(np.array([3.0, -5.0]), np.array([0.5]))
    4.0
    """
    return 2.0 ** (math.frexp(max(float(np.max(np.abs(array))) for array in arrays))[1] - 1)


def crps_normal(mean: FloatArray, deviation: FloatArray, truth: FloatArray) -> FloatArray:
    """Continuous ranked probability score of a normal distribution; |truth - mean| where the deviation is 0.

    (Gneiting and Raftery 2007, equation 21.)

    Args:
        mean, deviation: of the distribution, in one unit; arrays of one shape.
        truth: in the same unit and shape.
    """
    from scipy.special import erf

    error = np.abs(truth - mean)
    sure = deviation <= 1e-15 * error
    share = error / np.where(sure, 1.0, deviation)
    density = np.exp(-0.5 * share**2) * math.sqrt(2 / math.pi)
    return np.where(sure, error, error * erf(share / math.sqrt(2)) + deviation * (density - 1 / math.sqrt(math.pi)))


def crps_members(ranked: FloatArray, truth: FloatArray) -> FloatArray:
    """The fair score of sorted members (M, n) with M >= 2: what infinitely many such would have on average.

    mean |x - y| - sum |x_i - x_j| / (2 M (M - 1)), the sum over sorted members in place of over pairs. (Ferro 2014.)
    """
    count = len(ranked)
    weights = 2.0 * np.arange(1, count + 1) - count - 1
    return np.asarray(np.abs(ranked - truth).mean(axis=0) - weights @ ranked / (count * (count - 1)))


def crps_quantiles(quantiles: Mapping[float, FloatArray], truth: FloatArray) -> FloatArray:
    """Twice the quantile loss, integrated over the levels that are there; each stands for those nearest to it."""
    levels = sorted(quantiles)
    borders = [0.0, *((one + other) / 2 for one, other in pairwise(levels)), 1.0]
    total = np.zeros(truth.shape)
    for level, width in zip(levels, np.diff(borders), strict=True):
        short = truth - quantiles[level]
        total += 2 * width * np.maximum(level * short, (level - 1) * short)
    return total


def surprise(mean: FloatArray, deviation: FloatArray, truth: FloatArray) -> FloatArray:
    """The negative logarithm of a normal density; deviations are above 0.

    Args:
        mean, deviation: of the distribution, in one unit; arrays of one shape.
        truth: in the same unit and shape.
    """
    return np.log(deviation) + 0.5 * math.log(2 * math.pi) + 0.5 * ((truth - mean) / deviation) ** 2
