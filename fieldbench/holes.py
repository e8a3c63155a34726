"""Holes in what was observed, as deep as the gaps that are there already."""

from __future__ import annotations

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Mask


def holes_like_the_gaps(observed: Mask, missing: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Choose about ``share`` of the observed entries, in holes as deep as the gaps.

    Again and again a missing entry is drawn and its distance d to the nearest observed entry is taken, in grid
    steps; then all observed entries closer than d to a random observed one are chosen. So scattered
    observations lose scattered entries, and a field with clouds gets clouds of the same depth.

    Args:
        observed: True = observed.
        missing: True = missing; entries of neither kind (land) do not count.
        share: of the observed entries, in (0, 1).
        rng: the only source of randomness.

    Returns:
        Boolean array of the same shape, True = chosen: a part of ``observed``, never all of it.

    Raises:
        RequestError: if fewer than two entries are observed, or nothing is missing.
    """
    from scipy.ndimage import distance_transform_edt

    points = np.argwhere(observed)
    if len(points) < 2:
        raise RequestError("only one position is observed, so none can be held out")
    if not missing.any():
        raise RequestError("nothing is missing, so there is no gap to imitate")
    depths = distance_transform_edt(~observed)[missing]
    wanted = min(max(1, round(share * len(points))), len(points) - 1)
    chosen = np.zeros(len(points), dtype=bool)
    while chosen.sum() < wanted:
        left = np.flatnonzero(~chosen)
        centre = points[rng.choice(left)]
        square = ((points[left] - centre) ** 2).sum(axis=1)
        inside = np.flatnonzero(square < rng.choice(depths) ** 2)
        # The last hole may be too large; its entries nearest to the centre are taken.
        nearest = inside[np.argsort(square[inside], kind="stable")]
        chosen[left[nearest[: wanted - int(chosen.sum())]]] = True
    held = np.zeros(observed.shape, dtype=bool)
    held[tuple(points[chosen].T)] = True
    return held
