"""Holding out observed entries so that they are as hard to predict as the gaps that are to be filled."""

from __future__ import annotations

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Mask, Observation
from fieldbench.sensing import is_fiber_mask


def withheld_like_the_gaps(observation: Observation, share: float, rng: np.random.Generator) -> Mask:
    """Choose about ``share`` of the observed entries to hold out, in holes as deep as those of the field.

    Again and again a missing entry is drawn and its distance d to the nearest observed entry is taken (in grid
    steps); then all observed entries closer than d to a random observed one are held out. So scattered
    observations lose scattered entries, and a field with clouds gets clouds of the same depth. Where whole
    fibers along the last axis are observed, whole fibers are held out.

    Args:
        observation: what is observed; :attr:`Observation.valid` says what must stay missing.
        share: of the observed entries, in (0, 1).
        rng: the only source of randomness.

    Returns:
        Boolean array of the observation's shape, True = withheld; part of the mask, and never all of it.

    Raises:
        RequestError: if fewer than two entries (or fibers) are observed, or nothing is missing.
    """
    mask = observation.mask
    valid = np.ones(mask.shape, dtype=bool) if observation.valid is None else observation.valid
    if not (valid & ~mask).any():
        raise RequestError("nothing is missing, so there is no gap to imitate")
    if mask.ndim > 1 and is_fiber_mask(mask):
        positions: Mask = np.asarray(mask.any(axis=-1))
        existing: Mask = np.asarray(valid.any(axis=-1))
        return np.asarray(_holes(positions, existing, share, rng)[..., np.newaxis] & mask)
    return _holes(mask, valid, share, rng)


def _holes(observed: Mask, existing: Mask, share: float, rng: np.random.Generator) -> Mask:
    from scipy.ndimage import distance_transform_edt

    points = np.argwhere(observed)
    if len(points) < 2:
        raise RequestError("only one position is observed, so none can be held out to compare methods")
    depths = distance_transform_edt(~observed)[existing & ~observed]
    wanted = min(max(1, round(share * len(points))), len(points) - 1)
    out = np.zeros(len(points), dtype=bool)
    while out.sum() < wanted:
        depth = rng.choice(depths)
        left = np.flatnonzero(~out)
        centre = points[rng.choice(left)]
        hole = left[((points[left] - centre) ** 2).sum(axis=1) < depth**2]
        # The last hole may be too large; its entries nearest to the centre are taken.
        nearest = np.argsort(((points[hole] - centre) ** 2).sum(axis=1), kind="stable")
        out[hole[nearest[: wanted - int(out.sum())]]] = True
    held = np.zeros(observed.shape, dtype=bool)
    held[tuple(points[out].T)] = True
    return held
