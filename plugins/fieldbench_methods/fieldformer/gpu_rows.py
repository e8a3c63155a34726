"""From cosines to the core tensor on a GPU: scale, dropout, activation and core dropout in one pass over each row.

Imported only where Triton is installed. :class:`network.TensorAttention` defines what is computed; here a
row stays in registers from its cosines to its core entries, and backwards again. Nothing but one number a
row is kept in between: the threshold of SparseMax, the logarithm of the sum of exponentials of SoftMax.
Dropout is hashed anew (:mod:`randomness`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from fieldbench_methods.fieldformer.randomness import FIRST, SECOND, drop_threshold

WIDEST_ROW = 16_384
"""Entries of a row that still fit into the registers of one block of threads."""

_FIRST, _SECOND = tl.constexpr(FIRST), tl.constexpr(SECOND)


@dataclass(frozen=True)
class AttentionRows:
    """What does not change from step to step.

    Attributes:
        positions: where each entry of the attention map (N, h N) stands in the flat core, int32.
        score_keys, core_keys: dropout keys of each step and trial, int64, shape (steps, B, 2).
        scale: what cosines are multiplied by.
        dropout, core_dropout: probabilities.
        soft: SoftMax instead of SparseMax.
    """

    positions: Tensor
    score_keys: Tensor
    core_keys: Tensor
    scale: float
    dropout: float
    core_dropout: float
    soft: bool


def core_of(cosines: Tensor, rows: AttentionRows, step: Tensor | None) -> Tensor:
    """The flat core (B, h N^2) of cosines (B, h, N, N); differentiable.

    Args:
        cosines: shape (B, h, N, N).
        rows: activation and dropout.
        step: which step's dropout, as an integer tensor of shape (1,) on the device; None for no dropout.
    """
    core: Tensor = _Core.apply(cosines, rows, step)
    return core


class _Core(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, cosines: Tensor, rows: AttentionRows, step: Tensor | None) -> Tensor:
        cosines = cosines.contiguous()
        batch, heads, count, _ = cosines.shape
        core = torch.empty((batch, heads * count * count), device=cosines.device)
        levels = torch.empty((batch, count), device=cosines.device)
        grid, arguments, options = _launch(cosines, rows, step)
        _forward[grid](cosines, core, levels, *arguments, **options)
        context.rows, context.step = rows, step
        context.save_for_backward(cosines, levels)
        return core

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosines, levels = context.saved_tensors
        slope = torch.empty_like(cosines)
        grid, arguments, options = _launch(cosines, context.rows, context.step)
        _backward[grid](cosines, gradients[0].contiguous(), levels, slope, *arguments, **options)
        return slope, None, None


def _launch(
    cosines: Tensor, rows: AttentionRows, step: Tensor | None
) -> tuple[tuple[int, int], list[Any], dict[str, Any]]:
    """Grid, common arguments and constants of either kernel."""
    batch, heads, count, _ = cosines.shape
    training = step is not None
    arguments = [
        rows.positions,
        rows.score_keys,
        rows.core_keys,
        step if training else rows.positions,  # not read without dropout
        count,
        heads,
        rows.scale / (1 - rows.dropout) if training else rows.scale,
        1 / (1 - rows.core_dropout) if training else 1.0,
        drop_threshold(rows.dropout),
        drop_threshold(rows.core_dropout),
    ]
    block = triton.next_power_of_2(heads * count)
    options = {"SOFT": rows.soft, "TRAINING": training, "BLOCK": block, "num_warps": max(1, min(16, block // 256))}
    return (count, batch), arguments, options


@triton.jit
def _kept(index, keys, step, limit):  # type: ignore[no-untyped-def]
    """The generator of :mod:`randomness`, for this program's trial."""
    position = (tl.load(step) * tl.num_programs(1) + tl.program_id(1)) * 2
    word = index.to(tl.uint32) + tl.load(keys + position).to(tl.uint32)
    word = word ^ (word >> 16)
    word = word * _FIRST
    word = word ^ tl.load(keys + position + 1).to(tl.uint32)
    word = word ^ (word >> 15)
    word = word * _SECOND
    word = word ^ (word >> 16)
    return word >= limit


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    cosines, core, levels, positions, score_keys, core_keys, step,
    count, heads, gain, core_gain, limit, core_limit, SOFT: tl.constexpr, TRAINING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, trial = tl.program_id(0), tl.program_id(1).to(tl.int64)
    width = heads * count
    column = tl.arange(0, BLOCK)
    inside = column < width
    source = cosines + trial * width * count + (column // count) * count * count + row * count + column % count
    score = tl.load(source, mask=inside, other=0.0) * gain
    element = row * width + column
    if TRAINING:
        score = tl.where(_kept(element, score_keys, step, limit), score, 0.0)
    score = tl.where(inside, score, float("-inf"))

    largest = tl.max(score, 0)
    if SOFT:
        level = largest + tl.log(tl.sum(tl.exp(score - largest), 0))
        weight = tl.exp(score - level) * core_gain
    else:
        # Newton's iteration from the left climbs monotonously and ends exactly: see sparsemax.newton_threshold.
        level = largest - 1.0
        previous = level - 1.0
        while level > previous:
            previous = level
            above = score > level
            total = tl.sum(tl.where(above, score, 0.0), 0)
            level = tl.maximum(level, (total - 1.0) / tl.sum(above.to(tl.float32), 0))
        weight = tl.maximum(score - level, 0.0) * core_gain
    if TRAINING:
        weight = tl.where(_kept(element, core_keys, step, core_limit), weight, 0.0)
    position = tl.load(positions + element, mask=inside, other=0)
    tl.store(core + trial * width * count + position, weight, mask=inside)
    tl.store(levels + trial * count + row, level)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    cosines, core_slope, levels, slope, positions, score_keys, core_keys, step,
    count, heads, gain, core_gain, limit, core_limit, SOFT: tl.constexpr, TRAINING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, trial = tl.program_id(0), tl.program_id(1).to(tl.int64)
    width = heads * count
    column = tl.arange(0, BLOCK)
    inside = column < width
    position = trial * width * count + (column // count) * count * count + row * count + column % count
    score = tl.load(cosines + position, mask=inside, other=0.0) * gain
    element = row * width + column
    core_position = tl.load(positions + element, mask=inside, other=0)
    gradient = tl.load(core_slope + trial * width * count + core_position, mask=inside, other=0.0) * core_gain
    if TRAINING:
        kept = _kept(element, score_keys, step, limit)
        score = tl.where(kept, score, 0.0)
        gradient = tl.where(_kept(element, core_keys, step, core_limit), gradient, 0.0)
    level = tl.load(levels + trial * count + row)
    if SOFT:
        weight = tl.exp(score - level)
        gradient = weight * (gradient - tl.sum(gradient * weight, 0)) * gain
    else:
        # On the support: the gradient minus its mean there.
        support = inside & (score > level)
        gradient = tl.where(support, gradient, 0.0)
        mean = tl.sum(gradient, 0) / tl.sum(support.to(tl.float32), 0)
        gradient = tl.where(support, (gradient - mean) * gain, 0.0)
    if TRAINING:
        gradient = tl.where(kept, gradient, 0.0)
    tl.store(slope + position, gradient, mask=inside)
