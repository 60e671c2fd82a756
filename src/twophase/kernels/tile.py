"""The register tile that every matrix product here is made of: a few rows of x against panels of 16 outputs.

    w   panels of words (operands.py)
    x   rows, contiguous in k;  packed: [k][rows of a whole tile], or by pairs of k [k/2][rows][2]
    y   rows of float32;  y[row, 16·panel + lane] (+)= Σ_k x[row, k] · w[panel][k][lane]

One lane holds one output and sums over k in order, so an output is the same bit for bit whichever rows and
panels share its tile. Quantised weights are summed by groups of k, each sum scaled into y.
"""

from typing import Any

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
    I16S,
    I64,
    LANES,
    POINTER,
    SECOND_LEVEL,
    array_address,
    broadcast,
    call,
    constant,
    prefetch_line,
    widen,
)
from twophase.kernels.operands import (
    HAS_BF16_DOT,
    REGISTERS_A_VECTOR,
    WORD_BYTES,
    Operands,
    activation_dtype,
)
from twophase.kernels.pairing import operands_between

__all__ = ["HAS_BF16_DOT", "activation_dtype"]

PREFETCH_WORDS = 768  # ahead of what is read, into the second-level cache: 48 KiB
PANELS = 2 if REGISTERS_A_VECTOR == 1 else 1  # side by side, where there are many rows
SCALE_BYTES = 2 * LANES  # of a group of a panel


def instructions(compute: str) -> str:
    """What the matrix kernels run on here, for reports."""
    if HAS_BF16_DOT and compute != "float32":
        return "AVX512-BF16 dot products"
    for feature, name in (("avx512f", "AVX-512"), ("fma", "AVX2 FMA"), ("neon", "NEON")):
        if FEATURES.get(feature):
            return f"{name} float32 arithmetic"
    return "float32 arithmetic"


