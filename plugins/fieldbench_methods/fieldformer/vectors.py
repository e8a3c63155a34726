"""Eight floats at a time: numba intrinsics for short vectors, which its compiler leaves scalar.

Numba cannot promise LLVM that two arrays do not overlap, so a loop over the 20 entries of a factor's row
is preceded by overlap checks and ends scalar. These intrinsics state the vectors outright; LLVM lowers
them to whatever the processor has. Arrays are flat, contiguous and float32, positions are of type uintp,
and nothing is checked: 8 * eights entries must exist behind each position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = ir.VectorType(ir.FloatType(), 8)
_FAST = ("reassoc", "contract", "nsz")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any, vector: Any = _LANES) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), ir.PointerType(vector))


def _load(builder: Any, pointer: Any) -> Any:
    vector = builder.load(pointer)
    vector.align = 4
    return vector


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, pointer).align = 4


def _broadcast(builder: Any, scalar: Any, lanes: int = 8) -> Any:
    empty = ir.Constant(ir.VectorType(ir.FloatType(), lanes), ir.Undefined)
    vector = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(vector, vector, first)


def _multiply_add(builder: Any, left: Any, right: Any, added: Any) -> Any:
    return builder.fadd(builder.fmul(left, right, flags=_FAST), added, flags=_FAST)


@intrinsic
def axpy(typing_context, target, t, factor, source, s, eights):  # type: ignore[no-untyped-def]
    """target[t + i] += factor * source[s + i] for i below 8 * eights.

    Args:
        typing_context: numba's own; not passed.
        target, source: arrays.
        t, s: positions in them.
        factor: a number.
        eights: a length.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        target, t, factor, source, s, eights = arguments
        to = _pointer(context, builder, signature.args[0], target, t)
        of = _pointer(context, builder, signature.args[3], source, s)
        lanes = _broadcast(builder, factor)
        with cgutils.for_range(builder, eights) as loop:
            at = builder.gep(to, [loop.index])
            added = _multiply_add(builder, lanes, _load(builder, builder.gep(of, [loop.index])), _load(builder, at))
            _store(builder, added, at)
        return context.get_dummy_value()

    return types.void(target, t, factor, source, s, eights), generate


def _tile(rows: int, vectors: int, lanes: int) -> Any:
    """An intrinsic that keeps the sums of ``rows`` rows of ``vectors`` vectors in registers."""

    @intrinsic
    def tile(typing_context, fresh, target, t, step, values, v, columns, c, count, source, s, stride):  # type: ignore[no-untyped-def]
        """target[t + r * step + i] += values[v + k * rows + r] * source[columns[c + k] * stride + s + i].

        Summed over k below count, in order, for r < rows and i < vectors * lanes. If ``fresh``, what stood in the
        target does not count.
        """

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            fresh, target, t, step, values, v, columns, c, count, source, s, stride = arguments
            kinds = signature.args
            word, vector = t.type, ir.VectorType(ir.FloatType(), lanes)
            number = lambda value: ir.Constant(word, value)  # noqa: E731
            offsets = [builder.add(t, builder.mul(step, number(row))) for row in range(rows)]
            to = [_pointer(context, builder, kinds[1], target, offset, vector) for offset in offsets]
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_else(cgutils.is_true(builder, fresh)) as (anew, further):
                for block, is_fresh in ((anew, True), (further, False)):
                    with block:
                        for row in range(rows):
                            for index, total in enumerate(sums[row]):
                                at = builder.gep(to[row], [number(index)])
                                start = ir.Constant(vector, [0.0] * lanes) if is_fresh else _load(builder, at)
                                builder.store(start, total)
            factors = builder.gep(context.make_array(kinds[4])(context, builder, values).data, [v])
            names = builder.gep(context.make_array(kinds[6])(context, builder, columns).data, [c])
            with cgutils.for_range(builder, count) as loop:
                column = builder.zext(builder.load(builder.gep(names, [loop.index])), word)
                start = builder.add(builder.mul(column, stride), s)
                of = _pointer(context, builder, kinds[9], source, start, vector)
                parts = [_load(builder, builder.gep(of, [number(index)])) for index in range(vectors)]
                first = builder.mul(loop.index, number(rows))
                for row in range(rows):
                    factor = builder.load(builder.gep(factors, [builder.add(first, number(row))]))
                    spread = _broadcast(builder, factor, lanes)
                    for part, total in zip(parts, sums[row], strict=True):
                        builder.store(_multiply_add(builder, spread, part, builder.load(total)), total)
            for row in range(rows):
                for index, total in enumerate(sums[row]):
                    _store(builder, builder.load(total), builder.gep(to[row], [number(index)]))
            return context.get_dummy_value()

        arguments = fresh, target, t, step, values, v, columns, c, count, source, s, stride
        return types.void(*arguments), generate

    return tile


WIDE = 16 if get_host_cpu_features().get("avx512f") else 8
"""Floats in a vector of the processor. Sums have one order whatever it is, so no bit depends on it."""

