"""Telling emitters apart in what the sensors measure, before anything is completed.

A radio map is a sum over emitters of spatial loss outer power spectrum. If every emitter has a frequency
bin nearly to itself, a bin where it alone is heard shows its spatial loss: separable non-negative matrix
factorisation. Method: Shrestha, Fu and Hong, IEEE TSP 2022, section III; successive projection: Gillis and
Vavasis, IEEE TPAMI 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A residual below this share of a normalised column's norm is rounding.
NEGLIGIBLE = 1e-12


def separate(power: Array, emitters: int) -> tuple[Array, Array]:
    """Split measured power into emitters.

    Args:
        power: what each sensor measured in each bin, shape (sensors, bins).
        emitters: how many there are; fewer are found if the measurements hold fewer.

    Returns:
        Spatial losses at the sensors, shape (found, sensors), and power spectra of unit l2 norm, shape
        (found, bins), non-negative. Their product approximates ``power``.
    """
    losses = power[:, pure_bins(power, emitters)]
    spectra = np.linalg.lstsq(losses, power, rcond=None)[0]
    signs = np.where(spectra.sum(axis=1) < 0, -1.0, 1.0)
    spectra = np.maximum(spectra * signs[:, np.newaxis], 0.0)
    norms = np.linalg.norm(spectra, axis=1)
    heard = norms > 0
    return (losses * signs * norms).T[heard], spectra[heard] / norms[heard, np.newaxis]


def pure_bins(power: Array, emitters: int) -> list[int]:
    """Bins in which one emitter alone is heard, by successive projection; at most ``emitters`` of them.

    Columns are normalised to sum 1, so that a mixed bin lies between the pure ones. The farthest column is
    taken, its direction projected out of all, and so on until nothing is left.
    """
    totals = power.sum(axis=0)
    present = np.flatnonzero(totals > 0)
    residual = power[:, present] / totals[present]
    chosen: list[int] = []
    for _ in range(min(emitters, len(present))):
        norms = np.linalg.norm(residual, axis=0)
        farthest = int(norms.argmax())
        if norms[farthest] < NEGLIGIBLE:
            break
        chosen.append(int(present[farthest]))
        direction = residual[:, farthest] / norms[farthest]
        residual = residual - np.outer(direction, direction @ residual)
    return chosen


def count_emitters(power: Array) -> int:
    """Estimate the number of emitters: the singular values that stand out of the noise, at least 1.

    The threshold is that of Gavish and Donoho, "The optimal hard threshold for singular values is 4/sqrt(3)"
    (IEEE Transactions on Information Theory, 2014), for unknown noise level: a multiple of the median
    singular value. It needs fewer emitters than half of the bins and of the sensors. Emitters too weak to
    stand out of the noise are not counted.

    Args:
        power: what each sensor measured in each bin, shape (sensors, bins).
    """
    values = np.linalg.svd(power, compute_uv=False)
    shape = min(power.shape) / max(power.shape)
    factor = 0.56 * shape**3 - 0.95 * shape**2 + 1.82 * shape + 1.43
    rounding = values[0] * max(power.shape) * np.finfo(float).eps
    return max(1, int((values > max(factor * np.median(values), rounding)).sum()))