def tile_function(
    module: ir.Module, operands: Operands, rows: int, panels: int, stride: int = 0, group: int = 0
) -> ir.Function:
    """Emit f(words, x, x row bytes, y, y row bytes, accumulate, each panel's w ...), and with groups
    (..., each panel's scales ..., x's scales, bytes of a row of these).

    stride: rows of a packed x, 0 where it isn't packed, which then has as x row bytes those to prefetch
    a word, and behind all others where from; group: words with one scale, 0 without scales.
    """
    name = f"twophase_tile_{operands.name}_{rows}x{panels}_{stride}_{group}"
    if name in module.globals:
        return module.globals[name]
    more: list[ir.Type] = [POINTER] * panels
    if group:
        more += [*[POINTER] * panels, POINTER, I64]
    if stride:
        more += [POINTER]
    signature = ir.FunctionType(ir.VoidType(), [I64, POINTER, I64, POINTER, I64, I1, *more])
    function = ir.Function(module, signature, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    words, x, x_row, y, y_row, accumulate, *rest = function.args
    w, scales = rest[:panels], rest[panels : 2 * panels]
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def y_address(index: int) -> ir.Value:
        row, panel = divmod(index, panels)
        offset = b.add(b.mul(y_row, I64(row)), I64(WORD_BYTES * panel))
        return b.bitcast(b.gep(y, [offset], source_etype=I8), F32S.as_pointer())

    def x_address(row: int, at: ir.Value, part: int) -> ir.Value:
        if stride:
            offset = b.mul(at, I64(4 * operands.parts * stride))
            return b.gep(x, [b.add(offset, I64(4 * (part * stride + row)))], source_etype=I8)
        offset = b.add(b.mul(x_row, I64(row)), b.mul(at, I64(4 * operands.parts)))
        return b.gep(x, [b.add(offset, I64(4 * part))], source_etype=I8)

    # Panels side by side are followed by as many others: a stream that ends goes on there.
    near, far = I64(PREFETCH_WORDS // panels), b.mul(words, I64(panels - 1))
    last_near = b.sub(words, near)

    def words_ahead(at: ir.Value) -> ir.Value:
        beyond = b.select(b.icmp_signed("<", at, last_near), I64(0), far)
        return b.mul(b.add(near, beyond), I64(WORD_BYTES))

    def step(at: ir.Value, ahead: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        def word(panel: int) -> ir.Value:
            address = b.gep(w[panel], [b.mul(at, I64(WORD_BYTES))], source_etype=I8)
            if not stride:
                prefetch_line(b, b.gep(address, [ahead], source_etype=I8), SECOND_LEVEL)
            return operands.load_word(b, address)

        if rows == 1:  # x stays, and panels come one by one
            xs = [operands.load_x(b, x_address(0, at, i)) for i in range(operands.parts)]
            for panel in range(panels):
                own = word(panel)
                for i, row_x in enumerate(xs):
                    sums[panel] = operands.multiply_add(b, operands.part(b, own, i), row_x, sums[panel])
            return sums
        words_ = [word(panel) for panel in range(panels)]
        for i in range(operands.parts):
            parts = [operands.part(b, own, i) for own in words_]
            for row in range(rows):
                row_x = operands.load_x(b, x_address(row, at, i))
                for panel, part in enumerate(parts):
                    index = row * panels + panel
                    sums[index] = operands.multiply_add(b, part, row_x, sums[index])
        return sums

    def loop(
        first: ir.Value, end: ir.Value, sums: list[ir.Value], unroll: int
    ) -> tuple[ir.Value, list[ir.Value]]:
        """for (i = first; i + unroll <= end; i += unroll) step(i) ..."""
        before, head = b.block, b.append_basic_block("head")
        body, after = b.append_basic_block("body"), b.append_basic_block("after")
        b.branch(head)
        b.position_at_end(head)
        i, phis = b.phi(I64), [b.phi(operands.sum_type) for _ in sums]
        b.cbranch(b.icmp_signed("<=", b.add(i, I64(unroll)), end), body, after)
        b.position_at_end(body)
        new = list(phis)
        if stride:
            prefetch_line(b, b.gep(rest[-1], [b.mul(i, x_row)], source_etype=I8), SECOND_LEVEL)
        ahead = words_ahead(i)
        for u in range(unroll):
            new = step(b.add(i, I64(u)), ahead, new)
        following, last = b.add(i, I64(unroll)), b.block
        b.branch(head)
        for phi, start, stop in zip([i, *phis], [first, *sums], [following, *new], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(stop, last)
        b.position_at_end(after)
        return i, list(phis)

    def product(first: ir.Value, end: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        # Not to spill: a large tile whose x isn't packed has a pointer to every row and words to convert.
        small = rows * panels <= 4
        unroll = 4 if stride or (small and group == 4) else max(1, 4 // operands.parts) if small else 1
        done = first
        if unroll > 1:
            done, sums = loop(done, end, sums, unroll)
        return loop(done, end, sums, 1)[1]

    if not group:
        entry, loading, summing = b.block, b.append_basic_block("load"), b.append_basic_block("sum")
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
        for index, value in enumerate(product(I64(0), words, sums)):
            b.store(value, y_address(index), align=4)
    else:
        x_groups = I64(operands.x_groups)
        groups = b.sdiv(b.add(words, I64(group - 1)), b.mul(I64(group), x_groups))
        scales_ahead = b.mul(groups, I64(SCALE_BYTES * panels))
        with cgutils.for_range_slice(b, I64(0), words, I64(group), intp=I64) as (first, number):
            end = b.add(first, I64(group))
            end = b.select(b.icmp_signed("<", end, words), end, words)
            x_scales, x_scales_row = rest[2 * panels : 2 * panels + 2]
            x_scale_at = []
            for row in range(rows):
                offset = b.add(b.mul(x_scales_row, I64(row)), b.mul(number, I64(4 * operands.x_scale_size)))
                x_scale_at.append(b.gep(x_scales, [offset], source_etype=I8))
            starts = [operands.load_start(b, b.gep(at, [I64(4)], source_etype=I8)) for at in x_scale_at]
            sums = product(first, end, [start for start in starts for _ in range(panels)])
            w_scales = []
            for panel in range(panels):
                offset = b.mul(b.sdiv(number, x_groups), I64(SCALE_BYTES))
                address = b.gep(scales[panel], [offset], source_etype=I8)
                prefetch_line(b, b.gep(address, [scales_ahead], source_etype=I8), SECOND_LEVEL)
                w_scales.append(widen(b, b.load(address, typ=I16S, align=2)))
            for row, at in enumerate(x_scale_at):
                x_scale = broadcast(b, b.load(at, typ=F32, align=4), F32S)
                for panel, w_scale in enumerate(w_scales):
                    index = row * panels + panel
                    y_at, scale = y_address(index), b.fmul(x_scale, w_scale)
                    value = b.sitofp(operands.total(b, sums[index]), F32S)
                    b.store(call(b, "llvm.fma.v16f32", value, scale, b.load(y_at, align=4)), y_at, align=4)
    b.ret_void()
    return function


def emit_rows(b: Any, rows: Any, most: int, function: Any, arguments: list[Any]) -> None:
    """Call function(rows), which is made for a fixed number of rows."""
    done = b.append_basic_block("tiled")
    switch = b.switch(rows, done)
    for count in range(1, most + 1):
        with b.goto_block(b.append_basic_block(f"rows{count}")):
            switch.add_case(I64(count), b.block)
            b.call(function(count), arguments)
            b.branch(done)
    b.position_at_end(done)


@intrinsic
def tile(typingctx, rows, k, w, w_at, x, x_at, x_row, y, y_at, y_row, accumulate):  # type: ignore[no-untyped-def]
    """y[rows, 16·panels] (+)= x[rows, k] · w over `len(w_at)` panels; offsets and row strides in elements.

    w: float32 or bf16, k even for bf16; rows at most max_rows(w, x); w_at: where in w each panel starts.
    """
    operands, panels = operands_between(w.dtype, x.dtype), len(w_at)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        rows_, k_, w_, w_at_, x_, x_at_, x_row_, y_, y_at_, y_row_, accumulate_ = args
        arguments = [
            b.sdiv(k_, I64(2 if operands.format == "bf16" else 1)),
            array_address(context, b, x, x_, x_at_),
            b.mul(x_row_, I64(x.dtype.bitwidth // 8)),
            array_address(context, b, y, y_, y_at_),
            b.mul(y_row_, I64(4)),
            b.trunc(accumulate_, I1),
            *[array_address(context, b, w, w_, at) for at in cgutils.unpack_tuple(b, w_at_, panels)],
        ]
        emit_rows(
            b,
            rows_,
            operands.max_rows(panels),
            lambda n: tile_function(b.module, operands, n, panels),
            arguments,
        )
        return context.get_dummy_value()

    integer, at = types.intp, types.UniTuple(types.intp, panels)
    return types.void(integer, integer, w, at, x, integer, integer, y, integer, integer, types.intp), generate


def most_rows(panels: int, unpacked: bool = False) -> Any:
    @intrinsic
    def most(typingctx, w, x):  # type: ignore[no-untyped-def]
        operands = operands_between(w.dtype, x.dtype)
        count = (operands.unpacked if unpacked else operands).max_rows(panels)
        return types.intp(w, x), lambda context, b, signature, args: I64(count)

    return most


max_rows = most_rows(PANELS)  # of a tile of PANELS panels, for these operands
