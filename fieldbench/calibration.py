"""Intervals from errors at withheld entries: conformal prediction, for trials and for files alike.

Errors are taken over a scale (the method's own deviation, or a power of the distance to the nearest observations,
whichever tells more of them), and the finite-sample quantile of these ratios makes the half width of intervals (Lei et
al. 2018). Where gaps are deeper
than what was withheld, errors count by how much more often their distance occurs among the gaps (Tibshirani et al.
2019). Where whole fibers are withheld, errors along one are alike, and the finite sample is as large as its design
effect says (Kish 1965): between one of fibers and one of entries. A fit to fewer entries is worse than the one on all:
how much tells a further fit, to fewer still.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fieldbench.estimate import Estimate, in_domain
from fieldbench.field import FloatArray, Mask, Observation
from fieldbench.sampler import is_fiber_mask

#: Index arrays, one an axis, as :func:`numpy.nonzero` gives them.
Positions: TypeAlias = tuple[NDArray[np.intp], ...]

#: Probabilities of the intervals that scores ask for, and of one deviation to both sides of a normal distribution.
LEVELS, ONE_DEVIATION = (0.5, 0.9, 0.95), math.erf(math.sqrt(0.5))

#: Exponents that errors may grow with, by distance.
_STEEPEST = 2.0

#: Nearest observed entries whose mean distance counts.
_NEIGHBOURS = 4

#: Groups by distance in which withheld entries are compared with gaps, and gaps that are compared, at most about.
_GROUPS, _GAPS = 4, 50_000


@dataclass(frozen=True)
class Fold:
    """Withheld entries, and what a fit that was made without them says of them.

    >>> withheld, made = np.array([True, False]), Estimate(np.zeros(2))
    >>> Fold(withheld, made.at(withheld)).estimate.mean
    array([0.])

    Attributes:
        withheld: True = withheld.
        estimate: at the withheld entries, or at those of ``at``; vectors of n entries.
        at: index arrays of the entries that count, where those are not all.
    """

    withheld: Mask
    estimate: Estimate
    at: Positions | None = None

    @property
    def positions(self) -> Positions:
        """Index arrays of the entries that the estimate is of."""
        return np.nonzero(self.withheld) if self.at is None else self.at


@dataclass(frozen=True)
class Calibration:
    """What the errors at withheld entries say.

    Attributes:
        ratios: errors over their scale, sorted, shape (n,).
        shares: how much each counts, up to and including it; the last is 1.
        units: how many different entries were withheld, or fibers where whole fibers are observed.
        size: to how many independent errors that count alike these amount.
        exponent: of the distance in the scale; None where the scale is the method's own deviation.
        smallest: least scale, for a deviation of 0.
    """

    ratios: FloatArray
    shares: FloatArray
    units: int
    size: float
    exponent: float | None
    smallest: float

    def quantile(self, level: float) -> float | None:
        """The ratio that a new error stays below with this probability, between two ratios where it falls between them.

        None where too little was withheld for it.
        """
        share = level * (1 + 1 / self.size)
        return float(np.interp(share, self.shares, self.ratios)) if share <= 1 + 1e-12 else None

    def scale(self, estimate: Estimate, observation: Observation) -> FloatArray:
        """The scale of the error of every entry, of the field's shape."""
        if self.exponent is None:
            spread = estimate.in_domain(observation.log_floor).spread()
            return np.asarray(np.maximum(np.nan_to_num(np.asarray(spread)), self.smallest))
        scale = np.ones(observation.shape)
        if self.exponent:
            positions = np.nonzero(observation.valid)
            scale[positions] = _distance(observation, observation.mask, positions) ** self.exponent
        return scale


