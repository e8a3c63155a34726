"""Lemma 1 of the paper: how many entries SparseMax keeps of a row of N independent standard normal scores.

**The lemma and the simulation disagree.** The lemma's law hardly depends on N and has an expectation of
1.81; simulated rows keep 1.52 entries of 2 on average (here the lemma is exact), 2.46 of 10, 3.40 of 100,
4.08 of 729 and about 4.8 of 10,000, and the number keeps growing with N. Three things stand in the way:

- Its proof treats the sorted scores z_1 > z_2 > ... as independent normal variables that merely happen to
  be in order, one pair at a time. The gaps between the largest of N normal variables are much smaller
  than between two of them, so more entries stay.
- Even so, the variance of z_1 + ... + z_n - n z_{n+1} is n + n^2, not the 2 n that the proof uses from
  n = 2 on.
- The formula as printed (in the lemma and in appendix D) has 1 / (2 i - 2) inside the product where the
  proof's own P(n = 2) gives 1 / sqrt(2 i - 2); as printed it does not sum to 1. :func:`lemma_law` offers both.

What does hold is simple. With b the hazard rate of the normal law at its quantile 1 - 1/N, about
sqrt(2 ln N), Renyi's representation makes i (z_i - z_{i+1}) independent exponential variables of mean 1/b.
SparseMax keeps n entries while their sum over i < n stays below 1, so the number kept beyond the first is
close to a Poisson variable of mean b: :func:`extreme_value_support`, 8 % above the simulation at N = 100
and 5 % at N = 729.

None of this describes trained attention, whose scores are neither independent nor of unit variance:
cosines over sqrt(K1 K2 K3) are so small that SparseMax keeps a tenth of the row (see the reported
``support``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm


def lemma_law(count: int, printed: bool = False) -> NDArray[np.float64]:
    """P(n = 1), ..., P(n = N) of the lemma, shape (N,), for N = ``count`` >= 2.

    Args:
        printed: the formula as printed, which does not sum to 1; otherwise with the square root that the
            proof's first steps have, which does.
    """
    sizes = np.arange(1, count, dtype=float)
    stays = 2 * norm.cdf(1 / np.sqrt(2 * sizes)) - 1
    reached = np.cumprod(2 * norm.cdf(1 / (2 * sizes)) - 1 if printed else stays)
    law = np.empty(count)
    law[0] = 1 - stays[0]
    law[1:-1] = (1 - stays[1:]) * reached[:-1]
    law[-1] = np.prod(stays)
    return law


def lemma_support(count: int, printed: bool = False) -> float:
    """The lemma's expected number of entries kept in a row of ``count`` scores."""
    return float(np.arange(1, count + 1) @ lemma_law(count, printed))


def simulated_support(count: int, rows: int, seed: int) -> tuple[float, float]:
    """Mean number of entries that SparseMax keeps in simulated rows, and its standard error.

    Args:
        count: scores in a row.
        rows: number of rows.
        seed: of the scores.
    """
    scores = np.sort(np.random.default_rng(seed).standard_normal((rows, count)), axis=1)[:, ::-1]
    sizes = np.arange(1, count + 1)
    kept = (1 + sizes * scores > np.cumsum(scores, axis=1)).sum(axis=1)
    return float(kept.mean()), float(kept.std(ddof=1) / math.sqrt(rows))


def extreme_value_support(count: int) -> float:
    """1 + b, with b the hazard rate of the standard normal law at its quantile 1 - 1 / ``count``."""
    return float(1 + count * norm.pdf(norm.isf(1 / count)))
