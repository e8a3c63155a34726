"""Interpolation from neighbouring observations: the simple baselines that no table should be without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

import fieldbench
from fieldbench import FloatArray, Log, Observation
from fieldbench_methods.axis_scale import AxisScale, axis_scale_parameter, check_axis_scale

#: What a triangulation holds in a minute and a few GiB, by its dimension; in a plane it holds any field.
_MOST_POINTS = {3: 200_000, 4: 10_000}


class Nearest(fieldbench.Method):
    """Every entry takes the value of the nearest observed entry (in grid steps, or in those of ``axis_scale``)."""

    name = "nearest"
    revision = "3"
    pointwise: ClassVar[bool] = True

    axis_scale: AxisScale = axis_scale_parameter()

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from scipy.spatial import cKDTree

        from fieldbench_methods.axis_scale import arranged
        from fieldbench_methods.neighbourhood import tree_of

        def nearest(points: FloatArray, values: FloatArray, targets: FloatArray) -> FloatArray:
            return values[tree_of(points).query(targets)[1]]

        _, geometry = arranged(observation, self.axis_scale, nearest, seed)
        grid, unobserved = geometry.positions(observation.axes), observation.valid & ~observation.mask
        _, closest = cKDTree(grid[observation.mask.ravel()]).query(grid[unobserved.ravel()])
        estimate = observation.filled(float(observation.observed.mean())).astype(float)
        estimate[unobserved] = observation.observed[closest]
        return estimate


class InverseDistance(fieldbench.Method):
    """Mean of the nearest observed values, weighted by a negative power of their distance (Shepard 1968).

    In grid steps, or in those of ``axis_scale``; power in the log domain, bin by bin where whole fibers are observed.
    """

    name = "idw"
    revision = "2"
    pointwise: ClassVar[bool] = True

    power: float = fieldbench.parameter(4.0, "weights are distance to the power of minus this", gt=0, search=(1.0, 8.0))
    neighbours: int = fieldbench.parameter(64, "nearest observed positions that count", ge=1, search=Log(4, 128))
    axis_scale: AxisScale = axis_scale_parameter()

    def check_shape(self, shape: Sequence[int]) -> None:
        check_axis_scale(self.axis_scale, shape)

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from fieldbench_methods.axis_scale import arranged

        data, _ = arranged(observation, self.axis_scale, self._predict, seed)
        return data.complete(self._predict(data.points, data.values, data.targets))

    def _predict(self, points: FloatArray, values: FloatArray, targets: FloatArray) -> FloatArray:
        from scipy.spatial import cKDTree

        from fieldbench_methods.neighbourhood import nearest_points

        tree = cKDTree(points)
        estimate = np.empty((len(targets), values.shape[1]))
        batch = max(1, 2**22 // (self.neighbours * values.shape[1]))
        for start in range(0, len(targets), batch):
            some = targets[start : start + batch]
            closest = nearest_points(tree, some, self.neighbours)
            distances = np.linalg.norm(points[closest] - some[:, np.newaxis], axis=-1)
            # Relative to the nearest, so that a large power does not underflow.
            weights = (distances / distances[:, :1]) ** -self.power
            weights /= weights.sum(axis=1, keepdims=True)
            estimate[start : start + batch] = np.einsum("bk,bkc->bc", weights, values[closest])
        return estimate


class Linear(fieldbench.Method):
    """Linear interpolation on a Delaunay triangulation; outside its hull the nearest observed value.

    scipy's LinearNDInterpolator in grid steps; power in the log domain, bin by bin where whole fibers are
    observed. Observed positions on a line or plane are interpolated along it and are constant across it.
    """

    name = "linear"
    revision = "1"
    pointwise: ClassVar[bool] = True

    def applicable(self, observation: Observation) -> str | None:
        from fieldbench import is_fiber_mask

        fibers = is_fiber_mask(observation.mask)
        order = observation.ndim - fibers
        points = int((observation.mask.any(axis=-1) if fibers else observation.mask).sum())
        most = _MOST_POINTS.get(order, 2_000) if order > 2 else points
        if points > most:
            return f"linear triangulates at most {most} positions in {order} dimensions; {points} are observed"
        return None

    def complete(self, observation: Observation, *, seed: int, device: str, report: fieldbench.Report) -> FloatArray:
        from scipy.interpolate import LinearNDInterpolator
        from scipy.spatial import cKDTree

        from fieldbench_methods.scattered import scatter, within_hull

        data = scatter(observation)
        if not len(data.targets):
            return data.complete(np.empty((0, data.values.shape[1])))
        points, targets = within_hull(data.points, data.targets)
        if points.shape[1] == 0:
            return data.complete(np.repeat(data.values, len(targets), axis=0))
        if points.shape[1] == 1:
            return data.complete(_along_line(points[:, 0], data.values, targets[:, 0]))
        estimate = LinearNDInterpolator(points, data.values)(targets)
        outside = np.isnan(estimate[:, 0])
        _, closest = cKDTree(points).query(targets[outside])
        estimate[outside] = data.values[closest]
        return data.complete(estimate)


def _along_line(points: FloatArray, values: FloatArray, targets: FloatArray) -> FloatArray:
    order = np.argsort(points)
    return np.stack([np.interp(targets, points[order], column[order]) for column in values.T], axis=1)
