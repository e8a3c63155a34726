"""An observation as scattered points: what interpolation and kriging work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldbench import Axis, FloatArray, Mask, Observation, is_fiber_mask
from fieldbench_methods.scaling import Scaling, fit_scaling


@dataclass(frozen=True)
class Scattered:
    """Observed and unobserved positions of a field, with the observed values in the domain of computation.

    Where whole fibers along the last axis are observed (radio maps), a position is a fiber and its values
    are the entries along it, so that all of them share one geometry and one factorisation. Elsewhere a
    position is one entry. The domain is log10(x + floor) for power, the linear scale for anything else,
    and values are brought to about [-1, 1] in it, so that no scale of the field overflows.

    Attributes:
        observed: boolean array over positions, True = observed.
        missing: boolean array over positions, True = unobserved, where the field exists.
        points: observed positions in grid steps, shape (n, d).
        values: scaled values at ``points``, shape (n, c), with c = 1 unless positions are fibers.
        targets: the missing positions in grid steps, shape (m, d), m may be 0.
        scaling: the map between the field's unit and the scaled domain.
        shape: shape of the field.
    """

    observed: Mask
    missing: Mask
    points: FloatArray
    values: FloatArray
    targets: FloatArray
    scaling: Scaling
    shape: tuple[int, ...]

    def everywhere(self, at_points: FloatArray, at_targets: FloatArray) -> FloatArray:
        """Put values (n, c) at observed and (m, c) at missing positions together; scaled, of the field's shape.

        Where the field does not exist, the mean of the observed values stands.
        """
        columns = np.tile(at_points.mean(axis=0), (self.observed.size, 1))
        columns[self.observed.ravel()], columns[self.missing.ravel()] = at_points, at_targets
        return columns.reshape(self.shape)

    def complete(self, at_targets: FloatArray) -> FloatArray:
        """The field in its own unit: the observed values as they are, ``at_targets`` (m, c) elsewhere."""
        return self.scaling.inverse(self.everywhere(self.values, at_targets))


def scatter(observation: Observation, *, by_index: bool = False) -> Scattered:
    """The scattered form of an observation; only its observed entries are read.

    ``by_index`` takes the index as the position along irregular axes too.
    """
    scaling = fit_scaling(observation)
    fibers = is_fiber_mask(observation.mask)
    observed = np.asarray(observation.mask.any(axis=-1) if fibers else observation.mask)
    values = scaling.forward(observation.observed).reshape(int(observed.sum()), -1)
    grid = positions(observation.axes[:-1] if fibers else observation.axes, by_index=by_index)
    missing = ~observed
    if observation.valid is not None:
        missing &= observation.valid.any(axis=-1) if fibers else observation.valid
    return Scattered(
        observed, missing, grid[observed.ravel()], values, grid[missing.ravel()], scaling, observation.shape
    )


def positions(axes: Sequence[Axis], *, by_index: bool = False) -> FloatArray:
    """Every grid position in grid steps, shape (number of positions, number of axes), in C order.

    A step is the mean spacing of an axis: on a regular axis the coordinate is the index, on an irregular
    one (depth levels) it keeps the true proportions unless ``by_index``.
    """
    steps = [np.arange(len(axis), dtype=float) if by_index else _in_steps(axis) for axis in axes]
    return np.stack([step.ravel() for step in np.meshgrid(*steps, indexing="ij")], axis=1)


def irregular(axes: Sequence[Axis]) -> bool:
    """Whether positions along any of the axes are not its indices."""
    return any(not np.array_equal(_in_steps(axis), np.arange(len(axis))) for axis in axes)


def within_hull(points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both in orthonormal coordinates of the affine hull of ``points``, of its dimension (0 to d).

    Points on a line or plane leave an interpolant undetermined off it. Projecting onto their hull makes
    the interpolant constant at right angles to it, and leaves all distances between points as they were.

    Returns:
        points (n, k) and targets (m, k), k the dimension of the hull; unchanged where k = d.
    """
    centre = points.mean(axis=0)
    _, extents, directions = np.linalg.svd(points - centre, full_matrices=False)
    spanned = directions[extents > 1e-9 * max(1.0, float(extents.max(initial=0.0)))]
    if len(spanned) == points.shape[1]:
        return points, targets
    return (points - centre) @ spanned.T, (targets - centre) @ spanned.T


def _in_steps(axis: Axis) -> NDArray[np.float64]:
    index = np.arange(len(axis), dtype=float)
    gaps = np.diff(axis.coordinates)
    if len(axis) < 3 or not ((gaps > 0).all() or (gaps < 0).all()):
        return index
    coordinates = (axis.coordinates - axis.coordinates[0]) / gaps.mean()
    return index if np.abs(coordinates - index).max() < 1e-6 else coordinates
