"""Rows rounded to 8 bits by groups of 32 k, in the order in which weights of a format meet them.

The largest of a group is 127 steps. Behind each scale lies what a group's sums start at (byte_operands.py).
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from twophase.kernels.byte_operands import ByteOperands
from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import (
    F32S,
    I8,
    I32,
    I32S,
    LANES,
    add,
    array_address,
    call,
    fma,
    largest,
    load,
    maximum,
    mul,
    splat,
    sub,
    total,
)
from twophase.kernels.lanes import lanes as lanes_type
from twophase.kernels.operands import X_GROUP
from twophase.kernels.threads import SHARED_OUT, share_out

TOP = np.float32(127)
BYTES = ir.VectorType(I8, LANES)


@intrinsic
def whole(typingctx, value):  # type: ignore[no-untyped-def]
    """Lanes to the nearest integer (even of two)."""
    return lanes_type(lanes_type), lambda context, b, signature, args: call(
        b, "llvm.rint.v16f32", args[0], returns=F32S
    )


@intrinsic
def store_bytes(typingctx, w, array, at, value):  # type: ignore[no-untyped-def]
    """array[at : at + 16] = lanes that are integers, in the order in which words of w hold their k."""
    operands = ByteOperands(w.dtype)
    order = [first + k for first in range(0, LANES, operands.k_a_word) for k in operands.order_of_k()]

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        _, array_, at_, value_ = args
        whole_bytes = b.trunc(b.fptosi(value_, I32S), BYTES)
        address = b.bitcast(array_address(context, b, array, array_, at_), BYTES.as_pointer())
        b.store(b.shuffle_vector(whole_bytes, whole_bytes, ir.Constant(I32S, order)), address, align=4)
        return context.get_dummy_value()

    return types.void(w, array, types.intp, lanes_type), generate


@intrinsic
def start_of(typingctx, w, value):  # type: ignore[no-untyped-def]
    """What the sums of a group start at, of sums of its k by lanes."""
    operands = ByteOperands(w.dtype)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        sums = b.fptosi(args[1], I32S)
        for width in (8, 4, 2):  # two lanes are left: of even k and of odd k
            moved = ir.Constant(I32S, [(i + width) % LANES for i in range(LANES)])
            sums = b.add(sums, b.shuffle_vector(sums, sums, moved))
        return operands.start(b, *(b.extract_element(sums, I32(i)) for i in range(2)))

    return types.int32(w, lanes_type), generate


@kernel
def round_rows_to_bytes(
    first: int, last: int, x: Any, w: Any, rounded: Any, starts: Any, scales: Any
) -> None:
    k, nothing = x.shape[1], splat(np.float32(0))
    groups = -(-k // X_GROUP)
    for row in range(first, last):
        for number in range(groups):
            start = row * k + number * X_GROUP
            end = min(start + X_GROUP, (row + 1) * k)
            best, spoilt, sums = nothing, nothing, nothing
            for i in range(start, end, LANES):
                value = load(x, i)
                best = maximum(best, maximum(value, sub(nothing, value)))
                spoilt = fma(value, nothing, spoilt)  # NaN where there is one, or an infinity
            top = largest(best)
            steps = splat(TOP / top if top > 0 else np.float32(0))
            for i in range(start, end, LANES):
                value = whole(mul(load(x, i), steps))
                sums = add(sums, value)
                store_bytes(w, rounded, i, value)
            at = 2 * (row * groups + number)
            scales[at] = top / TOP + total(spoilt)
            starts[at + 1] = start_of(w, sums)


@kernel
def round_to_int8(x: Any, w: Any, rounded: Any, starts: Any, scales: Any, threads: int) -> None:
    """rounded [rows, k] int8, flat: x = rounded · scale, nearly, the k of each word of w in its order.

    scales [rows, groups, 2] float32 and starts int32, flat, are two views of one memory: scale and start.
    """
    threads = threads if x.size >= SHARED_OUT else 1
    share_out(round_rows_to_bytes, len(x), threads, (x, w, rounded, starts, scales))
