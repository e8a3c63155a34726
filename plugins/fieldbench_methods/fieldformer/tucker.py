"""The Tucker expansion in torch, for a batch of trials."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def expand(core: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """core x_1 V_1 x_2 V_2 ... for a batch: (B, R_1, .., R_L) and (B, I_l, R_l) to (B, I_1, .., I_L)."""
    batch = core.shape[0]
    result = core
    # Contracting the leading mode and moving it to the back, L times, restores the order of the modes.
    for factor in factors:
        rest = result.shape[2:]
        unfolded = result.reshape(batch, result.shape[1], -1).transpose(1, 2)
        result = (unfolded @ factor.transpose(1, 2)).reshape(batch, *rest, factor.shape[1])
    return result
