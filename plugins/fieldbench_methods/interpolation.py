"""Interpolation on the grid: the trivial baselines that no table should be without."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench.field import FloatArray


class Nearest(fieldbench.Method):
    """Every entry takes the value of the nearest observed entry (in grid steps)."""

    name = "nearest"
    revision = "1"

    def complete(
        self, observation: fieldbench.Observation, *, seed: int, device: str, report: fieldbench.Report
    ) -> FloatArray:
        from scipy.spatial import cKDTree

        grid = np.indices(observation.shape).reshape(observation.ndim, -1).T
        _, closest = cKDTree(observation.indices).query(grid)
        return observation.observed[closest].astype(float).reshape(observation.shape)
