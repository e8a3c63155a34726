"""Fronts: a tracer that a known flow stirs into filaments, where stationary covariances fail."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench import Axis, FloatArray, parameter


class Fronts(fieldbench.Dataset):
    """A passive tracer in a periodic box, stirred by sine shears of random phase (Pierrehumbert 1994).

    The tracer begins as one long wave; each step shears it along x and then along y. Rows are moved by linear
    interpolation round the box, which keeps the mean and makes no new extreme; its little diffusion is what keeps
    fronts as wide as a grid step. Axes are x, y (closed) and time. A rate is the share of points and times observed.
    """

    name = "fronts"
    revision = "1"
    default_rates = (0.05, 0.1, 0.2)

    grid: tuple[int, int] = parameter((48, 48), "grid points along x and y")
    times: int = parameter(8, "times that the field has", ge=1)
    spin_up: int = parameter(4, "steps before the first of them", ge=0)
    stirring: float = parameter(0.25, "largest displacement of a shear, over the box", gt=0, search=(0.1, 0.5))

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        x, y = (np.arange(size) / size for size in self.grid)
        angles = 2 * np.pi * (x[:, np.newaxis] + rng.random()), 2 * np.pi * (y + rng.random())
        tracer = np.cos(angles[0]) + np.sin(angles[1])
        kept = []
        for _ in range(self.spin_up + self.times):
            kept.append(tracer)
            tracer = self.stirred(tracer, rng.random(2))
        axes = (
            Axis("x", x, "box", 1.0),
            Axis("y", y, "box", 1.0),
            Axis.regular("time", self.times, 1.0, "step"),
        )
        return fieldbench.Field(np.stack(kept[-self.times :], axis=-1), axes, "", "tracer")

    def stirred(self, tracer: FloatArray, phases: FloatArray) -> FloatArray:
        """The tracer after one step: a shear along x, then one along y.

        Args:
            tracer: shape ``grid``.
            phases: of both shears, in [0, 1).
        """
        x, y = (np.arange(size) / size for size in self.grid)
        along_x = self.stirring * np.sin(2 * np.pi * (y + phases[0])) * self.grid[0]
        along_y = self.stirring * np.sin(2 * np.pi * (x + phases[1])) * self.grid[1]
        return _moved(_moved(tracer.T, along_x).T, along_y)


def _moved(rows: FloatArray, steps: FloatArray) -> FloatArray:
    """Rows, shape (rows, points), each moved round by its number of steps."""
    whole = np.floor(steps).astype(int)
    share = (steps - whole)[:, np.newaxis]
    columns = (np.arange(rows.shape[1]) - whole[:, np.newaxis]) % rows.shape[1]
    near = np.take_along_axis(rows, columns, axis=1)
    far = np.take_along_axis(rows, (columns - 1) % rows.shape[1], axis=1)
    return (1 - share) * near + share * far