EIGHT_ROWS = np.uintp(32 if WIDE == 16 else 8)
"""Columns that :func:`tile_of_8` takes: as many as there are registers for."""

tile_of_8, tile_of_4 = _tile(8, int(EIGHT_ROWS) // WIDE, WIDE), _tile(4, 2, WIDE)
FOUR_ROWS = np.uintp(2 * WIDE)
tile_8x8, tile_4x8, tile_1x8 = _tile(8, 1, 8), _tile(4, 1, 8), _tile(1, 1, 8)
tile_1x32, tile_1x64, tile_1x96 = (_tile(1, columns // WIDE, WIDE) for columns in (32, 64, 96))


@intrinsic
def above(typing_context, values, begin, threshold):  # type: ignore[no-untyped-def]
    """A word whose bit i says whether values[begin + i] > threshold, for i below 64.

    Args:
        typing_context: numba's own; not passed.
        values: an array.
        begin: a position in it.
        threshold: a number.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        values, begin, threshold = arguments
        first = _pointer(context, builder, signature.args[0], values, begin)
        lanes = _broadcast(builder, threshold)
        word = ir.IntType(64)
        bits = ir.Constant(word, 0)
        for index in range(8):
            part = _load(builder, builder.gep(first, [ir.Constant(begin.type, index)]))
            eight = builder.bitcast(builder.fcmp_ordered(">", part, lanes), ir.IntType(8))
            bits = builder.or_(bits, builder.shl(builder.zext(eight, word), ir.Constant(word, 8 * index)))
        return bits

    return types.uint64(values, begin, threshold), generate


@intrinsic
def lowest_bit(typing_context, word):  # type: ignore[no-untyped-def]
    """The position of the lowest bit that is set in a word other than 0."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(word), generate


@intrinsic
def dot_axpy(typing_context, target, source, s, factor, other, o, eights):  # type: ignore[no-untyped-def]
    """The sum of source[s + i] * other[o + i]; and target[s + i] += factor * other[o + i].

    Args:
        typing_context: numba's own; not passed.
        target, source, other: arrays.
        s: position in ``target`` and ``source``.
        factor: a number.
        o: position in ``other``.
        eights: a length.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        target, source, s, factor, other, o, eights = arguments
        kinds = signature.args
        to = _pointer(context, builder, kinds[0], target, s)
        of = _pointer(context, builder, kinds[1], source, s)
        second = _pointer(context, builder, kinds[4], other, o)
        lanes = _broadcast(builder, factor)
        total = cgutils.alloca_once_value(builder, ir.Constant(_LANES, [0.0] * 8))
        _store(builder, ir.Constant(_LANES, [0.0] * 8), total)
        with cgutils.for_range(builder, eights) as loop:
            i = [loop.index]
            shared = _load(builder, builder.gep(second, i))
            at = builder.gep(to, i)
            _store(builder, _multiply_add(builder, lanes, shared, _load(builder, at)), at)
            product = _multiply_add(builder, _load(builder, builder.gep(of, i)), shared, _load(builder, total))
            _store(builder, product, total)
        reduce = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.FloatType(), [ir.FloatType(), _LANES]),
            "llvm.vector.reduce.fadd.v8f32",
        )
        return builder.call(reduce, [ir.Constant(ir.FloatType(), -0.0), _load(builder, total)], fastmath=("reassoc",))

    return types.float32(target, source, s, factor, other, o, eights), generate


@intrinsic
def transpose_8x8(typing_context, target, t, across, source, s, step):  # type: ignore[no-untyped-def]
    """target[t + j * across + i] = source[s + i * step + j] for i and j below 8.

    Args:
        typing_context: numba's own; not passed.
        target, source: arrays.
        t, s: positions in them.
        across, step: from one row to the next in them.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        target, t, across, source, s, step = arguments
        kinds = signature.args

        def at(kind: Any, array: Any, position: Any, apart: Any, row: int) -> Any:
            offset = builder.add(position, builder.mul(apart, ir.Constant(t.type, row)))
            return _pointer(context, builder, kind, array, offset)

        def mixed(left: Any, right: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), 8), lanes))

        rows = [_load(builder, at(kinds[3], source, s, step, row)) for row in range(8)]
        # Rows that lie 4, then 2, then 1 apart exchange the halves, quarters and eighths in which they differ.
        for apart in (4, 2, 1):
            low = [lane if not lane & apart else lane - apart + 8 for lane in range(8)]
            high = [lane + apart if not lane & apart else lane + 8 for lane in range(8)]
            for row in range(8):
                if not row & apart:
                    pair = rows[row], rows[row + apart]
                    rows[row], rows[row + apart] = mixed(*pair, low), mixed(*pair, high)
        for row, vector in enumerate(rows):
            _store(builder, vector, at(kinds[0], target, t, across, row))
        return context.get_dummy_value()

    return types.void(target, t, across, source, s, step), generate
