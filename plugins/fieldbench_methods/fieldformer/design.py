"""What is trained and how, without saying with which library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fieldbench import Mask
from fieldbench_methods.fieldformer.geometry import Geometry

SMALLEST_NORM = 1e-12
"""Rows of Q and K shorter than this are divided by it, so that an empty cube has score 0 with every other."""


@dataclass(frozen=True)
class Design:
    """Everything about a TAP or MHTAP network but its weights.

    Attributes:
        geometry: cubes, heads and core.
        latent: M, the width of the embedding.
        score_scale: what the cosines are multiplied by before dropout and activation.
        dropout, core_dropout: probabilities of dropping a score and a core entry.
        activation: ``sparsemax`` or ``softmax``, once per row over the concatenated heads.
        output: ``tanh`` or ``identity``.
    """

    geometry: Geometry
    latent: int
    score_scale: float
    dropout: float
    core_dropout: float
    activation: str
    output: str

    @property
    def padded_latent(self) -> int:
        """M rounded up to a multiple of 8, the width of the fast engine's rows."""
        return -(-self.latent // 8) * 8

    @property
    def parameter_shapes(self) -> list[tuple[int, ...]]:
        """W_Q and W_K of shape (K_1 ... K_L, h, M), then V_l of shape (I_l, R_l)."""
        geometry = self.geometry
        embedding = (geometry.cube_size, geometry.head_count, self.latent)
        return [embedding, embedding, *zip(geometry.shape, geometry.core_shape, strict=True)]

    @property
    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.parameter_shapes)

    def initial(self, seed: int) -> list[NDArray[np.float32]]:
        """Weights from U(-1/sqrt(fan_in), 1/sqrt(fan_in)); fan-in is K_1 ... K_L or R_l."""
        geometry = self.geometry
        fans = [geometry.cube_size, geometry.cube_size, *geometry.core_shape]
        return uniform_weights(self.parameter_shapes, fans, seed)


def uniform_weights(shapes: Sequence[tuple[int, ...]], fans: Sequence[int], seed: int) -> list[NDArray[np.float32]]:
    """One array for each shape, drawn from U(-1/sqrt(fan), 1/sqrt(fan)) with a generator of its own.

    Args:
        shapes: of the arrays.
        fans: inputs of each array's layer.
        seed: of the generator.
    """
    generator = np.random.default_rng(seed)
    return [
        ((2 * generator.random(shape) - 1) / math.sqrt(fan)).astype(np.float32)
        for shape, fan in zip(shapes, fans, strict=True)
    ]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: AdamW (Loshchilov, Hutter 2019) on the full batch.

    Attributes:
        epochs: number of updates.
        learning_rate, weight_decay: of AdamW; a decay of 0 is Adam.
        share_of_all: divide the squared error by the number of all entries instead of the observed ones.
    """

    epochs: int
    learning_rate: float
    weight_decay: float = 0.0
    share_of_all: bool = False

    def entry_weight(self, mask: Mask) -> float:
        """What one observed entry's squared error weighs in the loss."""
        return 1 / (mask.size if self.share_of_all else int(mask.sum()))

    def shortened(self, share: float) -> Schedule:
        """The same for a share of the epochs."""
        return replace(self, epochs=max(1, round(share * self.epochs)))
