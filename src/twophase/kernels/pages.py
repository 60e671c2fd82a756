"""What attention does to pages of KV, each a panel in one of the formats of weights (operands.py): multiply a
few rows with pages where they lie, or widen their words into panels that many rows pass."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from twophase.kernels.compiling import intrinsic
from twophase.kernels.lanes import (
    F32S,
    FIRST_LEVEL,
    I1,
    I8,
    I64,
    POINTER,
    SECOND_LEVEL,
    array_address,
    constant,
    prefetch_line,
)
from twophase.kernels.operands import REGISTERS_A_VECTOR, WORD_BYTES, Operands
from twophase.kernels.tile import emit_rows

PAGES_OF_ONE_ROW = 4  # side by side, so that sums enough are under way
NEXT_BYTES = 1024  # how far ahead lines come on from the second level


def page_function(module: ir.Module, operands: Operands, rows: int, pages: int, ahead: bool) -> ir.Function:
    """Emit f(words, x, x row bytes, y, y row bytes, accumulate, each page ..., what comes nearer ...).

    words: a multiple of 4 of what `parts` makes of them.
    """
    name = f"twophase_page_{operands.name}_{rows}x{pages}_{int(ahead)}"
    if name in module.globals:
        return module.globals[name]
    pointers = [POINTER] * (2 * pages if ahead else pages)
    signature = ir.FunctionType(ir.VoidType(), [I64, POINTER, I64, POINTER, I64, I1, *pointers])
    function = ir.Function(module, signature, name)
    function.linkage = "linkonce_odr"  # one copy, however many kernels that use it are linked
    function.attributes.add("noinline")
    words, x, x_row, y, y_row, accumulate, *rest = function.args
    w, near = rest[:pages], rest[pages:]
    places = [(row, page) for row in range(rows) for page in range(pages)]
    small = len(places) <= 4 or REGISTERS_A_VECTOR > 1  # a large one would spill where registers are long
    unroll = max(1, 4 // operands.parts) if small else 1
    b = ir.IRBuilder(function.append_basic_block("entry"))
    entry, loading = b.block, b.append_basic_block("load")
    body, after = b.append_basic_block("body"), b.append_basic_block("after")

    def at(pointer: ir.Value, *bytes_: ir.Value) -> ir.Value:
        for term in bytes_:
            pointer = b.gep(pointer, [term], source_etype=I8)
        return pointer

    def y_address(row: int, page: int) -> ir.Value:
        address = at(y, b.mul(y_row, I64(row)), I64(WORD_BYTES * page))
        return b.bitcast(address, F32S.as_pointer())

    b.cbranch(accumulate, loading, body)
    b.position_at_end(loading)
    loaded = [b.load(y_address(*place), align=4) for place in places]
    b.branch(body)
    b.position_at_end(body)
    i = b.phi(I64)
    sums = [b.phi(F32S) for _ in places]
    new = list(sums)
    for u in range(unroll):
        line = b.mul(b.add(i, I64(u)), I64(WORD_BYTES))
        x_line = b.mul(b.add(i, I64(u)), I64(4 * operands.parts))
        for page in range(pages):
            if ahead:
                prefetch_line(b, at(near[page], line), SECOND_LEVEL)
                prefetch_line(b, at(w[page], line, I64(NEXT_BYTES)), FIRST_LEVEL)
            word = operands.load_word(b, at(w[page], line))
            for part in range(operands.parts):
                factor = operands.part(b, word, part)
                for row in range(rows):
                    row_x = operands.load_x(b, at(x, b.mul(x_row, I64(row)), x_line, I64(4 * part)))
                    place = row * pages + page
                    new[place] = operands.multiply_add(b, factor, row_x, new[place])
    following = b.add(i, I64(unroll))
    b.cbranch(b.icmp_signed("<", following, words), body, after)
    for phi, first, first_loaded, last in zip(
        [i, *sums], [I64(0), *[constant(0.0)] * len(sums)], [I64(0), *loaded], [following, *new], strict=True
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(first_loaded, loading)
        phi.add_incoming(last, body)
    b.position_at_end(after)
    for row_page, value in zip(places, new, strict=True):
        b.store(value, y_address(*row_page), align=4)
    b.ret_void()
    return function


def most_rows(operands: Operands, pages: int) -> int:
    """Rows whose sums stay in registers, for so many pages side by side."""
    return 1 if pages == PAGES_OF_ONE_ROW else operands.max_rows(pages)


@intrinsic
def page_tile(typingctx, rows, k, w, pages, near, x, x_at, x_row, y, y_at, y_row, accumulate):  # type: ignore[no-untyped-def]
    """y[rows, 16·pages] (+)= x[rows, k] · the pages at addresses `pages`, while those at `near` come nearer.

    w: an array of the pages' type; near: () for none; offsets and row strides in elements; rows at most
    most_rows.
    """
    operands, count, ahead = Operands(w.dtype, x.dtype), len(pages), len(near) > 0

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        rows_, k_, _, pages_, near_, x_, x_at_, x_row_, y_, y_at_, y_row_, accumulate_ = args
        places = [*cgutils.unpack_tuple(b, pages_, count), *cgutils.unpack_tuple(b, near_, len(near))]
        arguments = [
            b.sdiv(k_, I64(operands.k_a_word)),
            array_address(context, b, x, x_, x_at_),
            b.mul(x_row_, I64(x.dtype.bitwidth // 8)),
            array_address(context, b, y, y_, y_at_),
            b.mul(y_row_, I64(4)),
            b.trunc(accumulate_, I1),
            *[b.inttoptr(place, POINTER) for place in places],
        ]

        def function(some: int) -> ir.Function:
            return page_function(b.module, operands, some, count, ahead)

        emit_rows(b, rows_, most_rows(operands, count), function, arguments)
        return context.get_dummy_value()

    i, places = types.intp, types.UniTuple(types.intp, count)
    return types.void(i, i, w, places, near, x, i, i, y, i, i, i), generate


def _most_rows(pages: int) -> Any:
    @intrinsic
    def most(typingctx, w, x):  # type: ignore[no-untyped-def]
        count = most_rows(Operands(w.dtype, x.dtype), pages)
        return types.intp(w, x), lambda context, b, signature, args: I64(count)

    return most


rows_of_a_page = _most_rows(1)  # at most, of a tile
rows_of_two_pages = _most_rows(2)


@intrinsic
def address(typingctx, array, at):  # type: ignore[no-untyped-def]
    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return b.ptrtoint(array_address(context, b, array, *args), I64)

    return types.intp(array, types.intp), generate


@intrinsic
def prefetch(typingctx, where):  # type: ignore[no-untyped-def]
    """Bring the line at an address into the second-level cache."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        prefetch_line(b, b.inttoptr(args[0], POINTER), SECOND_LEVEL)
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def widen_word(typingctx, w, at, out, out_at):  # type: ignore[no-untyped-def]
    """out[out_at ...] = what x of out's type multiplies a word at w[at] by; offsets in elements."""
    operands = Operands(w.dtype, out.dtype)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        w_, at_, out_, out_at_ = args
        word = operands.load_word(b, array_address(context, b, w, w_, at_))
        target = array_address(context, b, out, out_, out_at_)
        for i in range(operands.parts):
            part = operands.part(b, word, i)
            place = b.gep(target, [I64(WORD_BYTES * i)], source_etype=I8)
            b.store(part, b.bitcast(place, part.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(w, types.intp, out, types.intp), generate


@intrinsic
def arrive(typingctx, counters, at):  # type: ignore[no-untyped-def]
    """counters[at]++ by threads that share a result: the last sees what the others wrote before."""

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        place = array_address(context, b, counters, *args)
        return b.atomic_rmw("add", b.bitcast(place, I64.as_pointer()), I64(1), "acq_rel")

    return types.int64(counters, types.intp), generate