def calibrate(
    estimate: Estimate,
    observation: Observation,
    folds: Sequence[Fold],
    weights: Sequence[FloatArray] | None = None,
    together: Fold | None = None,
) -> Calibration:
    """Learn from folds how far estimates are off.

    >>> truth, mask = np.arange(40.0), np.arange(40) % 4 > 0
    >>> observation, zero = Observation(truth, mask), Estimate(np.zeros(40))
    >>> withheld = mask & (np.arange(40) % 3 == 0)
    >>> calibrate(zero, observation, [Fold(withheld, zero.at(withheld))]).units
    10

    Args:
        estimate: made from the whole observation.
        observation: all that was observed.
        folds: at least one.
        weights: what each entry of each fold counts; by default by how often its distance occurs among the gaps.
        together: of a fit that was made without the entries of several folds at once. How much worse it is there tells
            how much worse the folds' fits are than the one on all entries, and ratios become smaller by that.
    """
    errors, distances, spreads = zip(*(_taken(observation, fold) for fold in folds), strict=True)
    error, distance = np.concatenate(errors), np.concatenate(distances)
    growth, smallest = _growth(error, distance), 0.0
    exponent: float | None = growth
    scale = distance**growth
    own = [spread for spread in spreads if spread is not None]
    if len(own) == len(spreads) and estimate.spread() is not None and any(spread.any() for spread in own):
        spread = np.concatenate(own)
        least = 1e-3 * float(np.median(spread[spread > 0]))
        spread = np.maximum(spread, least)
        if _unlikely(error, spread) <= _unlikely(error, scale):
            exponent, scale, smallest = None, spread, least
    ratios = error / scale
    counts = np.zeros(len(error)) if weights is None else np.concatenate(weights)
    if not counts.any():
        counts = _like_gaps(observation, distance)
    order = np.argsort(ratios, kind="stable")
    shares = np.cumsum(counts[order]) / counts.sum()
    units, worth = _sample(observation, folds, ratios)
    size = units * worth * counts.sum() ** 2 / (len(counts) * (counts**2).sum())
    if together is not None:
        off, away, stated = _taken(observation, together)
        there = away**growth if stated is None or exponent is not None else np.maximum(stated, smallest)
        worse = float(np.mean(off / there) / (ratios.mean() or 1.0))
        ratios = ratios * _of_all_entries(observation, folds, together, worse)
    return Calibration(ratios[order], shares, units, float(size), exponent, smallest)


def calibrated(
    estimate: Estimate, observation: Observation, calibration: Calibration, levels: Sequence[float] = LEVELS
) -> Estimate:
    """The estimate with intervals of these probabilities, and a deviation, as far as enough was withheld for them.

    >>> truth, mask = np.arange(40.0), np.arange(40) % 4 > 0
    >>> observation, zero = Observation(truth, mask), Estimate(np.zeros(40))
    >>> withheld = mask & (np.arange(40) % 3 == 0)
    >>> calibration = calibrate(zero, observation, [Fold(withheld, zero.at(withheld))])
    >>> sorted(calibrated(zero, observation, calibration, levels=[0.5]).quantiles)
    [0.25, 0.75]

    Intervals lie around the mean; those of power around its logarithm.

    Args:
        estimate: of a fit on all observed entries.
        observation: that it was made from.
        calibration: what was learned at withheld entries.
        levels: probabilities of the intervals, each in (0, 1).
    """
    floor, scale = observation.log_floor, calibration.scale(estimate, observation)
    centre = in_domain(np.asarray(estimate.mean, dtype=float), floor)

    def outside(values: FloatArray) -> FloatArray:
        return values if floor is None else np.maximum(np.exp(np.clip(values, -600, 600)) - floor, 0.0)

    quantiles: dict[float, FloatArray] = {}
    for level in dict.fromkeys(levels):
        ratio = calibration.quantile(level)
        if ratio is not None:
            quantiles[round((1 - level) / 2, 12)] = outside(centre - ratio * scale)
            quantiles[round((1 + level) / 2, 12)] = outside(centre + ratio * scale)
    one = calibration.quantile(ONE_DEVIATION)
    deviation = None if one is None else one * scale
    made = Estimate(estimate.mean, deviation, quantiles=quantiles or None)
    return made if floor is None else replace(made, distribution="lognormal", floor=floor)


def _distance(observation: Observation, observed: Mask, at: Positions) -> FloatArray:
    """Mean distance of entries to the nearest observed ones, in grid steps and at least 1; a vector.

    Where whole fibers are observed it is that of the fibers. Unlike the distance to the nearest one alone, which on a
    grid has few values, it tells how dense observations are, and so that a fold has fewer of them.
    """
    from scipy.spatial import cKDTree

    if is_fiber_mask(observation.mask, observation.valid):
        observed, at = np.asarray(observed.any(axis=-1)), at[:-1]
    # Entries of a fiber share their position.
    positions, entry = np.unique(np.ravel_multi_index(at, observed.shape), return_inverse=True)
    tree = cKDTree(np.argwhere(observed))
    count = min(_NEIGHBOURS + 1, tree.n)
    distances, _ = tree.query(np.column_stack(np.unravel_index(positions, observed.shape)), k=np.arange(1, count + 1))
    # An observed entry is not a neighbour of its own.
    nearest = np.where(distances[:, :1] == 0, distances[:, -_NEIGHBOURS:], distances[:, :_NEIGHBOURS])
    return np.asarray(np.maximum(nearest.mean(axis=1), 1.0)[entry])


