"""Withholding observed entries, to choose between settings without the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench import Fibers, FloatArray, Mask, Observation, RandomEntries, is_fiber_mask

#: Predictions (m, c) at targets (m, d), from values (n, c) at points (n, d).
Predict: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

#: Copies of the gaps that leave less than the rest of the observed entries say nothing of gaps like the field's.
_MOST_WITHHELD = 0.75
#: Width, in grid steps, of the square around an entry whose observed share says how deep in a gap it lies.
_BOX = 5
#: Gaps whose surroundings are no emptier than this, between scattered entries (0) and moved gaps (1), are scattered.
_SCATTERED = 0.1
#: Moved copies of the gaps.
_COPIES = 5
#: Boxes of a field among which the likeliest is taken.
_BOXES = 8


def withhold(mask: Mask, share: float, rng: np.random.Generator, valid: Mask | None = None) -> Mask | None:
    """About ``share`` of the observed entries, in the pattern of the unobserved ones.

    Whole fibers along the last axis where whole fibers are observed (as far as they exist, which ``valid``
    says), single entries elsewhere: what is withheld must be as hard to predict as what is unobserved.

    Args:
        mask: True = observed.
        share: of the observed entries.
        rng: chooses.
        valid: where the field exists; everywhere where None.

    Returns:
        A boolean array, True = withheld, or None where only one entry or fiber is observed.
    """
    fibers = is_fiber_mask(mask, valid)
    if int((mask.any(axis=-1) if fibers else mask).sum()) < 2:
        return None
    return (Fibers() if fibers else RandomEntries()).withhold(mask, share, rng)


def withhold_lines(observation: Observation, share: float, seed: int) -> Mask:
    """A random ``share`` of the observed entries, at least one and never all, as a boolean array (True = withheld).

    Where everything that exists is observed along some axes or nothing, whole fibers along them are withheld:
    what predicts the rest of a fiber that was measured may not predict positions where none was.

    Args:
        observation: from which entries are withheld.
        share: of the observed entries.
        seed: chooses.

    Raises:
        ValueError: if fewer than two entries (or fibers) are observed.
    """
    mask = observation.mask
    lines = _lines(mask, observation.valid)
    if lines.size == 1:  # everything that exists is observed
        lines = mask
    observed = np.flatnonzero(lines)
    if len(observed) < 2:
        raise ValueError("too little is observed to withhold any of it; give the weight")
    count = min(max(1, round(share * len(observed))), len(observed) - 1)
    chosen = np.zeros(lines.size, dtype=bool)
    chosen[np.random.default_rng([seed, 2]).choice(observed, count, replace=False)] = True
    return np.broadcast_to(chosen.reshape(lines.shape), mask.shape) & mask


def _lines(mask: Mask, valid: Mask | np.bool_) -> Mask:
    """Which fibers are observed, along as many axes as they have; single entries where there are no fibers.

    Returns:
        A boolean array of the mask's order, of length 1 along the fibers' axes.
    """
    lines = mask
    for axis in reversed(range(mask.ndim)):
        if mask.shape[axis] > 1:
            wider: Mask = np.asarray(lines.any(axis=axis, keepdims=True))
            lines = wider if (mask == (wider & valid)).all() else lines
    return lines


@dataclass(frozen=True)
class Imitation:
    """Observed positions withheld as the gaps look, and how much their error counts.

    Attributes:
        kept: indices of the positions that remain.
        validation: indices of those whose error is measured, withheld as others may be.
        weight: of the logarithm of their error; the weights of all imitations add up to 1.
    """

    kept: NDArray[np.intp]
    validation: NDArray[np.intp]
    weight: float


def imitations(
    observed: Mask,
    missing: Mask,
    most: int,
    rng: np.random.Generator,
    valid: Mask | None = None,
    *,
    copies: int = _COPIES,
) -> list[Imitation]:
    """Hold-outs in the two ways that gaps come: one by one, and as copies of the gaps themselves, moved elsewhere.

    How much each counts is told by the share of observed entries around an unobserved one, which is that of single
    entries where observations are scattered and far less in the middle of a cloud.

    Args:
        observed, missing: positions of either kind, boolean arrays of one shape.
        most: largest number of validation points.
        rng: chooses the validation points and where the gaps are moved to.
        valid: where the field exists, for :func:`withhold`.
        copies: how often the gaps are moved.

    Returns:
        None at all where fewer than two positions are observed.
    """
    number, count = np.cumsum(observed.ravel()) - 1, int(observed.sum())
    single = withhold(observed, min(0.2, most / max(count, 1)), rng, valid)
    if single is None:
        return []

    def imitation(withheld: Mask, weight: float, validation: int) -> Imitation:
        at = np.flatnonzero(withheld)
        chosen = at if len(at) <= validation else np.sort(rng.choice(at, validation, replace=False))
        return Imitation(number[np.flatnonzero(observed & ~withheld)], number[chosen], weight)

    moved = [
        withheld
        for withheld in _moved(observed, missing, copies, rng)
        if withheld.any() and withheld.sum() <= _MOST_WITHHELD * count
    ]
    weight = _weight_of_moved(observed, missing, single, moved) if moved else 0.0
    if weight < _SCATTERED:
        return [imitation(single, 1.0, most)]
    each = max(1, most // (len(moved) + 1))
    shallow = imitation(single, 1 - weight, each)
    return [shallow, *(imitation(withheld, weight / len(moved), each) for withheld in moved)]


def error(trials: Sequence[Imitation], points: FloatArray, values: FloatArray, predict: Predict) -> float:
    """The root mean square error at the validation points, averaged geometrically so that small gaps count too.

    Args:
        trials: positions that are withheld together, with their weights.
        points: shape (n, d).
        values: shape (n, c).
        predict: what is judged.
    """
    logarithm = 0.0
    for trial in trials:
        estimate = predict(points[trial.kept], values[trial.kept], points[trial.validation])
        square = float(np.mean((estimate - values[trial.validation]) ** 2))
        logarithm += trial.weight * 0.5 * float(np.log(max(square, np.finfo(float).tiny)))
    return float(np.exp(logarithm))


def box(observed: Mask, missing: Mask, part: float, rng: np.random.Generator) -> tuple[slice, ...]:
    """A box with about this part of the field's entries; of several, that with the likeliest share of either kind.

    Args:
        observed, missing: positions of either kind, boolean arrays of one shape.
        part: of the field's entries, above 0.
        rng: draws the box.
    """
    if part >= 1:
        return (slice(None),) * observed.ndim
    edges = np.maximum(1, np.round(part ** (1 / observed.ndim) * np.array(observed.shape)).astype(int))
    wanted = np.array([observed.sum(), missing.sum()]) * part

    def drawn() -> tuple[slice, ...]:
        corner = rng.integers(np.array(observed.shape) - edges + 1)
        return tuple(slice(start, start + edge) for start, edge in zip(corner, edges, strict=True))

    def unlike(candidate: tuple[slice, ...]) -> float:
        return float(np.abs(np.array([observed[candidate].sum(), missing[candidate].sum()]) - wanted).sum())

    return min((drawn() for _ in range(_BOXES)), key=unlike)


def _weight_of_moved(observed: Mask, missing: Mask, single: Mask, moved: Sequence[Mask]) -> float:
    """From 0, gaps are as single entries are, to 1, they are as deep as their moved copies."""
    gaps, shallow = _surroundings(observed, missing), _surroundings(observed & ~single, single)
    deep = float(np.mean([_surroundings(observed & ~withheld, withheld) for withheld in moved]))
    return 0.0 if deep >= shallow else float(np.clip((shallow - gaps) / (shallow - deep), 0, 1))


def _moved(observed: Mask, missing: Mask, copies: int, rng: np.random.Generator) -> list[Mask]:
    """The observed entries under copies of the gaps, each moved by a random number of steps along every axis."""
    shifts = [[int(rng.integers(size)) for size in observed.shape] for _ in range(copies)]
    axes = tuple(range(observed.ndim))
    return [observed & np.roll(missing, shift, axes) for shift in shifts]


def _surroundings(observed: Mask, entries: Mask) -> float:
    """The mean share of observed entries around these entries, within the plane across an axis that has fewest."""
    from scipy.ndimage import uniform_filter

    present = observed.astype(np.float32)
    across = np.eye(observed.ndim, dtype=bool) if observed.ndim > 1 else [[False]]
    sizes = [np.where(axis, 1, _BOX) for axis in across]
    return float(np.min([uniform_filter(present, size, mode="constant")[entries] for size in sizes], axis=0).mean())
