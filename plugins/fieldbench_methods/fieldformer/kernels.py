"""Row loops of the fast CPU engine, compiled by numba. Imported only where numba is installed.

The attention map is kept as rows of its support: for row n the slots ``starts[n] .. starts[n + 1]`` of
``columns`` (increasing) and ``weights``. The sign of a weight carries core dropout: a negative one was
dropped from the core, and its magnitude is what it would have been. A slot belongs to the core entry whose
leading (contracted) index is ``lead_row[n] + lead_column[c]`` and whose other indices, flattened, are
``rest_row[n] + rest_column[c]``.

A loop runs on one thread and in a fixed order; two that run at once write to different positions. So numbers do
not depend on the number of threads.
``reassoc`` lets sums vectorise; the order of summation is then the compiler's, and always the same. For that, what sums
over an array is inlined (``inline="always"``): a function that is called exists twice, as it was compiled by itself and
in its caller's entry in numba's cache, and the two may sum in different orders.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from fieldbench_methods.exponentials import exponential, hyperbolic_tangent
from fieldbench_methods.fieldformer.randomness import FIRST, SECOND
from fieldbench_methods.fieldformer.vectors import (
    EIGHT_ROWS,
    FOUR_ROWS,
    above,
    axpy,
    dot_axpy,
    lowest_bit,
    tile_1x8,
    tile_1x32,
    tile_1x64,
    tile_1x96,
    tile_4x8,
    tile_8x8,
    tile_of_4,
    tile_of_8,
    transpose_8x8,
)

_FAST = {"reassoc", "contract", "nsz"}
_FIRST, _SECOND = np.uint32(FIRST), np.uint32(SECOND)
_S16, _S15 = np.uint32(16), np.uint32(15)
_MAX_NEWTON = 200
"""Newton's iteration needs about five steps; each shrinks the support, so it always ends."""
WORD = 64
"""Scores that are compared with a threshold at a time; row buffers have whole words."""
_WIDEST, _WIDE, _NARROW, _LANES = np.uintp(96), np.uintp(64), np.uintp(32), np.uintp(8)
"""Columns of a dense matrix at a time. Of 64 and more, sums enough run side by side to hide the time of an addition."""


def _compiled(**options: Any) -> Any:
    return numba.njit(cache=True, nogil=True, error_model="numpy", **options)


@_compiled(inline="always")
def _hash(index, first_key, second_key):  # type: ignore[no-untyped-def]
    """The generator of :mod:`randomness`; numba widens every operation, hence the casts."""
    word = np.uint32(index + first_key)
    word = np.uint32(word ^ np.uint32(word >> _S16))
    word = np.uint32(word * _FIRST)
    word = np.uint32(word ^ second_key)
    word = np.uint32(word ^ np.uint32(word >> _S15))
    word = np.uint32(word * _SECOND)
    return np.uint32(word ^ np.uint32(word >> _S16))


@_compiled(inline="always", fastmath=_FAST)
def dropped_row(scores, row, base, gain, scale, limit, first_key, second_key, buffer):  # type: ignore[no-untyped-def]
    """One row of scores of every head, scaled and dropped, into ``buffer`` (h N).

    Args:
        scores: shape (h, rows, N or more).
        row: index of the row in ``scores``.
        base: number of the row's first score in the whole map, to which the generator's number belongs.
        gain: factor of the scores that stay.
        scale: one more for each head, shape (h,).
        limit: scores with a smaller random word are dropped; 0 drops none.
        first_key, second_key: of the generator in this step.
        buffer: takes the row, shape (h N,).
    """
    heads = scores.shape[0]
    count = buffer.size // heads
    for head in range(heads):
        source = scores[head, row]
        target = buffer[head * count : (head + 1) * count]
        offset = np.uint32(base + np.uint32(head * count))
        factor = gain * scale[head]
        if limit == 0:
            for m in range(count):
                target[m] = source[m] * factor
        else:
            for m in range(count):
                kept = _hash(np.uint32(offset + np.uint32(m)), first_key, second_key) >= limit
                target[m] = source[m] * factor if kept else np.float32(0.0)


