"""Eight floats at a time: numba intrinsics for short vectors, which its compiler leaves scalar.

Numba cannot promise LLVM that two arrays do not overlap, so a loop over the 20 entries of a factor's row
is preceded by overlap checks and ends scalar. These intrinsics state the vectors outright; LLVM lowers
them to whatever the processor has. Arrays are flat, contiguous and float32, positions are of type uintp,
and nothing is checked: 8 * eights entries must exist behind each position.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
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


@intrinsic
def axpy_both(typing_context, left_target, left, l, factor, right_target, right, r, eights):  # type: ignore[no-untyped-def]  # noqa: E741
    """left_target[l + i] += factor * right[r + i] and right_target[r + i] += factor * left[l + i]."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        left_target, left, l, factor, right_target, right, r, eights = arguments  # noqa: E741
        kinds = signature.args
        left_to = _pointer(context, builder, kinds[0], left_target, l)
        left_of = _pointer(context, builder, kinds[1], left, l)
        right_to = _pointer(context, builder, kinds[4], right_target, r)
        right_of = _pointer(context, builder, kinds[5], right, r)
        lanes = _broadcast(builder, factor)
        with cgutils.for_range(builder, eights) as loop:
            i = [loop.index]
            left_at, right_at = builder.gep(left_to, i), builder.gep(right_to, i)
            left_sum = _multiply_add(builder, lanes, _load(builder, builder.gep(right_of, i)), _load(builder, left_at))
            right_sum = _multiply_add(builder, lanes, _load(builder, builder.gep(left_of, i)), _load(builder, right_at))
            _store(builder, left_sum, left_at)
            _store(builder, right_sum, right_at)
        return context.get_dummy_value()

    return types.void(left_target, left, l, factor, right_target, right, r, eights), generate


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