def _taken(observation: Observation, fold: Fold) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Errors at the entries of a fold, their distances from what it observed, and the deviations that were stated."""
    floor, positions = observation.log_floor, fold.positions
    made = fold.estimate.in_domain(floor)
    errors = np.abs(in_domain(observation.values[positions].astype(float), floor) - made.mean)
    return errors, _distance(observation, observation.mask & ~fold.withheld, positions), made.spread()


def _of_all_entries(observation: Observation, folds: Sequence[Fold], together: Fold, worse: float) -> float:
    """By how much errors of the fit on all entries are smaller than those of the folds' fits.

    Errors fall with a power of the number of entries, and ``worse``, the errors without several folds over those
    without one each, tells which.
    """
    one, several = (
        math.log1p(-np.mean([fold.withheld.sum() for fold in some]) / observation.mask.sum())
        for some in (folds, [together])
    )
    return worse ** (one / (one - several)) if worse > 0 and one > several else 1.0


def _sample(observation: Observation, folds: Sequence[Fold], ratios: FloatArray) -> tuple[int, float]:
    """How many different entries or fibers were withheld, and how many independent errors each is worth.

    A fiber is worth one where all its errors are large or none, and as many as it has entries where they are
    independent. How often large ones occur along it, fiber by fiber, tells that.
    """
    withheld: Mask = np.any([fold.withheld for fold in folds], axis=0)
    if not is_fiber_mask(observation.mask, observation.valid):
        return int(withheld.sum()), 1.0
    positions = [np.ravel_multi_index(fold.positions[:-1], observation.shape[:-1]) for fold in folds]
    _, fiber, entries = np.unique(np.concatenate(positions), return_inverse=True, return_counts=True)
    large = ratios > np.quantile(ratios, 0.9)
    between = float(np.var(np.bincount(fiber, large) / entries, ddof=1)) if len(entries) > 1 else 0.0
    worth = large.mean() * (1 - large.mean()) / between if between else 1.0
    return int(withheld.any(axis=-1).sum()), float(np.clip(worth, 1.0, entries.mean()))


def _unlikely(error: FloatArray, scale: FloatArray) -> float:
    """How unlikely errors are by Laplace's distribution of the best multiple of a scale: mean -log of the density."""
    return float(np.mean(np.log(scale)) + np.log(max(float(np.mean(error / scale)), np.finfo(float).tiny)))


def _growth(error: FloatArray, distance: FloatArray) -> float:
    """The power of the distance that errors grow with, by least squares of logarithms; at least 0."""
    if np.ptp(distance) == 0 or not error.any():
        return 0.0
    # What is exact by chance would weigh most in a logarithm.
    logs = np.log(np.maximum(error, 0.1 * np.median(error[error > 0])))
    slope = np.polyfit(np.log(distance), logs, 1)[0]
    return float(np.clip(slope, 0.0, _STEEPEST))


def _like_gaps(observation: Observation, withheld: FloatArray) -> FloatArray:
    """How much each withheld entry counts, so that their distances are distributed as those of the gaps."""
    gaps = np.flatnonzero(observation.valid & ~observation.mask)
    if not len(gaps):
        return np.ones(len(withheld))
    some = np.unravel_index(gaps[:: max(1, len(gaps) // _GAPS)], observation.shape)
    missing = _distance(observation, observation.mask, some)
    edges = np.unique(np.quantile(withheld, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
    group, other = np.searchsorted(edges, withheld), np.searchsorted(edges, missing)
    counts = np.bincount(group, minlength=len(edges) + 1)
    wanted = np.bincount(other, minlength=len(edges) + 1)
    return np.asarray((wanted / len(missing))[group] / (counts / len(withheld))[group] + 1e-9)
