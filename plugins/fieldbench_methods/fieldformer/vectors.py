"""Eight floats at a time: numba intrinsics for short vectors, which its compiler leaves scalar.

Numba cannot promise LLVM that two arrays do not overlap, so a loop over the 20 entries of a factor's row
is preceded by overlap checks and ends scalar. These intrinsics state the vectors outright; LLVM lowers
them to whatever the processor has. Arrays are flat, contiguous and float32, positions are of type uintp,
and nothing is checked: 8 * eights entries must exist behind each position.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = ir.VectorType(ir.FloatType(), 8)
_FAST = ("reassoc", "contract", "nsz")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [position]), ir.PointerType(_LANES))


def _load(builder: Any, pointer: Any) -> Any:
    vector = builder.load(pointer)
    vector.align = 4
    return vector


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    builder.store(vector, pointer).align = 4


def _broadcast(builder: Any, scalar: Any) -> Any:
    vector = builder.insert_element(ir.Constant(_LANES, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    return builder.shuffle_vector(vector, vector, lanes)


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


def _weighted_sum(count: int) -> Any:
    """An intrinsic that keeps ``count`` vectors of a sum of rows in registers."""

    @intrinsic
    def weighted_sum(typing_context, fresh, target, t, values, columns, begin, end, source, s, stride):  # type: ignore[no-untyped-def]
        """target[t + i] += values[k] * source[columns[k] * stride + s + i] over k in order, for i < 8 * count.

        k runs from begin to end. If ``fresh``, what stood in the target does not count.
        """

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            fresh, target, t, values, columns, begin, end, source, s, stride = arguments
            kinds = signature.args
            word = begin.type
            to = _pointer(context, builder, kinds[1], target, t)
            zero = ir.Constant(_LANES, [0.0] * 8)
            sums = [cgutils.alloca_once(builder, _LANES) for _ in range(count)]
            with builder.if_else(cgutils.is_true(builder, fresh)) as (anew, further):
                with anew:
                    for total in sums:
                        builder.store(zero, total)
                with further:
                    for index, total in enumerate(sums):
                        builder.store(_load(builder, builder.gep(to, [ir.Constant(word, index)])), total)
            weights = context.make_array(kinds[3])(context, builder, values).data
            places = context.make_array(kinds[4])(context, builder, columns).data
            with cgutils.for_range(builder, builder.sub(end, begin)) as loop:
                slot = [builder.add(begin, loop.index)]
                column = builder.zext(builder.load(builder.gep(places, slot)), word)
                start = builder.add(builder.mul(column, stride), s)
                row = _pointer(context, builder, kinds[7], source, start)
                lanes = _broadcast(builder, builder.load(builder.gep(weights, slot)))
                for index, total in enumerate(sums):
                    part = _load(builder, builder.gep(row, [ir.Constant(word, index)]))
                    builder.store(_multiply_add(builder, lanes, part, builder.load(total)), total)
            for index, total in enumerate(sums):
                _store(builder, builder.load(total), builder.gep(to, [ir.Constant(word, index)]))
            return context.get_dummy_value()

        return types.void(fresh, target, t, values, columns, begin, end, source, s, stride), generate

    return weighted_sum


weighted_sum_of_8 = _weighted_sum(8)
weighted_sum_of_4 = _weighted_sum(4)
weighted_sum_of_1 = _weighted_sum(1)


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
