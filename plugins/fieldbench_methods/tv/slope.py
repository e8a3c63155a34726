"""The pull of a total variation penalty on a network's output, for the fast CPU engines. Needs numba.

What the penalty is, and its gradient for every form, is in :mod:`penalty`; the paper's form is computed here in
few passes over the field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from fieldbench_methods.exponentials import hyperbolic_tangent
from fieldbench_methods.tv.penalty import Smoothness, variation_gradient

Floats = NDArray[np.float32]

_SMALLEST = np.finfo(np.float32).tiny


class Pull:
    """The gradient of a penalty with respect to a field before its output activation, again and again.

    Args:
        shape: of the field.
        bounded: whether the activation is tanh (else there is none).
        smoothness: the penalty.
    """

    def __init__(self, shape: Sequence[int], bounded: bool, smoothness: Smoothness) -> None:
        self._shape, self._bounded, self._smoothness = tuple(shape), bounded, smoothness
        self._weight = np.float32(smoothness.weight)
        self._estimate = np.empty(math.prod(shape), np.float32)
        self._sizes: tuple[int, int, int, int, int] | None = None  # of the paper's form only
        if smoothness.form == "second-order" and len(smoothness.axes) == 2:
            first, second = sorted(smoothness.axes)
            self._sizes = (
                math.prod(shape[:first]),
                shape[first],
                math.prod(shape[first + 1 : second]),
                shape[second],
                math.prod(shape[second + 1 :]),
            )
            self._weight /= np.float32(self._estimate.size)
            # Wide enough for the neighbours of the first and the last entry.
            margin = (self._sizes[2] * self._sizes[3] + 1) * self._sizes[4]
            self._parts = np.zeros((3, self._estimate.size + 2 * margin), np.float32)
            self._gradient = np.empty_like(self._estimate)

    def add_to(self, slope: Floats, field: Floats) -> None:
        """Add it to ``slope``; both arrays are contiguous and as large as the field."""
        estimate = self._estimate
        _activate(field.reshape(-1), self._bounded, estimate)
        if self._sizes is not None:
            _second_order(estimate, self._sizes, self._parts, self._gradient)
            gradient = self._gradient
        else:
            form, axes = self._smoothness.form, self._smoothness.axes
            gradient = variation_gradient(estimate.reshape(self._shape), form, axes).reshape(-1)
        _add_behind_activation(estimate, self._bounded, gradient, self._weight, slope.reshape(-1))


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})(function)


@_compiled
def _activate(field, bounded, estimate):  # type: ignore[no-untyped-def]
    if bounded:
        for index in range(field.size):
            estimate[index] = hyperbolic_tangent(field[index])
    else:
        for index in range(field.size):
            estimate[index] = field[index]


@_compiled
def _add_behind_activation(estimate, bounded, gradient, weight, slope):  # type: ignore[no-untyped-def]
    if bounded:
        for index in range(estimate.size):
            slope[index] += weight * gradient[index] * (np.float32(1.0) - estimate[index] * estimate[index])
    else:
        for index in range(estimate.size):
            slope[index] += weight * gradient[index]


@_compiled
def _second_order(x, sizes, parts, gradient):  # type: ignore[no-untyped-def]
    """The gradient of the sum, over interior entries, of the root of dx^2 + dy^2 + 2 dxy^2.

    Args:
        x: the flat field.
        sizes: entries before the first axis, along it, between the axes, along the second, and behind it.
        parts: scratch for the three terms, with a margin at both ends that is 0 and stays so.
        gradient: overwritten.
    """
    before, rows, between, columns, behind = sizes
    # Unsigned, so that the compiler need not think of indices from the end.
    across, down = np.uintp(behind), np.uintp(between * columns * behind)
    margin = across + down
    dx, dy, dxy = parts[0], parts[1], parts[2]
    # Neighbours are at fixed distances, so that loops over all entries will do, in whatever order the axes stand.
    # Each has few arrays, so that the compiler can rule out their overlap, without which it makes no vectors.
    size = np.uintp(x.size)
    first, last = margin, max(size, margin) - margin
    for at in range(first, last):
        dx[margin + at] = x[at + down] - np.float32(2.0) * x[at] + x[at - down]
    for at in range(first, last):
        dy[margin + at] = x[at + across] - np.float32(2.0) * x[at] + x[at - across]
    for at in range(first, last):
        straight = x[at + down + across] + x[at - down - across]
        dxy[margin + at] = np.float32(0.25) * (straight - (x[at + down - across] + x[at - down + across]))
    for at in range(margin + first, margin + last):
        total = dx[at] * dx[at] + dy[at] * dy[at] + np.float32(2.0) * dxy[at] * dxy[at]
        # The root's slope at 0 is infinite; a flat piece of the field must not be pulled anywhere.
        inverse = np.float32(1.0) / np.sqrt(max(total, _SMALLEST))
        dx[at] *= inverse
        dy[at] *= inverse
        dxy[at] *= inverse
    # At the border, neighbours from the other side were met.
    for outer in range(before):
        for row in range(rows):
            for middle in range(between):
                line = np.int64(margin) + ((outer * rows + row) * between + middle) * columns * behind
                if row == 0 or row == rows - 1:
                    parts[:, line : line + columns * behind] = np.float32(0.0)
                parts[:, line : line + behind] = np.float32(0.0)
                parts[:, line + (columns - 1) * behind : line + columns * behind] = np.float32(0.0)
    for at in range(size):
        here = margin + at
        gradient[at] = dx[here - down] - np.float32(2.0) * dx[here] + dx[here + down]
    for at in range(size):
        here = margin + at
        gradient[at] += dy[here - across] - np.float32(2.0) * dy[here] + dy[here + across]
    for at in range(size):
        here = margin + at
        straight = dxy[here - down - across] + dxy[here + down + across]
        gradient[at] += np.float32(0.5) * (straight - (dxy[here + down - across] + dxy[here - down + across]))
