"""Errors at withheld entries by how far the nearest observation was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldbench.completion.validation import Validation
from fieldbench.field import FloatArray, Observation
from fieldbench.gap_holdout import distances

#: Grid steps that part near from far: up to 1, up to 2, ... and beyond.
EDGES = (1.0, 2.0, 4.0, 8.0, 16.0)
_LARGEST = 5_000_000


@dataclass(frozen=True)
class AtDistance:
    """Entries at some distance from the nearest observation, in grid steps.

    Attributes:
        nearest: the distance is more than this ...
        farthest: ... and at most this (infinite for all that is farther).
        withheld: how many validation points of all folds were so far from what was left of the observation.
        error: the method's error at them; NaN where there are none.
        gaps: how many gaps are so far from an observation.
    """

    nearest: float
    farthest: float
    withheld: int
    error: float
    gaps: int


def by_distance(
    observation: Observation, validation: Validation, squares: Sequence[FloatArray]
) -> tuple[AtDistance, ...]:
    """Errors of a method by distance; distances that neither a gap nor a withheld entry has are left out.

    Args:
        observation: all that was observed.
        validation: what was withheld.
        squares: the method's squared errors at the validation points of each fold.

    Returns:
        Nothing for a field so large that its distances would take longer than the comparison.
    """
    if observation.mask.size > _LARGEST:
        return ()
    missing = observation.valid & ~observation.mask
    gaps = np.bincount(np.searchsorted(EDGES, distances(observation.mask)[missing]), minlength=len(EDGES) + 1)
    (total, area), counts = np.zeros((2, len(gaps))), np.zeros(len(gaps), dtype=int)
    for fold, square in zip(validation.folds, squares, strict=False):
        bins = np.searchsorted(EDGES, distances(observation.mask & ~fold.withheld)[tuple(fold.at.T)])
        total += np.bincount(bins, weights=square * fold.area, minlength=len(gaps))
        area += np.bincount(bins, weights=fold.area, minlength=len(gaps))
        counts += np.bincount(bins, minlength=len(gaps))
    edges = (0.0, *EDGES, np.inf)
    return tuple(
        AtDistance(near, far, int(count), float((summed / part) ** validation.power) if count else np.nan, int(gap))
        for near, far, count, summed, part, gap in zip(edges, edges[1:], counts, total, area, gaps, strict=False)
        if count or gap
    )
