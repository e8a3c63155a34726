"""Sensing: which entries are observed, and how a mask and noise make an observation of a field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fieldbench.errors import RequestError
from fieldbench.field import Axis, Field, FloatArray, Mask, Observation
from fieldbench.gap_holdout import chosen_at_random, withhold_like_gaps
from fieldbench.hookspecs import hookimpl
from fieldbench.plugin import Plugin, parameter


class Sampler(Plugin, ABC):
    """A way to choose which entries of a field are observed.

    >>> class First(Sampler):
    ...     '''The first entries of the field, in C order.'''
    ...
    ...     name = "first"
    ...
    ...     def draw(self, valid, axes, rate, rng):
    ...         positions = np.flatnonzero(valid)
    ...         mask = np.zeros(valid.size, dtype=bool)
    ...         mask[positions[: max(1, round(rate * len(positions)))]] = True
    ...         return mask.reshape(valid.shape)
    >>> First().draw(np.ones((2, 2), dtype=bool), (), 0.5, np.random.default_rng(0)).tolist()
    [[True, True], [False, False]]
    """

    @abstractmethod
    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        """A boolean mask, True = observed.

        Args:
            valid: boolean array of the field's shape, False where the field does not exist.
            axes: the field's axes, for samplers that work with positions.
            rate: share of the valid entries to observe, in (0, 1].
            rng: the only source of randomness.
        """

    def withhold(self, mask: Mask, share: float, rng: np.random.Generator) -> Mask:
        """Choose about ``share`` of the observed entries to withhold, as this sampler's pattern demands.

        Args:
            mask: True = observed.
            share: of the observed entries, in (0, 1).
            rng: chooses.

        Returns:
            A boolean array, True = withheld: a part of ``mask``, never all of it.

        Raises:
            RequestError: if too little is observed to withhold any.
        """
        return chosen_at_random(mask, _withheld_count(int(mask.sum()), share), rng)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """As :meth:`withhold`, for a pattern that shows only beside the axes, or beside where the field exists.

        This is what is asked; by default it hands the mask on.

        Args:
            observation: with mask, axes and where the field exists.
            share, rng: as there.
        """
        return self.withhold(observation.mask, share, rng)


class RandomEntries(Sampler):
    """Entries chosen independently of each other, uniformly at random.

    ``count=exact`` observes exactly round(rate x entries), without replacement; ``count=bernoulli``
    observes each entry with probability ``rate``.

        >>> valid = np.ones((10, 10), dtype=bool)
        >>> int(RandomEntries().draw(valid, (), 0.2, np.random.default_rng(0)).sum())
        20
    """

    name = "random"
    revision = "1"

    count: Literal["exact", "bernoulli"] = parameter("exact", "exactly round(rate x entries), or a coin for each entry")

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        if self.count == "bernoulli":
            return valid & (rng.random(valid.shape) < rate)
        return chosen_at_random(valid, _observed(int(valid.sum()), rate, "entries"), rng)


class Fibers(Sampler):
    """Whole fibers along the last axis, at exactly round(rate x positions) random positions.

    The sampling of the radio-map experiments (paper, section V-B): a sensor measures every frequency bin.
    A position counts if any of its entries exists; only valid entries are observed.

        >>> mask = Fibers().draw(np.ones((4, 5, 6), dtype=bool), (), 0.1, np.random.default_rng(0))
        >>> is_fiber_mask(mask), int(mask.sum())  # two positions of twenty, six entries each
        (True, 12)
    """

    name = "fibers"
    revision = "1"

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        positions = np.asarray(valid.any(axis=-1))
        chosen = chosen_at_random(positions, _observed(int(positions.sum()), rate, "positions"), rng)
        return chosen[..., np.newaxis] & valid

    def withhold(self, mask: Mask, share: float, rng: np.random.Generator) -> Mask:
        positions = np.asarray(mask.any(axis=-1))
        return chosen_at_random(positions, _withheld_count(int(positions.sum()), share), rng)[..., np.newaxis] & mask


class Blocks(Sampler):
    """One contiguous block is missing; all else is observed.

    The block has about the proportions of the field and holds a share 1 - rate of its entries; its position
    is uniform (paper, appendix M: block-missing observations are the hard case).
    """

    name = "blocks"
    revision = "1"

    def draw(self, valid: Mask, axes: Sequence[Axis], rate: float, rng: np.random.Generator) -> Mask:
        shape = valid.shape
        edges = [min(size, round(size * (1 - rate) ** (1 / len(shape)))) for size in shape]
        corner = [int(rng.integers(size - edge + 1)) for size, edge in zip(shape, edges, strict=True)]
        mask = valid.copy()
        mask[tuple(slice(start, start + edge) for start, edge in zip(corner, edges, strict=True))] = False
        return mask

    def withhold(self, mask: Mask, share: float, rng: np.random.Generator) -> Mask:
        """Entries in gaps as deep as the missing block, since scattered ones would be far easier to predict."""
        return withhold_like_gaps(mask, ~mask, share, rng)

    def withhold_from(self, observation: Observation, share: float, rng: np.random.Generator) -> Mask:
        """As :meth:`withhold`; entries outside the field are not gaps."""
        return withhold_like_gaps(observation.mask, observation.valid & ~observation.mask, share, rng)


def observe(field: Field, mask: Mask, noise: FloatArray) -> Observation:
    """What is measured: field plus noise at the observed entries (paper, section II-A, eq. 1).

    >>> field = Field(np.array([1.0, 2.0, 3.0]))
    >>> observe(field, np.array([True, False, True]), np.array([0.5, 0.5, -0.5])).values.tolist()
    [1.5, nan, 2.5]

    Args:
        field: the truth.
        mask: boolean array of the field's shape, True = observed.
        noise: array of the field's shape, in the field's unit.

    Raises:
        RequestError: if the mask observes nothing.
    """
    if not mask.any():
        raise RequestError("no entry is observed; raise the sampling rate")
    values = np.where(mask, field.values + noise, np.nan).astype(field.values.dtype)
    return Observation(
        values, mask, field.axes, field.unit, field.quantity, field.valid, field.log_floor, field.metadata,
        field.covariates,
    )  # fmt: skip


def is_fiber_mask(mask: Mask, valid: Mask | None = None) -> bool:
    """Whether every position is observed along the whole last axis or not at all; never so of one axis alone.

    With ``valid`` (True where the field exists), whole is what exists: columns of water end at the sea floor.

    >>> is_fiber_mask(np.array([[True, True], [False, False]])), is_fiber_mask(np.array([[True, False]]))
    (True, False)
    """
    whole = mask.any(axis=-1, keepdims=True)
    return mask.ndim > 1 and bool((mask == (whole if valid is None else whole & valid)).all())


def _observed(total: int, rate: float, what: str) -> int:
    count = round(rate * total)
    if count < 1:
        raise RequestError(f"rate {rate:g} of {total} {what} observes none; use at least {1 / total:.2g}")
    return count


def _withheld_count(total: int, share: float) -> int:
    if total < 2:
        raise RequestError("only one position is observed, so none can be withheld; observe more, or withhold none")
    return min(max(1, round(share * total)), total - 1)


@hookimpl
def fieldbench_register_samplers() -> list[type[Sampler]]:
    return [RandomEntries, Fibers, Blocks]
