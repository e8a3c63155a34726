"""TAP and MHTAP in plain torch, for a batch of trials: the definition of what the fast engine computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fieldbench_methods.fieldformer import randomness
from fieldbench_methods.fieldformer.geometry import Geometry
from fieldbench_methods.fieldformer.sparsemax import sparsemax
from fieldbench_methods.fieldformer.tucker import expand

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
    """One array for each shape, drawn from U(-1/sqrt(fan), 1/sqrt(fan)) with a generator of its own."""
    generator = np.random.default_rng(seed)
    return [
        ((2 * generator.random(shape) - 1) / math.sqrt(fan)).astype(np.float32)
        for shape, fan in zip(shapes, fans, strict=True)
    ]


class TensorAttention:
    """The network of B trials at once.

    Args:
        design: the network.
        cubes: data matrices P, shape (B, N, K_1 ... K_L), on the device to compute on.
        seeds: one seed a trial, for its dropout.
        epochs: how many steps dropout keys are prepared for.
    """

    def __init__(self, design: Design, cubes: Tensor, seeds: Sequence[int], epochs: int) -> None:
        self.design = design
        self.cubes = cubes
        geometry = design.geometry
        places = geometry.row_places[:, None] + geometry.column_places[None, :]
        self._order = torch.from_numpy(np.argsort(places, axis=None)).to(cubes.device)
        steps = np.arange(epochs)
        self._keys = [
            torch.from_numpy(
                np.stack([randomness.dropout_keys(seed, steps, stream) for seed in seeds], axis=1).astype(np.int64)
            ).to(cubes.device)
            for stream in (randomness.SCORES, randomness.CORE)
        ]

    def __call__(self, parameters: Sequence[Tensor], step: int | None) -> tuple[Tensor, Tensor]:
        """Estimate of shape (B, I_1, .., I_L) and share of non-zero core entries of shape (B,).

        ``step`` chooses the dropout of a training step; None is evaluation, without dropout.
        """
        query, key, *factors = parameters
        attention = self.attention(query, key, step)
        support = (attention != 0).flatten(1).double().mean(1)
        core = attention.flatten(1)[:, self._order].reshape(-1, *self.design.geometry.core_shape)
        field = expand(core, factors)
        return (field.tanh() if self.design.output == "tanh" else field), support

    def attention(self, query: Tensor, key: Tensor, step: int | None) -> Tensor:
        """The attention map, shape (B, N, h N), heads beside one another."""
        design = self.design
        queries = _unit(torch.einsum("bnk,bkhm->bhnm", self.cubes, query))
        keys = _unit(torch.einsum("bnk,bkhm->bhnm", self.cubes, key))
        scores = (queries @ keys.transpose(-1, -2)).transpose(1, 2).flatten(2) * design.score_scale
        scores = self._dropped(scores, design.dropout, randomness.SCORES, step)
        attention = sparsemax(scores) if design.activation == "sparsemax" else scores.softmax(-1)
        return self._dropped(attention, design.core_dropout, randomness.CORE, step)

    def _dropped(self, values: Tensor, probability: float, stream: int, step: int | None) -> Tensor:
        if step is None or probability == 0:
            return values
        kept = randomness.kept(self._keys[stream][step], values[0].numel(), probability)
        return torch.where(kept.reshape(values.shape), values / (1 - probability), 0)


def _unit(rows: Tensor) -> Tensor:
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=SMALLEST_NORM)
