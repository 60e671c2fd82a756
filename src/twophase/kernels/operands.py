"""How a word of a panel becomes factors: the formats of weights, and what multiplies them.

A panel is a stream of words, 32 bits for each of 16 outputs, one word after another along k:

    float32   one k
    bf16      two k, the first in the low half
    int8      four k, byte by byte
    int4      eight k, 2j in nibble j of the low half, 2j + 1 in nibble j of the high half

An integer is taken as it stands in its word's top bits, as q · 2^24 or q · 2^28, which costs a shift and a
mask; its group's scale holds the other power of two. All of them are exact in float32 and in bf16.
"""

from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types

from twophase.kernels.lanes import F32, F32S, FEATURES, I16, I32, I32S, LANES, broadcast, call, integers

HAS_BF16_DOT = bool(FEATURES.get("avx512bf16"))
REGISTERS_A_VECTOR = 1 if FEATURES.get("avx512f") else 2 if FEATURES.get("avx2") else 4
REGISTERS = 32 if FEATURES.get("avx512f") or FEATURES.get("neon") else 16
WORD_BYTES = 4 * LANES
K_A_WORD = {"float32": 1, "bf16": 2, "int8": 4, "int4": 8}
GROUP = {"int8": 128, "int4": 128}  # of k, with one scale an output
FORMATS = {types.float32: "float32", types.uint16: "bf16", types.int8: "int8", types.uint8: "int4"}


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


BF16S = ir.VectorType(_BFloat(), 2 * LANES)
I16_PAIRS = ir.VectorType(I16, 2 * LANES)


def activation_dtype(compute: str) -> np.dtype[Any]:
    """What matrix kernels take as x: bf16 only where the processor multiplies it."""
    return np.dtype(np.uint16 if compute != "float32" and HAS_BF16_DOT else np.float32)


class Operands:
    """Weights of a format against x of a type: a word is `parts` factors, of one k or (bf16 both) of two."""

    def __init__(self, w: Any, x: Any) -> None:
        self.format = FORMATS[w]
        self.dot = self.format != "float32" and x == types.uint16
        self.name = self.format + ("_dot" if self.dot else "")
        self.k_a_word = K_A_WORD[self.format]
        self.parts = self.k_a_word // (2 if self.dot else 1)
        self.group = GROUP.get(self.format, 0)

    @property
    def ready(self) -> bool:
        """Whether a word is a factor as it is."""
        return self.format == "float32" or self.name == "bf16_dot"

    @property
    def unpacked(self) -> "Operands":
        """What many rows multiply with: parts that need no conversion."""
        return Operands(types.uint16, types.uint16) if self.dot else Operands(types.float32, types.float32)

    def max_rows(self, panels: int) -> int:
        """Rows of a tile whose sums, with a word, a part and one x, stay in registers."""
        operands = panels if self.ready else 2
        free = REGISTERS - 1 - REGISTERS_A_VECTOR * operands - (not self.ready and REGISTERS == 16)
        return max(1, min(16, free // (REGISTERS_A_VECTOR * panels)))

    def load_word(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return b.load(address, typ=F32S if self.format == "float32" else I32S, align=4)

    def part(self, b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
        """Factor i of a word, in every lane."""
        if self.format == "float32":
            return word
        if not self.dot:
            return self.widened(b, word, i)
        if self.format == "bf16":
            return word
        if self.format == "int4" and FEATURES.get("avx512bw"):
            return _looked_up(b, word, i)
        even, odd = (b.bitcast(self.widened(b, word, 2 * i + j), I32S) for j in (0, 1))
        return b.or_(b.lshr(even, integers(16)), odd)

    def widened(self, b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
        """float32 of k number i of words, or of one: it is moved to the top bits."""
        bits, one = 32 // self.k_a_word, word.type == I32
        if self.format == "float32":
            return b.bitcast(word, F32 if one else F32S)
        place = (i // 2 * 4 + i % 2 * 16) if self.format == "int4" else i * bits
        up, mask = 32 - bits - place, (1 << 32) - (1 << (32 - bits))
        moved = b.shl(word, I32(up) if one else integers(up)) if up else word
        top = b.and_(moved, I32(mask) if one else integers(mask)) if place else moved
        return (b.bitcast if self.format == "bf16" else b.sitofp)(top, F32 if one else F32S)

    def load_x(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        if self.dot:
            return broadcast(b, b.load(address, typ=I32, align=2), I32S)
        return broadcast(b, b.load(address, typ=F32, align=4), F32S)

    def multiply_add(self, b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value) -> ir.Value:
        if self.dot:
            pairs = b.bitcast(w, BF16S), b.bitcast(x, BF16S)
            return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", total, *pairs)
        return call(b, "llvm.fma.v16f32", x, w, total)


def _looked_up(b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
    """bf16 of q · 2^28 for nibble i of every half: a table of 16, twice, permuted by the low 5 bits."""
    values = np.array([(q - 16 * (q > 7)) * 2.0**28 for q in (*range(16), *range(16))], np.float32)
    table = ir.Constant(I16_PAIRS, [int(bits) >> 16 for bits in values.view(np.uint32)])
    index = b.bitcast(word, I16_PAIRS)
    if i:
        index = b.lshr(index, ir.Constant(I16_PAIRS, [4 * i] * 2 * LANES))
    return b.bitcast(call(b, "llvm.x86.avx512.permvar.hi.512", table, index, returns=I16_PAIRS), I32S)


@cache
def operands_of(w: np.dtype[Any], x: np.dtype[Any]) -> Operands:
    """Of arrays with these element types."""
    return Operands(numba.from_dtype(w), numba.from_dtype(x))
