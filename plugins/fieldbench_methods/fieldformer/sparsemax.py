"""SparseMax: the Euclidean projection of each row onto the probability simplex (Martins, Astudillo 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def sorted_sparsemax(scores: Tensor) -> Tensor:
    """SparseMax along the last axis by sorting: appendix C of the paper, and the definition of the fast forms."""
    ordered = scores.sort(dim=-1, descending=True).values
    sums = ordered.cumsum(-1) - 1
    sizes = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    support = (sizes * ordered > sums).sum(-1, keepdim=True)
    threshold = sums.gather(-1, support - 1) / support
    return (scores - threshold).clamp(min=0)


def newton_threshold(scores: Tensor, steps: int = 24) -> Tensor:
    """The threshold tau with sum(max(scores - tau, 0)) = 1 along the last axis, kept as a last axis of size 1.

    The sum is convex and decreasing in tau, so Newton's iteration from the left, max(scores) - 1, climbs
    monotonously and ends exactly once the support stops shrinking. On a GPU the number of steps is fixed,
    so that it need not report to its host.
    """
    threshold = scores.amax(-1, keepdim=True) - 1
    for _ in range(steps):
        above = scores > threshold
        total = torch.where(above, scores, 0).sum(-1, keepdim=True)
        previous, threshold = threshold, torch.maximum(threshold, (total - 1) / above.sum(-1, keepdim=True))
        if not scores.is_cuda and torch.equal(previous, threshold):
            break
    return threshold


class _SparseMax(torch.autograd.Function):
    """SparseMax whose gradient is computed on its support only: dz = g - mean of g over the support."""

    @staticmethod
    def forward(context: Any, scores: Tensor) -> Tensor:
        weights = (scores - newton_threshold(scores)).clamp(min=0)
        context.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (weights,) = context.saved_tensors
        support = weights > 0
        gradient = torch.where(support, gradients[0], 0)
        mean = gradient.sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return torch.where(support, gradient - mean, 0)


def sparsemax(scores: Tensor) -> Tensor:
    """SparseMax along the last axis, shape and dtype kept; differentiable."""
    return _SparseMax.apply(scores)
