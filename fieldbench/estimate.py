"""Estimates: a complete field, and how sure a method is of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldbench.field import FloatArray, Mask, unchangeable

Distribution = Literal["normal", "lognormal"]

#: Members and quantiles that one estimate may have.
MOST_ARRAYS = 128


@dataclass(frozen=True, eq=False)
class Estimate:
    """A complete field and its uncertainty, as far as a method has one.

    Every array has the field's shape; tensors on any device are accepted.

    >>> made = Estimate(mean=np.zeros(3), deviation=np.ones(3))
    >>> low, high = made.checked(np.ones(3, dtype=bool)).interval(0.9)
    >>> print(low.round(3), high.round(3))
    [-1.645 -1.645 -1.645] [1.645 1.645 1.645]

    Attributes:
        mean: the estimate, in the field's unit.
        deviation: standard deviation of each entry: of x in the field's unit if ``distribution`` is ``normal``, of
            ln(x + floor) if it is ``lognormal``. That is the error of the field itself, without measurement noise.
        members: equally likely fields in the field's unit, shape (M, ...) with M of at least 2.
        quantiles: by level between 0 and 1, fields in the field's unit that rise with the level.
        distribution: what ``deviation`` is the deviation of. Of a ``lognormal``, ``mean`` is the median.
        floor: what a ``lognormal`` adds before the logarithm, in the field's unit.
    """

    mean: Any
    deviation: Any = None
    members: Any = None
    quantiles: Mapping[float, Any] | None = None
    distribution: Distribution = "normal"
    floor: float = 0.0
    _known: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_sure_of_nothing(self) -> bool:
        """Whether it says nothing of its uncertainty."""
        return self.deviation is None and self.members is None and self.quantiles is None

    def checked(self, valid: Mask) -> Estimate:
        """The same with arrays of real numbers in double precision.

        Args:
            valid: True where the field exists; what is said elsewhere is not looked at.

        Raises:
            ValueError: if an array has another shape, is not finite where the field exists, a deviation is negative,
                or quantiles fall with their level.
        """
        if self.distribution not in get_args(Distribution):
            raise ValueError(f"the distribution is {self.distribution!r}; it is normal or lognormal")
        if not (np.isfinite(self.floor) and self.floor >= 0):
            raise ValueError(f"the floor of the estimate is {self.floor!r}; it is a finite number of at least 0")
        mean = as_field_array(self.mean, "the estimate")
        if mean.shape != valid.shape:
            raise ValueError(f"the method returned shape {mean.shape}; the field has {valid.shape}")
        if not np.isfinite(mean[valid]).all():
            raise ValueError("the method returned NaN or infinite entries")
        deviation = None if self.deviation is None else _like(self.deviation, "its deviation", valid)
        if deviation is not None and (deviation[valid] < 0).any():
            raise ValueError("its deviation is negative somewhere; a standard deviation is at least 0")
        return Estimate(
            mean, deviation, self._checked_members(valid), self._checked_quantiles(valid), self.distribution,
            float(self.floor),
        )  # fmt: skip

    def _checked_members(self, valid: Mask) -> FloatArray | None:
        if self.members is None:
            return None
        members = [_like(member, "a member", valid) for member in self.members]
        if not 2 <= len(members) <= MOST_ARRAYS:
            raise ValueError(f"the estimate has {len(members)} members; an ensemble has 2 to {MOST_ARRAYS}")
        return np.stack(members)

    def _checked_quantiles(self, valid: Mask) -> dict[float, FloatArray] | None:
        if self.quantiles is None:
            return None
        if not isinstance(self.quantiles, Mapping) or not all(isinstance(level, Real) for level in self.quantiles):
            raise ValueError("its quantiles are not fields by level; give them as {0.05: low, 0.95: high}")
        levels = sorted(float(level) for level in self.quantiles)
        if not levels or len(levels) > MOST_ARRAYS or not (levels[0] > 0 and levels[-1] < 1):
            raise ValueError(f"the estimate has quantiles of levels {levels}; give up to {MOST_ARRAYS} between 0 and 1")
        known = {level: _like(self.quantiles[level], f"its quantile {level:g}", valid) for level in levels}
        for lower, upper in pairwise(levels):
            if (known[lower] > known[upper])[valid].any():
                raise ValueError(f"its quantile {lower:g} lies above its quantile {upper:g} somewhere")
        return known

    @property
    def ranked(self) -> FloatArray:
        """The members sorted entry by entry, shape (M, ...)."""
        if "ranked" not in self._known:
            self._known["ranked"] = unchangeable(np.sort(self.members, axis=0))
        return np.asarray(self._known["ranked"])

    def interval(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        """Lower and upper end of the central interval that should hold the truth with this probability.

        The quantiles of both ends count first, then the deviation, then the members; their quantiles are
        interpolated between order statistics at (k - 1/2) / M.

        Returns:
            Two arrays in the field's unit, or None if the estimate has no such interval.
        """
        low, high = (1 - level) / 2, (1 + level) / 2
        # A level in single precision has seven digits.
        found = {round(known, 6): array for known, array in (self.quantiles or {}).items()}
        if round(low, 6) in found and round(high, 6) in found:
            return found[round(low, 6)], found[round(high, 6)]
        if self.deviation is not None:
            from scipy.special import ndtri

            return self._shifted(-float(ndtri(high))), self._shifted(float(ndtri(high)))
        if self.members is not None:
            return _between(self.ranked, low), _between(self.ranked, high)
        return None

    def probability_below(self, values: FloatArray) -> FloatArray | None:
        """The probability given to what is lower than these values: of truths, even on [0, 1] where it is right.

        Of a ``normal`` deviation that of the normal distribution; else of members the share below, equal ones half.
        Known as PIT, the probability integral transform. (Dawid 1984.)

        Returns:
            An array of the shape of ``values`` and the mean, or None for an estimate that has neither.
        """
        if self.deviation is not None:
            from scipy.special import ndtr

            error, sure = values - self.mean, self.deviation == 0
            below = ndtr(error / np.where(sure, 1.0, self.deviation))
            return np.asarray(np.where(sure, (1 + np.sign(error)) / 2, below))
        if self.members is not None:
            return np.asarray(((self.members < values) + 0.5 * (self.members == values)).mean(axis=0))
        return None

    def spread(self) -> FloatArray | None:
        """A standard deviation of each entry in the field's unit, or None.

        That of a lognormal is half the width between one deviation below and one above.
        """
        if self.deviation is not None:
            if self.distribution == "normal":
                return np.asarray(self.deviation)
            return np.asarray(self._shifted(1.0) - self._shifted(-1.0)) / 2
        return None if self.members is None else np.asarray(self.members).std(axis=0, ddof=1)

    def in_domain(self, floor: float | None) -> Estimate:
        """The estimate as a ``normal`` one of ln(max(x, 0) + floor), or of x itself where ``floor`` is None.

        A deviation of something else is carried there by the interval of one deviation to both sides.
        """

        def there(values: Any) -> FloatArray:
            return in_domain(np.asarray(values, dtype=float), floor)

        own = (self.distribution == "lognormal") == (floor is not None) and self.floor == (floor or 0.0)
        deviation = self.deviation
        if deviation is not None and not own:
            deviation = (there(self._shifted(1.0)) - there(self._shifted(-1.0))) / 2
        return self._mapped(there, deviation=deviation, distribution="normal", floor=0.0)

    def at(self, where: Mask | tuple[slice, ...] | tuple[NDArray[np.intp], ...]) -> Estimate:
        """The same at some entries only: as vectors for a boolean array or index arrays, as blocks for slices."""
        members = self.members
        if members is not None:
            indexed = isinstance(where, tuple)
            each = members[(slice(None), *where)] if indexed else members.reshape(len(members), -1)
            members = each if indexed else each.take(np.flatnonzero(np.asarray(where)), axis=1)
        return self._mapped(lambda part: part[where], members=members)

    def _mapped(self, change: Callable[[Any], Any], **instead: Any) -> Estimate:
        """The same with every array changed but those that are given instead."""
        for name in {"mean", "deviation", "members"}.difference(instead):
            part = getattr(self, name)
            instead[name] = None if part is None else change(part)
        quantiles = None if self.quantiles is None else {key: change(part) for key, part in self.quantiles.items()}
        return replace(self, quantiles=quantiles, **instead)

    def entries(self, where: Mask, floor: float | None) -> Estimate:
        """:meth:`at` some entries, :meth:`in_domain` of a floor; made once for all who ask in a row."""
        last, of = self._known.get("where"), self._known.get("floor")
        if last is not where or of != floor:
            made = self.at(where).in_domain(floor).frozen()
            self._known.update({"where": where, "floor": floor, "entries": made})
        known: Estimate = self._known["entries"]
        return copy.copy(known)

    def frozen(self) -> Estimate:
        """The same with arrays that nobody can write to."""
        made = self._mapped(unchangeable)
        return made if made.quantiles is None else replace(made, quantiles=MappingProxyType(made.quantiles))

    def _shifted(self, deviations: float) -> FloatArray:
        """Where the distribution has its value that many deviations above the centre."""
        if self.distribution == "normal":
            return np.asarray(self.mean + deviations * self.deviation)
        # Beyond this, a power is more than a number can hold.
        power = np.clip(deviations * self.deviation, -600, 600)
        return np.asarray(np.maximum((np.maximum(self.mean, 0) + self.floor) * np.exp(power) - self.floor, 0))


def in_domain(values: FloatArray, floor: float | None) -> FloatArray:
    """Values as they are, or the natural logarithm of max(x, 0) + floor where there is a floor.

    >>> in_domain(np.array([0.0, -1.0]), 1.0)
    array([0., 0.])
    """
    return values if floor is None else np.log(np.maximum(values, 0) + floor)


def _between(ranked: FloatArray, level: float) -> FloatArray:
    """The quantile of sorted members (M, ...); the k-th is that of level (k - 1/2) / M."""
    position = min(max(level * len(ranked) - 0.5, 0.0), len(ranked) - 1.0)
    below = int(position)
    above = min(below + 1, len(ranked) - 1)
    return np.asarray(ranked[below] + (position - below) * (ranked[above] - ranked[below]))


def as_estimate(made: ArrayLike | Estimate) -> Estimate:
    """What a method returned as an estimate: an array is a mean alone.

    >>> as_estimate([1.0, 2.0]).mean
    [1.0, 2.0]
    """
    return made if isinstance(made, Estimate) else Estimate(made)


def as_field_array(array: Any, what: str = "the estimate") -> FloatArray:
    """An array in double precision; torch tensors on any device are accepted.

    Entries under the mask of a masked array become NaN.

    >>> as_field_array([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])

    Raises:
        ValueError: if it does not hold real numbers; ``what`` names it.
    """
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    if isinstance(array, np.ma.MaskedArray):  # what lies under a mask is not an estimate
        array = np.ma.filled(array.astype(float), np.nan)
    array = np.asarray(array)
    if array.dtype.kind == "c":
        raise ValueError(f"{what} is complex; a field holds real numbers")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{what} is an array of {array.dtype}; a field holds real numbers")
    return np.asarray(array, dtype=float)


def _like(array: Any, what: str, valid: Mask) -> FloatArray:
    """The array as real numbers, of the field's shape and finite where it exists."""
    found = as_field_array(array, what)
    if found.shape != valid.shape:
        raise ValueError(f"{what} has shape {found.shape}; the field has {valid.shape}")
    if not np.isfinite(found[valid]).all():
        raise ValueError(f"{what} has NaN or infinite entries")
    return found
