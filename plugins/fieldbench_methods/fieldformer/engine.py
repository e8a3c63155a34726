"""The fast CPU engine: one trial of TAP or MHTAP, trained on one or two threads with numpy and numba.

It computes what :mod:`network` and :mod:`training` define, with the gradient written out. What makes it
fast: no sort and no dense attention map (:mod:`kernels`), the support of the core used where it is sparse
enough, the observed share of the data matrix used where it is sparse enough, no autograd, no allocation
in the loop. BLAS does the dense products, each on one thread.

With two threads, halves of a step that do not need each other run at once. Where the halves are cut does not
depend on the number of threads, and no sum is cut, so neither do the numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldbench import FloatArray, Mask
from fieldbench_methods.fieldformer import kernels, randomness
from fieldbench_methods.fieldformer.design import SMALLEST_NORM, Design, Schedule
from fieldbench_methods.fieldformer.geometry import Geometry
from fieldbench_methods.fieldformer.halves import Both, in_turn
from fieldbench_methods.self_supervised import Problem, observed_lines
from fieldbench_methods.tv.slope import Pull

Floats = NDArray[np.float32]

BLOCK = 1 << 19
"""Scores computed at a time, about: two mebibytes, which stay in the cache between the product and the row loop."""

_WHOLE_ROWS = 12
"""Products are made of blocks of 4, 6 or 12 rows (OpenBLAS), and what is left over is summed in another order. Cut at
multiples of this many rows, a product in parts has the bits of the whole."""

SEGMENT_ROWS, SEGMENT_SUPPORT = 160, 20
"""Rows in a segment (a strip of them takes 40 KiB), and how many products each row should find in one."""

WORTH_A_THREAD = 1 << 21
"""Multiplications from which handing half of a product to another thread takes less time than it saves."""


@dataclass(frozen=True)
class Layout:
    """Where a slot of the attention map stands in the core, with the modes in the order of contraction.

    Attributes:
        order: the modes in the order in which they are contracted; the first is the leading mode.
        lead_row, lead_column, rest_row, rest_column: see :mod:`kernels`.
        halves: two groups of rows whose slots have no leading index in common.
    """

    order: tuple[int, ...]
    lead_row: NDArray[np.uint32]
    lead_column: NDArray[np.uint32]
    rest_row: NDArray[np.uint32]
    rest_column: NDArray[np.uint32]
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]

    @classmethod
    def of(cls, geometry: Geometry) -> Layout:
        """The layout in whose order the contractions cost least."""
        # Among equals the last mode leads: neighbouring slots then meet the same row of the result.
        orders = itertools.permutations(reversed(range(len(geometry.shape))))
        order = min(orders, key=lambda order: _cost(geometry, order))
        rows, columns = geometry.row_digits, geometry.column_digits
        sizes = [geometry.core_shape[mode] for mode in order[1:]]
        steps = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]

        def flat(digits: Sequence[NDArray[np.int64]]) -> NDArray[np.uint32]:
            total = np.zeros(len(digits[0]), dtype=np.int64)
            for mode, step in zip(order[1:], steps, strict=True):
                total += digits[mode] * step
            return total.astype(np.uint32)

        lead = order[0]
        # A row's leading indices, whatever the head, are those of its own digit times the count.
        low = rows[lead] // geometry.counts[lead] < geometry.counts[lead] // 2
        return cls(
            order,
            rows[lead].astype(np.uint32),
            columns[lead].astype(np.uint32),
            flat(rows),
            flat(columns),
            (np.flatnonzero(low), np.flatnonzero(~low)),
        )

    @property
    def positions(self) -> tuple[NDArray[np.uint32], ...]:
        return self.lead_row, self.lead_column, self.rest_row, self.rest_column


def _cost(geometry: Geometry, order: tuple[int, ...]) -> float:
    """Multiplications of contracting the core's modes one after another."""
    sizes = [geometry.core_shape[mode] for mode in order]
    cost = 0.0
    for index, mode in enumerate(order):
        cost += math.prod(sizes) * geometry.shape[mode]
        sizes[index] = geometry.shape[mode]
    return cost


