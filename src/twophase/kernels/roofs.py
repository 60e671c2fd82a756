"""Loops that do nothing but reach a roof: read a buffer, or multiply and add in registers."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import (
    FIRST_LEVEL,
    I8,
    I32,
    I32S,
    I64,
    LANES,
    array_address,
    call,
    constant,
    integers,
    prefetch_line,
)
from twophase.kernels.operands import BF16S, REGISTERS, REGISTERS_A_VECTOR, Operands
from twophase.kernels.threads import share_out
from twophase.kernels.tile import PANELS, max_rows, tile

LINE = 64  # bytes that one load of 16 lanes takes
STEP = 8  # loads in flight
BLOCK = 2048  # elements read before the next stream's turn


@intrinsic
def read(typingctx, array, first, last, ahead):  # type: ignore[no-untyped-def]
    """Or together array[first : last] (elements; whole steps of 512 bytes), prefetching `ahead` bytes."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        _, first_, last_, ahead_ = args
        item = array.dtype.bitwidth // 8
        base = array_address(context, b, array, args[0], first_)
        count = b.sdiv(b.mul(b.sub(last_, first_), I64(item)), I64(LINE * STEP))
        before, body, after = b.block, b.append_basic_block("read"), b.append_basic_block("done")
        head = b.append_basic_block("head")
        b.branch(head)
        b.position_at_end(head)
        i, sums = b.phi(I64), [b.phi(I32S) for _ in range(STEP)]
        b.cbranch(b.icmp_signed("<", i, count), body, after)
        b.position_at_end(body)
        new = []
        for step, total in enumerate(sums):
            address = b.gep(base, [b.add(b.mul(i, I64(LINE * STEP)), I64(LINE * step))], source_etype=I8)
            far = b.gep(address, [ahead_], source_etype=I8)
            prefetch_line(b, far, FIRST_LEVEL)
            new.append(b.or_(total, b.load(address, typ=I32S, align=4)))
        following = b.add(i, I64(1))
        b.branch(head)
        for phi, start, end in zip(
            [i, *sums], [I64(0), *[integers(0)] * STEP], [following, *new], strict=True
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.position_at_end(after)
        every = sums[0]
        for value in sums[1:]:
            every = b.or_(every, value)
        return call(b, "llvm.vector.reduce.or.v16i32", every, returns=I32)

    return types.int32(array, types.intp, types.intp, types.intp), generate


@intrinsic
def multiply_in_registers(typingctx, w, x, repeats):  # type: ignore[no-untyped-def]
    """`repeats` rounds of independent multiply-adds as a tile of w and x does them, without a load.

    Returns something that depends on all of them; register_flops() tells how many.
    """
    operands = Operands(w.dtype, x.dtype)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        one = b.bitcast(integers(0x3F803F80), BF16S) if operands.dot else constant(0.5)
        before, body, after = b.block, b.append_basic_block("multiply"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        i, sums = b.phi(I64), [b.phi(constant(0.0).type) for _ in range(_CHAINS)]
        new = []
        for total in sums:
            if operands.dot:
                new.append(call(b, "llvm.x86.avx512bf16.dpbf16ps.512", total, one, one))
            else:
                new.append(call(b, "llvm.fma.v16f32", total, one, one))
        following = b.add(i, I64(1))
        b.cbranch(b.icmp_signed("<", following, args[2]), body, after)
        # Different starts, lest the compiler find out that all chains compute the same.
        starts = [I64(0), *[constant(float(chain)) for chain in range(_CHAINS)]]
        for phi, begin, end in zip([i, *sums], starts, [following, *new], strict=True):
            phi.add_incoming(begin, before)
            phi.add_incoming(end, body)
        b.position_at_end(after)
        every = new[0]
        for value in new[1:]:
            every = b.fadd(every, value)
        return b.extract_element(every, I32(0))

    return types.float32(w, x, types.intp), generate


_CHAINS = max(1, (REGISTERS - 4) // REGISTERS_A_VECTOR)  # enough to hide the latency, few enough to fit


@kernel
def read_share(first: int, last: int, array: Any, streams: int, ahead: int, found: Any, threads: int) -> None:
    for thread in range(first, last):
        begin, end = array.size * thread // threads, array.size * (thread + 1) // threads
        share = (end - begin) // streams // BLOCK * BLOCK
        bits = 0
        for at in range(0, share, BLOCK):
            for stream in range(streams):
                start = begin + stream * share + at
                bits |= read(array, start, start + BLOCK, ahead)
        found[thread] = bits


@kernel
def read_all(array: Any, streams: int, ahead: int, found: Any, threads: int) -> None:
    """Read the whole buffer once, each thread its share, as `streams` sequences side by side by blocks.

    found: [threads], where what was read is left, lest the compiler drop the reading.
    """
    share_out(read_share, threads, threads, (array, streams, ahead, found, threads))


@kernel
def multiply_share(first: int, last: int, w: Any, x: Any, repeats: int, found: Any) -> None:
    for thread in range(first, last):
        found[thread] = multiply_in_registers(w, x, repeats)


@kernel
def multiply_all(w: Any, x: Any, repeats: int, found: Any, threads: int) -> None:
    share_out(multiply_share, threads, threads, (w, x, repeats, found))


@kernel
def tile_share(first: int, last: int, w: Any, x: Any, y: Any, k: int, repeats: int) -> None:
    rows = max_rows(w, x)
    for thread in range(first, last):
        out = y[thread * rows * PANELS * LANES :]
        for _ in range(repeats):
            if PANELS == 2:
                tile(rows, k, w, (0, LANES * k), x, 0, k, out, 0, PANELS * LANES, 0)
            else:
                tile(rows, k, w, (0,), x, 0, k, out, 0, PANELS * LANES, 0)


@kernel
def tile_all(w: Any, x: Any, y: Any, k: int, repeats: int, threads: int) -> None:
    """The engine's own tile, over operands that stay in the first-level cache."""
    share_out(tile_share, threads, threads, (w, x, y, k, repeats))


def bytes_read(array: np.ndarray[Any, Any], streams: int, threads: int) -> int:
    """What read_all reads of it: whole blocks."""
    shares = [array.size * (t + 1) // threads - array.size * t // threads for t in range(threads)]
    return sum(share // streams // BLOCK * BLOCK * streams for share in shares) * array.itemsize


def register_flops(w: np.ndarray[Any, Any], x: np.ndarray[Any, Any], repeats: int) -> int:
    """FLOPs of multiply_all on one thread: a bf16 pair product is two multiply-adds a lane."""
    pairs = 2 if w.dtype == np.uint16 and x.dtype == np.uint16 else 1
    return 2 * pairs * LANES * _CHAINS * repeats


def tile_rows(w: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> int:
    kinds = {np.dtype(np.uint16): types.uint16, np.dtype(np.float32): types.float32}
    return Operands(kinds[w.dtype], kinds[x.dtype]).max_rows(PANELS)
