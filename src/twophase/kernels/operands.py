"""How a word of a panel becomes factors: the formats of weights, and what multiplies them.

A panel is a stream of words, 32 bits for each of 16 outputs, one word after another along k:

    float32   one k
    bf16      two k, the first in the low half
    int8      four k: 2j in byte j of the low half, 2j + 1 in byte j of the high half
    int4      eight k: 2j in nibble j of the low half, 2j + 1 in nibble j of the high half

bf16 meets rows of float32, or of bf16 where the processor multiplies these. Integers meet rows rounded to 16
bits by groups of k: pairs of products are summed exactly, in int32, and only a group's sum is scaled; or to
8 bits (byte_operands.py).

Pages of KV in int8 hold their four k in order and meet float32 or bf16, in which q · 2^24 is exact: as it
stands in a word's top bits, which costs a shift and a mask.
"""

from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types

from twophase.kernels.compiling import intrinsic
from twophase.kernels.lanes import F32, F32S, FEATURES, I16, I32, I32S, I64, LANES, broadcast, call, integers

HAS_BF16_DOT = bool(FEATURES.get("avx512bf16"))
HAS_INT16_DOT = bool(FEATURES.get("avx512vnni"))
REGISTERS_A_VECTOR = 1 if FEATURES.get("avx512f") else 2 if FEATURES.get("avx2") else 4
REGISTERS = 32 if FEATURES.get("avx512f") or FEATURES.get("neon") else 16
WORD_BYTES = 4 * LANES
K_A_WORD = {"float32": 1, "bf16": 2, "int16": 2, "bytes": 4, "int8": 4, "int4": 8}
GROUP = {"int8": 128, "int4": 32}  # of k, with one scale an output
A8 = "-a8"  # behind a format: rows that meet its integers are rounded to 8 bits, not 16
GROUP |= {form + A8: group for form, group in GROUP.items()}
X_GROUP = 32  # of k, with one scale a row, where rows are rounded to 8 bits
FORMATS = {
    types.float32: "float32",
    types.uint16: "bf16",
    types.int16: "int16",  # what integers are unpacked to
    types.int8: "int8",
    types.uint8: "int4",
    types.uint32: "bytes",  # what int4 is unpacked to where rows are rounded to 8 bits
}


class _BFloat(ir.Type):
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash("bfloat")