@_compiled(inline="always", fastmath=_FAST)
def newton_threshold(values, start):  # type: ignore[no-untyped-def]
    """The threshold of SparseMax of a vector, by Newton's iteration from ``start``.

    A step from the right of the threshold lands on its left, and steps from the left climb towards it, so
    any start will do. The supports met are nested: once two in a row have one size, they are the same.
    """
    threshold = start
    last = np.float32(-1.0)
    for _ in range(_MAX_NEWTON):
        excess = np.float32(0.0)
        size = np.float32(0.0)
        for j in range(values.size):
            over = values[j] - threshold
            excess += max(over, np.float32(0.0))
            size += np.float32(1.0) if over > np.float32(0.0) else np.float32(0.0)
        if size == 0:
            largest = values[0]
            for j in range(values.size):
                largest = max(largest, values[j])
            threshold = largest - np.float32(1.0)
            last = np.float32(-1.0)
            continue
        threshold += (excess - np.float32(1.0)) / size
        if size == last:
            break
        last = size
    return threshold


@_compiled(fastmath=_FAST)
def sparse_rows(  # type: ignore[no-untyped-def]
    scores, first_row, first_slot, gain, scales, limit, keys, core_gain, core_limit, core_keys, thresholds,
    starts, columns, weights, buffer,
):  # fmt: skip
    """SparseMax of a block of rows of scores into the support arrays, with both dropouts.

    What the block has beyond the map's N rows and N columns is left out. The rows go to ``first_slot`` and behind, and
    ``starts`` learns where each ends; it is not read. ``buffer`` has room for h N scores, rounded up to whole words.

    Args:
        scores: shape (h, rows, N or more).
        first_row: number of the block's first row in the whole map.
        first_slot: where its support starts.
        gain, limit, keys: of the scores' dropout, as in :func:`dropped_row`.
        scales: of each row of every head, shape (h, N).
        core_gain, core_limit, core_keys: of the core's dropout.
        thresholds: of each row, shape (N,); started from and replaced.
        starts, columns, weights: the support, as the module says.
        buffer: room for a row.
    """
    width = scores.shape[0] * thresholds.size
    values = buffer[:width]
    buffer[width:] = -np.inf
    slot = np.uintp(first_slot)
    for row in range(min(scores.shape[1], thresholds.size - first_row)):
        n = first_row + row
        base = np.uint32(n * width)
        dropped_row(scores, row, base, gain, scales[:, n], limit, keys[0], keys[1], values)
        threshold = newton_threshold(values, thresholds[n])
        thresholds[n] = threshold
        begin = slot
        for first in range(np.uintp(0), np.uintp(width), np.uintp(WORD)):
            bits = above(buffer, first, threshold)
            while bits != np.uint64(0):
                j = first + np.uintp(lowest_bit(bits))
                bits &= bits - np.uint64(1)
                columns[slot] = np.uint32(j)
                weights[slot] = (buffer[j] - threshold) * core_gain
                slot += np.uintp(1)
        if core_limit != 0:
            drop_core(base, core_limit, core_keys, columns[begin:slot], weights[begin:slot])
        starts[n + 1] = slot


@_compiled(inline="always", fastmath=_FAST)
def drop_core(base, limit, keys, columns, weights):  # type: ignore[no-untyped-def]
    """Mark the dropped core entries of one row by a negative weight.

    Args:
        base: number of the row's first entry in the whole map.
        limit: entries with a smaller random word are dropped.
        keys: two, of the generator in this step.
        columns: of the row's support.
        weights: of the row's support, changed in place.
    """
    first_key, second_key = keys[0], keys[1]
    for slot in range(columns.size):
        kept = _hash(np.uint32(base + columns[slot]), first_key, second_key) >= limit
        weights[slot] = weights[slot] if kept else -weights[slot]


@_compiled(fastmath=_FAST)
def soft_rows(  # type: ignore[no-untyped-def]
    scores, first_row, first_slot, gain, scales, limit, keys, core_gain, core_limit, core_keys, thresholds,
    starts, columns, weights, buffer,
):  # fmt: skip
    """SoftMax of a block of rows as :func:`sparse_rows` does it; every column is in the support.

    Args:
        scores: shape (h, rows, N or more).
        first_row: number of the block's first row in the whole map.
        first_slot: where its support starts.
        gain, limit, keys: of the scores' dropout, as in :func:`dropped_row`.
        scales: of each row of every head, shape (h, N).
        core_gain, core_limit, core_keys: of the core's dropout.
        thresholds: shape (N,); not read, there so that both functions are called alike.
        starts, columns, weights: the support, as the module says.
        buffer: room for a row.
    """
    width = scores.shape[0] * thresholds.size
    values = buffer[:width]
    for row in range(min(scores.shape[1], thresholds.size - first_row)):
        n = first_row + row
        base = np.uint32(n * width)
        dropped_row(scores, row, base, gain, scales[:, n], limit, keys[0], keys[1], values)
        largest = values.max()
        begin = first_slot + row * width
        target = weights[begin : begin + width]
        total = np.float32(0.0)
        for j in range(width):
            power = exponential(values[j] - largest)
            target[j] = power
            total += power
        factor = core_gain / total
        for j in range(width):
            target[j] *= factor
            columns[begin + j] = j
        if core_limit != 0:
            drop_core(base, core_limit, core_keys, columns[begin : begin + width], target)
        starts[n + 1] = begin + width


