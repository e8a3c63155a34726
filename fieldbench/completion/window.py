"""A window of a large field: what it costs to fit a method, and about how well it does, is told by a part."""

from __future__ import annotations

import numpy as np

from fieldbench.field import Observation

#: Windows that are looked at; the one whose numbers of observed and missing entries are likest the field's is taken.
_TRIED = 32


def window(observation: Observation, most: int, rng: np.random.Generator) -> Observation | None:
    """A part of a large field that has observed and missing entries.

    The longest axes are cut first, so that short ones (days, levels) stay whole.

    Args:
        observation: the whole field.
        most: observed entries, on average over the positions of a window.
        rng: the only source of randomness.

    Returns:
        None where the field has no more observed entries than that, or no window has observed and missing entries.
    """
    mask, valid = observation.mask, observation.valid
    observed = int(mask.sum())
    if observed <= most:
        return None
    shape, edge = np.array(observation.shape), max(observation.shape)
    while edge > 1 and observed * np.minimum(shape, edge).prod() / mask.size > most:
        edge -= 1
    sizes = np.minimum(shape, edge)
    part = sizes.prod() / mask.size
    wanted = np.array([observed, int(valid.sum()) - observed]) * part
    best, unlike = None, np.inf
    for _ in range(_TRIED):
        corner = rng.integers(shape - sizes + 1)
        box = tuple(slice(start, start + size) for start, size in zip(corner, sizes, strict=True))
        seen = int(mask[box].sum())
        lacking = int(valid[box].sum()) - seen
        apart = float(np.abs(np.array([seen, lacking]) - wanted).sum())
        if seen > 1 and lacking and apart < unlike:
            best, unlike = box, apart
    return None if best is None else observation.part(best)
