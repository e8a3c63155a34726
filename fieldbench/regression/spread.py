"""How far trials of a cell lie apart, from few trials a cell.

A cell alone tells little: two or three trials. All cells of a method pooled tell more, but only if they are alike,
and a method may well be erratic at one rate and steady at another. In between stands the moderated variance: how
much variances differ among cells is itself estimated, and each is drawn towards the common one as far as that says
(G. Smyth, Linear models and empirical Bayes methods, Statistical Applications in Genetics and Molecular Biology 3,
2004, sections 3 and 6.2).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

_LEAST = 1e-5
"""Variances below this share of their median are taken to be it: the logarithm of none is no number."""


def moderated(variances: Vector, freedoms: Vector) -> tuple[Vector, Vector]:
    """Moderated variances of cells, and the degrees of freedom of each.

    With cells that are as alike as chance lets them be, this is the pooled variance with all degrees of freedom.

    Args:
        variances: of each cell, not negative.
        freedoms: their degrees of freedom, at least 1.
    """
    from scipy.special import digamma, polygamma

    typical = float(np.median(variances)) if len(variances) > 1 else 0.0
    if typical == 0:
        return variances, freedoms
    half = freedoms / 2
    logs = np.log(np.maximum(variances, _LEAST * typical)) - digamma(half) + np.log(half)
    # What the cells' variances differ by beyond chance; a scaled inverse chi-squared law is fitted to it.
    excess = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if excess <= 0:
        pooled = variances @ freedoms / freedoms.sum()
        return np.full_like(variances, pooled), np.full_like(freedoms, freedoms.sum())
    prior = 2 * _inverse_trigamma(excess)
    common = float(np.exp(logs.mean() + digamma(prior / 2) - np.log(prior / 2)))
    drawn = (prior * common + freedoms * variances) / (prior + freedoms)
    return drawn, np.minimum(prior + freedoms, freedoms.sum())


def _inverse_trigamma(value: float) -> float:
    """The argument at which the trigamma function has this positive value."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    # trigamma(x) lies between 1/x and 1/x + 1/x^2.
    low = 1 / value
    high = (1 + np.sqrt(1 + 4 * value)) / (2 * value)
    return float(brentq(lambda x: float(polygamma(1, x)) - value, low, high))
