"""The base class of measurement noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fieldbench.field import FloatArray
from fieldbench.plugin import Plugin


class Noise(Plugin, ABC):
    """Additive noise, drawn for the whole field before it is observed (paper, section II-A, eq. 1).

    >>> from fieldbench import parameter
    >>> class Rounding(Noise):
    ...     '''Errors of rounding, uniform over one step of the instrument.'''
    ...
    ...     name = "rounding"
    ...     step: float = parameter(0.1, "step of the instrument, in the unit of the field", gt=0)
    ...
    ...     def draw(self, shape, rng):
    ...         return rng.uniform(-self.step / 2, self.step / 2, shape)
    >>> Rounding(step=0.5).draw((2, 3), np.random.default_rng(0)).shape
    (2, 3)

    Attributes:
        normal: whether it is nothing, or normal and independent with one deviation; only then do datasets know a floor.
    """

    normal: ClassVar[bool] = False

    @abstractmethod
    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        """Noise of the given shape, in the field's unit."""
