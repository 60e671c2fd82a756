"""One row of a matrix out of its panels: what an embedding takes."""

from typing import Any

from numba import types

from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import I32, I64, LANES, get
from twophase.kernels.operands import Operands
from twophase.kernels.panel_tiles import byte_address, group_size, k_a_word


@intrinsic
def word_values(typingctx, w, at, out, out_at):  # type: ignore[no-untyped-def]
    """out[out_at ...] = float32 of every k of word `at`, counted in single words of 32 bits."""
    operands = Operands(w.dtype, types.float32)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        w_, at_, out_, out_at_ = args
        word = b.load(byte_address(context, b, w, w_, at_, 4), typ=I32, align=4)
        for i in range(operands.k_a_word):
            value = operands.widened(b, word, i)
            place = byte_address(context, b, out, out_, b.add(out_at_, I64(i)), 4)
            b.store(value, b.bitcast(place, value.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(w, types.intp, out, types.intp), generate


@kernel()
def gather_row(w: Any, scales: Any, row: int, k: int, out: Any, out_at: int) -> None:
    """out[out_at : out_at + k] = row `row` of the matrix [n, k] in these panels, in whichever format."""
    each, group = k_a_word(w, out), group_size(w, out)
    panel, lane = row // LANES, row % LANES
    for word in range(k // each):
        word_values(w, (panel * (k // each) + word) * LANES + lane, out, out_at + word * each)
    if scales.size:
        groups = -(-k // group)
        for number in range(groups):
            scale = get(scales, (panel * groups + number) * LANES + lane)
            for i in range(number * group, min(k, (number + 1) * group)):
                out[out_at + i] *= scale