class GroupedMatrix:
    """A constant matrix, in single precision, by groups of rows whose entries other than 0 have the same columns.

    Observed fibers give such groups: all bins of a position are observed or none is.
    """

    def __init__(self, dense: Floats) -> None:
        # Where few entries are 0, leaving them out saves less than long groups do.
        present = dense != 0 if np.count_nonzero(dense) < 0.3 * dense.size else np.ones(dense.shape, bool)
        self._rows = _groups(present)
        patterns = present[self._rows[:-1]]
        self._counts = patterns.sum(axis=1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._columns = np.nonzero(patterns)[1].astype(np.uint32)
        sizes = np.diff(self._rows)
        self._positions = np.cumsum(sizes * self._counts) - sizes * self._counts
        groups = itertools.pairwise(self._rows)
        values = [dense[a:b, pattern].T.ravel() for (a, b), pattern in zip(groups, patterns, strict=True)]
        self._values = np.concatenate(values, dtype=np.float32)
        self._widest = 96 if len(sizes) > len(dense) // 2 else 32

    @property
    def mean_count(self) -> float:
        """Columns that a row has."""
        return len(self._values) / int(self._rows[-1])

    def times(self, dense: Floats, out: Floats, first: int = 0, last: int | None = None) -> None:
        """The product of the rows ``first .. last``, all of them by default, with a dense matrix.

        Args:
            dense: its columns are a multiple of 8.
            out: written.
            first, last: multiples of 8, or the number of rows.
        """
        begin, end = np.searchsorted(self._rows, (first, self._rows[-1] if last is None else last))
        kernels.put_grouped_product(
            self._rows[begin : end + 1] - first, self._starts[begin:end], self._counts[begin:end], self._columns,
            self._positions[begin:end], self._values, self._widest, dense, out,
        )  # fmt: skip


def _groups(present: Mask) -> NDArray[np.int64]:
    """Where groups of 8, 4 or 1 rows with equal patterns begin, and the number of rows behind them.

    None crosses a multiple of 8.
    """
    differs = (present[1:] != present[:-1]).any(axis=1)
    differs[7::8] = True
    bounds = [0, *(np.flatnonzero(differs) + 1).tolist(), len(present)]
    begins = []
    for row, end in itertools.pairwise(bounds):
        while row < end:
            begins.append(row)
            row += next(size for size in (8, 4, 1) if size <= end - row)
    return np.array([*begins, len(present)])


class Engine:
    """One trial: its weights, its buffers and its training step.

    Args:
        design: the network.
        cubes: the data matrix P, shape (N, K_1 ... K_L).
        problem: what to fit.
        schedule: learning rate and the like.
        both: does two independent halves of a step.
    """

    def __init__(
        self, design: Design, cubes: Floats, problem: Problem, schedule: Schedule, both: Both = in_turn
    ) -> None:
        geometry = design.geometry
        self._design, self._schedule, self._both = design, schedule, both
        self._cubes, self._cubes_across = GroupedMatrix(cubes), GroupedMatrix(cubes.T)
        self._empty: Mask = np.logical_not(cubes.any(axis=1))
        self._layout = layout = Layout.of(geometry)
        self._soft = design.activation == "softmax"
        self._weights = _Weights(design, problem.seed)
        self._update = 0
        steps = np.arange(schedule.epochs)
        self._dropout_keys = {
            stream: randomness.dropout_keys(problem.seed, steps, stream)
            for stream in (randomness.SCORES, randomness.CORE)
        }

        heads, count, latent = geometry.head_count, geometry.cubes, design.padded_latent
        # The first of two is for queries, the second for keys.
        self._unit = [_aligned(heads, count, latent) for _ in range(2)]
        self._unit_gradient = [_aligned(heads, count, latent) for _ in range(2)]
        self._inverse = [np.empty((heads, count), np.float32) for _ in range(2)]
        # For the scores: queries in groups of 8 rows, keys as columns, both filled up with zeros to whole groups.
        self._padded = padded = -(-count // 8) * 8
        # The product (P W_Q) K' costs less as P (W_Q K') where the cubes are many and mostly unobserved.
        size = -(-geometry.cube_size // 8) * 8
        self._by_entry = geometry.cube_size * latent + self._cubes.mean_count * count < latent * count
        self._grouped = _aligned(heads, (size if self._by_entry else padded) * latent)
        self._columns_of_keys = _aligned(heads, padded * latent)
        self._entry_scores = _aligned(heads, size if self._by_entry else 0, padded)
        self._scales = self._inverse[0] if self._by_entry else np.ones((heads, count), np.float32)
        blocks = -(-heads * count * count // BLOCK)
        self._block_rows = -(-padded // (blocks * 16)) * 16
        self._scores = _aligned(heads * self._block_rows * padded)
        groups = np.arange(max(self._block_rows, size) // 8)
        self._groups = (
            np.arange(len(groups) + 1) * 8, np.zeros_like(groups), np.full_like(groups, latent),
            np.arange(latent, dtype=np.uint32), groups * 8 * latent,
        )  # fmt: skip
        self._width = heads * count
        self._rows = [_aligned(-(-self._width // kernels.WORD) * kernels.WORD) for _ in range(2)]
        self._thresholds = np.full(count, -np.inf, np.float32)
        self._support = _Support(count, self._width)

        self._bounded = design.output == "tanh"
        smoothness = problem.smoothness
        if smoothness is not None:
            smoothness = replace(smoothness, axes=tuple(layout.order.index(axis) for axis in smoothness.axes))
        observed = np.ascontiguousarray(np.transpose(problem.mask, layout.order))
        self._pull = None if smoothness is None else Pull(observed.shape, self._bounded, smoothness)
        self._wanted = np.transpose(problem.target, layout.order)[observed].astype(np.float32)
        self._entry_weight = np.float32(schedule.entry_weight(problem.mask))
        lines = None if smoothness else observed_lines(observed)
        self._tucker = _Tucker(geometry, layout, both, lines)
        if lines is None:
            self._observed = np.flatnonzero(observed).astype(np.uint32)
            self._slope = np.zeros(observed.shape, np.float32)
        else:
            self._observed = np.arange(self._wanted.size, dtype=np.uint32)
            self._slope = np.zeros((len(lines), observed.shape[-1]), np.float32)

    def step(self) -> None:
        """One update of the weights."""
        field = self._forward(self._update)
        self._slope[:] = 0
        if self._pull is not None:
            self._pull.add_to(self._slope, field)
        kernels.observed_gradient(
            field, self._observed, self._wanted, self._entry_weight, self._bounded, self._slope.reshape(-1)
        )
        self._backward(self._update)
        self._update += 1

    def estimate(self) -> tuple[FloatArray, float]:
        """The scaled estimate with dropout off, and the share of non-zero core entries."""
        field = self._forward(None).reshape(self._tucker.field_shape)
        field = np.transpose(field, np.argsort(self._layout.order)).astype(float)
        share = self._support.nonzero / (self._design.geometry.cubes * self._width)
        return (np.tanh(field) if self._bounded else field), share

    @property
    def attention(self) -> Floats:
        """The attention map of the last evaluation, shape (N, h N), heads beside one another."""
        support, rows = self._support, self._design.geometry.cubes
        dense = np.zeros((rows, self._width), np.float32)
        row_of = np.repeat(np.arange(rows), np.diff(support.starts))
        dense[row_of, support.columns[: support.used]] = support.weights[: support.used]
        return dense

    @property
    def density(self) -> float:
        """The share of the attention map in the support at the last evaluation, dropped core entries included."""
        return self._support.used / (self._design.geometry.cubes * self._width)

    @property
    def gradients(self) -> list[Floats]:
        """The gradient at the last step, one array for each of ``design.parameter_shapes``."""
        latent = self._design.latent
        embeddings = [slope.transpose(1, 0, 2)[..., :latent] for slope in self._weights.embedding_gradients]
        return [*embeddings, *self._weights.factor_gradients]

    def _forward(self, step: int | None) -> Floats:
        """The field before the output activation, flat: in training its observed lines only, where there are such."""
        self._both(partial(self._project, 0), partial(self._project, 1))
        if self._by_entry:
            size = self._entry_scores.shape[1]
            middle = size // 16 * 8
            self._both(
                partial(self._key_products, 0, middle, self._entry_scores[:, :middle]),
                partial(self._key_products, middle, size, self._entry_scores[:, middle:]),
            )
        self._attend(step)
        return self._tucker.expand(self._support, self._weights.factors, training=step is not None)

    def _project(self, side: int) -> None:
        """Unit queries (side 0) or keys (side 1) from the embedding."""
        embedding, unit, inverse = self._weights.embeddings[side], self._unit[side], self._inverse[side]
        for head, rows in enumerate(unit):
            self._cubes.times(embedding[head], rows)
            kernels.normalise(rows, np.float32(SMALLEST_NORM), inverse[head])
            if side == 0:
                grouped = embedding[head] if self._by_entry else rows
                kernels.turn(grouped, 8 * rows.shape[1], 8, self._grouped[head])
            else:
                kernels.turn(rows, 8, self._padded, self._columns_of_keys[head])

    def _attend(self, step: int | None) -> None:
        count, support = self._unit[0].shape[1], self._support
        # Evaluation starts from its own thresholds, so that it leaves no trace in training.
        thresholds = self._thresholds if step is not None else np.full(count, -np.inf, np.float32)
        dropout = self._dropout(step)
        for first in range(0, count, self._block_rows):
            last = min(first + self._block_rows, count)
            middle = first + (last - first) // 16 * 8
            support.make_room(first, (last - first) * self._width)
            # The second half does not wait to learn where the first one ends: it leaves room for all of it.
            slot = int(support.starts[first])
            ahead = slot + (middle - first) * self._width
            self._both(
                partial(self._attend_rows, 0, first, first, middle, slot, thresholds, dropout),
                partial(self._attend_rows, 1, first, middle, last, ahead, thresholds, dropout),
            )
            support.close_up(middle, last, ahead)

    def _attend_rows(
        self, half: int, block: int, first: int, last: int, slot: int, thresholds: Floats, dropout: tuple[Any, ...]
    ) -> None:
        """The rows ``first .. last`` of the attention map, in the block that begins at row ``block``."""
        if first == last:
            return
        scores = self._scores_of(first - block, last - block)
        if self._by_entry:
            for entries, out in zip(self._entry_scores, scores, strict=True):
                self._cubes.times(entries, out, first, last)
        else:
            self._key_products(first, first + scores.shape[1], scores)
        gain, limit, word, core_gain, core_limit, core_word = dropout
        rows = kernels.soft_rows if self._soft else kernels.sparse_rows
        support = self._support
        rows(
            scores, first, slot, gain, self._scales, limit, word, core_gain, core_limit, core_word, thresholds,
            support.starts, support.columns, support.weights, self._rows[half],
        )  # fmt: skip

    def _key_products(self, first: int, last: int, result: Floats) -> None:
        """The grouped rows ``first .. last`` of every head, multiples of 8, times the keys."""
        rows, starts, counts, columns, positions = self._groups
        groups, latent = (last - first) // 8, len(columns)
        for grouped, keys, out in zip(self._grouped, self._columns_of_keys, result, strict=True):
            kernels.put_grouped_product(
                rows[: groups + 1], starts[:groups], counts[:groups], columns, positions[:groups],
                grouped[first * latent :], 32, keys.reshape(latent, -1), out,
            )  # fmt: skip

    def _scores_of(self, first: int, last: int) -> Floats:
        """The part of the buffer for these rows of a block, shape (h, rows, N), both filled up to multiples of 8."""
        rows, size = -(-(last - first) // 8) * 8, len(self._unit[0]) * self._padded
        return self._scores[first * size : (first + rows) * size].reshape(-1, rows, self._padded)

    def _dropout(self, step: int | None) -> tuple[Any, ...]:
        """Factor, hash limit and keys of the dropout of scores and of the core."""
        design = self._design
        settings: list[Any] = []
        for probability, scale, stream in (
            (design.dropout, design.score_scale, randomness.SCORES),
            (design.core_dropout, 1.0, randomness.CORE),
        ):
            training = step is not None and probability > 0
            factor = scale / (1 - probability) if training else scale
            limit = randomness.drop_threshold(probability) if training else 0
            settings += [np.float32(factor), np.uint32(limit), self._dropout_keys[stream][step or 0]]
        return tuple(settings)

    def _backward(self, step: int) -> None:
        support = self._support
        self._tucker.expand_gradient(support, self._weights.factors, self._slope, self._weights.factor_gradients)
        gain, limit, word, core_gain, _, _ = self._dropout(step)
        kernels.activation_gradient(
            self._soft, support.starts, support.columns, support.weights, gain, limit, word, core_gain,
            self._thresholds, self._width, support.gradient,
        )  # fmt: skip
        heads, count, _ = self._unit[0].shape
        if support.used < DENSE_COSINES * heads * count * count:
            bounds = segments(count, support.used / (heads * count))
            ends = support.ends(bounds, heads, self._empty)
            self._both(
                partial(self._query_gradient, step, ends), partial(self._key_gradient, step, ends[-1, -1], bounds)
            )
        else:
            self._dense_cosine_gradient()
            self._both(*(partial(self._every_embedding_gradient, step, side) for side in range(2)))
        self._weights.update(self._weights.of_factors, step + 1, self._schedule)

    def _query_gradient(self, step: int, ends: NDArray[np.int64]) -> None:
        """From the gradient of the cosines at the support, up to these ends of segments, to new weights of queries."""
        support, keys = self._support, self._unit[1]
        # Columns count through all heads, as the keys of all heads below one another do.
        every_key = keys.reshape(-1, keys.shape[-1])
        starts = support.starts
        for head, (own, slope) in enumerate(zip(ends, self._unit_gradient[0], strict=True)):
            kernels.put_product(starts, own, 0, support.columns, support.gradient, every_key, slope)
            starts = own[-1]
            self._embedding_gradient(step, 0, head)

    def _key_gradient(self, step: int, ends: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        """The same for keys. ``ends`` are those of rows, ``bounds`` those of segments of rows."""
        starts, across, rows, values = self._support.transposed(ends, bounds)
        for head, (queries, slope) in enumerate(zip(self._unit[0], self._unit_gradient[1], strict=True)):
            kernels.put_product(starts, across, head * len(queries), rows, values, queries, slope)
            self._embedding_gradient(step, 1, head)

    def _every_embedding_gradient(self, step: int, side: int) -> None:
        for head in range(len(self._unit[side])):
            self._embedding_gradient(step, side, head)

    def _embedding_gradient(self, step: int, side: int, head: int) -> None:
        """From the gradient of a head's unit rows to that of its embedding, and to the embedding's new weights.

        Head by head, so that what one loop writes is in the cache when the next one reads it.
        """
        slope, weights = self._unit_gradient[side][head], self._weights
        kernels.normalise_gradient(self._unit[side][head], self._inverse[side][head], np.float32(SMALLEST_NORM), slope)
        self._cubes_across.times(slope, weights.embedding_gradients[side][head])
        weights.update(weights.of_embedding(side, head), step + 1, self._schedule)

    def _dense_cosine_gradient(self) -> None:
        """Gradients of the unit rows behind a map with a support so large that dense products are faster."""
        support, (queries, keys) = self._support, self._unit
        query_slope, key_slope = self._unit_gradient
        key_slope[:] = 0
        for first in range(0, queries.shape[1], self._block_rows):
            last = min(first + self._block_rows, queries.shape[1])
            block = self._scores_of(0, last - first)
            block[:] = 0
            kernels.densify(first, support.starts, support.columns, support.gradient, block)

            def by_rows(first: int = first, last: int = last, block: Floats = block) -> None:
                for head, part in enumerate(block[:, : last - first, : keys.shape[1]]):
                    np.dot(part, keys[head], out=query_slope[head, first:last])

            def by_columns(first: int = first, last: int = last, block: Floats = block) -> None:
                for head, part in enumerate(block[:, : last - first, : keys.shape[1]]):
                    key_slope[head] += np.dot(part.T, queries[head, first:last])

            self._both(by_rows, by_columns)


def segments(rows: int, mean_support: float) -> NDArray[np.int64]:
    """Bounds of segments of the rows of a dense matrix, for products with about ``mean_support`` of them.

    The part of a segment that is in use stays in the nearest cache; the sums that are put down and taken up again
    between segments are few beside what is added to them.
    """
    count = max(1, min(-(-rows // SEGMENT_ROWS), int(mean_support / SEGMENT_SUPPORT)))
    return np.linspace(0, rows, count + 1).astype(np.int64)[1:]


def _half(rows: int) -> int:
    """About half of the rows of a matrix product."""
    return rows // (2 * _WHOLE_ROWS) * _WHOLE_ROWS


def _aligned(*shape: int) -> Floats:
    """An array of zeros that begins with a cache line: vectors do not straddle two, which costs a tenth of a loop."""
    size = 4 * math.prod(shape)
    memory = np.zeros(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memory[begin : begin + size].view(np.float32).reshape(shape)


DENSE_COSINES, DENSE_CORE = 0.35, 0.2
"""Shares of the attention map from which dense products are faster than loops over the support."""

FEW_LINES = 0.4
"""The share of the field's lines below which those that are wanted are contracted one by one."""


class _Weights:
    """All weights and gradients as one vector each, of which the optimiser takes parts; arrays are views.

    Embeddings are kept head by head, shape (h, K_1 ... K_L, M), M padded to whole vectors: the padding starts at 0,
    has gradient 0 and stays 0.
    """

    def __init__(self, design: Design, seed: int) -> None:
        size, heads, _ = design.parameter_shapes[0]
        embedding = heads, size, design.padded_latent
        shapes = [embedding, embedding, *design.parameter_shapes[2:]]
        self._vectors = [_aligned(sum(map(math.prod, shapes))) for _ in range(4)]
        values, gradients, *_ = self._vectors
        self.embeddings, self.factors = _parts(values, shapes)
        self.embedding_gradients, self.factor_gradients = _parts(gradients, shapes)
        query, key, *factors = design.initial(seed)
        for own, array in zip(self.embeddings, (query, key), strict=True):
            own[..., : design.latent] = array.transpose(1, 0, 2)
        for own, array in zip(self.factors, factors, strict=True):
            own[:] = array
        self._heads, self._size = heads, math.prod(embedding[1:])
        self.of_factors = slice(2 * math.prod(embedding), None)

    def of_embedding(self, side: int, head: int) -> slice:
        """Where a head's embedding of queries (side 0) or keys stands in the vectors."""
        begin = (side * self._heads + head) * self._size
        return slice(begin, begin + self._size)

    def update(self, part: slice, update: int, schedule: Schedule) -> None:
        kernels.adam(
            *(vector[part] for vector in self._vectors),
            np.float32(schedule.learning_rate),
            np.float32(schedule.weight_decay),
            np.float32(1 - 0.9**update),
            np.float32(1 - 0.999**update),
        )


def _parts(vector: Floats, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Floats], list[Floats]]:
    """A vector as arrays of these shapes: the two embeddings and the factors."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    arrays = [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), shapes, strict=True)]
    return arrays[:2], arrays[2:]


class _Support:
    """The support of the attention map and its gradient; grows as it must, never to the whole map at once."""

    def __init__(self, rows: int, columns: int) -> None:
        self.starts = np.zeros(rows + 1, np.int64)
        self._starts_across = np.empty(columns + 1, np.int64)
        self.columns = np.empty(0, np.uint32)
        self.weights = np.empty(0, np.float32)
        self.gradient = np.empty(0, np.float32)
        self._rows_across = np.empty(0, np.uint32)
        self._gradient_across = np.empty(0, np.float32)

    @property
    def used(self) -> int:
        return int(self.starts[-1])

    @property
    def nonzero(self) -> int:
        return int(np.count_nonzero(self.weights[: self.used] > 0))

    def make_room(self, first_row: int, more: int) -> None:
        """Room for ``more`` slots behind those of the rows before ``first_row``."""
        used = int(self.starts[first_row])
        # A row loop writes one slot ahead of where it stands.
        if used + more + 1 > len(self.columns):
            size = used + more + 1 + used // 4
            self.columns = np.concatenate([self.columns[:used], np.empty(size - used, np.uint32)])
            self.weights = np.concatenate([self.weights[:used], np.empty(size - used, np.float32)])
            self.gradient = np.empty(size, np.float32)

    def close_up(self, first_row: int, last_row: int, begin: int) -> None:
        """Move the slots of these rows, which stand at ``begin`` and behind, up to those of the rows before."""
        target, end = int(self.starts[first_row]), int(self.starts[last_row])
        if begin > target:
            for array in (self.columns, self.weights):
                array[target : target + end - begin] = array[begin:end]
            self.starts[first_row + 1 : last_row + 1] -= begin - target

    def ends(self, bounds: NDArray[np.int64], heads: int, empty: Mask) -> NDArray[np.int64]:
        """Where segments of columns, whose bounds within a head are given, end in each row.

        Shape (heads, segments, rows); see :func:`kernels.segment_ends`.
        """
        columns = (np.arange(heads)[:, None] * bounds[-1] + bounds).ravel().astype(np.uint32)
        ends = np.empty((len(columns), len(empty)), np.int64)
        kernels.segment_ends(self.starts, self.columns, empty, columns, ends)
        return ends.reshape(heads, len(bounds), -1)

    def transposed(self, ends: NDArray[np.int64], bounds: NDArray[np.int64]) -> tuple[Any, ...]:
        """The gradient by columns, of the slots before ``ends`` in each row; what :func:`kernels.transpose` gives.

        In the order starts, ends (of segments of rows with these bounds), rows and values.
        """
        if len(self._rows_across) < self.used:
            self._rows_across = np.empty(len(self.columns), np.uint32)
            self._gradient_across = np.empty(len(self.columns), np.float32)
        ends_across = np.empty((len(bounds), len(self._starts_across) - 1), np.int64)
        across = self._rows_across, self._gradient_across, self._starts_across, ends_across
        kernels.transpose(self.starts, ends, self.columns, self.gradient, bounds, *across)
        return self._starts_across, ends_across, self._rows_across, self._gradient_across


class _Tucker:
    """The Tucker expansion of a core given by its support, and its gradient.

    The leading mode is contracted first; each contraction takes the foremost mode away and appends the
    field's mode at the back, so that after all of them the modes stand in the layout's order.

    Args:
        geometry, layout: of the core.
        both: does two independent halves of a step.
        lines: the lines of the field along its last mode that training wants; None: all.
    """

    def __init__(
        self, geometry: Geometry, layout: Layout, both: Both = in_turn, lines: NDArray[np.intp] | None = None
    ) -> None:
        self._layout, self._both = layout, both
        core = [geometry.core_shape[mode] for mode in layout.order]
        self.field_shape = tuple(geometry.shape[mode] for mode in layout.order)
        self._width = self.field_shape[0]
        self._rest = math.prod(core[1:])
        padded = -(-self._width // 8) * 8
        self._lead, self._lead_gradient = _aligned(core[0], padded), _aligned(core[0], padded)
        self._core = np.zeros((0, 0), np.float32)
        # Stage l holds the tensor after l + 1 contractions, flat; the first has 8 entries to spare.
        sizes = [math.prod(core[index + 1 :]) * math.prod(self.field_shape[: index + 1]) for index in range(len(core))]
        self._stages, self._slopes = (
            [_aligned(size + 8 * (index == 0)) for index, size in enumerate(sizes)] for _ in range(2)
        )
        self._core_sizes = core
        self._lines = lines
        self._pairs: tuple[NDArray[np.uint32], NDArray[np.uint32]] | None = None
        if lines is not None and len(core) > 2 and len(lines) < FEW_LINES * math.prod(self.field_shape[:-1]):
            self._pairs = np.divmod(lines.astype(np.uint32), np.uint32(self.field_shape[-2]))
            padded = -(-core[-1] // 8) * 8
            self._scratch = _aligned(2, math.prod(self.field_shape[:-2]), padded)
            self._at_lines, self._slope_at_lines = _aligned(len(lines), padded), _aligned(len(lines), padded)

    def _is_sparse(self, support: _Support) -> bool:
        return support.used < DENSE_CORE * self._core_sizes[0] * self._rest

    def _first(self, stages: Sequence[Floats]) -> Floats:
        return stages[0][: self._rest * self._width].reshape(self._rest, self._width)

    def expand(self, support: _Support, factors: Sequence[Floats], training: bool) -> Floats:
        """The flat field, modes in the layout's order; a view of a buffer that the next call overwrites.

        In training only the lines that it wants are computed.
        """
        order = self._layout.order
        self._lead[:, : self._width] = factors[order[0]].T
        arrays = support.starts, support.columns, support.weights, *self._layout.positions
        if self._is_sparse(support):
            self._stages[0][:] = 0
            kernels.contract(*arrays, self._lead, self._width, self._stages[0])
        else:
            if not self._core.size:
                self._core = np.empty((self._core_sizes[0], self._rest), np.float32)
            self._core[:] = 0
            kernels.scatter(*arrays, self._core)
            self._product(self._core.T, factors[order[0]].T, self._first(self._stages))
        lines, pairs = (self._lines, self._pairs) if training else (None, None)
        current = self._first(self._stages).ravel()
        for index, mode in enumerate(order[1 : len(order) if pairs is None else -2], start=1):
            unfolded = current.reshape(self._core_sizes[index], -1)
            if lines is not None and mode == order[-1]:
                unfolded = self._at_lines = np.take(unfolded, lines, axis=1)
            current = self._stages[index][: unfolded.shape[1] * self.field_shape[index]]
            self._product(unfolded.T, factors[mode].T, current.reshape(unfolded.shape[1], -1))
        if pairs is None:
            return current
        tensor = current.reshape(*self._core_sizes[-2:], -1)
        kernels.contract_lines(tensor, factors[order[-2]], *pairs, self._scratch, self._at_lines)
        current = self._stages[-1][: len(self._at_lines) * self.field_shape[-1]]
        at_lines = self._at_lines[:, : self._core_sizes[-1]]
        np.dot(at_lines, factors[order[-1]].T, out=current.reshape(len(at_lines), -1))
        return current

    def _product(self, left: Floats, right: Floats, out: Floats) -> None:
        """A matrix product; one of some size in two halves of its rows."""
        if left.size * right.shape[1] < WORTH_A_THREAD:
            np.dot(left, right, out=out)
            return
        half = _half(len(left))
        self._both(partial(np.dot, left[:half], right, out[:half]), partial(np.dot, left[half:], right, out[half:]))

    def _products(self, first: tuple[Floats, Floats, Floats], second: tuple[Floats, Floats, Floats]) -> None:
        """Two matrix products, each given by its factors and where it goes."""
        both = in_turn if first[0].size * first[1].shape[1] < WORTH_A_THREAD else self._both
        both(partial(np.dot, *first), partial(np.dot, *second))

    def _unfolded(self, stages: Sequence[Floats], index: int) -> Floats:
        """What stage ``index`` is made from, its mode of the core first."""
        below = self._first(stages) if index == 1 else stages[index - 1]
        return below.reshape(self._core_sizes[index], -1)

    def _lines_gradient(
        self,
        pairs: tuple[NDArray[np.uint32], NDArray[np.uint32]],
        factors: Sequence[Floats],
        above: Floats,
        factor_gradients: Sequence[Floats],
    ) -> Floats:
        """The gradient of what the last two contractions took, from that of their few lines."""
        before_last, last = self._layout.order[-2:]
        sizes, index = self._core_sizes[-2:], len(self._core_sizes) - 2
        np.dot(above.T, self._at_lines[:, : sizes[1]], out=factor_gradients[last])
        self._slope_at_lines[:, : sizes[1]] = np.dot(above, factors[last])
        tensor, slope = (self._unfolded(arrays, index).reshape(*sizes, -1) for arrays in (self._stages, self._slopes))
        kernels.contract_lines_gradient(
            tensor, factors[before_last], *pairs, self._scratch, self._slope_at_lines, slope,
            factor_gradients[before_last],
        )  # fmt: skip
        return self._slopes[index - 1]

    def expand_gradient(
        self,
        support: _Support,
        factors: Sequence[Floats],
        slope: Floats,
        factor_gradients: Sequence[Floats],
    ) -> None:
        """From the gradient of what :meth:`expand` gave in training to those of the factors and the core's support."""
        order = self._layout.order
        slope = slope.reshape(-1)
        last = len(order) - 1
        if self._pairs is not None:
            above = slope.reshape(-1, self.field_shape[-1])
            slope = self._lines_gradient(self._pairs, factors, above, factor_gradients)
            last -= 2
        for index in range(last, 0, -1):
            mode = order[index]
            unfolded, target = (self._unfolded(arrays, index) for arrays in (self._stages, self._slopes))
            above = slope.reshape(-1, self.field_shape[index])
            if self._lines is not None and mode == order[-1]:
                # Slopes elsewhere than on these lines are 0 from the beginning and stay so.
                np.dot(above.T, self._at_lines.T, out=factor_gradients[mode])
                target[:, self._lines] = np.dot(factors[mode].T, above.T)
            else:
                self._products((above.T, unfolded.T, factor_gradients[mode]), (factors[mode].T, above.T, target))
            slope = self._slopes[index - 1]
        positions = self._layout.positions
        lead_gradient = factor_gradients[order[0]]
        if len(order) == 1:
            slope = np.concatenate([slope, np.zeros(8, np.float32)])
        if self._is_sparse(support):
            self._lead_gradient[:] = 0
            first, second = (
                partial(
                    kernels.contract_gradient, support.starts, support.columns, support.weights, *positions, rows,
                    self._lead, self._width, slope, support.gradient, self._lead_gradient,
                )
                for rows in self._layout.halves
            )  # fmt: skip
            self._both(first, second)
            lead_gradient[:] = self._lead_gradient[:, : self._width].T
            return
        above = slope[: self._rest * self._width].reshape(self._rest, self._width)
        np.dot(above.T, self._core.T, out=lead_gradient)
        # The dense core is spent: its buffer takes its gradient.
        np.dot(factors[order[0]].T, above.T, out=self._core)
        kernels.gather(support.starts, support.columns, *positions, self._core, support.gradient)
