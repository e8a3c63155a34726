"""The base class of measurement noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fieldbench.field import FloatArray
from fieldbench.plugin import Plugin


class Noise(Plugin, ABC):
    """Additive noise, drawn for the whole field before it is observed (paper, section II-A, eq. 1)."""

    @abstractmethod
    def draw(self, shape: Sequence[int], rng: np.random.Generator) -> FloatArray:
        """Noise of the given shape, in the field's unit."""
