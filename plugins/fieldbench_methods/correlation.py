"""Correlation functions of distance, and covariances made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldbench import FloatArray


@dataclass(frozen=True)
class Correlation:
    """A correlation function of distance r in length scales.

    Attributes:
        value: the correlation, 1 at r = 0.
        slope: -value'(r) / r, from which derivatives with respect to length scales follow.
    """

    value: Callable[[FloatArray], FloatArray]
    slope: Callable[[FloatArray], FloatArray]


_ROOT3, _ROOT5 = np.sqrt(3.0), np.sqrt(5.0)

CORRELATIONS = {
    "exponential": Correlation(
        lambda r: np.exp(-r),
        # At r = 0 it is only ever multiplied by a squared distance of 0.
        lambda r: np.exp(-r) / np.where(r > 0, r, 1.0),
    ),
    "matern-3/2": Correlation(lambda r: (1 + _ROOT3 * r) * np.exp(-_ROOT3 * r), lambda r: 3 * np.exp(-_ROOT3 * r)),
    "matern-5/2": Correlation(
        lambda r: (1 + _ROOT5 * r + 5 / 3 * r**2) * np.exp(-_ROOT5 * r),
        lambda r: 5 / 3 * (1 + _ROOT5 * r) * np.exp(-_ROOT5 * r),
    ),
    "squared-exponential": Correlation(lambda r: np.exp(-(r**2) / 2), lambda r: np.exp(-(r**2) / 2)),
}


@dataclass(frozen=True)
class Covariance:
    """A fitted covariance: variance times (correlation + nugget at distance 0).

    Attributes:
        kernel: name of the correlation function.
        lengths: length scales in grid steps, shape (d,).
        nugget: variance of the noise over that of the field.
        variances: variance of the field, one a column of values, shape (c,).
    """

    kernel: str
    lengths: FloatArray
    nugget: float
    variances: FloatArray

    def correlate(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Correlation of the field between positions (n, d) and (m, d), shape (n, m), without the nugget."""
        from scipy.spatial.distance import cdist

        return CORRELATIONS[self.kernel].value(cdist(one / self.lengths, other / self.lengths))
