"""Withholding observed entries, to choose between settings without the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench.field import FloatArray, Mask
from fieldbench.sensing import Fibers, RandomEntries, is_fiber_mask

#: Predictions (m, c) at targets (m, d), from values (n, c) at points (n, d).
Predict: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

#: Width, in grid steps, of the box around an entry whose observed share says how deep in a gap it lies.
_BOX = 5
#: Gaps whose surroundings are no emptier than this, between scattered entries (0) and moved gaps (1), are scattered.
_SCATTERED = 0.1
#: Moved copies of the gaps.
_COPIES = 5
#: Observed positions that settings are chosen on, at most; more are cut to a box of the field.
_MOST_POINTS = 150_000


def hold_out(mask: Mask, share: float, rng: np.random.Generator, valid: Mask | None = None) -> Mask | None:
    """About ``share`` of the observed entries, in the pattern of the hidden ones.

    Whole fibers along the last axis where whole fibers are observed (as far as they exist, which ``valid``
    says), single entries elsewhere: what is held out must be as hard to predict as what is hidden.

    Returns:
        A boolean array, True = withheld, or None where only one entry or fiber is observed.
    """
    fibers = mask.ndim > 1 and is_fiber_mask(mask, valid)
    if int((mask.any(axis=-1) if fibers else mask).sum()) < 2:
        return None
    return (Fibers() if fibers else RandomEntries()).withhold(mask, share, rng)


@dataclass(frozen=True)
class Imitation:
    """Observed positions held out as the gaps look, and how much their error counts.

    Attributes:
        kept: indices of the positions that remain.
        judges: indices of those whose error is measured, held out as others may be.
        weight: of the logarithm of their error; the weights of all imitations add up to 1.
    """

    kept: NDArray[np.intp]
    judges: NDArray[np.intp]
    weight: float


def imitations(observed: Mask, missing: Mask, most: int, rng: np.random.Generator) -> list[Imitation]:
    """Hold-outs in the two ways that gaps come: one by one, and as copies of the gaps themselves, moved elsewhere.

    How much each counts is told by the share of observed entries around a hidden one, which is that of single
    entries where observations are scattered and far less in the middle of a cloud.

    Args:
        observed, missing: positions of either kind, boolean arrays of one shape.
        most: judges, at most.
        rng: chooses the judges and where the gaps are moved to.

    Returns:
        None at all where fewer than two positions are observed.
    """
    number = np.cumsum(observed.ravel()) - 1
    count = int(observed.sum())
    if count < 2:
        return []

    def imitation(held: Mask, weight: float, judges: int) -> Imitation:
        chosen = rng.permutation(np.flatnonzero(held.ravel()))[:judges]
        kept = np.flatnonzero((observed & ~held).ravel())
        return Imitation(number[kept], number[np.sort(chosen)], weight)

    single = np.zeros(observed.size, dtype=bool)
    single[rng.choice(np.flatnonzero(observed.ravel()), max(1, min(most, count // 5)), replace=False)] = True
    single = single.reshape(observed.shape)
    copies = [held for held in _moved(observed, missing, rng) if held.any() and 2 * held.sum() < count]
    if not copies:
        return [imitation(single, 1.0, most)]
    gaps = _surroundings(observed, missing)
    shallow = _surroundings(observed & ~single, single)
    deep = float(np.mean([_surroundings(observed & ~held, held) for held in copies]))
    weight = 0.0 if deep >= shallow else float(np.clip((shallow - gaps) / (shallow - deep), 0, 1))
    if weight < _SCATTERED:
        return [imitation(single, 1.0, most)]
    each = max(1, most // (len(copies) + 1))
    moved = [imitation(held, weight / len(copies), each) for held in copies]
    return [imitation(single, 1 - weight, each), *moved]


def error(trials: Sequence[Imitation], points: FloatArray, values: FloatArray, predict: Predict) -> float:
    """The root mean square error of predicting the judges, averaged geometrically so that small gaps count too."""
    logarithm = 0.0
    for trial in trials:
        estimate = predict(points[trial.kept], values[trial.kept], points[trial.judges])
        square = float(np.mean((estimate - values[trial.judges]) ** 2))
        logarithm += trial.weight * 0.5 * float(np.log(max(square, np.finfo(float).tiny)))
    return float(np.exp(logarithm))


def box(observed: Mask, missing: Mask, rng: np.random.Generator) -> tuple[slice, ...]:
    """A box of the field small enough to choose settings on; of several, that with the field's share of gaps."""
    count = int(observed.sum())
    if count <= _MOST_POINTS:
        return (slice(None),) * observed.ndim
    part = (_MOST_POINTS / count) ** (1 / observed.ndim)
    edges = np.maximum(1, np.round(part * np.array(observed.shape)).astype(int))

    def drawn() -> tuple[slice, ...]:
        corner = rng.integers(np.array(observed.shape) - edges + 1)
        return tuple(slice(start, start + edge) for start, edge in zip(corner, edges, strict=True))

    def unlike(place: tuple[slice, ...]) -> float:
        return abs(float(observed[place].sum()) / count - part**observed.ndim) + abs(
            float(missing[place].sum()) / max(1, int(missing.sum())) - part**observed.ndim
        )

    return min((drawn() for _ in range(8)), key=unlike)


def _moved(observed: Mask, missing: Mask, rng: np.random.Generator) -> list[Mask]:
    """The observed entries under copies of the gaps, each moved by a random number of steps along every axis."""
    shifts = [[int(rng.integers(size)) for size in observed.shape] for _ in range(_COPIES)]
    axes = tuple(range(observed.ndim))
    return [observed & np.roll(missing, shift, axes) for shift in shifts]


def _surroundings(observed: Mask, entries: Mask) -> float:
    """The mean share of observed entries in the box around these entries."""
    from scipy.ndimage import uniform_filter

    return float(uniform_filter(observed.astype(np.float32), _BOX, mode="constant")[entries].mean())
