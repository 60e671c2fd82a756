"""One row of a matrix out of its panels: what an embedding takes."""

from typing import Any

from numba import types

from twophase.kernels.compiling import intrinsic, kernel
from twophase.kernels.lanes import F32, I32, I64, LANES, get
from twophase.kernels.operands import FORMATS, GROUP, K_A_WORD, k_of_a_word
from twophase.kernels.panel_tiles import byte_address


@intrinsic
def word_values(typingctx, w, at, out, out_at):  # type: ignore[no-untyped-def]
    """out[out_at ...] = float32 of every k of word `at`, counted in single words of 32 bits."""
    format = FORMATS[w.dtype]
    count = K_A_WORD[format]
    bits = 32 // count

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        w_, at_, out_, out_at_ = args
        word = b.load(byte_address(context, b, w, w_, at_, 4), typ=I32, align=4)
        for i in range(count):
            up = 32 - bits - (i // 2 * bits + i % 2 * 16)
            top = b.shl(word, I32(up)) if up else word
            if format in GROUP:
                value = b.sitofp(b.ashr(top, I32(32 - bits)), F32)
            else:
                value = b.bitcast(top if up or bits == 32 else b.and_(top, I32(0xFFFF0000)), F32)
            place = byte_address(context, b, out, out_, b.add(out_at_, I64(i)), 4)
            b.store(value, b.bitcast(place, F32.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(w, types.intp, out, types.intp), generate


@intrinsic
def k_of_a_group(typingctx, w):  # type: ignore[no-untyped-def]
    count = GROUP.get(FORMATS[w.dtype], 1 << 40)
    return types.intp(w), lambda context, b, signature, args: I64(count)


@kernel
def gather_row(w: Any, scales: Any, row: int, k: int, out: Any, out_at: int) -> None:
    """out[out_at : out_at + k] = row `row` of the matrix [n, k] in these panels, in whichever format."""
    each, group = k_of_a_word(w), k_of_a_group(w)
    panel, lane = row // LANES, row % LANES
    for word in range(k // each):
        word_values(w, (panel * (k // each) + word) * LANES + lane, out, out_at + word * each)
    if scales.size:
        groups = -(-k // group)
        for number in range(groups):
            scale = get(scales, (panel * groups + number) * LANES + lane)
            for i in range(number * group, min(k, (number + 1) * group)):
                out[out_at + i] *= scale
