"""Rows rounded to 16 bits by groups of k: what integer weights are multiplied by.

The largest of a group is 32767 steps, so an element is within 2^-16 of it: nearer than bf16 is on average.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import (
    F32S,
    I16S,
    I32S,
    LANES,
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
from twophase.kernels.threads import SHARED_OUT, share_out

TOP = np.float32(32767)


@intrinsic
def store_rounded(typingctx, array, at, value):  # type: ignore[no-untyped-def]
    """array[at : at + 16] = lanes, to the nearest integer (even of two)."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        whole = b.fptosi(call(b, "llvm.rint.v16f32", args[2], returns=F32S), I32S)
        address = array_address(context, b, array, args[0], args[1])
        b.store(b.trunc(whole, I16S), b.bitcast(address, I16S.as_pointer()), align=2)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes_type), generate


@kernel
def round_rows(first: int, last: int, x: Any, group: int, rounded: Any, scales: Any) -> None:
    k, nothing = x.shape[1], splat(np.float32(0))
    groups = -(-k // group)
    for row in range(first, last):
        for number in range(groups):
            start = row * k + number * group
            end = min(start + group, (row + 1) * k)
            best, spoilt = nothing, nothing
            for i in range(start, end, LANES):
                value = load(x, i)
                best = maximum(best, maximum(value, sub(nothing, value)))
                spoilt = fma(value, nothing, spoilt)  # NaN where there is one, or an infinity
            top = largest(best)
            steps = splat(TOP / top if top > 0 else np.float32(0))
            scales[row * groups + number] = top / TOP + total(spoilt)
            for i in range(start, end, LANES):
                store_rounded(rounded, i, mul(load(x, i), steps))


@kernel
def round_to_int16(x: Any, group: int, rounded: Any, scales: Any, threads: int) -> None:
    """rounded [rows, k] int16, flat, and scales [rows, groups], flat: x = rounded · scale, nearly."""
    share_out(round_rows, len(x), threads if x.size >= SHARED_OUT else 1, (x, group, rounded, scales))
