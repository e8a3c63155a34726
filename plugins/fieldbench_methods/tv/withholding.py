"""Which observed entries to withhold when a weight is chosen."""

from __future__ import annotations

import numpy as np

from fieldbench.field import Mask


def withheld(mask: Mask, share: float, seed: int) -> Mask:
    """A random ``share`` of the observed entries, at least one and never all, as a boolean array (True = withheld).

    Where the mask is constant along some axes, whole fibers along them are withheld: entries of a fiber
    that was measured say little of places where none was.

    Raises:
        ValueError: if fewer than two entries (or fibers) are observed.
    """
    along = tuple(axis for axis in range(mask.ndim) if mask.shape[axis] > 1 and (mask == mask.take([0], axis)).all())
    if len(along) == mask.ndim:
        along = ()
    lines = mask.any(axis=along, keepdims=True)
    observed = np.flatnonzero(lines)
    if len(observed) < 2:
        raise ValueError("too little is observed to withhold any of it; give the weight")
    count = min(max(1, round(share * len(observed))), len(observed) - 1)
    chosen = np.zeros(lines.size, dtype=bool)
    chosen[np.random.default_rng([seed, 2]).choice(observed, count, replace=False)] = True
    return np.broadcast_to(chosen.reshape(lines.shape), mask.shape) & mask
