"""Counter-based random bits: dropout is a function of seed, step, stream and element, and of nothing else.

The same trial therefore drops the same entries on every device, in every batch and in every order of
evaluation. The generator is a keyed variant of Wellons' 32-bit integer hash ``lowbias32``, chosen because
it needs two multiplications and vectorises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

SCORES, CORE = 0, 1
"""Streams: the scores before SparseMax, and the core tensor."""

_WORD = 0xFFFFFFFF
FIRST, SECOND = 0x7FEB352D, 0x846CA68B


def dropout_keys(seed: int, steps: NDArray[np.int64], stream: int) -> NDArray[np.uint32]:
    """Two 32-bit keys for each step, shape (steps, 2).

    Args:
        seed: of the fit.
        steps: their numbers, shape (steps,).
        stream: what is dropped, so that scores and core have keys of their own.
    """
    with np.errstate(over="ignore"):
        start = _splitmix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF) + np.uint64(stream + 1) * np.uint64(0xD1342543DE82EF95))
        words = _splitmix(start + steps.astype(np.uint64))
    return np.stack([words >> np.uint64(32), words & np.uint64(_WORD)], axis=-1).astype(np.uint32)


def drop_threshold(probability: float) -> int:
    """Elements whose 32-bit hash is below this are dropped."""
    return min(round(probability * 2**32), _WORD)


def kept(keys: torch.Tensor, count: int, probability: float) -> torch.Tensor:
    """Which of ``count`` elements are kept, for a batch of trials.

    Args:
        keys: int64 tensor of shape (B, 2), from :func:`dropout_keys`.
        count: of elements.
        probability: of dropping one.

    Returns:
        Boolean tensor of shape (B, count); each element is False with ``probability``.
    """
    import torch

    counter = torch.arange(count, device=keys.device, dtype=torch.int64)
    word = (counter + keys[:, :1]) & _WORD
    word = word ^ (word >> 16)
    word = (word * FIRST) & _WORD
    word = word ^ keys[:, 1:]
    word = word ^ (word >> 15)
    word = (word * SECOND) & _WORD
    word = word ^ (word >> 16)
    return word >= drop_threshold(probability)


def _splitmix(state: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014)."""
    word = np.asarray(state, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
