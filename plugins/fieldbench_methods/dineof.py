"""DINEOF: gaps filled by the leading empirical orthogonal functions of the field itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

import numpy as np

import fieldbench
from fieldbench import Estimate, FloatArray, Mask, Observation, RequestError, is_fiber_mask
from fieldbench_methods.scaling import fit_scaling
from fieldbench_methods.withholding import withhold


class Dineof(fieldbench.Method):
    """Data-interpolating empirical orthogonal functions, their number chosen on withheld entries.

    The field is unfolded into a matrix: one axis makes its columns, all others together its rows (a series
    of maps: time makes the columns, space the rows). Unobserved entries start at the observed mean and are
    replaced by the truncated singular value decomposition until they settle, with one mode, then two, ...;
    the number of modes (and the axis) of the smallest error at a tenth of the observed entries (or
    fibers), withheld, is then used with all of them. A row without any observation stays at the mean.
    Its deviation is the error field of optimal interpolation by these functions, as large as errors at the withheld
    entries are. Power in the log domain. (Beckers and Rixen 2003; Beckers, Barth and Alvera-Azcarate 2006.)
    """

    name = "dineof"
    revision = "2"

    axis: int | None = fieldbench.parameter(
        None, "axis that makes the columns of the matrix, from 0; none = chosen on withheld observed entries"
    )
    modes: int | None = fieldbench.parameter(
        None,
        "number of modes; none = chosen on withheld observed entries",
        ge=1,
        source="Beckers and Rixen 2003",
        search=[None, 1, 2, 4],
    )
    tolerance: float = fieldbench.parameter(
        1e-3, "settled: unobserved entries change by less than this share of the observed deviation", gt=0
    )
    iterations: int = fieldbench.parameter(50, "most iterations with one number of modes", ge=1)

    def applicable(self, observation: Observation) -> str | None:
        if observation.ndim < 2:
            return "dineof works on fields of at least 2 dimensions; this one is 1-D"
        return None

    def check_shape(self, shape: Sequence[int]) -> None:
        if self.axis is not None and not 0 <= self.axis < len(shape):
            raise ValueError(f"axis={self.axis}: the field has axes 0 to {len(shape) - 1}")
        sizes = shape if self.axis is None else [shape[self.axis]]
        rank = min(min(size, prod(shape) // size) for size in sizes)
        if self.modes is not None and self.modes > rank:
            raise ValueError(f"modes={self.modes}: a matrix of this field has only {rank}; give at most that")

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> Estimate:
        try:
            self.check_shape(observation.shape)
        except ValueError as error:
            raise RequestError(f"dineof: {error}") from None
        scaling, mask = fit_scaling(observation), observation.mask
        values = scaling.forward(observation.filled(1.0))
        limits = ModeStopping(self.tolerance, self.iterations)
        # Where whole fibers are observed, a row along the last axis is complete or empty and teaches nothing.
        informative = observation.ndim - is_fiber_mask(mask, observation.valid)
        axes = list(range(informative)) if self.axis is None else [self.axis]
        withheld = withhold(mask, 0.1, np.random.default_rng(seed), observation.valid)
        if withheld is None:
            found = next(islice(truncations(values, mask, axes[0], limits), (self.modes or 1) - 1, None))
            return scaling.estimate(found, None)
        square, modes, axis = min(
            (*best_modes(values, mask, withheld, axis, self.modes, limits), axis) for axis in axes
        )
        found = next(islice(truncations(values, mask, axis, limits), modes - 1, None))
        expected = error_variance(found, mask & ~withheld, axis, modes, square)[withheld].mean()
        size = square / expected if expected > 0 else 1.0
        variance = np.where(mask, 0.0, size * error_variance(found, mask, axis, modes, square))
        return scaling.estimate(found, np.sqrt(variance))


@dataclass(frozen=True)
class ModeStopping:
    """When the iteration with one number of modes ends: unobserved entries settle, or the iterations are used up."""

    tolerance: float
    iterations: int


def truncations(values: FloatArray, mask: Mask, axis: int, limits: ModeStopping) -> Iterator[FloatArray]:
    """The field filled by 1, 2, 3, ... modes, each starting from the one before; the last one is full rank.

    Args:
        values: array of any order of at least 2; only the entries of ``mask`` (True = observed) are read.
        mask: boolean array of the same shape.
        axis: the axis that makes the columns.
        limits: when one number of modes is done.
    """
    mean, deviation = values[mask].mean(), values[mask].std()
    observed = np.moveaxis(mask, axis, -1).reshape(-1, mask.shape[axis])
    anomalies = np.moveaxis(np.where(mask, values - mean, 0.0), axis, -1)
    shape, matrix = anomalies.shape, anomalies.reshape(observed.shape).copy()
    unobserved = np.flatnonzero(~observed)
    entries, settled = matrix.ravel(), limits.tolerance * deviation * np.sqrt(len(unobserved))
    for modes in range(1, min(matrix.shape) + 1):
        for _ in range(limits.iterations):
            filled = truncate(matrix, modes).ravel()[unobserved]
            change = float(np.linalg.norm(filled - entries[unobserved]))
            entries[unobserved] = filled
            if change <= settled:
                break
        yield np.where(mask, values, mean + np.moveaxis(matrix.reshape(shape), -1, axis))


def truncate(matrix: FloatArray, modes: int) -> FloatArray:
    """The nearest matrix of rank ``modes`` in the Frobenius norm."""
    # Projection onto the leading eigenvectors of the smaller Gram matrix costs far less than an SVD.
    if matrix.shape[0] < matrix.shape[1]:
        return truncate(matrix.T, modes).T
    _, vectors = np.linalg.eigh(matrix.T @ matrix)
    leading = vectors[:, -modes:]
    return (matrix @ leading) @ leading.T


def error_variance(field: FloatArray, mask: Mask, axis: int, modes: int, noise: float) -> FloatArray:
    """The error variance of optimal interpolation by the leading functions of a filled field, of its shape.

    Each column has amplitudes of its own, of unit variance before anything is observed; what the functions leave
    unexplained is taken for noise, and is part of the error. (Beckers, Barth and Alvera-Azcarate 2006.)

    Args:
        field: observed and filled entries.
        mask: boolean array of the same shape, True = observed.
        axis: the axis that makes the columns.
        modes: how many functions count.
        noise: variance of what they leave.
    """
    turned, seen = np.moveaxis(field, axis, -1), np.moveaxis(mask, axis, -1)
    matrix, observed = turned.reshape(-1, turned.shape[-1]) - field[mask].mean(), seen.reshape(-1, turned.shape[-1])
    _, vectors = np.linalg.eigh(matrix.T @ matrix)
    leading = vectors[:, -modes:]
    scores = matrix @ leading
    left = max(noise, np.finfo(float).eps * float(np.mean(matrix**2)), np.finfo(float).tiny)
    functions = scores / np.sqrt(matrix.shape[1])
    variance = np.empty(matrix.shape)
    for column in range(matrix.shape[1]):
        there = functions[observed[:, column]]
        spread = np.linalg.inv(left * np.eye(modes) + there.T @ there)
        variance[:, column] = left * (1 + np.einsum("rk,kl,rl->r", functions, spread, functions))
    return np.moveaxis(variance.reshape(turned.shape), -1, axis)


def best_modes(
    values: FloatArray, mask: Mask, withheld: Mask, axis: int, modes: int | None, limits: ModeStopping
) -> tuple[float, int]:
    """Mean squared error at the withheld entries, and the number of modes that has it.

    Numbers are tried from 1 upwards, or only ``modes``; the search ends when three more modes than the best
    have not helped.

    Args:
        values: of the field, at least 2-D; only entries of ``mask`` are read.
        mask: True = observed.
        withheld: the observed entries that judge, True = withheld.
        axis: the one that makes the columns.
        modes: the only number to be tried, or None.
        limits: of each number's iteration.
    """
    best = (np.inf, 1)
    for count, field in enumerate(truncations(values, mask & ~withheld, axis, limits), start=1):
        if modes is None or count == modes:
            best = min(best, (float(np.mean((field[withheld] - values[withheld]) ** 2)), count))
        if count == modes or (modes is None and count >= best[1] + 3):
            break
    return best