@_compiled(fastmath=_FAST)
def contract(  # type: ignore[no-untyped-def]
    starts, columns, weights, lead_row, lead_column, rest_row, rest_column, factor, width, result
):
    """The sparse core times its leading factor: ``result[rest] += weight * factor[lead]``.

    factor is (R, W), its rows padded with zeros to W, a multiple of 8. result is flat: rows of ``width``
    entries without padding, and 8 spare entries behind the last. What a row's padding adds to the
    beginning of the next row is 0.

    Args:
        starts, columns, weights: the support, as the module says.
        lead_row, lead_column, rest_row, rest_column: indices of the core, as the module says.
        factor: leading factor, shape (R, W).
        width: length of a row of the result.
        result: added to, flat.
    """
    eights, padded = np.uintp(factor.shape[1] // 8), np.uintp(factor.shape[1])
    width = np.uintp(width)
    source = factor.ravel()
    for n in range(lead_row.size):
        for slot in range(np.uintp(starts[n]), np.uintp(starts[n + 1])):
            column = columns[slot]
            s = np.uintp(lead_row[n] + lead_column[column]) * padded
            t = np.uintp(rest_row[n] + rest_column[column]) * width
            axpy(result, t, max(weights[slot], np.float32(0.0)), source, s, eights)


@_compiled(fastmath=_FAST)
def contract_gradient(  # type: ignore[no-untyped-def]
    starts,
    columns,
    weights,
    lead_row,
    lead_column,
    rest_row,
    rest_column,
    rows,
    factor,
    width,
    result_gradient,
    core_gradient,
    factor_gradient,
):
    """Gradients behind :func:`contract`: of each slot's core entry, and of the factor (added to), for some rows.

    The padding of ``factor_gradient`` collects what means nothing.

    Args:
        starts, columns, weights: the support, as the module says.
        lead_row, lead_column, rest_row, rest_column: indices of the core, as the module says.
        rows: those to be worked on.
        factor: leading factor, shape (R, W).
        width: length of a row of the result.
        result_gradient: of the result, flat.
        core_gradient: of each slot's core entry; written.
        factor_gradient: of the factor, shape (R, W); added to.
    """
    eights, padded = np.uintp(factor.shape[1] // 8), np.uintp(factor.shape[1])
    width = np.uintp(width)
    source, below = factor.ravel(), factor_gradient.ravel()
    for n in rows:
        for slot in range(np.uintp(starts[n]), np.uintp(starts[n + 1])):
            column = columns[slot]
            s = np.uintp(lead_row[n] + lead_column[column]) * padded
            t = np.uintp(rest_row[n] + rest_column[column]) * width
            weight = max(weights[slot], np.float32(0.0))
            core_gradient[slot] = dot_axpy(below, source, s, weight, result_gradient, t, eights)


@_compiled()
def scatter(starts, columns, weights, lead_row, lead_column, rest_row, rest_column, core):  # type: ignore[no-untyped-def]
    """The dense core (R, rest) of the support; core starts at 0.

    Args:
        starts, columns, weights: the support, as the module says.
        lead_row, lead_column, rest_row, rest_column: indices of the core, as the module says.
        core: written, shape (R, rest).
    """
    for n in range(lead_row.size):
        for slot in range(np.uintp(starts[n]), np.uintp(starts[n + 1])):
            column = columns[slot]
            lead = np.uintp(lead_row[n] + lead_column[column])
            rest = np.uintp(rest_row[n] + rest_column[column])
            core[lead, rest] = max(weights[slot], np.float32(0.0))


@_compiled()
def gather(starts, columns, lead_row, lead_column, rest_row, rest_column, dense, values):  # type: ignore[no-untyped-def]
    """Entries of a dense core (R, rest) at the support.

    Args:
        starts, columns: of the support, as the module says.
        lead_row, lead_column, rest_row, rest_column: indices of the core, as the module says.
        dense: the core, shape (R, rest).
        values: written, one a slot.
    """
    for n in range(lead_row.size):
        for slot in range(np.uintp(starts[n]), np.uintp(starts[n + 1])):
            column = columns[slot]
            values[slot] = dense[
                np.uintp(lead_row[n] + lead_column[column]), np.uintp(rest_row[n] + rest_column[column])
            ]


@_compiled(fastmath=_FAST)
def activation_gradient(  # type: ignore[no-untyped-def]
    soft, starts, columns, weights, gain, limit, keys, core_gain, thresholds, width, gradient
):
    """From the gradient of core entries to that of the cosines, in place, slot by slot.

    SparseMax: g minus the mean of g over the support. SoftMax: s (g - sum of s g). Then both dropouts
    and the scale. Dropped scores, which are 0, are in SparseMax's support only where its threshold is
    negative.

    Args:
        soft: whether the activation is SoftMax.
        starts, columns, weights: the support, as the module says.
        gain, limit, keys: of the scores' dropout, as in :func:`dropped_row`.
        core_gain: factor of the core entries that stay.
        thresholds: of each row, shape (N,).
        width: h N.
        gradient: one a slot, changed in place.
    """
    for n in range(starts.size - 1):
        begin, end = starts[n], starts[n + 1]
        part = gradient[begin:end]
        weight = weights[begin:end]
        total = np.float32(0.0)
        if soft:
            for slot in range(part.size):
                part[slot] = part[slot] * core_gain if weight[slot] > 0 else np.float32(0.0)
                total += part[slot] * weight[slot]
            total /= core_gain
            for slot in range(part.size):
                part[slot] = (part[slot] - total) * abs(weight[slot]) / core_gain * gain
        else:
            for slot in range(part.size):
                part[slot] = part[slot] * core_gain if weight[slot] > 0 else np.float32(0.0)
                total += part[slot]
            total /= np.float32(max(part.size, 1))
            for slot in range(part.size):
                part[slot] = (part[slot] - total) * gain
        if limit != 0 and (soft or thresholds[n] < 0):
            base = np.uint32(n * width)
            column = columns[begin:end]
            for slot in range(part.size):
                kept = _hash(np.uint32(base + column[slot]), keys[0], keys[1]) >= limit
                part[slot] = part[slot] if kept else np.float32(0.0)


@_compiled(fastmath=_FAST)
def segment_ends(starts, columns, empty, bounds, ends):  # type: ignore[no-untyped-def]
    """``ends[i, n]`` becomes what is behind the last slot of row n whose column is below ``bounds[i]``.

    Rows that are ``empty`` (of cubes in which nothing was observed) end where they start: their cosines are
    0 whatever the weights, so that no gradient passes.

    Args:
        starts, columns: of the support, as the module says.
        empty: whether a row's cube has no observation, shape (N,).
        bounds: columns at which segments end, increasing.
        ends: written, shape (bounds, N).
    """
    for n in range(empty.size):
        slot = starts[n]
        for index in range(bounds.size):
            while not empty[n] and slot < starts[n + 1] and columns[slot] < bounds[index]:
                slot += 1
            ends[index, n] = slot


@_compiled()
def transpose(  # type: ignore[no-untyped-def]
    starts, ends, columns, values, bounds, rows_across, values_across, starts_across, ends_across
):
    """A sparse matrix by columns: what stands at row n and column c of the one is at row c of the other.

    Row n has the slots ``starts[n] .. ends[n]``. ``ends_across[i, c]``: behind the last slot of column c whose row
    is below ``bounds[i]``; the last bound is the number of rows.

    Args:
        starts, ends: of each row's slots, shape (N,).
        columns: of each slot, increasing within a row.
        values: of each slot.
        bounds: rows at which segments end, increasing.
        rows_across, values_across: row and value of each slot by columns; written.
        starts_across, ends_across: where each column starts and its segments end; written.
    """
    starts_across[:] = 0
    for n in range(ends.size):
        for slot in range(starts[n], ends[n]):
            starts_across[columns[slot] + np.uint32(1)] += 1
    for column in range(starts_across.size - 1):
        starts_across[column + 1] += starts_across[column]
    first = np.int64(0)
    for index in range(bounds.size):
        before, position = starts_across if index == 0 else ends_across[index - 1], ends_across[index]
        for column in range(position.size):
            position[column] = before[column]
        for n in range(first, bounds[index]):
            for slot in range(starts[n], ends[n]):
                column = columns[slot]
                rows_across[position[column]] = n
                values_across[position[column]] = values[slot]
                position[column] += 1
        first = bounds[index]


@_compiled(inline="always")
def _strip(left, widest):  # type: ignore[no-untyped-def]
    """How many of the columns that are left to take at a time."""
    for size in (_WIDEST, _WIDE, _NARROW):
        if size <= min(left, widest):
            return size
    return _LANES


@_compiled(fastmath=_FAST)
def put_product(starts, ends, skipped, columns, values, dense, result):  # type: ignore[no-untyped-def]
    """Rows of a sparse matrix, after the ``skipped`` ones, times a dense matrix whose width 8 divides.

    Row n has the slots ``starts[n] .. ends[-1, n]``; those before ``ends[i, n]`` meet the first segments 0 .. i of the
    dense matrix's rows. Taken segment by segment, and a strip of columns at a time, what is read of it stays in the
    nearest cache. Sums keep the order of the slots. ``result`` is overwritten.

    Args:
        starts: of each row's slots, shape (N,).
        ends: of each row's segments, shape (segments, N).
        skipped: number of rows that are left out at the beginning.
        columns: of each slot.
        values: of each slot.
        dense: matrix whose rows the columns name.
        result: written, shape (rows, width).
    """
    source, target = dense.ravel(), result.ravel()
    rows, width = np.uintp(result.shape[0]), np.uintp(result.shape[1])
    begin = np.uintp(0)
    while begin < width:
        size = _strip(width - begin, _WIDEST)
        for segment in range(ends.shape[0]):
            fresh = segment == 0
            firsts = starts if fresh else ends[segment - 1]
            lasts = ends[segment]
            for row in range(rows):
                n, t = np.uintp(skipped) + row, row * width + begin
                first, last = np.uintp(firsts[n]), np.uintp(lasts[n])
                if size == _WIDEST:
                    tile_1x96(
                        fresh, target, t, width, values, first, columns, first, last - first, source, begin, width
                    )
                elif size == _WIDE:
                    tile_1x64(
                        fresh, target, t, width, values, first, columns, first, last - first, source, begin, width
                    )
                elif size == _NARROW:
                    tile_1x32(
                        fresh, target, t, width, values, first, columns, first, last - first, source, begin, width
                    )
                else:
                    tile_1x8(fresh, target, t, width, values, first, columns, first, last - first, source, begin, width)
        begin += size


@_compiled(fastmath=_FAST)
def put_grouped_product(rows, starts, counts, columns, positions, values, widest, dense, result):  # type: ignore[no-untyped-def]
    """A matrix whose rows come in groups that share their columns, times a dense matrix whose width 8 divides.

    Group g has the rows ``rows[g] .. rows[g + 1]``, 1, 4 or 8 of them, and the columns at ``starts[g]`` and behind,
    ``counts[g]`` of them. The values of one column stand beside one another, those of the group's first column at
    ``positions[g]``. What is read of the dense matrix serves all rows of a group. Sums keep the order of the columns.
    ``result`` is overwritten.

    Args:
        rows: where groups begin, shape (groups + 1,).
        starts, counts: of each group's columns, shape (groups,).
        columns: of all groups.
        positions: of each group's values, shape (groups,).
        values: of all groups.
        widest: columns of the dense matrix at a time, 96 or 32.
        dense: matrix whose rows the columns name.
        result: written, shape (rows, width).
    """
    source, target = dense.ravel(), result.ravel()
    width, begin = np.uintp(result.shape[1]), np.uintp(0)
    while begin < width:
        size = _strip(width - begin, np.uintp(widest))
        for group in range(starts.size):
            first, count, position = np.uintp(starts[group]), np.uintp(counts[group]), np.uintp(positions[group])
            high, t = rows[group + 1] - rows[group], np.uintp(rows[group]) * width
            if high == 8 and size > _LANES:
                for at in range(begin, begin + size, EIGHT_ROWS):
                    tile_of_8(True, target, t + at, width, values, position, columns, first, count, source, at, width)
            elif high == 8:
                tile_8x8(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
            elif high == 4 and size > _LANES:
                for at in range(begin, begin + size, FOUR_ROWS):
                    tile_of_4(True, target, t + at, width, values, position, columns, first, count, source, at, width)
            elif high == 4:
                tile_4x8(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
            elif size == _WIDEST:
                tile_1x96(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
            elif size == _WIDE:
                tile_1x64(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
            elif size == _NARROW:
                tile_1x32(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
            else:
                tile_1x8(True, target, t + begin, width, values, position, columns, first, count, source, begin, width)
        begin += size


@_compiled()
def densify(first_row, starts, columns, gradient, block):  # type: ignore[no-untyped-def]
    """A block of rows of a slot-wise matrix as dense matrices (h, rows, N or more); block starts at 0.

    Args:
        first_row: number of the block's first row.
        starts, columns: of the support, as the module says.
        gradient: one a slot.
        block: written, shape (h, rows, N or more).
    """
    count = starts.size - 1
    for row in range(min(block.shape[1], count - first_row)):
        for slot in range(np.uintp(starts[first_row + row]), np.uintp(starts[first_row + row + 1])):
            column = columns[slot]
            block[column // np.uint32(count), row, column % np.uint32(count)] = gradient[slot]


@_compiled(fastmath=_FAST)
def normalise(rows, smallest, inverse):  # type: ignore[no-untyped-def]
    """Make rows unit rows in place, and note one over each norm (at most 1 / smallest).

    Args:
        rows: shape (N, M).
        smallest: norm below which a row is divided by this instead.
        inverse: written, shape (N,).
    """
    for n in range(inverse.size):
        row = rows[n]
        total = np.float32(0.0)
        for m in range(row.size):
            total += row[m] * row[m]
        factor = np.float32(1.0) / max(np.sqrt(total), smallest)
        inverse[n] = factor
        for m in range(row.size):
            row[m] *= factor


@_compiled(inline="always")
def _turn(source, s, step, count, width, result, t, outer, inner):  # type: ignore[no-untyped-def]
    """:func:`turn` of ``count`` rows, ``step`` apart, from position ``s``, to position ``t``; all of type uintp."""
    eight = np.uintp(8)
    high, wide = count - count % eight, width - width % eight
    for n in range(np.uintp(0), high, eight):
        for m in range(np.uintp(0), wide, eight):
            transpose_8x8(result, t + n // eight * outer + m * inner, inner, source, s + n * step + m, step)
    for n in range(count):
        for m in range(wide if n < high else np.uintp(0), width):
            result[t + n // eight * outer + m * inner + n % eight] = source[s + n * step + m]


@_compiled()
def turn(rows, outer, inner, result):  # type: ignore[no-untyped-def]
    """Entry (n, m) of a matrix goes to ``n // 8 * outer + m * inner + n % 8``.

    With outer 8 that is the transpose, with rows of ``inner`` entries; with inner 8 and outer 8 times the width,
    groups of 8 rows as :func:`put_grouped_product` takes their values.

    Args:
        rows: the matrix.
        outer, inner: steps, as above.
        result: written, flat.
    """
    zero, count, width = np.uintp(0), np.uintp(rows.shape[0]), np.uintp(rows.shape[1])
    _turn(rows.ravel(), zero, width, count, width, result, zero, np.uintp(outer), np.uintp(inner))


@_compiled(fastmath=_FAST)
def contract_lines(tensor, factor, others, positions, scratch, result):  # type: ignore[no-untyped-def]
    """A tensor (R, S, X) times a factor (I, R), at some pairs of their outer indices only.

    ``result[l, s]`` becomes the sum over r of ``factor[positions[l], r] * tensor[r, s, others[l]]``.

    Args:
        tensor: shape (R, S, X).
        factor: shape (I, R).
        others, positions: the pairs.
        scratch: zeros, shape (2, X, S rounded up to a multiple of 8); its padding stays 0.
        result: written, shape (pairs, S rounded up).
    """
    padded, step, high = np.uintp(scratch.shape[2]), np.uintp(tensor.shape[2]), np.uintp(tensor.shape[1])
    source, turned, target, zero = tensor.ravel(), scratch.ravel(), result.ravel(), np.uintp(0)
    result[:] = np.float32(0.0)
    for r in range(factor.shape[1]):
        _turn(source, np.uintp(r) * high * step, step, high, step, turned, zero, np.uintp(8), padded)
        for index in range(positions.size):
            t, s = np.uintp(index) * padded, np.uintp(others[index]) * padded
            axpy(target, t, factor[positions[index], r], turned, s, padded // np.uintp(8))


@_compiled(fastmath=_FAST)
def contract_lines_gradient(  # type: ignore[no-untyped-def]
    tensor, factor, others, positions, scratch, result_gradient, tensor_gradient, factor_gradient
):
    """Gradients behind :func:`contract_lines`.

    Args:
        tensor, factor, others, positions: as there.
        scratch: as there.
        result_gradient: of the result; its padding is 0.
        tensor_gradient, factor_gradient: written.
    """
    padded, step, high = np.uintp(scratch.shape[2]), np.uintp(tensor.shape[2]), np.uintp(tensor.shape[1])
    source, target, slopes, zero = tensor.ravel(), tensor_gradient.ravel(), result_gradient.ravel(), np.uintp(0)
    turned, turned_gradient = scratch[0].ravel(), scratch[1].ravel()
    factor_gradient[:] = np.float32(0.0)
    for r in range(factor.shape[1]):
        begin = np.uintp(r) * high * step
        _turn(source, begin, step, high, step, turned, zero, np.uintp(8), padded)
        turned_gradient[:] = np.float32(0.0)
        for index in range(positions.size):
            position, s, o = positions[index], np.uintp(others[index]) * padded, np.uintp(index) * padded
            factor_gradient[position, r] += dot_axpy(
                turned_gradient, turned, s, factor[position, r], slopes, o, padded // np.uintp(8)
            )
        _turn(turned_gradient, zero, padded, step, high, target, begin, np.uintp(8), step)


@_compiled(fastmath=_FAST)
def normalise_gradient(unit, inverse, smallest, gradient):  # type: ignore[no-untyped-def]
    """From the gradient of unit rows to that of the rows themselves, in place.

    Args:
        unit, inverse: as :func:`normalise` made them.
        smallest: norm below which a row was divided by this instead.
        gradient: of the unit rows, shape (N, M).
    """
    for n in range(inverse.size):
        direction, slope, factor = unit[n], gradient[n], inverse[n]
        along = np.float32(0.0)
        for m in range(slope.size):
            along += direction[m] * slope[m]
        if factor * smallest >= np.float32(1.0):
            along = np.float32(0.0)
        for m in range(slope.size):
            slope[m] = (slope[m] - along * direction[m]) * factor


@_compiled(fastmath=_FAST)
def observed_gradient(field, positions, wanted, weight, bounded, gradient):  # type: ignore[no-untyped-def]
    """Gradient of the squared error at the observed entries, before the output activation, added to ``gradient``.

    Args:
        field: estimate before the output activation, flat.
        positions: flat indices of the observed entries.
        wanted: observed values there, scaled.
        weight: of each squared error.
        bounded: whether the output activation is tanh.
        gradient: added to, flat.
    """
    for index in range(positions.size):
        position = positions[index]
        value = field[position]
        if bounded:
            value = hyperbolic_tangent(value)
        slope = np.float32(2.0) * weight * (value - wanted[index])
        if bounded:
            slope *= np.float32(1.0) - value * value
        gradient[position] += slope


@_compiled(fastmath=_FAST)
def adam(weights, gradient, mean, square, rate, decay, mean_correction, square_correction):  # type: ignore[no-untyped-def]
    """One AdamW update with the usual constants (0.9, 0.999, 1e-8) of one flat vector of weights.

    Args:
        weights: changed in place.
        gradient: of the loss.
        mean, square: running moments of the gradient, changed in place.
        rate: learning rate.
        decay: weight decay.
        mean_correction, square_correction: of the moments' start at 0, for this step.
    """
    shrink = np.float32(1.0) - rate * decay
    step = rate / mean_correction
    root = np.float32(1.0) / np.sqrt(square_correction)
    for index in range(weights.size):
        slope = gradient[index]
        mean[index] += np.float32(0.1) * (slope - mean[index])
        square[index] = np.float32(0.999) * square[index] + np.float32(0.001) * slope * slope
        weights[index] = weights[index] * shrink - step * mean[index] / (
            np.sqrt(square[index]) * root + np.float32(1e-8)
        )
