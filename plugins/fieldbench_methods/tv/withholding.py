"""Which observed entries to withhold when a weight is chosen."""

from __future__ import annotations

import numpy as np

from fieldbench import Mask, Observation


def withheld(observation: Observation, share: float, seed: int) -> Mask:
    """A random ``share`` of the observed entries, at least one and never all, as a boolean array (True = withheld).

    Where everything that exists is observed along some axes or nothing, whole fibers along them are withheld:
    what predicts the rest of a fiber that was measured may not predict places where none was.

    Raises:
        ValueError: if fewer than two entries (or fibers) are observed.
    """
    mask = observation.mask
    lines = _lines(mask, np.True_ if observation.valid is None else observation.valid)
    if lines.size == 1:  # everything that exists is observed
        lines = mask
    observed = np.flatnonzero(lines)
    if len(observed) < 2:
        raise ValueError("too little is observed to withhold any of it; give the weight")
    count = min(max(1, round(share * len(observed))), len(observed) - 1)
    chosen = np.zeros(lines.size, dtype=bool)
    chosen[np.random.default_rng([seed, 2]).choice(observed, count, replace=False)] = True
    return np.broadcast_to(chosen.reshape(lines.shape), mask.shape) & mask


def _lines(mask: Mask, valid: Mask | np.bool_) -> Mask:
    """Which fibers are observed, along as many axes as they have; single entries where there are no fibers.

    Returns:
        A boolean array of the mask's order, of length 1 along the fibers' axes.
    """
    lines = mask
    for axis in reversed(range(mask.ndim)):
        if mask.shape[axis] > 1:
            wider: Mask = np.asarray(lines.any(axis=axis, keepdims=True))
            lines = wider if (mask == (wider & valid)).all() else lines
    return lines
