"""Runs tests as on a processor with AVX512-BF16: the dot product is emulated, the rest is what runs there.

python tests/kernels/emulated_dot.py tests/kernels/test_linear.py ...
"""

import sys
from typing import Any

import pytest
from llvmlite import ir

from twophase.kernels import tile
from twophase.kernels.lanes import F32S, I32, I32S, broadcast, call, integers

tile.HAS_BF16_DOT = True
real_load_w, real_load_x = tile.Operands.load_w, tile.Operands.load_x
real_multiply_add = tile.Operands.multiply_add


def load_w(self: tile.Operands, b: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
    return [b.load(address, typ=I32S, align=4)] if self.dot else real_load_w(self, b, address)


def load_x(self: tile.Operands, b: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
    if not self.dot:
        return real_load_x(self, b, address)
    return [broadcast(b, b.load(address, typ=I32, align=2), I32S)]


def multiply_add(self: tile.Operands, b: ir.IRBuilder, w: Any, x: Any, total: ir.Value) -> ir.Value:
    """Odd elements, then even ones, each rounded (Intel's description of VDPBF16PS, but for subnormals)."""
    if not self.dot:
        return real_multiply_add(self, b, w, x, total)
    for half in (
        lambda pair: b.and_(pair, integers(0xFFFF0000)),
        lambda pair: b.shl(pair, integers(16)),
    ):
        total = call(b, "llvm.fma.v16f32", b.bitcast(half(x[0]), F32S), b.bitcast(half(w[0]), F32S), total)
    return total


tile.Operands.load_w, tile.Operands.load_x = load_w, load_x  # type: ignore[method-assign]
tile.Operands.multiply_add = multiply_add  # type: ignore[method-assign]

if __name__ == "__main__":
    assert tile.activation_dtype("bf16").itemsize == 2
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
