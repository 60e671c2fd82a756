"""Weights of 8 or 4 bits against rows rounded to 8 bits: four products of bytes are one factor of a word.

A word's factor i holds, in its four bytes, the k that lie there as panels are packed (operands.py), and x is
stored in that order (`order_of_k`), so that both meet as they stand. Sums of a group are exact on every
processor, and so the same:

    AVX512-VNNI   unsigned bytes of weights, offset by 8 or 128, times x, four and four, into int32
    AVX2, int4    nibbles 0..15 times x, pairs of pairs in int16: no more than 8 · 2 · 15 · 127 = 30480
    AVX2, int8    |x| times weights of x's sign, so that no pair exceeds 2 · 127 · 127 = 32258, into int32
    others        four products by shifts

What the offset adds is taken out beforehand: a group's sum starts at -offset · Σx (`start`), which is rounded
along with x.
"""

from typing import Any

from llvmlite import ir
from numba import types

from twophase.kernels import operands as ours
from twophase.kernels.lanes import FEATURES, I8, I16, I32, I32S, LANES, broadcast, call, integers
from twophase.kernels.operands import FORMATS, GROUP, HAS_INT16_DOT, I16_PAIRS, K_A_WORD, X_GROUP, Operands

HAS_BYTE_DOT = HAS_INT16_DOT  # AVX512-VNNI has both
HAS_BYTE_PAIRS = bool(FEATURES.get("avx2"))
BYTES = 4  # of a factor
NIBBLES = 0x0F0F0F0F
NIBBLE_SIGNS, BYTE_SIGNS = 0x88888888, 0x80808080  # which add 8 or 128 to two's complement
OFFSET = {"int4": 8, "bytes": 8, "int8": 0}  # of what is multiplied, but for int8 as unsigned bytes
HALF_BYTES = ir.VectorType(I8, 2 * LANES)
HALF_PAIRS = ir.VectorType(I16, LANES)
HALF = ir.VectorType(I32, LANES // 2)


class ByteOperands(Operands):
    """x: int8, in the order of `order_of_k`. Weights that are "bytes" are int4 unpacked, 0..15 each."""

    def __init__(self, w: Any) -> None:
        self.format = FORMATS[w]
        self.integer, self.dot = True, False
        self.ready = self.format != "int4"
        self.name = self.format + "_a8"
        self.k_a_word, self.k_a_factor = K_A_WORD[self.format], BYTES
        self.parts = self.k_a_word // BYTES
        self.group = GROUP.get(self.format, X_GROUP)
        self.x_group, self.x_scale_size, self.x_groups = X_GROUP, 2, self.group // X_GROUP
        self.in_pairs = HAS_BYTE_PAIRS and not HAS_BYTE_DOT and self.format != "int8"
        self.sum_type = I16_PAIRS if self.in_pairs else I32S
        self.offset = 128 if HAS_BYTE_DOT and self.format == "int8" else OFFSET[self.format]

    @property
    def unpacked(self) -> Operands:
        return self if self.ready else ByteOperands(types.uint32)

    def max_rows(self, panels: int) -> int:
        """Rows of a tile whose sums, with words and parts, x, products and constants, stay in registers."""
        a_vector = ours.REGISTERS_A_VECTOR  # where these are several, a part's products come one by one
        others = 4 if self.format == "int8" else 2 if self.ready else 3
        if a_vector == 1:
            others = 6 if self.ready else 9
        vectors = panels if self.ready else 2 * panels
        return max(1, min(16, (ours.REGISTERS - others) // a_vector // panels - vectors // panels))

    def order_of_k(self) -> list[int]:
        """Which k of a word each byte of its factors holds, factor by factor."""
        return [
            2 * (byte % 2 * self.parts + i) + byte // 2 for i in range(self.parts) for byte in range(BYTES)
        ]

    def load_word(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return b.load(address, typ=I32S, align=4)

    def part(self, b: ir.IRBuilder, word: ir.Value, i: int) -> ir.Value:
        if self.format == "int4":
            word = b.xor(word, integers(NIBBLE_SIGNS))
            return b.and_(b.lshr(word, integers(4)) if i else word, integers(NIBBLES))
        return b.xor(word, integers(BYTE_SIGNS)) if self.offset == 128 else word

    def load_x(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return broadcast(b, b.load(address, typ=I32, align=4), I32S)

    def start(self, b: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
        """32 bits to start the sums of a group at, from the sums of x over even k and over odd k."""
        offset = I32(-self.offset)
        if self.in_pairs:  # even k lie in the low half of a word
            low, high = (b.mul(each, offset) for each in (even, odd))
            return b.or_(b.and_(low, I32(0xFFFF)), b.shl(high, I32(16)))
        return b.mul(b.add(even, odd), offset)

    def load_start(self, b: ir.IRBuilder, address: ir.Value) -> ir.Value:
        return b.bitcast(self.load_x(b, address), self.sum_type) if self.offset else integers(0)

    def multiply_add(self, b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value) -> ir.Value:
        if HAS_BYTE_DOT:
            return call(b, "llvm.x86.avx512.vpdpbusd.512", total, w, x, returns=I32S)
        if HAS_BYTE_PAIRS:
            kind, each = (HALF_PAIRS, 2 * LANES) if self.in_pairs else (HALF, LANES)
            sums = [
                _add(b, _half(b, total, i, kind), self._products(b, *(_half(b, v, i, HALF) for v in (w, x))))
                for i in range(2)
            ]
            return b.shuffle_vector(*sums, ir.Constant(ir.VectorType(I32, each), list(range(each))))
        for i in range(BYTES):
            up = integers(8 * (BYTES - 1 - i))
            w_byte, x_byte = (b.ashr(b.shl(each, up), integers(24)) for each in (w, x))
            total = b.add(total, b.mul(w_byte, x_byte))
        return total

    def _products(self, b: ir.IRBuilder, w: ir.Value, x: ir.Value) -> ir.Value:
        """Of half the lanes on AVX2: sums of pairs in int16, or of four in int32."""
        w, x = b.bitcast(w, HALF_BYTES), b.bitcast(x, HALF_BYTES)
        if self.in_pairs:
            return call(b, "llvm.x86.avx2.pmadd.ub.sw", w, x, returns=HALF_PAIRS)
        signed = call(b, "llvm.x86.avx2.psign.b", w, x, returns=HALF_BYTES)
        size = call(b, "llvm.abs.v32i8", x, ir.IntType(1)(0), returns=HALF_BYTES)
        return _sum_of_pairs(b, call(b, "llvm.x86.avx2.pmadd.ub.sw", size, signed, returns=HALF_PAIRS))

    def total(self, b: ir.IRBuilder, sums: ir.Value) -> ir.Value:
        """A group's sums in int32."""
        if not self.in_pairs:
            return sums
        halves = [_sum_of_pairs(b, _half(b, sums, i, HALF_PAIRS)) for i in range(2)]
        return b.shuffle_vector(*halves, ir.Constant(I32S, list(range(LANES))))


def _half(b: ir.IRBuilder, vector: ir.Value, i: int, kind: ir.VectorType) -> ir.Value:
    places = ir.VectorType(I32, kind.count)
    first = i * kind.count
    return b.shuffle_vector(vector, vector, ir.Constant(places, list(range(first, first + kind.count))))


def _sum_of_pairs(b: ir.IRBuilder, pairs: ir.Value) -> ir.Value:
    ones = ir.Constant(HALF_PAIRS, [1] * LANES)
    return call(b, "llvm.x86.avx2.pmadd.wd", pairs, ones, returns=HALF)


def _add(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """An addition that LLVM doesn't see into (operands.pair_products)."""
    name = "vpaddw" if x.type == HALF_PAIRS else "vpaddd"
    return b.asm(ir.FunctionType(x.type, [x.type, x.type]), f"{name} $2, $1, $0", "=x,x,x", [x, y], False)
