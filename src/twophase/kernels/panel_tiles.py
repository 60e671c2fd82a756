"""Tiles over panels in every format: x straight from its rows, or x packed and the panel unpacked."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from twophase.kernels.compiling import intrinsic
from twophase.kernels.lanes import I1, I8, I32, I64, POINTER, array_address
from twophase.kernels.operands import WORD_BYTES
from twophase.kernels.pairing import operands_between
from twophase.kernels.tile import PANELS, SCALE_BYTES, emit_rows, most_rows, tile_function

max_rows_of_pairs = most_rows(2)
max_packed_rows = most_rows(PANELS, unpacked=True)


def byte_address(
    context: Any, b: ir.IRBuilder, typ: Any, array: ir.Value, at: ir.Value, size: int
) -> ir.Value:
    """Of element `at` of an array looked at as elements of `size` bytes."""
    data = b.bitcast(context.make_array(typ)(context, b, array).data, POINTER)
    return b.gep(data, [b.mul(at, I64(size))], source_etype=I8)


@intrinsic
def direct_tile(typingctx, rows, words, w, w_at, scales, scale_at, x, x_at, x_row, xs, xs_at, xs_row, y, y_at, y_row):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """y[rows, 16·panels] += x[rows] · `words` words of each panel, whatever the format.

    w_at, scale_at: where each panel starts, in words and in groups; xs: scales of x, [rows, groups], where
    it is integers; x_at, x_row, xs_at, xs_row, y_at, y_row in elements.
    """
    operands, panels = operands_between(w.dtype, x.dtype), len(w_at)
    group = operands.x_group // operands.k_a_word

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        (
            rows_,
            words_,
            w_,
            w_at_,
            scales_,
            scale_at_,
            x_,
            x_at_,
            x_row_,
            xs_,
            xs_at_,
            xs_row_,
            y_,
            y_at_,
            y_row_,
        ) = args
        arguments = [
            words_,
            array_address(context, b, x, x_, x_at_),
            b.mul(x_row_, I64(x.dtype.bitwidth // 8)),
            array_address(context, b, y, y_, y_at_),
            b.mul(y_row_, I64(4)),
            I1(1),
            *[
                byte_address(context, b, w, w_, at, WORD_BYTES)
                for at in cgutils.unpack_tuple(b, w_at_, panels)
            ],
        ]
        if group:
            starts = cgutils.unpack_tuple(b, scale_at_, panels)
            arguments += [byte_address(context, b, scales, scales_, at, SCALE_BYTES) for at in starts]
            arguments += [array_address(context, b, xs, xs_, xs_at_), b.mul(xs_row_, I64(4))]
        most = operands.max_rows(panels)
        emit_rows(
            b, rows_, most, lambda n: tile_function(b.module, operands, n, panels, group=group), arguments
        )
        return context.get_dummy_value()

    i, at = types.intp, types.UniTuple(types.intp, panels)
    signature = types.void(i, i, w, at, scales, at, x, i, i, xs, i, i, y, i, i)
    return signature, generate


@intrinsic
def packed_tile(typingctx, rows, words, w, w_at, scales, scale_at, x, x_at, xs, xs_at, xs_row, y, y_at, stored, next_at, step):  # type: ignore[no-untyped-def]  # fmt: skip  # noqa: E501
    """y[rows][16·panels], contiguous, += a packed tile of x · panels that need no conversion.

    w_at, scale_at: where each panel starts, in words and in groups; stored: all panels as they are stored,
    of which `step` bytes a word are prefetched, from byte next_at on.
    """
    operands, panels = operands_between(w.dtype, x.dtype), len(w_at)
    group = operands_between(stored.dtype, x.dtype).x_group // operands.k_a_word
    stride = operands.max_rows(PANELS)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        (
            rows_,
            words_,
            w_,
            w_at_,
            scales_,
            scale_at_,
            x_,
            x_at_,
            xs_,
            xs_at_,
            xs_row_,
            y_,
            y_at_,
            stored_,
            next_at_,
            step_,
        ) = args
        arguments = [
            words_,
            array_address(context, b, x, x_, x_at_),
            step_,
            array_address(context, b, y, y_, y_at_),
            I64(WORD_BYTES * panels),
            I1(1),
            *[
                byte_address(context, b, w, w_, at, WORD_BYTES)
                for at in cgutils.unpack_tuple(b, w_at_, panels)
            ],
        ]
        if group:
            starts = cgutils.unpack_tuple(b, scale_at_, panels)
            arguments += [byte_address(context, b, scales, scales_, at, SCALE_BYTES) for at in starts]
            arguments += [array_address(context, b, xs, xs_, xs_at_), b.mul(xs_row_, I64(4))]
        arguments.append(byte_address(context, b, stored, stored_, next_at_, 1))

        def function(count: int) -> ir.Function:
            return tile_function(b.module, operands, count, panels, stride, group)

        emit_rows(b, rows_, stride, function, arguments)
        return context.get_dummy_value()

    i, at = types.intp, types.UniTuple(types.intp, panels)
    return types.void(i, i, w, at, scales, at, x, i, xs, i, i, y, i, stored, i, i), generate


@intrinsic
def pack_tile(typingctx, w, rows, factors, x, x_at, x_row, packed, at):  # type: ignore[no-untyped-def]
    """packed [factors][rows of a whole tile] = x[rows], a factor one k, or two side by side in bf16.

    x_at, x_row, at in elements; the rows that a smaller tile lacks are copies of its last.
    """
    whole = operands_between(w.dtype, x.dtype).unpacked.max_rows(PANELS)
    item = x.dtype.bitwidth // 8

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        _, rows_, factors_, x_, x_at_, x_row_, packed_, at_ = args
        first, target = (
            array_address(context, b, x, x_, x_at_),
            array_address(context, b, packed, packed_, at_),
        )
        last = b.sub(rows_, I64(1))
        sources = []
        for row in range(whole):
            real = b.select(b.icmp_signed("<", I64(row), last), I64(row), last)
            sources.append(b.gep(first, [b.mul(b.mul(real, x_row_), I64(item))], source_etype=I8))
        with cgutils.for_range(b, factors_, intp=I64) as loop:
            to = b.gep(target, [b.mul(loop.index, I64(4 * whole))], source_etype=I8)
            for row, source in enumerate(sources):
                value = b.load(b.gep(source, [b.mul(loop.index, I64(4))], source_etype=I8), typ=I32, align=2)
                place = b.bitcast(b.gep(to, [I64(4 * row)], source_etype=I8), I32.as_pointer())
                b.store(value, place, align=2)
        return context.get_dummy_value()

    i = types.intp
    return types.void(w, i, i, x, i, i, packed, i), generate


@intrinsic
def unpack(typingctx, w, w_at, words, x, out, out_at):  # type: ignore[no-untyped-def]
    """out[out_at ...] = `words` words of a panel as what x multiplies: float32 [k][16], or bf16 [k/2][16][2].

    Nothing where x multiplies w as it is. w_at in words, out_at in words of out.
    """
    operands = operands_between(w.dtype, x.dtype)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        if operands.ready:
            return context.get_dummy_value()
        w_, w_at_, words_, _, out_, out_at_ = args
        source = byte_address(context, b, w, w_, w_at_, WORD_BYTES)
        target = byte_address(context, b, out, out_, out_at_, WORD_BYTES)
        with cgutils.for_range(b, words_, intp=I64) as loop:
            word = operands.load_word(b, b.gep(source, [b.mul(loop.index, I64(WORD_BYTES))], source_etype=I8))
            for i in range(operands.parts):
                place = b.add(b.mul(loop.index, I64(WORD_BYTES * operands.parts)), I64(WORD_BYTES * i))
                value = operands.part(b, word, i)
                to = b.bitcast(b.gep(target, [place], source_etype=I8), value.type.as_pointer())
                b.store(value, to, align=4)
        return context.get_dummy_value()

    integer = types.intp
    return types.void(w, integer, integer, x, out, integer), generate


@intrinsic
def ready(typingctx, w, x, buffer):  # type: ignore[no-untyped-def]
    """w where x multiplies it as it is, else the buffer that it is unpacked to."""
    first = operands_between(w.dtype, x.dtype).ready
    kind = w if first else buffer

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        array = args[0 if first else 2]
        context.nrt.incref(b, kind, array)
        return array

    return kind(w, x, buffer), generate


def _constant_of(value: Any) -> Any:
    @intrinsic
    def constant_of(typingctx, w, x):  # type: ignore[no-untyped-def]
        number = int(value(operands_between(w.dtype, x.dtype)))
        return types.intp(w, x), lambda context, b, signature, args: I64(number)

    return constant_of


is_ready = _constant_of(lambda operands: operands.ready)
k_a_word = _constant_of(lambda operands: operands.k_a_word)
k_a_factor = _constant_of(lambda operands: operands.k_a_factor)
side_by_side = _constant_of(lambda operands: operands.side_by_side)
group_size = _constant_of(lambda operands: operands.group or 1 << 40)  # of k
x_group_size = _constant_of(lambda operands: operands.x_group or 1 << 40)  # of k
x_scale_size = _constant_of(lambda operands: operands.x_scale_size)
