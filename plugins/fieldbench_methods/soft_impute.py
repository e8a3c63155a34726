"""Soft-Impute: the matrix of least nuclear norm that is near the observed entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

import fieldbench
from fieldbench import FloatArray, Log, Mask, Observation, RequestError, Value, is_fiber_mask
from fieldbench_methods.scaling import fit_scaling
from fieldbench_methods.withholding import withhold


class SoftImpute(fieldbench.Method):
    """Completion of a matrix by soft-thresholded singular values (Mazumder, Hastie, Tibshirani 2010).

    The field is unfolded into a matrix as by dineof: one axis makes the columns. It minimises half the squared error
    at observed entries plus penalty x nuclear norm, along a path of falling penalties that each start from the one
    before. The penalty (and the axis) of the smallest error at a tenth of the observed entries, withheld, is then used
    with all of them. The observed mean is removed before. Power in the log domain.
    """

    name = "soft-impute"
    revision = "1"
    conformance_parameters: ClassVar[dict[str, Value]] = {"path": 4, "iterations": 20}

    axis: int | None = fieldbench.parameter(
        None, "axis that makes the columns, from 0; none: chosen on withheld observed entries"
    )
    penalty: float | None = fieldbench.parameter(
        None,
        "as a share of the largest singular value of the observed entries; none: chosen on withheld observed entries",
        gt=0,
        search=Log(1e-3, 0.5),
    )
    path: int = fieldbench.parameter(12, "penalties from 1 to a thousandth", ge=2)
    tolerance: float = fieldbench.parameter(1e-5, "settled: relative change of the squared norm", gt=0)
    iterations: int = fieldbench.parameter(200, "most iterations with one penalty", ge=1)

    def applicable(self, observation: Observation) -> str | None:
        return None if observation.ndim > 1 else "soft-impute works on fields of at least 2 dimensions; this one is 1-D"

    def check_shape(self, shape: Sequence[int]) -> None:
        if self.axis is not None and not 0 <= self.axis < len(shape):
            raise ValueError(f"axis={self.axis}: the field has axes 0 to {len(shape) - 1}")

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        try:
            self.check_shape(observation.shape)
        except ValueError as error:
            raise RequestError(f"soft-impute: {error}") from None
        scaling, mask = fit_scaling(observation), observation.mask
        values = scaling.forward(observation.filled(1.0))
        # Where whole fibers are observed, a row along the last axis is complete or empty and teaches nothing.
        informative = observation.ndim - is_fiber_mask(mask, observation.valid)
        axes = list(range(informative)) if self.axis is None else [self.axis]
        withheld = withhold(mask, 0.1, np.random.default_rng(seed), observation.valid)
        axis, best = axes[0], self.path - 1
        if withheld is not None and (self.penalty is None or len(axes) > 1):
            errors = {
                (axis, number): float(np.mean((field[withheld] - values[withheld]) ** 2))
                for axis in axes
                for number, field in enumerate(self._fields(values, mask & ~withheld, axis))
            }
            axis, best = min(errors, key=errors.__getitem__)
        return scaling.inverse(list(self._fields(values, mask, axis))[: best + 1][-1])

    def _fields(self, values: FloatArray, mask: Mask, axis: int) -> Iterator[FloatArray]:
        """The field at each penalty of the path, or as far as the given one."""
        mean, folded = values[mask].mean(), np.moveaxis(mask, axis, -1)
        seen = folded.reshape(-1, mask.shape[axis])
        matrix = np.moveaxis(np.where(mask, values - mean, 0.0), axis, -1).reshape(seen.shape)
        least: float = 1e-3 if self.penalty is None else min(self.penalty, 1.0)
        largest = float(np.linalg.norm(matrix, 2))
        found: FloatArray = np.zeros(seen.shape)
        for share in np.geomspace(1.0, least, self.path):
            for _ in range(self.iterations):
                before, found = found, shrunk(np.where(seen, matrix, found), float(share) * largest)
                if np.linalg.norm(found - before) <= self.tolerance * max(float(np.linalg.norm(before)), 1e-150):
                    break
            yield np.moveaxis((mean + found).reshape(folded.shape), -1, axis)


def shrunk(matrix: FloatArray, penalty: float) -> FloatArray:
    """The matrix with its singular values lowered by the penalty, to no less than 0."""
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray((left * np.maximum(singular - penalty, 0)) @ right)
