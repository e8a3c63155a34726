"""Holes in what was observed, as deep as the gaps that are there already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldbench.errors import RequestError
from fieldbench.field import FloatArray, Mask


def withhold_like_gaps(observed: Mask, missing: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Choose about ``share`` of the observed entries, on average as far from the rest as the missing ones are.

    Entries are chosen in holes: a missing entry is drawn and its distance to the nearest observed entry is
    taken, in grid steps; then all observed entries in a ball of that mean depth around a random observed one
    are chosen, and so on. Holes alone are deeper than the gaps between scattered observations, scattered
    entries alone are far shallower than a large gap; so as many are chosen in holes, and the rest one by one,
    as makes the mean distance that of the missing entries. A field with clouds gets clouds, scattered
    observations lose scattered entries.

    >>> observed = np.ones((8, 8), dtype=bool)
    >>> observed[:4, :4] = False
    >>> withheld = withhold_like_gaps(observed, ~observed, 0.25, np.random.default_rng(0))
    >>> int(withheld.sum()), bool((withheld & ~observed).any())
    (12, False)

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
    points = np.argwhere(observed)
    if len(points) < 2:
        raise RequestError("only one position is observed, so none can be withheld")
    if not missing.any():
        raise RequestError("nothing is missing, so there is no gap to imitate")
    depths = _distance(observed)[missing]
    wanted = min(max(1, round(share * len(points))), len(points) - 1)
    scattered = _chosen(points, observed.shape, depths, 0, wanted, rng)
    in_holes = _chosen(points, observed.shape, depths, wanted, wanted, rng)
    shallow, deep = (float(_distance(observed & ~held)[held].mean()) for held in (scattered, in_holes))
    part = 0.0 if deep <= shallow else float(np.clip((depths.mean() - shallow) / (deep - shallow), 0.0, 1.0))
    return _chosen(points, observed.shape, depths, round(part * wanted), wanted, rng)


def _chosen(
    points: NDArray[np.intp],
    shape: tuple[int, ...],
    depths: FloatArray,
    in_holes: int,
    wanted: int,
    rng: np.random.Generator,
) -> Mask:
    """A mask of ``wanted`` of the points, ``in_holes`` of them in holes and the others one by one."""
    chosen = np.zeros(len(points), dtype=bool)
    while chosen.sum() < in_holes:
        left = np.flatnonzero(~chosen)
        centre = points[rng.choice(left)]
        square = ((points[left] - centre) ** 2).sum(axis=1)
        # Entries of a ball of radius r are on average r / (dimensions + 1) from its outside.
        radius = 1 + (len(shape) + 1) * (rng.choice(depths) - 1)
        inside = np.flatnonzero(square < radius**2)
        # The last hole may be too large; its entries nearest to the centre are taken.
        nearest = inside[np.argsort(square[inside], kind="stable")]
        chosen[left[nearest[: in_holes - int(chosen.sum())]]] = True
    left = np.flatnonzero(~chosen)
    chosen[rng.choice(left, size=wanted - int(chosen.sum()), replace=False)] = True
    held = np.zeros(shape, dtype=bool)
    held[tuple(points[chosen].T)] = True
    return held


def _distance(observed: Mask) -> FloatArray:
    """Distance of every entry to the nearest observed one, in grid steps."""
    from scipy.ndimage import distance_transform_edt

    return np.asarray(distance_transform_edt(~observed))
