"""The tensor neural network: its sizes and initial weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldbench_methods.fieldformer.design import uniform_weights

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class TensorNetwork:
    """core, Tucker expansion, ReLU, Tucker expansion, tanh (Li, Cheng et al. 2023).

    Attributes:
        shapes: sizes of the core, of the hidden layer and of the field.
    """

    shapes: tuple[Sizes, Sizes, Sizes]

    @property
    def parameter_shapes(self) -> list[Sizes]:
        """The core, then the factor matrices of the first and of the second expansion."""
        core, hidden, field = self.shapes
        return [core, *zip(hidden, core, strict=True), *zip(field, hidden, strict=True)]

    @property
    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.parameter_shapes)

    def uniform(self, seed: int) -> list[NDArray[np.float32]]:
        """Weights from U(-1/sqrt(fan_in), 1/sqrt(fan_in)); the core's fan-in is all but its first mode."""
        return uniform_weights(self.parameter_shapes, [math.prod(shape[1:]) for shape in self.parameter_shapes], seed)

    def normal(self, seed: int) -> list[NDArray[np.float32]]:
        """A standard normal core, and factors from the standard normal law truncated to [-1, 1]."""
        generator = np.random.default_rng(seed)
        core, *factors = self.parameter_shapes
        weights = [generator.standard_normal(core)]
        for shape in factors:
            draw = generator.standard_normal(shape)
            while (outside := np.abs(draw) > 1).any():
                draw[outside] = generator.standard_normal(int(outside.sum()))
            weights.append(draw)
        return [array.astype(np.float32) for array in weights]
