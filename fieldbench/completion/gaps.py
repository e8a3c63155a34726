"""Holding out observed entries so that they are as hard to predict as the gaps that are to be filled."""

from __future__ import annotations

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Mask, Observation
from fieldbench.holes import holes_like_the_gaps
from fieldbench.sensing import is_fiber_mask


def withheld_like_the_gaps(observation: Observation, share: float, rng: np.random.Generator) -> Mask:
    """Choose about ``share`` of the observed entries to hold out, in holes as deep as those of the field.

    Where whole fibers along the last axis are observed, as far as they exist, whole fibers are held out.

    Args:
        observation: what is observed; :attr:`Observation.valid` says what must stay missing.
        share: of the observed entries, in (0, 1).
        rng: the only source of randomness.

    Returns:
        Boolean array of the observation's shape, True = withheld: a part of the mask, and never all of it.

    Raises:
        RequestError: if fewer than two entries (or fibers) are observed, or nothing is missing.
    """
    mask = observation.mask
    missing: Mask = observation.existing & ~mask
    in_fibers = mask.ndim > 1 and is_fiber_mask(mask, observation.valid)
    observed: Mask = np.asarray(mask.any(axis=-1)) if in_fibers else mask
    if observed.sum() == 1:
        raise RequestError(
            "only one position is observed, so none can be held out; "
            "a method that is named and --budget 0 complete the field without an estimate of the error"
        )
    if in_fibers:
        held = holes_like_the_gaps(observed, np.asarray(missing.any(axis=-1) & ~observed), share, rng)
        return np.asarray(held[..., np.newaxis] & mask)
    return holes_like_the_gaps(mask, missing, share, rng)
