"""TAP and MHTAP on a GPU: the plain network with the way from cosines to the core fused into one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fieldbench_methods.fieldformer.design import Design
from fieldbench_methods.fieldformer.gpu_rows import WIDEST_ROW, AttentionRows, core_of
from fieldbench_methods.fieldformer.network import TensorAttention


def can_fuse(design: Design) -> bool:
    """Whether a row of the attention map fits."""
    return design.geometry.head_count * design.geometry.cubes <= WIDEST_ROW


class FusedTensorAttention(TensorAttention):
    """See :class:`TensorAttention`, which defines what is computed."""

    def __init__(self, design: Design, cubes: Tensor, seeds: Sequence[int], epochs: int) -> None:
        super().__init__(design, cubes, seeds, epochs)
        positions = torch.from_numpy(design.geometry.positions).to(cubes.device, torch.int32)
        score_keys, core_keys = self.dropout_keys
        self._rows = AttentionRows(
            positions,
            score_keys,
            core_keys,
            design.score_scale,
            design.dropout,
            design.core_dropout,
            soft=design.activation == "softmax",
        )

    def core(self, query: Tensor, key: Tensor, step: Tensor | None) -> Tensor:
        return core_of(self.cosines(query, key), self._rows, step)
