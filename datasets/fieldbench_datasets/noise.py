"""Measurement noise of the sound-speed experiments (paper, section V-A, tables II and III)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fieldbench
from fieldbench import FloatArray


class NoNoise(fieldbench.Noise):
    """Nothing is added."""

    name = "none"
    revision = "1"
    normal = True

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        return np.zeros(shape)


class Gaussian(fieldbench.Noise):
    """Independent Gaussian noise of standard deviation sigma."""

    name = "gaussian"
    revision = "1"
    normal = True

    sigma: float = fieldbench.parameter(0.1, "standard deviation, in the field's unit", gt=0)

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        return rng.normal(0.0, self.sigma, shape)


class Laplacian(fieldbench.Noise):
    """Independent Laplacian noise of standard deviation sigma (its scale parameter is sigma / sqrt 2)."""

    name = "laplacian"
    revision = "1"

    sigma: float = fieldbench.parameter(0.1, "standard deviation, in the field's unit", gt=0)

    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        return rng.laplace(0.0, self.sigma / np.sqrt(2), shape)
