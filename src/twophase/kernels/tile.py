"""The register tile that every matrix product here is made of: a few rows of x against panels of 16.

    w   panels of 16 outputs     bf16: [k/2][16][2]      float32: [k][16]
    x   rows, contiguous in k    bf16 or float32
    y   rows of float32;  y[row, 16·panel + lane] (+)= Σ_k x[row, k] · w[panel][k][lane]

One lane holds one output and sums over k in order, so an output is the same bit for bit whichever rows and
panels share its tile. With bf16 on both sides AVX512-BF16 multiplies pairs; elsewhere activations stay in
float32 and bf16 weights are widened in registers.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from twophase.kernels.compiling import intrinsic
from twophase.kernels.lanes import (
    F32,
    F32S,
    FEATURES,
    I1,
    I8,
    I32,
    I32S,
    I64,
    LANES,
    POINTER,
    array_address,
    broadcast,
    call,
    constant,
    integers,
)

HAS_BF16_DOT = bool(FEATURES.get("avx512bf16"))
REGISTERS_A_VECTOR = 1 if FEATURES.get("avx512f") else 2 if FEATURES.get("avx2") else 4
REGISTERS = 32 if FEATURES.get("avx512f") or FEATURES.get("neon") else 16
PREFETCH_BYTES = 1024
PANELS = 2 if REGISTERS_A_VECTOR == 1 else 1  # side by side, where there are many rows


def instructions(compute: str) -> str:
    """What the matrix kernels run on here, for reports."""
    if HAS_BF16_DOT and compute == "bf16":
        return "AVX512-BF16 dot products"
    for feature, name in (("avx512f", "AVX-512"), ("fma", "AVX2 FMA"), ("neon", "NEON")):
        if FEATURES.get(feature):
            return f"{name} float32 arithmetic"
    return "float32 arithmetic"


def activation_dtype(compute: str) -> np.dtype[Any]:
    """What matrix kernels take as x: bf16 only where the processor multiplies it."""
    return np.dtype(np.uint16 if compute == "bf16" and HAS_BF16_DOT else np.float32)


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


BF16S = ir.VectorType(_BFloat(), 2 * LANES)


class Operands:
    """How one step over k loads its operands and multiplies them: float32, bf16 pairs, or bf16 widened."""

    def __init__(self, w: Any, x: Any) -> None:
        self.pairs = w == types.uint16  # a step covers two k
        self.dot = self.pairs and x == types.uint16
        self.name = "bf16" if self.dot else "widened" if self.pairs else "float32"
        self.x_step_bytes = 4 if self.dot or not self.pairs else 8

    def max_rows(self, panels: int) -> int:
        """Rows of a tile whose sums, with the weights and one x, stay in registers."""
        halves = 2 if self.pairs and not self.dot else 1
        free = REGISTERS - 1 - REGISTERS_A_VECTOR * halves * min(panels, 2)
        return max(1, min(16, free // (REGISTERS_A_VECTOR * panels)))

    def load_w(self, b: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
        if not self.pairs:
            return [b.load(address, typ=F32S, align=4)]
        bits = b.load(address, typ=I32S, align=4)
        if self.dot:
            return [b.bitcast(bits, BF16S)]
        even, odd = b.shl(bits, integers(16)), b.and_(bits, integers(0xFFFF0000))
        return [b.bitcast(even, F32S), b.bitcast(odd, F32S)]

    def load_x(self, b: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
        if self.dot:
            return [b.bitcast(broadcast(b, b.load(address, typ=I32, align=2), I32S), BF16S)]
        offsets = (0, 4) if self.pairs else (0,)
        addresses = [b.gep(address, [I64(offset)], source_etype=I8) for offset in offsets]
        return [broadcast(b, b.load(a, typ=F32, align=4), F32S) for a in addresses]

    def multiply_add(
        self, b: ir.IRBuilder, w: list[ir.Value], x: list[ir.Value], total: ir.Value
    ) -> ir.Value:
        if self.dot:
            return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", total, w[0], x[0])
        for half_w, half_x in zip(w, x, strict=True):
            total = call(b, "llvm.fma.v16f32", half_x, half_w, total)
        return total


def tile_function(module: ir.Module, operands: Operands, rows: int, panels: int) -> ir.Function:
    """Emit f(steps, x, x row bytes, y, y row bytes, accumulate, w of each panel ...) for a shape of tile."""
    name = f"twophase_tile_{operands.name}_{rows}x{panels}"
    if name in module.globals:
        return module.globals[name]
    signature = ir.FunctionType(ir.VoidType(), [I64, POINTER, I64, POINTER, I64, I1] + [POINTER] * panels)
    function = ir.Function(module, signature, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    steps, x, x_row, y, y_row, accumulate, *w = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    entry, loading, summing = b.block, b.append_basic_block("load"), b.append_basic_block("sum")

    def y_address(index: int) -> ir.Value:
        row, panel = divmod(index, panels)
        offset = b.add(b.mul(y_row, I64(row)), I64(4 * LANES * panel))
        return b.bitcast(b.gep(y, [offset], source_etype=I8), F32S.as_pointer())

    b.cbranch(accumulate, loading, summing)
    b.position_at_end(loading)
    loaded = [b.load(y_address(index), align=4) for index in range(rows * panels)]
    b.branch(summing)
    b.position_at_end(summing)
    sums = []
    for value in loaded:
        sums.append(b.phi(F32S))
        sums[-1].add_incoming(constant(0.0), entry)
        sums[-1].add_incoming(value, loading)

    def step(at: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        xs = [
            b.gep(x, [b.add(b.mul(x_row, I64(r)), b.mul(at, I64(operands.x_step_bytes)))], source_etype=I8)
            for r in range(rows)
        ]
        few = [operands.load_x(b, address) for address in xs] if rows <= panels else []
        weights = []
        for panel in range(panels):
            address = b.gep(w[panel], [b.mul(at, I64(4 * LANES))], source_etype=I8)
            ahead = b.gep(address, [I64(PREFETCH_BYTES)], source_etype=I8)
            call(b, "llvm.prefetch.p0", ahead, I32(0), I32(3), I32(1), returns=ir.VoidType())
            weights.append(operands.load_w(b, address))
            for r, row_x in enumerate(few):
                index = r * panels + panel
                sums[index] = operands.multiply_add(b, weights[panel], row_x, sums[index])
        for r in range(len(few), rows):
            row_x = operands.load_x(b, xs[r])
            for panel in range(panels):
                index = r * panels + panel
                sums[index] = operands.multiply_add(b, weights[panel], row_x, sums[index])
        return sums

    def loop(first: ir.Value, sums: list[ir.Value], unroll: int) -> tuple[ir.Value, list[ir.Value]]:
        """for (i = first; i + unroll <= steps; i += unroll) step(i) ..."""
        before, head = b.block, b.append_basic_block("head")
        body, after = b.append_basic_block("body"), b.append_basic_block("after")
        b.branch(head)
        b.position_at_end(head)
        i, phis = b.phi(I64), [b.phi(F32S) for _ in sums]
        b.cbranch(b.icmp_signed("<=", b.add(i, I64(unroll)), steps), body, after)
        b.position_at_end(body)
        new = list(phis)
        for u in range(unroll):
            new = step(b.add(i, I64(u)), new)
        following = b.add(i, I64(unroll))
        b.branch(head)
        for phi, start, end in zip([i, *phis], [first, *sums], [following, *new], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.position_at_end(after)
        return i, list(phis)

    done = I64(0)
    if rows * panels <= 4:  # a larger one would spill, and its loop costs nothing beside it
        done, sums = loop(done, sums, 4)
    _, sums = loop(done, sums, 1)
    for index, value in enumerate(sums):
        b.store(value, y_address(index), align=4)
    b.ret_void()
    return function


@intrinsic
def tile(typingctx, rows, k, w, w_at, x, x_at, x_row, y, y_at, y_row, accumulate):  # type: ignore[no-untyped-def]
    """y[rows, 16·panels] (+)= x[rows, k] · w over `len(w_at)` panels; offsets and row strides in elements.

    rows at most max_rows(w, x, panels); k even where w is bf16; w_at: where in w each panel starts.
    """
    operands, panels = Operands(w.dtype, x.dtype), len(w_at)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        rows_, k_, w_, w_at_, x_, x_at_, x_row_, y_, y_at_, y_row_, accumulate_ = args
        arguments = [
            b.ashr(k_, I64(1)) if operands.pairs else k_,
            array_address(context, b, x, x_, x_at_),
            b.mul(x_row_, I64(x.dtype.bitwidth // 8)),
            array_address(context, b, y, y_, y_at_),
            b.mul(y_row_, I64(4)),
            b.trunc(accumulate_, I1),
            *[array_address(context, b, w, w_, at) for at in cgutils.unpack_tuple(b, w_at_, panels)],
        ]
        done = b.append_basic_block("tiled")
        switch = b.switch(rows_, done)
        for count in range(1, operands.max_rows(panels) + 1):
            with b.goto_block(b.append_basic_block(f"rows{count}")):
                switch.add_case(I64(count), b.block)
                b.call(tile_function(b.module, operands, count, panels), arguments)
                b.branch(done)
        b.position_at_end(done)
        return context.get_dummy_value()

    integer, at = types.intp, types.UniTuple(types.intp, panels)
    return types.void(integer, integer, w, at, x, integer, integer, y, integer, integer, types.intp), generate


def _max_rows(panels: int) -> Any:
    @intrinsic
    def most(typingctx, w, x):  # type: ignore[no-untyped-def]
        count = Operands(w.dtype, x.dtype).max_rows(panels)
        return types.intp(w, x), lambda context, b, signature, args: I64(count)

    return most


max_rows = _max_rows(PANELS)  # of a tile of PANELS panels, for these operands
max_rows_of_pairs = _max_rows(2)
