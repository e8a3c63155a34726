"""Plumes: puffs of something that drifts and spreads, zero nearly everywhere and large in few positions."""

from __future__ import annotations

import numpy as np

import fieldbench
from fieldbench import Axis, FloatArray, parameter


class Plume(fieldbench.Dataset):
    """Concentration downwind of a few sources that release puffs: positive, heavy-tailed, mostly zero.

    Puffs of lognormal mass are released at every time, drift with a wind that meanders and spread by diffusion; each is
    a Gaussian of variance size^2 + 2 x diffusion x age. Concentrations are in units of the detection limit, and what is
    below it is 0. Axes are x, y and time. A rate is the share of points and times observed.
    """

    name = "plume"
    revision = "1"
    default_rates = (0.05, 0.1, 0.2)
    metric = "slnre"

    grid: tuple[int, int] = parameter((32, 32), "grid points along x and y")
    times: int = parameter(12, "times that the field has", ge=1)
    sources: int = parameter(2, "number of sources, placed at random in the windward third", ge=1)
    mass: float = parameter(300.0, "median mass of a puff", unit="limit x step^2", gt=0)
    spread: float = parameter(1.0, "standard deviation of the logarithm of its mass", ge=0)
    size: float = parameter(0.8, "deviation of a puff at its release", unit="grid steps", gt=0)
    diffusion: float = parameter(0.15, "diffusion", unit="step^2/time", ge=0)
    wind: float = parameter(2.0, "wind along x", unit="step/time", gt=0)
    gust: float = parameter(0.5, "deviation of the wind, along each axis and for all puffs", unit="step/time", ge=0)

    def draw(self, rng: np.random.Generator) -> fieldbench.Field:
        spin_up = round(self.grid[0] / self.wind)
        total = spin_up + self.times
        position = rng.random((self.sources, 2)) * np.array([self.grid[0] / 3, self.grid[1] - 1])
        mass = self.mass * np.exp(self.spread * rng.normal(size=(total, self.sources)))
        drift = np.array([self.wind, 0.0]) + self.gust * rng.normal(size=(total, 2))
        travelled = np.vstack([np.zeros(2), np.cumsum(drift, axis=0)])
        values = np.zeros((*self.grid, self.times))
        for time in range(self.times):
            now = spin_up + time
            for born in range(now + 1):
                for source in range(self.sources):
                    centre = position[source] + travelled[now] - travelled[born]
                    values[..., time] += self.puff(mass[born, source], centre, float(now - born))
        values[values < 1] = 0.0
        axes = (
            *(Axis.regular(name, size, 1.0, "step") for name, size in zip("xy", self.grid, strict=True)),
            Axis.regular("time", self.times, 1.0, "time"),
        )
        return fieldbench.Field(values, axes, "detection limit", "concentration", log_floor=1.0)

    def puff(self, mass: float, centre: FloatArray, age: float) -> FloatArray:
        """The concentration of one puff on the grid.

        Args:
            mass: what is in it.
            centre: its position, shape (2,), in grid steps.
            age: time since its release.
        """
        variance = self.size**2 + 2 * self.diffusion * age
        along = [
            np.exp(-((np.arange(size) - middle) ** 2) / (2 * variance))
            for size, middle in zip(self.grid, centre, strict=True)
        ]
        return np.asarray(mass / (2 * np.pi * variance) * np.outer(*along))
