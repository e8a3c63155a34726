"""Small observations that exercise a method: sizes, orders, mask patterns and scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fieldbench.field import Axis, FloatArray, Mask, Observation

#: One shape for each tensor order, small and with no two sizes alike where that matters.
SHAPES: dict[int, tuple[int, ...]] = {2: (12, 9), 3: (8, 9, 7), 4: (6, 5, 7, 4)}

#: A field much longer in one direction than in the others.
ELONGATED: dict[int, tuple[int, ...]] = {2: (4, 30), 3: (4, 20, 6), 4: (3, 12, 4, 5)}


@dataclass(frozen=True)
class Example:
    """An observation and the words that a failure message calls it by."""

    words: str
    observation: Observation

    def times(self, factor: float) -> Example:
        """The same in another unit: values, and a log_floor where there is one, times ``factor``."""
        seen = self.observation
        floor = None if seen.log_floor is None else seen.log_floor * factor
        scaled = replace(seen, values=seen.values * factor, log_floor=floor)
        return Example(f"{self.words}, values times {factor:g}", scaled)


def smooth_field(shape: Sequence[int]) -> FloatArray:
    """A smooth field of tensor rank 2 with values of about -2 to 2."""
    coordinates = np.meshgrid(*(np.linspace(0, 1, size) for size in shape), indexing="ij")
    waves = np.prod([np.cos(2.5 * x + axis) for axis, x in enumerate(coordinates)], axis=0)
    slopes = np.prod([0.5 + x for x in coordinates], axis=0)
    return np.asarray(waves + slopes / slopes.max())


def random_mask(shape: Sequence[int], rate: float = 0.4, seed: int = 1) -> Mask:
    """Entries chosen at random, True = observed.

    Args:
        shape: of the field.
        rate: share of the entries that is observed; at least one is.
        seed: of the choice.
    """
    mask = np.zeros(int(np.prod(shape)), dtype=bool)
    mask[np.random.default_rng(seed).permutation(mask.size)[: max(1, round(rate * mask.size))]] = True
    return mask.reshape(shape)


def fiber_mask(shape: Sequence[int]) -> Mask:
    return np.broadcast_to(random_mask(shape[:-1])[..., np.newaxis], shape).copy()


def block_mask(shape: Sequence[int]) -> Mask:
    """All but a block in one corner, half as wide as the field in each direction."""
    mask = np.ones(shape, dtype=bool)
    mask[tuple(slice(0, size // 2) for size in shape)] = False
    return mask


def one_entry(shape: Sequence[int]) -> Mask:
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(size // 2 for size in shape)] = True
    return mask


#: The mask patterns that a method meets, by the name of their check.
PATTERNS: dict[str, Callable[[Sequence[int]], Mask]] = {
    "one-observed-entry": one_entry,
    "fully-observed": lambda shape: np.ones(shape, dtype=bool),
    "fiber-mask": fiber_mask,
    "block-mask": block_mask,
}


def axes_of(shape: Sequence[int]) -> tuple[Axis, ...]:
    """Axes with different spacings, as measured fields have them."""
    return tuple(Axis.regular(f"axis{index}", size, 10.0 ** (index - 1), "m") for index, size in enumerate(shape))


def observed(values: FloatArray, mask: Mask) -> Observation:
    return Observation(np.where(mask, values, np.nan), mask, axes_of(mask.shape), "m/s", "example")


def ordinary(orders: Sequence[int]) -> Iterator[Example]:
    """Ordinary observations in the order in which a method's first applicable one is sought."""
    for order in orders:
        shape = SHAPES[order]
        yield Example(f"a {order}-D field at 40 % random entries", observed(smooth_field(shape), random_mask(shape)))
    for order in orders:
        shape = SHAPES[order]
        power = np.exp(smooth_field(shape) - 4)
        fibers = replace(observed(power, fiber_mask(shape)), unit="power", quantity="power", log_floor=1e-6)
        yield Example(f"a positive {order}-D field with a log_floor at 40 % of its fibers", fibers)


def masked(observation: Observation, mask: Mask) -> Observation:
    """The same geometry with another mask, where the field exists; the values are those of a smooth field.

    Where none of it exists, one valid entry is observed.
    """
    values = smooth_field(observation.shape)
    if observation.log_floor is not None:
        values = np.exp(values - 4)
    valid = observation.valid
    mask = mask & valid
    if not mask.any():
        mask.flat[np.flatnonzero(valid)[0]] = True
    return observation.replaced(values, mask)


def turned(observation: Observation, axis: int) -> Observation:
    """Another field with another mask, of the same kind: what is observed, the other way round along one axis."""
    valid = np.flip(observation.valid, axis)
    mask = np.flip(observation.mask, axis)
    covariates = {name: np.flip(array, axis) for name, array in observation.covariates.items()}
    values = np.flip(observation.values, axis)
    return replace(observation, values=values, mask=mask, valid=valid, covariates=covariates)


def with_gaps(observation: Observation) -> Observation:
    """The same where the field does not exist at a fifth of its positions, but at the first that is observed."""
    positions = observation.shape[:-1] or observation.shape
    gaps = random_mask(positions, 0.2, seed=2)
    gaps[tuple(observation.indices[0][: len(positions)])] = False
    valid = observation.valid & ~gaps.reshape(positions + (1,) * (observation.ndim - len(positions)))
    mask = observation.mask & valid
    return replace(observation, values=np.where(mask, observation.values, np.nan), mask=mask, valid=valid)


def _masked_as(name: str, example: Example) -> Example:
    observation = example.observation
    words = f"a {observation.ndim}-D field with {name.replace('-', ' ')}"
    return Example(words, masked(observation, PATTERNS[name](observation.shape)))


def _constant(words: str, number: float, example: Example) -> Example:
    observation = example.observation
    return Example(words, replace(observation, values=np.where(observation.mask, number, np.nan)))


def _single(example: Example) -> Example:
    values = example.observation.values.astype(np.float32)
    return Example(f"{example.words} in single precision", replace(example.observation, values=values))


def _gappy(example: Example) -> Example:
    return Example(f"{example.words}, not valid at some positions (valid)", with_gaps(example.observation))


#: What may become of an ordinary observation, by the name of the check that tries it.
VARIATIONS: dict[str, Callable[[Example], Example]] = {
    **{name: partial(_masked_as, name) for name in PATTERNS},
    "constant-field": partial(_constant, "a constant field", 2.5),
    "zero-field": partial(_constant, "a field of zeros", 0.0),
    "huge-scale": lambda example: example.times(1e12),
    "tiny-scale": lambda example: example.times(1e-12),
    "single-precision": _single,
    "field-with-gaps": _gappy,
}
