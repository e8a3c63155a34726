"""From errors at withheld entries to the error to expect at the gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fieldbench.completion.difficulty import Sample, StableCovariance, extrapolated, fit, positions, sample, variances
from fieldbench.errors import RequestError
from fieldbench.estimate import in_domain
from fieldbench.field import FloatArray, Mask, Observation
from fieldbench.gap_holdout import withhold_like_gaps

#: Withheld entries of a fold whose errors count, and gaps whose difficulty is measured.
_ENTRIES = 4000
#: Classes of difficulty, each with as many gaps as the others.
_CLASSES = 8
#: Part of the field's gaps, by expected squared error, that withheld entries must be as hard to predict as.
_LEAST_COVERED = 0.75
#: By how much the kriging variance of a gap may exceed that of the hardest withheld entries.
_HARDER = 1.5
#: Part of the observed entries that may be withheld at once where gaps are large.
_MOST = 0.5
#: How far the gaps' mean square may lie from that of the best imitation, as a logarithm: at least, and as a part of
#: what weights make up for, where gaps are harder or easier to predict than what was withheld.
_UNLIKE, _WEIGHED = 0.2, 0.35
#: Points that a class of difficulty needs.
_FEW = 5
#: Edges of the cells whose means tell how far these lie apart, in correlation lengths, and how many there have to be.
_APART, _PIECES = (0.1, 0.2, 0.4, 0.8, 1.6), 1.5
#: Quantile of the normal distribution for 90 % between both sides.
_QUANTILE = 1.645


@dataclass(frozen=True, eq=False)
class WithheldFold:
    """Entries withheld once.

    Attributes:
        withheld: True = withheld.
        at: indices of the validation points among them, shape (n, d).
        variance: kriging variance of these, from what is left.
        area: what the squared error of each counts.
    """

    withheld: Mask
    at: NDArray[np.intp]
    variance: FloatArray
    area: FloatArray


@dataclass(frozen=True)
class Promise:
    """The error to expect at the gaps.

    Attributes:
        expected: in the metric.
        low, high: ends of its 90 % interval.
    """

    expected: float
    low: float
    high: float


class Validation:
    """Withheld entries in the pattern of the gaps, weighted so that they are as hard to predict as these."""

    def __init__(
        self,
        observation: Observation,
        share: float,
        folds: int,
        rng: np.random.Generator,
        areas: FloatArray | None = None,
    ) -> None:
        """
        Args:
            observation: what was observed.
            share: of the observed entries, withheld each time where gaps are small.
            folds: how many times.
            rng: the only source of randomness.
            areas: what each entry's squared error counts; None for all alike.

        Raises:
            RequestError: if nothing is missing, or too little is observed.
        """
        self._observation, self._share, self._rng, self._areas = observation, share, rng, areas
        #: The name of the metric, what it is a power of, and what it is in parts of.
        self.metric, self.power = ("rmse", 0.5) if observation.log_floor is None else ("slnre", 1.0)
        self._missing: Mask = observation.valid & ~observation.mask
        if not self._missing.any():
            raise RequestError("nothing is missing, so there is no gap to imitate")
        self.covariance: StableCovariance = fit(observation, rng)
        self._gaps: list[Sample] = sample(self._missing, _ENTRIES, rng)
        self._own = self._area(np.concatenate([part.at for part in self._gaps]))
        self._hard = variances(self.covariance, observation.axes, observation.mask, self._gaps)
        self._far = extrapolated(self.covariance, observation.axes, observation.mask, self._gaps, rng)
        self.folds: list[WithheldFold] = []
        for _ in range(folds):
            self.add()

    def add(self) -> None:
        """Withhold once more, other entries."""
        observation, rng = self._observation, self._rng
        steps = self.covariance.steps / self.covariance.steps.max()
        withheld = withhold_like_gaps(
            observation.mask, self._missing, self._share, rng, most=_MOST, steps=np.maximum(steps, 1e-3)
        )
        chosen = sample(withheld, _ENTRIES, rng)
        variance = variances(self.covariance, observation.axes, observation.mask & ~withheld, chosen)
        at = np.concatenate([part.at for part in chosen])
        self.folds.append(WithheldFold(withheld, at, variance, self._area(at)))

    def _area(self, at: NDArray[np.intp]) -> FloatArray:
        return np.ones(len(at)) if self._areas is None else np.asarray(self._areas[tuple(at.T)])

    def weights(self) -> tuple[list[FloatArray], float]:
        """For each fold what each validation point's squared error counts in that of the gaps, and what is covered.

        Gaps are sorted into classes by their kriging variance, and validation points count by how many gaps are in
        their class. The sum of all weights is near 1. Covered is the part of the gaps' expected squared error at those
        that are no harder to predict than what was withheld, and not far outside of what is observed.
        """
        hard, area = (np.concatenate(parts) for parts in zip(*[(f.variance, f.area) for f in self.folds], strict=True))
        ordered = np.sort(self._hard)
        at = np.searchsorted(np.cumsum(ordered), ordered.sum() * np.linspace(0, 1, _CLASSES + 1)[1:-1])
        edges = np.unique(ordered[np.minimum(at, len(ordered) - 1)])
        gaps_in = np.bincount(np.searchsorted(edges, self._hard), weights=self._own, minlength=len(edges) + 1)
        alike = (hard <= _HARDER * self._hard.max()) & (hard * _HARDER >= self._hard.min())
        alike |= alike.sum() < min(_FEW, len(hard))
        of = np.searchsorted(edges, hard)
        points_in = np.bincount(of, weights=alike, minlength=len(edges) + 1)
        area_in = np.bincount(of, weights=alike * area, minlength=len(edges) + 1)
        # A class without points is stood for by the next one that has some.
        filled = np.flatnonzero(points_in >= min(_FEW, points_in.max()))
        stands = filled[np.argmin(np.abs(np.arange(len(points_in))[:, np.newaxis] - filled), axis=1)]
        share = np.bincount(stands, weights=gaps_in, minlength=len(points_in)) / gaps_in.sum()
        weight = alike * area * share[of] / np.where(area_in[of] > 0, area_in[of], 1.0)
        # Within a class what is left of the difference is made up for by the ratio of mean variances.
        of_gaps, owed = stands[np.searchsorted(edges, self._hard)], self._own * self._hard
        needed = np.bincount(of_gaps, weights=owed, minlength=len(points_in))
        had = np.bincount(of, weights=weight * hard, minlength=len(points_in))
        ratio = np.where(had > 0, needed / self._own.sum() / np.where(had > 0, had, 1.0), 0.0)
        weight = weight * ratio[of]
        few = min(2 * _FEW, max(len(hard) // _FEW, 1))
        reach = _HARDER * float(np.sort(hard)[-few])
        covered = float(self._hard[(self._hard <= reach) & ~self._far].sum() / self._hard.sum())
        split = np.cumsum([len(fold.at) for fold in self.folds])[:-1]
        return np.split(weight, split), covered

    @property
    def checked(self) -> bool:
        """Whether the gaps, or most of them, are no harder to predict than what could be withheld."""
        return self.weights()[1] >= _LEAST_COVERED

    def residuals(self, estimate: FloatArray, fold: WithheldFold) -> FloatArray:
        """Errors at the validation points of a fold; of logarithms, in parts of their root mean square (in % of it)."""
        at, floor = tuple(fold.at.T), self._observation.log_floor
        guess, truth = (
            in_domain(np.asarray(part[at], dtype=float), floor) for part in (estimate, self._observation.values)
        )
        scale = 1.0
        if floor is not None:
            scale = 10 / max(float(np.sqrt(np.mean(truth**2))), np.sqrt(np.finfo(float).tiny))
        return np.asarray(scale * (guess - truth))

    def error(self, squares: FloatArray, fold: int) -> float:
        """The error in one fold, its points weighted to be as hard to predict as the gaps."""
        weight = self.weights()[0][fold]
        mean = float(weight @ squares / weight.sum()) if weight.any() else float(squares.mean())
        return float(mean**self.power)

    @np.errstate(over="ignore", invalid="ignore")  # of squares that no number holds
    def promise(self, squares: Sequence[FloatArray]) -> Promise:
        """The error to expect, from squared errors at the validation points of each fold that was fitted.

        Args:
            squares: a vector for each fold.
        """
        weights, _ = self.weights()
        done = range(len(squares))
        weight, square = np.concatenate([weights[i] for i in done]), np.concatenate(list(squares))
        # Where folds were not fitted, those that were stand for them.
        mean = (
            float(weight @ square) * float(sum(map(np.sum, weights)) / weight.sum())
            if weight.any()
            else float(square.mean())
        )
        expected = float(mean**self.power)
        factor = math.exp(self.power * self._spread(weight, square, [self.folds[i] for i in done]))
        return Promise(expected, expected / factor, expected * factor if expected else 0.0)

    def _spread(self, weight: FloatArray, square: FloatArray, folds: Sequence[WithheldFold]) -> float:
        """Half the width of the 90 % interval of the logarithm of the gaps' mean square.

        Errors are taken in parts of what their kriging variance lets expect. In pieces of the field they vary by as
        much as the gaps' do. The mean of a few pieces is uncertain, and the fewer the gaps have, the more may be odd
        about them; less so where withheld entries lie in the same pieces as gaps. Pieces after which errors are
        independent are not known, so that of several kinds the mean of the two widest intervals counts.
        """
        at, gaps = (np.concatenate([part.at for part in parts]) for parts in (folds, self._gaps))
        variance = np.concatenate([fold.variance for fold in folds])
        unlike = math.hypot(_UNLIKE, _WEIGHED * math.log(self._hard.mean() / variance.mean()))
        share, own = weight * variance, self._own * self._hard
        if not share.any():
            return math.inf
        share, own, square = share / share.sum(), own / own.sum(), square / variance
        mean, spreads = float(share @ square), list[float]()
        if mean == 0 or not math.isfinite(mean):
            return 0.0 if mean == 0 else math.inf
        for of in self._pieces(np.concatenate([at, gaps])):
            here, number = of[: len(at)], int(of.max()) + 1
            withheld = np.bincount(here, share, number)
            missing = np.bincount(of[len(at) :], own, number)
            some = withheld > 0
            part = withheld[some]
            effective = 1 / float(part @ part)
            if effective < _PIECES:
                continue
            means = np.bincount(here, share * square, number)[some] / part
            between = float(part @ (means / mean - 1) ** 2) * effective / (effective - 1)
            odd = float(missing @ missing - missing @ withheld)
            spread = math.log1p(between * (1 / effective + odd)) + max(odd, 0.0) + unlike**2
            spreads.append(_QUANTILE * math.sqrt(spread))
        return float(np.mean(sorted(spreads)[-2:])) if spreads else math.inf

    def _pieces(self, at: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """The piece that each entry is in: cells of several sizes, and slices, where most gaps are in missing ones."""
        scaled = positions(self._observation.axes, at) * self.covariance.steps
        for size in _APART:
            yield np.unique(np.floor(scaled / size).astype(int), axis=0, return_inverse=True)[1].ravel()
        mask, gaps = self._observation.mask, self._missing
        for axis in range(mask.ndim if mask.ndim > 1 else 0):
            others = tuple(other for other in range(mask.ndim) if other != axis)
            alone = gaps.any(axis=others) & ~mask.any(axis=others)
            if gaps.sum(axis=others)[alone].sum() > gaps.sum() / 2:
                yield at[:, axis]
