"""TAP and MHTAP in plain torch, for a batch of trials: the definition of what the fast engines compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fieldbench_methods.fieldformer import randomness
from fieldbench_methods.fieldformer.design import SMALLEST_NORM, Design
from fieldbench_methods.fieldformer.sparsemax import sparsemax
from fieldbench_methods.fieldformer.tucker import expand


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
        self._order = torch.from_numpy(np.argsort(geometry.positions, axis=None)).to(cubes.device)
        steps = np.arange(epochs)
        self.dropout_keys = [
            torch.from_numpy(
                np.stack([randomness.dropout_keys(seed, steps, stream) for seed in seeds], axis=1).astype(np.int64)
            ).to(cubes.device)
            for stream in (randomness.SCORES, randomness.CORE)
        ]

    def __call__(self, parameters: Sequence[Tensor], step: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Estimate of shape (B, I_1, .., I_L) and, in evaluation, share of non-zero core entries of shape (B,).

        ``step``, an integer tensor of shape (1,), chooses the dropout of a training step; None is
        evaluation, without dropout.
        """
        query, key, *factors = parameters
        core = self.core(query, key, step)
        support = (core != 0).double().mean(1) if step is None else None
        field = expand(core.reshape(-1, *self.design.geometry.core_shape), factors)
        return (field.tanh() if self.design.output == "tanh" else field), support

    def core(self, query: Tensor, key: Tensor, step: Tensor | None) -> Tensor:
        """The core tensor, flat: shape (B, h N^2).

        Args:
            query, key: weights of the embeddings, shape (B, K, h, M).
            step: number of the update, for dropout; None where nothing is dropped.
        """
        return self.attention(query, key, step).flatten(1).index_select(1, self._order)

    def attention(self, query: Tensor, key: Tensor, step: Tensor | None) -> Tensor:
        """The attention map, shape (B, N, h N), heads beside one another.

        Args:
            query, key: weights of the embeddings, shape (B, K, h, M).
            step: number of the update, for dropout; None where nothing is dropped.
        """
        design = self.design
        scores = self.cosines(query, key).transpose(1, 2).flatten(2) * design.score_scale
        scores = self._dropped(scores, design.dropout, randomness.SCORES, step)
        attention = sparsemax(scores) if design.activation == "sparsemax" else scores.softmax(-1)
        return self._dropped(attention, design.core_dropout, randomness.CORE, step)

    def cosines(self, query: Tensor, key: Tensor) -> Tensor:
        """Cosines between rows of Q and of K, shape (B, h, N, N)."""
        queries, keys = (_unit(torch.einsum("bnk,bkhm->bhnm", self.cubes, weights)) for weights in (query, key))
        return queries @ keys.transpose(-1, -2)

    def _dropped(self, values: Tensor, probability: float, stream: int, step: Tensor | None) -> Tensor:
        if step is None or probability == 0:
            return values
        kept = randomness.kept(self.dropout_keys[stream][step].flatten(0, 1), values[0].numel(), probability)
        return torch.where(kept.reshape(values.shape), values / (1 - probability), 0)


def _unit(rows: Tensor) -> Tensor:
    return rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp(min=SMALLEST_NORM)
