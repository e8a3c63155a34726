"""Energies of differences on the grid, and the fields that minimise them between observed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray, Mask, Observation, RequestError
from fieldbench_methods.scattered import scatter
from fieldbench_methods.withholding import withhold

# A share of first differences that decides what second differences leave open (a slope that no two
# observed entries determine); too little to be seen elsewhere.
_TIE_BREAK = 1e-6
_SMALL = 1000
_CONVERGED = 1e-7
MOST_STEPS = 20_000
# Relative to the dearest linear trend; what costs less is rounding.
_ROUNDING = 1e-13


class NotConverged(RequestError):
    """Conjugate gradients ran out of steps: the weights are too unequal for so large a field."""


class Energy:
    """A quadratic energy of fields of one shape, for any weights of the axes.

    Without bending it is sum_a w_a |D_a x|^2 with first differences D_a; with bending
    sum_a w_a^2 |D_aa x|^2 + 2 sum_{a<b} w_a w_b |D_a D_b x|^2, plus the tie-break.
    """

    def __init__(self, shape: Sequence[int], bends: bool) -> None:
        import scipy.sparse as sparse

        def squares(orders: dict[int, int]) -> Any:
            """The squared differences of the given order along each of the given axes, as a matrix."""
            factors = [_differences(size, orders.get(axis, 0)) for axis, size in enumerate(shape)]
            difference = reduce(lambda one, other: sparse.kron(one, other, format="csr"), factors)
            return difference.T @ difference

        axes = range(len(shape))
        self._membrane = [squares({axis: 1}) for axis in axes]
        self._plate = (
            {(axis, axis): squares({axis: 2}) for axis in axes}
            | {(one, other): 2 * squares({one: 1, other: 1}) for one, other in combinations(axes, 2)}
            if bends
            else {}
        )

    def matrix(self, weights: Sequence[float]) -> Any:
        """The matrix E of the energy x' E x of a field x flattened in C order, sparse and symmetric.

        Args:
            weights: one positive number an axis.
        """
        membrane = sum(weight * term for weight, term in zip(weights, self._membrane, strict=True))
        if not self._plate:
            return membrane.tocsr()
        plate = sum(weights[one] * weights[other] * term for (one, other), term in self._plate.items())
        return (plate + _TIE_BREAK * membrane).tocsr()


def minimise(matrix: Any, observed: Mask, values: FloatArray) -> FloatArray:
    """The minimiser of an energy with the observed positions fixed.

    Up to two axes, and small systems, are factorised, once for all columns; elsewhere factors would fill
    the memory, and each column is solved by conjugate gradients, from its mean and relative to it, so that
    how exact it is does not depend on an offset.

    Args:
        matrix: of an :class:`Energy`, for positions of the shape of ``observed``.
        observed: boolean array, True = observed.
        values: at the observed positions, shape (n, c).

    Returns:
        Values at the unobserved positions, shape (m, c).

    Raises:
        NotConverged: if conjugate gradients do not get there.
    """
    from scipy.sparse.linalg import splu

    at = observed.ravel()
    unobserved = matrix[~at]
    system, border = unobserved[:, ~at], unobserved[:, at]
    if not system.shape[0]:
        return np.empty((0, values.shape[1]))
    if observed.ndim <= 2 or system.shape[0] <= _SMALL:
        return splu(system.tocsc()).solve(-(border @ values))
    mean = values.mean(axis=0)
    return mean + _conjugate_gradients(system, -(border @ (values - mean)), np.argwhere(~observed))


def choose_weights(error: Callable[[tuple[float, ...]], float], axes: int) -> tuple[float, ...]:
    """Weights of small error, powers of 2; only their ratios matter to a minimiser, and stay within 256.

    Starts from equal weights and multiplies or divides one at a time by 4, then by 2, for as long as that
    helps.
    """
    if axes < 2:
        return (1.0,) * axes
    known: dict[tuple[float, ...], float] = {}

    def judge(weights: tuple[float, ...]) -> float:
        key = tuple(weight / weights[0] for weight in weights)
        if key not in known:
            known[key] = error(weights)
        return known[key]

    best = (1.0,) * axes
    for factor in (4.0, 2.0):
        improved = True
        while improved:
            around = [
                tuple(weight * step if axis == changed else weight for axis, weight in enumerate(best))
                for changed in range(axes)
                for step in (factor, 1 / factor)
            ]
            allowed = [weights for weights in around if max(weights) / min(weights) <= 256]
            leader = min(allowed, key=judge)
            improved = judge(leader) < judge(best)
            best = leader if improved else best
    return best


def complete(observation: Observation, bends: bool, weights: tuple[float, ...] | None, seed: int) -> FloatArray:
    """Complete a field; the seed picks the withheld entries that choose the weights.

    Raises:
        RequestError: if the number of weights is not the number of axes (without the last where whole
            fibers are observed, as each bin is completed by itself).
        NotConverged: if conjugate gradients do not get there with these weights.
    """
    data = scatter(observation)
    shape = data.observed.shape
    energy = Energy(shape, bends)
    if weights is None:
        valid = observation.valid if shape == observation.shape else None
        weights = _weights_from_withheld(energy, data.observed, data.values, np.random.default_rng(seed), valid)
    elif len(weights) != len(shape):
        raise RequestError(f"weights={weights}: give {len(shape)} numbers, one for each axis that is completed")
    return data.complete(minimise(energy.matrix(weights), data.observed, data.values))


def _weights_from_withheld(
    energy: Energy, observed: Mask, values: FloatArray, rng: np.random.Generator, valid: Mask | None
) -> tuple[float, ...]:
    withheld = withhold(observed, 0.2, rng, valid)
    if withheld is None or observed.ndim < 2:
        return (1.0,) * observed.ndim
    among_observed = withheld[observed]
    kept = observed & ~withheld
    in_hidden = withheld.ravel()[~kept.ravel()]

    def error(weights: tuple[float, ...]) -> float:
        try:
            estimate = minimise(energy.matrix(weights), kept, values[~among_observed])
        except NotConverged:
            return np.inf
        return float(np.mean((estimate[in_hidden] - values[among_observed]) ** 2))

    return choose_weights(error, observed.ndim)


def _differences(size: int, order: int) -> Any:
    """Forward differences of this order along an axis: shape (size - order, size), or no rows."""
    import scipy.sparse as sparse

    if size <= order:
        return sparse.csr_array((0, size))
    stencil = {0: [1.0], 1: [-1.0, 1.0], 2: [1.0, -2.0, 1.0]}[order]
    return sparse.diags_array(stencil, offsets=range(order + 1), shape=(size - order, size), format="csr")


def _conjugate_gradients(system: Any, right: FloatArray, positions: NDArray[np.intp]) -> FloatArray:
    """The solution of ``system @ x = right``, shape (m, c), for the unobserved positions (m, d)."""
    from scipy.sparse.linalg import cg

    nearby = _preconditioner(system, positions)
    solution = np.empty_like(right)
    for column in range(right.shape[1]):
        solution[:, column], failed = cg(system, right[:, column], rtol=_CONVERGED, maxiter=MOST_STEPS, M=nearby)
        if failed:
            raise NotConverged(
                f"the smoothest field was not found in {MOST_STEPS} steps of conjugate gradients; "
                "give weights that differ less, or thin-plate in its place"
            )
    return solution


def _preconditioner(system: Any, positions: NDArray[np.intp]) -> Any:
    """An inverse of the system for each position by itself and, exactly, for the linear trends.

    Bending does not see a trend: where few entries are observed it costs next to nothing, and steps that go
    from neighbour to neighbour would stop long before they have found it.
    """
    from scipy.sparse.linalg import LinearOperator

    diagonal = system.diagonal()
    trends, _ = np.linalg.qr(np.column_stack([np.ones(len(positions)), positions]))
    costs, modes = np.linalg.eigh(trends.T @ (system @ trends))
    felt = costs > _ROUNDING * costs.max()
    along = trends @ (modes[:, felt] / np.sqrt(costs[felt]))
    return LinearOperator(
        system.shape, matvec=lambda residual: residual / diagonal + along @ (along.T @ residual), dtype=float
    )
