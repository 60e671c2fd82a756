"""Runs tests as on a processor with AVX512-VNNI, its dot product of bytes emulated; or with no such thing.

python tests/kernels/emulated_bytes.py vnni|plain tests/kernels/test_linear.py ...
"""

import sys

import pytest
from llvmlite import ir

from twophase.kernels import byte_operands
from twophase.kernels.lanes import integers


def multiply_add(
    self: byte_operands.ByteOperands, b: ir.IRBuilder, w: ir.Value, x: ir.Value, total: ir.Value
) -> ir.Value:
    """Unsigned bytes of w times signed ones of x, four and four (Intel's description of VPDPBUSD)."""
    for i in range(4):
        w_byte = b.and_(b.lshr(w, integers(8 * i)), integers(255))
        x_byte = b.ashr(b.shl(x, integers(24 - 8 * i)), integers(24))
        total = b.add(total, b.mul(w_byte, x_byte))
    return total


if __name__ == "__main__":
    processor, *arguments = sys.argv[1:]
    byte_operands.HAS_BYTE_DOT = processor == "vnni"
    if processor == "vnni":
        byte_operands.ByteOperands.multiply_add = multiply_add  # type: ignore[method-assign]
    else:
        byte_operands.HAS_BYTE_PAIRS = False
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *arguments]))
