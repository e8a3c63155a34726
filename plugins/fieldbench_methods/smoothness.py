"""Energies of differences on the grid, and the fields that minimise them between observed entries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from fieldbench import FloatArray, Mask, Observation, RequestError
from fieldbench_methods.axis_scale import AxisScale, search
from fieldbench_methods.multigrid import Multigrid
from fieldbench_methods.scattered import scatter
from fieldbench_methods.withholding import box, imitations

# A share of first differences that decides what second differences leave open (a slope that no two
# observed entries determine); too little to be seen elsewhere.
_TIE_BREAK = 1e-6
#: Systems of more unknowns are solved by conjugate gradients; factors of two-dimensional ones stay sparse for longer.
_SMALL, _SMALL_FLAT = 1000, 30_000
_CONVERGED = 1e-7
MOST_STEPS = 300
#: Entries of the box of a field that scales are learned on, and octaves by which they may differ.
_LEARNING_ENTRIES, _OCTAVES = 60_000, 4


class NotConverged(RequestError):
    """Conjugate gradients ran out of steps."""


class Energy:
    """A quadratic energy of fields on part of a grid, for any scale of the axes.

    Without bending it is the sum of the squared first differences along each axis; with bending that of the squared
    second differences, mixed ones twice, and the tie-break. A difference of order k along an axis is divided by
    its scale to the power k. Differences that reach where the field does not exist do not count.

    Args:
        valid: boolean array, True where the field exists.
        bends: whether second differences count.
    """

    def __init__(self, valid: Mask, bends: bool) -> None:
        axes, inside = range(valid.ndim), valid.ravel()

        def squares(orders: dict[int, int]) -> Any:
            """The squared differences of the given order along each of the given axes, as a matrix."""
            factors = [_differences(size, orders.get(axis, 0)) for axis, size in enumerate(valid.shape)]
            difference = reduce(_kron, factors)
            if not inside.all():
                whole = np.abs(difference) @ ~inside == 0
                difference = difference[whole][:, inside]
            return difference.T @ difference

        self._membrane = [squares({axis: 1}) for axis in axes]
        self._plate = (
            {(axis, axis): squares({axis: 2}) for axis in axes}
            | {(one, other): 2 * squares({one: 1, other: 1}) for one, other in combinations(axes, 2)}
            if bends
            else {}
        )
        self.bends = bends

    def matrix(self, scale: Sequence[float]) -> Any:
        """The matrix E of the energy x' E x of the valid entries x, in C order, sparse and symmetric.

        Args:
            scale: one positive number an axis.
        """
        weights = [one**-2 for one in scale]
        membrane = sum(weight * term for weight, term in zip(weights, self._membrane, strict=True))
        if not self._plate:
            return membrane.tocsr()
        plate = sum(weights[one] * weights[other] * term for (one, other), term in self._plate.items())
        return (plate + _TIE_BREAK * membrane).tocsr()


def minimise(energy: Energy, scale: Sequence[float], valid: Mask, observed: Mask, values: FloatArray) -> FloatArray:
    """The minimiser of an energy with the observed positions fixed.

    Small systems are factorised, once for all columns; elsewhere factors would fill the memory, and each column is
    solved by conjugate gradients, from its mean and relative to it, so that how exact it is does not depend on an
    offset. What no observed position is connected with has the mean.

    Args:
        energy: of the valid positions.
        scale: of its axes.
        valid: boolean array, True where the field exists.
        observed: boolean array of the same shape, True = observed, within ``valid``.
        values: at the observed positions, shape (n, c).

    Returns:
        Values at the other valid positions, shape (m, c).

    Raises:
        NotConverged: if conjugate gradients do not get there.
    """
    mean = values.mean(axis=0)
    unobserved = valid & ~observed
    estimate = np.tile(mean, (int(unobserved.sum()), 1))
    unknown = unobserved & _reached(valid, observed)
    if not unknown.any():
        return estimate
    matrix = energy.matrix(scale)
    rows = matrix[unknown[valid]]
    system, right = rows[:, unknown[valid]], -(rows[:, observed[valid]] @ (values - mean))
    if system.shape[0] <= (_SMALL_FLAT if observed.ndim <= 2 else _SMALL):
        from scipy.sparse.linalg import splu

        solution = splu(system.tocsc()).solve(right)
    else:
        nearby = Multigrid(system.tocsr(), unknown, [one**-2 for one in scale], energy.bends)
        solution = _conjugate_gradients(system.tocsr(), right, nearby)
    estimate[unknown[unobserved]] += solution
    return estimate


def complete(observation: Observation, bends: bool, scale: AxisScale, seed: int) -> FloatArray:
    """Complete a field; the seed picks the withheld entries that choose the scale of the axes.

    Args:
        observation: to be completed.
        bends: whether second differences are small; first ones otherwise.
        scale: of the axes as given; chosen where None.
        seed: picks the withheld entries.

    Raises:
        RequestError: if the number of scales is not the number of axes (without the last where whole
            fibers are observed, as each bin is completed by itself).
        NotConverged: if conjugate gradients do not get there with these scales.
    """
    data = scatter(observation)
    positions = data.observed | data.missing
    if scale is not None and len(scale) != positions.ndim:
        raise RequestError(f"axis_scale={scale}: give {positions.ndim} numbers, one for each axis that is completed")
    if scale is None:
        valid = observation.valid if positions.shape == observation.shape else None
        scale = _learned(bends, data.observed, data.missing, data.values, np.random.default_rng(seed), valid)
    return data.complete(minimise(Energy(positions, bends), scale, positions, data.observed, data.values))


def _learned(
    bends: bool, observed: Mask, missing: Mask, values: FloatArray, rng: np.random.Generator, valid: Mask | None
) -> tuple[float, ...]:
    """The scale of least error at withheld positions of a box of the field."""
    part = box(observed, missing, _LEARNING_ENTRIES / observed.size, rng)
    inside = np.zeros(observed.shape, dtype=bool)
    inside[part] = True
    values, observed, missing = values[inside[observed]], observed[part], missing[part]
    trials = imitations(observed, missing, observed.size, rng, None if valid is None else valid[part], copies=1)
    if not trials or observed.ndim < 2:
        return (1.0,) * observed.ndim
    valid = observed | missing
    energy, at = Energy(valid, bends), np.flatnonzero(observed)

    def error(scale: tuple[float, ...]) -> float:
        logarithm = 0.0
        for trial in trials:
            kept, validation = np.zeros((2, observed.size), dtype=bool)
            kept[at[trial.kept]], validation[at[trial.validation]] = True, True
            unobserved = valid.ravel() & ~kept
            try:
                estimate = minimise(energy, scale, valid, kept.reshape(observed.shape), values[trial.kept])
            except NotConverged:
                return np.inf
            square = np.mean((estimate[validation[unobserved]] - values[trial.validation]) ** 2)
            logarithm += trial.weight * np.log(max(float(square), np.finfo(float).tiny))
        return float(logarithm)

    return search(error, observed.ndim, _OCTAVES)


def _reached(valid: Mask, observed: Mask) -> Mask:
    """Where the field exists and is connected with an observed position by neighbours."""
    from scipy.ndimage import label

    if valid.all():
        return valid
    parts, count = label(valid)
    known = np.zeros(count + 1, dtype=bool)
    known[parts[observed]] = True
    return np.asarray(known[parts])


def _differences(size: int, order: int) -> Any:
    """Forward differences of this order along an axis: shape (size - order, size), or no rows."""
    import scipy.sparse as sparse

    if size <= order:
        return sparse.csr_array((0, size))
    stencil = {0: [1.0], 1: [-1.0, 1.0], 2: [1.0, -2.0, 1.0]}[order]
    return sparse.diags_array(stencil, offsets=range(order + 1), shape=(size - order, size), format="csr")


def _kron(one: Any, other: Any) -> Any:
    import scipy.sparse as sparse

    return sparse.kron(one, other, format="csr")


def _conjugate_gradients(system: Any, right: FloatArray, nearby: Multigrid) -> FloatArray:
    """The solution of ``system @ x = right``, shape (m, c)."""
    from scipy.sparse.linalg import LinearOperator, cg

    preconditioner = LinearOperator(system.shape, matvec=nearby.solve, dtype=float)
    solution = np.empty_like(right)
    for column in range(right.shape[1]):
        solution[:, column], failed = cg(
            system, right[:, column], rtol=_CONVERGED, maxiter=MOST_STEPS, M=preconditioner
        )
        if failed:
            raise NotConverged(
                f"the smoothest field was not found in {MOST_STEPS} steps of conjugate gradients; "
                "give an axis_scale that differs less, or thin-plate in its place"
            )
    return solution
