"""Errors at withheld entries by how far the nearest observation was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fieldbench.field import FloatArray, Mask, Observation

#: Grid steps that part near from far: up to 1, up to 2, ... and beyond.
EDGES = (1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class AtDistance:
    """Entries at some distance from the nearest observation, in grid steps.

    Attributes:
        nearest: the distance is more than this ...
        farthest: ... and at most this (infinite for all that is farther).
        withheld: how many withheld entries of all folds were so far from what was left of the observation.
        error: the method's error at them, the mean of the folds that have any; NaN where none has.
        gaps: how many gaps are so far from an observation.
    """

    nearest: float
    farthest: float
    withheld: int
    error: float
    gaps: int


def distance_bins(mask: Mask, entries: Mask) -> np.ndarray:
    """For each of some entries the index of its distance to the nearest observed one among :data:`EDGES`."""
    from scipy.ndimage import distance_transform_edt

    return np.asarray(np.searchsorted(EDGES, distance_transform_edt(~mask)[entries]))


def by_distance(
    observation: Observation,
    withheld: Sequence[Mask],
    estimates: Sequence[FloatArray],
    score: Callable[[FloatArray, Mask], float],
) -> tuple[AtDistance, ...]:
    """Errors of a method by distance; distances that neither a gap nor a withheld entry has are left out.

    Args:
        observation: all that was observed.
        withheld: for each fold, True = withheld.
        estimates: for each fold, the estimate at the withheld entries.
        score: the error of such an estimate at some entries of the field.
    """
    gaps = np.bincount(distance_bins(observation.mask, observation.valid & ~observation.mask), minlength=len(EDGES) + 1)
    errors: list[list[float]] = [[] for _ in gaps]
    counts = np.zeros(len(gaps), dtype=int)
    for withheld, estimate in zip(withheld, estimates, strict=False):
        bins = distance_bins(observation.mask & ~withheld, withheld)
        for index in np.unique(bins):
            some = np.zeros(withheld.shape, dtype=bool)
            some[withheld] = bins == index
            errors[index].append(score(estimate[bins == index], some))
            counts[index] += int((bins == index).sum())
    edges = (0.0, *EDGES, np.inf)
    return tuple(
        AtDistance(
            edges[i], edges[i + 1], int(counts[i]), float(np.mean(errors[i])) if errors[i] else np.nan, int(gaps[i])
        )
        for i in range(len(gaps))
        if counts[i] or gaps[i]
    )
