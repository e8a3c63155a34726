"""Intervals from errors at withheld entries: conformal prediction, for trials and for files alike.

Errors are taken over a scale (the method's own deviation, or a power of the distance to the nearest observations), and
the finite-sample quantile of these ratios makes the half width of intervals (Lei et al. 2018). Where gaps are deeper
than what was withheld, errors count by how much more often their distance occurs among the gaps (Tibshirani et al.
2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldbench.estimate import Estimate, in_domain
from fieldbench.field import FloatArray, Mask, Observation
from fieldbench.sampler import is_fiber_mask

#: Probabilities of the intervals that scores ask for, and of one deviation to both sides of a normal distribution.
LEVELS, ONE_DEVIATION = (0.5, 0.9, 0.95), math.erf(math.sqrt(0.5))

#: Exponents that errors may grow with, by distance.
_STEEPEST = 2.0

#: Nearest observed entries whose mean distance counts.
_NEIGHBOURS = 4

#: Groups by distance in which withheld entries are compared with gaps.
_GROUPS = 4


@dataclass(frozen=True)
class Fold:
    """Withheld entries (True = withheld), and an estimate that was made without them.

    >>> fold = Fold(np.array([True, False]), Estimate(np.zeros(2)))
    >>> int(fold.withheld.sum())
    1
    """

    withheld: Mask
    estimate: Estimate


@dataclass(frozen=True)
class Calibration:
    """What the errors at withheld entries say.

    Attributes:
        ratios: errors over their scale, sorted, shape (n,).
        shares: how much each counts, up to and including it; the last is 1.
        entries: how many different entries were withheld.
        exponent: of the distance in the scale; None where the scale is the method's own deviation.
        smallest: least scale, for a deviation of 0.
    """

    ratios: FloatArray
    shares: FloatArray
    entries: int
    exponent: float | None
    smallest: float

    def quantile(self, level: float) -> float | None:
        """The ratio that a new error stays below with this probability; None where too little was withheld for it."""
        share = level * (self.entries + 1) / self.entries
        if share > 1 + 1e-12:
            return None
        place = int(np.searchsorted(self.shares, share - 1e-12))
        return float(self.ratios[min(place, len(self.ratios) - 1)])

    def scale(self, estimate: Estimate, observation: Observation) -> FloatArray:
        """The scale of the error of every entry, of the field's shape."""
        if self.exponent is None:
            spread = estimate.in_domain(observation.log_floor).spread()
            return np.asarray(np.maximum(np.nan_to_num(np.asarray(spread)), self.smallest))
        return np.asarray(_distance(observation, observation.mask) ** self.exponent)


def calibrate(estimate: Estimate, observation: Observation, folds: Sequence[Fold]) -> Calibration:
    """Learn from folds how far estimates are off.

    >>> truth, mask = np.arange(40.0), np.arange(40) % 4 > 0
    >>> observation, zero = Observation(truth, mask), Estimate(np.zeros(40))
    >>> calibration = calibrate(zero, observation, [Fold(mask & (np.arange(40) % 3 == 0), zero)])
    >>> calibration.entries
    10

    Args:
        estimate: made from the whole observation.
        observation: all that was observed.
        folds: at least one.
    """
    floor = observation.log_floor
    errors, spreads, distances = [], [], []
    for fold in folds:
        made = fold.estimate.at(fold.withheld).in_domain(floor)
        errors.append(np.abs(in_domain(observation.values[fold.withheld].astype(float), floor) - made.mean))
        spreads.append(made.spread())
        distances.append(_distance(observation, observation.mask & ~fold.withheld)[fold.withheld])
    error, distance = np.concatenate(errors), np.concatenate(distances)
    own = [spread for spread in spreads if spread is not None]
    if len(own) == len(spreads) and estimate.spread() is not None and any(spread.any() for spread in own):
        spread = np.concatenate(own)
        exponent, smallest = None, 1e-3 * float(np.median(spread[spread > 0]))
        scale = np.maximum(spread, smallest)
    else:
        exponent, smallest = _growth(error, distance), 0.0
        scale = distance**exponent
    missing = observation.valid & ~observation.mask
    weights = _weights(distance, _distance(observation, observation.mask)[missing] if missing.any() else distance)
    order = np.argsort(error / scale, kind="stable")
    shares = np.cumsum(weights[order]) / weights.sum()
    withheld: Mask = np.any([fold.withheld for fold in folds], axis=0)
    return Calibration((error / scale)[order], shares, int(withheld.sum()), exponent, smallest)


def calibrated(
    estimate: Estimate, observation: Observation, calibration: Calibration, levels: Sequence[float] = LEVELS
) -> Estimate:
    """The estimate with intervals of these probabilities, and a deviation, as far as enough was withheld for them.

    >>> truth, mask = np.arange(40.0), np.arange(40) % 4 > 0
    >>> observation, zero = Observation(truth, mask), Estimate(np.zeros(40))
    >>> calibration = calibrate(zero, observation, [Fold(mask & (np.arange(40) % 3 == 0), zero)])
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
    if floor is None:
        return Estimate(estimate.mean, deviation, quantiles=quantiles or None)
    return Estimate(estimate.mean, deviation, quantiles=quantiles or None, distribution="lognormal", floor=floor)


def _distance(observation: Observation, observed: Mask) -> FloatArray:
    """Mean distance of every entry to the nearest observed ones, in grid steps and at least 1; shape of the field.

    Where whole fibers are observed it is that of the fibers. Unlike the distance to the nearest one alone, which on a
    grid has few values, it tells how dense observations are, and so that a fold has fewer of them.
    """
    from scipy.spatial import cKDTree

    fibers = _of_fibers(observation)
    places = observed.any(axis=-1) if fibers else observed
    tree = cKDTree(np.argwhere(places))
    count = min(_NEIGHBOURS + 1, tree.n)
    distances, _ = tree.query(np.argwhere(np.ones(places.shape, dtype=bool)), k=np.arange(1, count + 1))
    # An observed entry is no neighbour of its own.
    nearest = np.where(distances[:, :1] == 0, distances[:, -_NEIGHBOURS:], distances[:, :_NEIGHBOURS])
    mean = np.maximum(nearest.mean(axis=1), 1.0).reshape(places.shape)
    return np.array(np.broadcast_to(mean[..., np.newaxis], observed.shape)) if fibers else mean


def _of_fibers(observation: Observation) -> bool:
    return observation.ndim > 1 and is_fiber_mask(observation.mask, observation.valid)


def _growth(error: FloatArray, distance: FloatArray) -> float:
    """The power of the distance that errors grow with, by least squares of logarithms; at least 0."""
    if np.ptp(distance) == 0 or not error.any():
        return 0.0
    # What is exact by chance would weigh most in a logarithm.
    logs = np.log(np.maximum(error, 0.1 * np.median(error[error > 0])))
    slope = np.polyfit(np.log(distance), logs, 1)[0]
    return float(np.clip(slope, 0.0, _STEEPEST))


def _weights(withheld: FloatArray, missing: FloatArray) -> FloatArray:
    """How much each withheld entry counts, so that their distances are distributed as those of the gaps."""
    edges = np.unique(np.quantile(withheld, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
    group, other = np.searchsorted(edges, withheld), np.searchsorted(edges, missing)
    counts = np.bincount(group, minlength=len(edges) + 1)
    wanted = np.bincount(other, minlength=len(edges) + 1)
    return np.asarray((wanted / len(missing))[group] / (counts / len(withheld))[group] + 1e-9)
