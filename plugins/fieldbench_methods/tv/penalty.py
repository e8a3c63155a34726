"""The total variation penalties: their definition in torch, and their gradient in numpy.

All are averaged over the entries of the field, so that a weight means the same for every shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldbench import FloatArray

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Smoothness:
    """A penalty: form and axes as of :func:`variation`, and its weight."""

    form: str
    axes: tuple[int, ...]
    weight: float


FORMS = ("second-order", "first-order", "squared")


def variation(fields: torch.Tensor, form: str, axes: Sequence[int]) -> torch.Tensor:
    """The penalty of each field of a batch: (B, I_1, .., I_L) to (B,).

    Args:
        fields: shape (B, I_1, .., I_L).
        form: ``second-order``, appendix K of the paper: at every entry that has both neighbours along all
            ``axes``, the root of the sum of the squared second differences along them and twice the
            squared mixed ones (the Frobenius norm of the Hessian within the slice). The appendix prints
            the squares twice, inside D and around it; once is meant. ``first-order``: magnitudes of first
            differences (anisotropic). ``squared``: squares of second differences.
        axes: of the field, counted from 0.
    """
    import torch

    size = fields[0].numel()
    if form == "first-order":
        return sum(_line(fields, axis + 1, _first).abs().flatten(1).sum(1) for axis in axes) / size
    if form == "squared":
        return sum(_line(fields, axis + 1, _second).square().flatten(1).sum(1) for axis in axes) / size
    squares = sum(factor * difference.square() for factor, difference in _hessian(fields, [axis + 1 for axis in axes]))
    # The root's slope at 0 is infinite; a flat piece of the field must not be pulled anywhere.
    positive = squares > 0
    roots = torch.where(positive, torch.where(positive, squares, 1).sqrt(), 0)
    return roots.flatten(1).sum(1) / size


def variation_gradient(field: FloatArray, form: str, axes: Sequence[int]) -> FloatArray:
    """The gradient of :func:`variation` of one field, of the field's shape and dtype.

    Args:
        field: of any shape.
        form: of the penalty, as in :func:`variation`.
        axes: of the field, counted from 0.
    """
    gradient = np.zeros_like(field)
    size = field.size
    if form == "first-order":
        for axis in axes:
            _add_back(gradient, np.sign(_line(field, axis, _first)), axis, {1: 1, 0: -1}, 1)
    elif form == "squared":
        for axis in axes:
            _add_back(gradient, 2 * _line(field, axis, _second), axis, _SECOND, 2)
    else:
        parts = list(_hessian(field, axes))
        squares = sum(factor * difference * difference for factor, difference in parts)
        inverse = np.zeros_like(squares)
        np.divide(1, np.sqrt(squares), out=inverse, where=squares > 0)
        for pair, (factor, difference) in zip(_pairs(axes), parts, strict=True):
            slope = difference * inverse
            for offsets, coefficient in _stencil(pair):
                gradient[_shifted(field.ndim, axes, offsets)] += np.asarray(factor * coefficient, field.dtype) * slope
    gradient /= size
    return gradient


_SECOND = {0: 1, 1: -2, 2: 1}


def _first(at: Callable[[int], Any]) -> Any:
    return at(1) - at(0)


def _second(at: Callable[[int], Any]) -> Any:
    return at(2) - 2 * at(1) + at(0)


def _line(field: Any, axis: int, difference: Callable[[Callable[[int], Any]], Any]) -> Any:
    """A difference along one axis; it spans 2 entries (first) or 3 (second)."""
    span = 1 if difference is _first else 2
    length = max(field.shape[axis] - span, 0)
    before = (slice(None),) * axis
    return difference(lambda offset: field[(*before, slice(offset, offset + length))])


def _add_back(gradient: FloatArray, slope: FloatArray, axis: int, stencil: dict[int, int], span: int) -> None:
    """Add the transpose of a difference along one axis, applied to ``slope``."""
    length = max(gradient.shape[axis] - span, 0)
    before = (slice(None),) * axis
    for offset, coefficient in stencil.items():
        gradient[(*before, slice(offset, offset + length))] += coefficient * slope


def _pairs(axes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Every axis with itself, then every pair."""
    yield from ((axis, axis) for axis in axes)
    yield from itertools.combinations(axes, 2)


def _stencil(pair: tuple[int, int]) -> Iterator[tuple[dict[int, int], float]]:
    """Offsets from an interior entry along some axes, and coefficients of a second difference."""
    left, right = pair
    if left == right:
        yield from (({left: -1}, 1.0), ({}, -2.0), ({left: 1}, 1.0))
        return
    for one, other in itertools.product((-1, 1), repeat=2):
        yield {left: one, right: other}, one * other / 4


def _shifted(order: int, axes: Sequence[int], offsets: dict[int, int]) -> tuple[slice, ...]:
    """The interior of ``axes``, shifted by ``offsets``."""
    bounds = {axis: slice(1 + offsets.get(axis, 0), (offsets.get(axis, 0) - 1) or None) for axis in axes}
    return tuple(bounds.get(axis, slice(None)) for axis in range(order))


def _hessian(field: Any, axes: Sequence[int]) -> Iterator[tuple[float, Any]]:
    """Second differences in the interior of ``axes``, each with how often it counts (mixed ones twice)."""
    for pair in _pairs(axes):
        difference = sum(
            coefficient * field[_shifted(field.ndim, axes, offsets)] for offsets, coefficient in _stencil(pair)
        )
        yield (1.0 if pair[0] == pair[1] else 2.0), difference
