"""Polynomials of several variables by least squares, without fieldbench."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def terms(points: Array, degree: int) -> Array:
    """Products of Legendre polynomials of the coordinates, of this total degree at most.

    Args:
        points: shape (n, axes), each coordinate in [-1, 1].
        degree: the largest sum of degrees along the axes.

    Returns:
        Shape (n, terms).
    """
    along = [np.polynomial.legendre.legvander(column, degree) for column in points.T]
    wanted = [degrees for degrees in product(range(degree + 1), repeat=len(along)) if sum(degrees) <= degree]
    columns = [np.prod([part[:, of] for part, of in zip(along, degrees, strict=True)], axis=0) for degrees in wanted]
    return np.stack(columns, axis=1)


def fit(known: Array, values: Array, wanted: Array) -> tuple[Array, Array]:
    """The polynomial of least squares, and how sure it is.

    Args:
        known: terms at the observed points, shape (n, terms).
        values: there, shape (n,).
        wanted: terms at the points to predict, shape (m, terms).

    Returns:
        Mean and standard deviation of the polynomial at these points, shapes (m,). With as many terms as points or
        more it is the shortest of all that fit, and the deviation is 0.
    """
    left, singular, right = np.linalg.svd(known, full_matrices=False)
    kept = singular > 1e-12 * singular[0]
    shortened = right[kept].T / singular[kept]
    coefficients = shortened @ (left[:, kept].T @ values)
    free = len(values) - int(kept.sum())
    variance = float(np.sum((values - known @ coefficients) ** 2) / free) if free > 0 else 0.0
    return wanted @ coefficients, np.sqrt(variance) * np.linalg.norm(wanted @ shortened, axis=1)
