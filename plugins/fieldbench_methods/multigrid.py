"""Conjugate gradients preconditioned by multigrid, for energies of differences on part of a grid.

Coarse grids are Galerkin's: the fine field is a sum of B-splines of twice the width, cut to the entries that are
unknown, whatever shape these have. Axes of far weaker coupling are not coarsened until the others have caught up.
(Trottenberg, Oosterlee and Schueller 2001.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray

_COARSEST = 800
#: A coarser grid must have fewer unknowns than this part of the finer one's.
_WORTH = 0.85
#: Axes whose coupling is at least this part of the strongest are coarsened.
_STRONG = 0.3
#: Degree of the Chebyshev smoother, and the part of the spectrum that it leaves to the coarser grid.
_SWEEPS, _SMOOTH = 3, 0.08
#: Relative to the largest; what costs less on the coarsest grid is rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class _Level:
    matrix: Any
    inverse_diagonal: FloatArray
    largest: float
    prolongation: Any


class Multigrid:
    """An approximate inverse of a symmetric positive definite matrix, one V-cycle; symmetric itself.

    Args:
        matrix: sparse, of the unknown entries of a grid.
        unknown: boolean array of the grid's shape, True = unknown.
        couplings: how strongly the energy couples neighbours along each axis; only ratios matter.
        bends: whether the energy is of second differences.
    """

    def __init__(self, matrix: Any, unknown: NDArray[np.bool_], couplings: Sequence[float], bends: bool) -> None:
        self._levels: list[_Level] = []
        strengths, at = np.array(couplings, dtype=float), unknown.ravel()
        shape = unknown.shape
        while matrix.shape[0] > _COARSEST:
            long = np.array(shape) > 4
            strong = long & (strengths >= _STRONG * strengths[long].max(initial=0.0))
            for halved in (strong, long):
                factors = [
                    _spline(size, bends) if half else _same(size) for size, half in zip(shape, halved, strict=True)
                ]
                prolongation = reduce(_kron, factors)[at]
                used = np.diff(prolongation.tocsc().indptr) > 0
                if used.sum() < _WORTH * matrix.shape[0]:
                    break
            else:
                break
            prolongation, inverse_diagonal = prolongation[:, used].tocsr(), 1 / matrix.diagonal()
            self._levels.append(_Level(matrix, inverse_diagonal, _largest(matrix, inverse_diagonal), prolongation))
            matrix = (prolongation.T @ matrix @ prolongation).tocsr()
            shape, at = tuple(factor.shape[1] for factor in factors), used
            strengths[halved] /= 4
        self._coarsest = _inverse(matrix)

    def solve(self, right: FloatArray) -> FloatArray:
        """One V-cycle from zero for a right side of shape (m,)."""
        return self._cycle(0, right)

    def _cycle(self, number: int, right: FloatArray) -> FloatArray:
        if number == len(self._levels):
            return self._coarsest(right)
        level = self._levels[number]
        field = _smoothed(level, np.zeros_like(right), right)
        coarse = level.prolongation.T @ (right - level.matrix @ field)
        field = field + level.prolongation @ self._cycle(number + 1, coarse)
        return _smoothed(level, field, right)


def _smoothed(level: _Level, field: FloatArray, right: FloatArray) -> FloatArray:
    """Chebyshev's iteration on the upper part of the spectrum of the matrix over its diagonal."""
    upper, lower = 1.1 * level.largest, _SMOOTH * level.largest
    centre, half = (upper + lower) / 2, (upper - lower) / 2
    residual = right - level.matrix @ field if field.any() else right
    step = level.inverse_diagonal * residual / centre
    factor = half / centre
    rho = factor
    for sweep in range(_SWEEPS):
        field = field + step
        if sweep == _SWEEPS - 1:
            return field
        residual = right - level.matrix @ field
        following = 1 / (2 / factor - rho)
        step = following * rho * step + 2 * following / half * level.inverse_diagonal * residual
        rho = following
    return field


def _largest(matrix: Any, inverse_diagonal: FloatArray) -> float:
    """The largest eigenvalue of the matrix over its diagonal, by power iteration."""
    vector = np.random.default_rng(0).normal(size=matrix.shape[0])
    value = 1.0
    for _ in range(12):
        vector = inverse_diagonal * (matrix @ vector)
        value = float(np.linalg.norm(vector))
        vector /= value
    return value


def _inverse(matrix: Any) -> Callable[[FloatArray], FloatArray]:
    """A function that solves a matrix; where splines cut to few entries are dependent, in the least squares sense."""
    if matrix.shape[0] > 4 * _COARSEST:  # grids that cannot be coarsened, of many short axes
        inverse_diagonal = 1 / matrix.diagonal()
        return lambda right: inverse_diagonal * right
    costs, modes = np.linalg.eigh(matrix.toarray())
    felt = costs > _ROUNDING * costs.max(initial=0.0)
    root = modes[:, felt] / np.sqrt(costs[felt])
    return lambda right: np.asarray(root @ (root.T @ right))


def _spline(size: int, cubic: bool) -> Any:
    """Values at ``size`` points of B-splines that are two points apart, linear or cubic: shape (size, about half)."""
    import scipy.sparse as sparse

    stencil = np.array([1, 4, 6, 4, 1]) / 8 if cubic else np.array([1, 2, 1]) / 2
    reach = len(stencil) // 2
    centres = np.arange(0 if not cubic else -2, size + reach, 2)
    rows = centres[:, np.newaxis] + np.arange(-reach, reach + 1)
    columns, values = (
        np.broadcast_to(np.arange(len(centres))[:, np.newaxis], rows.shape),
        np.broadcast_to(stencil, rows.shape),
    )
    inside = (rows >= 0) & (rows < size)
    made = sparse.csr_array((values[inside], (rows[inside], columns[inside])), shape=(size, len(centres)))
    return made[:, np.flatnonzero(np.asarray(made.sum(axis=0)).ravel())]


def _same(size: int) -> Any:
    import scipy.sparse as sparse

    return sparse.eye_array(size, format="csr")


def _kron(one: Any, other: Any) -> Any:
    import scipy.sparse as sparse

    return sparse.kron(one, other, format="csr")
