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
    """target[t + i] += factor * source[s + i] for i below 8 * eights."""

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
    def weighted_sum(typing_context, target, t, values, columns, begin, end, source, s, stride):  # type: ignore[no-untyped-def]
        """target[t + i] = the sum of values[k] * source[columns[k] * stride + s + i] over k, for i < 8 * count.

        k runs from begin to end. ``columns`` is of type uint32 or uintp.
        """

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            target, t, values, columns, begin, end, source, s, stride = arguments
            kinds = signature.args
            word = begin.type
            zero = ir.Constant(_LANES, [0.0] * 8)
            sums = [cgutils.alloca_once(builder, _LANES) for _ in range(count)]
            for total in sums:
                builder.store(zero, total)
            weights = context.make_array(kinds[2])(context, builder, values).data
            places = context.make_array(kinds[3])(context, builder, columns).data
            with cgutils.for_range(builder, builder.sub(end, begin)) as loop:
                slot = [builder.add(begin, loop.index)]
                column = builder.load(builder.gep(places, slot))
                if column.type != word:
                    column = builder.zext(column, word)
                start = builder.add(builder.mul(column, stride), s)
                row = _pointer(context, builder, kinds[6], source, start)
                lanes = _broadcast(builder, builder.load(builder.gep(weights, slot)))
                for index, total in enumerate(sums):
                    part = _load(builder, builder.gep(row, [ir.Constant(word, index)]))
                    builder.store(_multiply_add(builder, lanes, part, builder.load(total)), total)
            to = _pointer(context, builder, kinds[0], target, t)
            for index, total in enumerate(sums):
                _store(builder, builder.load(total), builder.gep(to, [ir.Constant(word, index)]))
            return context.get_dummy_value()

        return types.void(target, t, values, columns, begin, end, source, s, stride), generate

    return weighted_sum


weighted_sum_of_4 = _weighted_sum(4)
weighted_sum_of_1 = _weighted_sum(1)


@intrinsic
def dot_axpy(typing_context, target, source, s, factor, other, o, eights):  # type: ignore[no-untyped-def]
    """The sum of source[s + i] * other[o + i]; and target[s + i] += factor * other[o + i]."""

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
