"""Where the cubes of a field lie, and where the entries of the attention map go in the core tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Geometry:
    """Cubes of a field of any order, as in section III-B of the paper.

    Attributes:
        shape: I_1 .. I_L, the field's size.
        window: K_1 .. K_L, a cube's size.
        stride: S_1 .. S_L, the steps between cubes.
        heads: h_1 .. h_L, how the heads' core tensors are stacked along each mode (all 1 for TAP).
    """

    shape: Sizes
    window: Sizes
    stride: Sizes
    heads: Sizes

    @cached_property
    def counts(self) -> Sizes:
        """J_1 .. J_L, the number of cubes along each mode."""
        return tuple(
            (size - window) // stride + 1
            for size, window, stride in zip(self.shape, self.window, self.stride, strict=True)
        )

    @cached_property
    def cubes(self) -> int:
        """N, the number of cubes."""
        return math.prod(self.counts)

    @cached_property
    def cube_size(self) -> int:
        """K_1 ... K_L, the number of entries in a cube."""
        return math.prod(self.window)

    @cached_property
    def head_count(self) -> int:
        """h, the number of heads."""
        return math.prod(self.heads)

    @cached_property
    def core_shape(self) -> Sizes:
        """R_l = h_l J_l^2."""
        return tuple(head * count * count for head, count in zip(self.heads, self.counts, strict=True))

    def extract(self, values: FloatArray) -> FloatArray:
        """The data matrix P, shape (N, K_1 ... K_L): one cube a row, cubes and entries in C order."""
        windows = np.lib.stride_tricks.sliding_window_view(values, self.window)
        corners = windows[tuple(slice(None, None, stride) for stride in self.stride)]
        return np.ascontiguousarray(corners.reshape(self.cubes, self.cube_size))

    @cached_property
    def row_digits(self) -> list[NDArray[np.int64]]:
        """For each mode, shape (N,): the core index of the first entry of each row's block, head 0.

        Entry (n, i N + m) of the concatenated map, the attention of cube n to cube m in head i, stands in
        the core at index ``row_digits[l][n] + column_digits[l][i N + m]`` along mode l (section III-B,
        appendix A).
        """
        return [digit * count for digit, count in zip(_digits(self.counts), self.counts, strict=True)]

    @cached_property
    def column_digits(self) -> list[NDArray[np.int64]]:
        """For each mode, shape (h N,): what a column of the concatenated map adds to its row's index."""
        within, heads = _digits(self.counts), _digits(self.heads)
        return [
            (head[:, None] * count * count + digit[None, :]).ravel()
            for head, digit, count in zip(heads, within, self.counts, strict=True)
        ]

    @property
    def positions(self) -> NDArray[np.int64]:
        """Shape (N, h N): the flat core index (C order) of every entry of the concatenated map."""
        total = np.zeros((self.cubes, self.head_count * self.cubes), dtype=np.int64)
        for rows, columns, size in zip(self.row_digits, self.column_digits, self.core_shape, strict=True):
            total = total * size + rows[:, None] + columns[None, :]
        return total


def _digits(sizes: Sizes) -> list[NDArray[np.int64]]:
    """The indices along each axis of every entry of an array of these sizes, in C order."""
    return [grid.ravel() for grid in np.indices(sizes)]


def check_geometry(name: str, geometry: Geometry) -> None:
    """Raise ValueError if a window does not fit into the field or a size is below 1."""
    for axis, (size, window, stride, head) in enumerate(
        zip(geometry.shape, geometry.window, geometry.stride, geometry.heads, strict=True)
    ):
        if window > size:
            raise ValueError(
                f"{name}: window {window} is larger than axis {axis} of the field, which has {size} points; "
                f"use at most {size}"
            )
        if min(window, stride, head) < 1:
            raise ValueError(f"{name}: window, stride and heads must be at least 1 along axis {axis}")


def spread(name: str, parameter: str, value: int | Sizes | None, order: int) -> Sizes | None:
    """A parameter given once for all axes or once for each, as one value an axis; None stays None.

    Args:
        name: of the method, for messages.
        parameter: its name, for messages.
        value: as given.
        order: of the field.

    Raises:
        ValueError: if the number of values is not the field's order.
    """
    if value is None:
        return None
    if isinstance(value, int):
        return (value,) * order
    if len(value) != order:
        raise ValueError(f"{name}: {parameter} has {len(value)} values, the field is {order}-D; give one value an axis")
    return tuple(value)


def guideline(shape: Sizes, limit: int) -> tuple[Sizes, Sizes]:
    """Window and stride for a field of any shape, following appendix L of the paper.

    Along each axis the largest stride S is taken, with window K = 2 S <= I // 3 (or 1), whose core is
    larger than the field (J^2 > I); the window then grows by what would stay uncovered at the far end,
    if that keeps it within I // 3. Where this gives more than ``limit`` cubes in all, the axis with most
    cubes is thinned until it does not, with windows that still leave no gap.
    """
    strides = [_largest_stride(size) for size in shape]
    while math.prod(_count(size, stride) for size, stride in zip(shape, strides, strict=True)) > limit:
        counts = [_count(size, stride) for size, stride in zip(shape, strides, strict=True)]
        strides[counts.index(max(counts))] += 1
    windows = []
    for size, stride in zip(shape, strides, strict=True):
        window = _window(size, stride)
        rest = (size - window) % stride
        windows.append(window + rest if window + rest <= max(1, size // 3) else window)
    return tuple(windows), tuple(strides)


def _window(size: int, stride: int) -> int:
    return min(size, max(stride, min(2 * stride, size // 3)))


def _count(size: int, stride: int) -> int:
    return (size - _window(size, stride)) // stride + 1


def _largest_stride(size: int) -> int:
    return next((stride for stride in range(max(1, size // 6), 0, -1) if _count(size, stride) ** 2 > size), 1)