BF16S = ir.VectorType(_BFloat(), 2 * LANES)
EIGHT = ir.VectorType(I32, LANES // 2)
I16_PAIRS = ir.VectorType(I16, 2 * LANES)


def activation_dtype(compute: str) -> np.dtype[Any]:
    """What matrix kernels take as x: bf16 only where the processor multiplies it."""
    return np.dtype(np.uint16 if compute == "bf16" and HAS_BF16_DOT else np.float32)


class Operands:
    """Weights of a format against x of a type: a word is `parts` factors, of one k or of a pair."""

    def __init__(self, w: Any, x: Any) -> None:
        self.format = FORMATS[w]
        self.integer = x == types.int16
        self.dot = x == types.uint16
        # a word is a factor as it is
        self.ready = self.format in ("float32", "int16") or (self.dot and self.format == "bf16")
        self.name = self.format + ("_dot" if self.dot else "")
        self.k_a_word = K_A_WORD[self.format]
        self.k_a_factor = 1 if x == types.float32 else 2
        self.parts = self.k_a_word // self.k_a_factor
        self.group = GROUP.get(self.format, 0) if self.integer else 0
        self.sum_type = I32S if self.integer else F32S
        # of k, with one scale of x; the 32-bit words that this takes; how many there are to one of w
        self.x_group, self.x_scale_size, self.x_groups = self.group, 1, 1

    @property
    def side_by_side(self) -> int:
        """Panels that one row takes at once: chains of float32 sums take several, but one stream reads best.

        Of int4, whose panels are the shortest, one: a tenth faster than four, from memory.
        """
        return 1 if self.integer and self.format == "int4" else 4

    @property
    def unpacked(self) -> "Operands":
        """What many rows multiply with: parts that need no conversion."""
        if self.ready:
            return self
        plain = types.uint16 if self.dot else types.int16 if self.integer else types.float32
        return Operands(plain, plain)

    def max_rows(self, panels: int) -> int:
        """Rows of a tile whose sums, with a word, a part, a product and one x, stay in registers."""
        vectors = panels if self.ready else 2
        vectors += self.integer and not HAS_INT16_DOT
        spare = 1 if self.ready or self.integer else 1 + (REGISTERS == 16)
        free = REGISTERS - spare - REGISTERS_A_VECTOR * vectors
        if self.integer and REGISTERS_A_VECTOR == 2:
            free += 1  # one half of a vector's products at a time
        return max(1, min(16, free // (REGISTERS_A_VECTOR * panels)))

    def load_word(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return b.load(address, typ=F32S if self.format == "float32" else I32S, align=4)

    def part(self, b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
        """Factor i of a word, in every lane."""
        if self.ready:
            return word
        if self.integer:
            bits, halves = 32 // self.k_a_word, b.bitcast(word, I16_PAIRS)
            up = 16 - bits * (i + 1)
            if up:
                halves = b.shl(halves, _constant(up))
            return b.bitcast(b.ashr(halves, _constant(16 - bits)), I32S)
        if self.k_a_factor == 1:
            return self._widened(b, word, i)
        even, odd = (b.bitcast(self._widened(b, word, 2 * i + j), I32S) for j in (0, 1))
        return b.or_(b.lshr(even, integers(16)), odd)

    def _widened(self, b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
        """float32 of k number i, moved to its word's top bits."""
        bits = 32 // self.k_a_word
        up = 32 - bits * (i + 1)
        moved = b.shl(word, integers(up)) if up else word
        top = b.and_(moved, integers((1 << 32) - (1 << (32 - bits)))) if i else moved
        return b.bitcast(top, F32S) if self.format == "bf16" else b.sitofp(top, F32S)

    def load_x(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        if self.k_a_factor == 2:
            return broadcast(b, b.load(address, typ=I32, align=2), I32S)
        return broadcast(b, b.load(address, typ=F32, align=4), F32S)

    def multiply_add(self, b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value) -> ir.Value:
        if self.dot:
            pairs = b.bitcast(w, BF16S), b.bitcast(x, BF16S)
            return call(b, "llvm.x86.avx512bf16.dpbf16ps.512", total, *pairs)
        if self.integer:
            return pair_products(b, w, x, total)
        return call(b, "llvm.fma.v16f32", x, w, total)

    def load_start(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        """What the sums of a group start at, which lies behind a scale of x where it isn't 0."""
        return integers(0)

    def total(self, b: ir.IRBuilder, sums: ir.Value) -> ir.Value:
        """A group's sums, in int32."""
        return sums


# An addition that LLVM doesn't see into: it would first gather a chain's products, in memory.
binding.initialize_native_asmparser()
ADD_TYPE = ir.FunctionType(EIGHT, [EIGHT, EIGHT])


def _constant(value: int) -> ir.Constant:
    return ir.Constant(I16_PAIRS, [value] * 2 * LANES)


def pair_products(b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value) -> ir.Value:
    """total + low half · low half + high half · high half of signed 16-bit pairs; exact."""
    if HAS_INT16_DOT:
        return call(b, "llvm.x86.avx512.vpdpwssd.512", total, w, x, returns=I32S)
    if FEATURES.get("avx2"):
        w, x = b.bitcast(w, I16_PAIRS), b.bitcast(x, I16_PAIRS)
        sums = []
        for first in (0, LANES // 2):
            low = ir.Constant(I32S, list(range(2 * first, 2 * first + LANES)))
            half = ir.Constant(ir.VectorType(I32, LANES // 2), list(range(first, first + LANES // 2)))
            of_half = [b.shuffle_vector(pairs, pairs, low) for pairs in (w, x)]
            products = call(b, "llvm.x86.avx2.pmadd.wd", *of_half, returns=half.type)
            sums.append(
                b.asm(
                    ADD_TYPE,
                    "vpaddd $2, $1, $0",
                    "=x,x,x",
                    [b.shuffle_vector(total, total, half), products],
                    False,
                )
            )
        return b.shuffle_vector(*sums, ir.Constant(I32S, list(range(LANES))))
    high, sixteen = b.mul(b.ashr(w, integers(16)), b.ashr(x, integers(16))), integers(16)
    low = b.mul(*(b.ashr(b.shl(pair, sixteen), sixteen) for pair in (w, x)))
    return b.add(total, b.add(low, high))


@intrinsic
def k_of_a_word(typingctx, w):  # type: ignore[no-untyped-def]
    """How many k of each lane lie side by side in panels of this type."""
    count = K_A_WORD[FORMATS[w.dtype]]
    return types.intp(w), lambda context, b, signature, args: I64(count)
