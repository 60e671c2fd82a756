"""Runs tests as on a processor with AVX512-BF16: the dot product is emulated, the rest is what runs there.

python tests/kernels/emulated_dot.py tests/kernels/test_linear.py ...
"""

import sys

import pytest
from llvmlite import ir

from twophase.kernels import operands, tile
from twophase.kernels.lanes import F32S, call, integers

operands.HAS_BF16_DOT = tile.HAS_BF16_DOT = True
real_multiply_add = operands.Operands.multiply_add


def multiply_add(
    self: operands.Operands, b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value
) -> ir.Value:
    """Odd elements, then even ones, each rounded (Intel's description of VDPBF16PS, but for subnormals)."""
    if not self.dot:
        return real_multiply_add(self, b, w, x, total)
    for half in (
        lambda pair: b.and_(pair, integers(0xFFFF0000)),
        lambda pair: b.shl(pair, integers(16)),
    ):
        total = call(b, "llvm.fma.v16f32", b.bitcast(half(x), F32S), b.bitcast(half(w), F32S), total)
    return total


operands.Operands.multiply_add = multiply_add  # type: ignore[method-assign]

if __name__ == "__main__":
    assert tile.activation_dtype("bf16").itemsize == 2
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
