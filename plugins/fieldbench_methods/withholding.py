"""Withholding observed entries, to choose between settings without the truth."""

from __future__ import annotations

import numpy as np

from fieldbench import Fibers, Mask, RandomEntries, is_fiber_mask


def withhold(mask: Mask, share: float, rng: np.random.Generator, valid: Mask | None = None) -> Mask | None:
    """About ``share`` of the observed entries, in the pattern of the unobserved ones.

    Whole fibers along the last axis where whole fibers are observed (as far as they exist, which ``valid``
    says), single entries elsewhere: what is withheld must be as hard to predict as what is unobserved.

    Returns:
        A boolean array, True = withheld, or None where only one entry or fiber is observed.
    """
    fibers = mask.ndim > 1 and is_fiber_mask(mask, valid)
    if int((mask.any(axis=-1) if fibers else mask).sum()) < 2:
        return None
    return (Fibers() if fibers else RandomEntries()).withhold(mask, share, rng)
