"""Holding out observed entries so that they are as hard to predict as the gaps that are to be filled."""

from __future__ import annotations

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Mask, Observation
from fieldbench.gap_holdout import withhold_like_gaps
from fieldbench.sampler import is_fiber_mask


def withheld_like_the_gaps(observation: Observation, share: float, rng: np.random.Generator) -> Mask:
    """Choose about ``share`` of the observed entries to withhold, in holes as deep as those of the field.

    Where whole fibers along the last axis are observed, as far as they exist, whole fibers are withheld.

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
    missing: Mask = observation.valid & ~mask
    in_fibers = mask.ndim > 1 and is_fiber_mask(mask, observation.valid)
    observed: Mask = np.asarray(mask.any(axis=-1)) if in_fibers else mask
    if observed.sum() == 1:
        raise RequestError(
            "only one position is observed, so none can be withheld; "
            "a method that is named and --budget 0 complete the field without an estimate of the error"
        )
    if in_fibers:
        withheld = withhold_like_gaps(observed, np.asarray(missing.any(axis=-1) & ~observed), share, rng)
        return np.asarray(withheld[..., np.newaxis] & mask)
    return withhold_like_gaps(mask, missing, share, rng)
