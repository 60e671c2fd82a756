"""Weights into panels, the one layout that both phases read, in any of the formats.

A panel holds 16 outputs, word by word along k (operands.py); a quantised one has a scale for each group of k.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from twophase.kernels.lanes import LANES
from twophase.kernels.operands import A8, GROUP

CACHE_LINE = 64
DTYPES = {"bf16": np.uint16, "float32": np.float32, "int8": np.int8, "int4": np.uint8}
DTYPES |= {form + A8: DTYPES[form] for form in ("int8", "int4")}
FORMATS = tuple(DTYPES)
BITS = {"bf16": 16, "float32": 32, "int8": 8, "int4": 4, "int8-a8": 8, "int4-a8": 4}


class Panels(NamedTuple):
    """A matrix [n, k] in panels of 16 outputs, flat, and the scales of its groups where it is quantised."""

    values: NDArray[Any]  # uint16 (bf16), float32, int8, uint8 (int4, two to a byte)
    scales: NDArray[Any]  # bf16 bits [n/16][groups][16]; empty for bf16 and float32
    x_bits: int = 16  # that rows are rounded to which meet integers


def padded(size: int) -> int:
    """The next multiple of 16: what a row or a panel takes."""
    return -(-size // LANES) * LANES


def aligned(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialised array that begins on a cache line: NumPy's begin 16 bytes behind one, and every
    vector of a panel would lie across two."""
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    raw = np.empty(size * np.dtype(dtype).itemsize + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : len(raw) - CACHE_LINE + start].view(dtype).reshape(shape)


def x_bits(format: str) -> int:
    """What rows are rounded to that meet weights of a quantised format."""
    return 8 if format.endswith(A8) else 16


def panel_sizes(n: int, k: int, format: str) -> tuple[int, int]:
    """Elements of `values` and of `scales` of a matrix [n, k]."""
    scales = n * -(-k // GROUP[format]) if format in GROUP else 0
    return n * k * BITS[format] // (8 * np.dtype(DTYPES[format]).itemsize), scales


def panel_bytes(n: int, k: int, format: str) -> int:
    """What a matrix [n, k] takes, its scales included: 8.125 bits a weight in int8, 4.5 in int4."""
    return n * k * BITS[format] // 8 + 2 * panel_sizes(n, k, format)[1]


def panel_rows(panels: Panels, first: int, last: int, n: int) -> Panels:
    """Views of rows first..last, multiples of 16, of a matrix of n rows."""
    values, scales = (
        array[array.size // n * first : array.size // n * last]  # size: whole rows
        for array in (panels.values, panels.scales)
    )
    return Panels(values, scales, panels.x_bits)


def pack_panels(matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the panels of a matrix [n, k], both multiples of 16, to the flat `out`.

    uint16 (bf16 bits): [n/16][k/2][16][2]; float32: [n/16][k][16].
    """
    n = len(matrix)
    words = np.ascontiguousarray(matrix).view(np.uint32)  # a pair of bf16, or one float32
    panels = words.reshape(n // LANES, LANES, -1).transpose(0, 2, 1)
    out.view(np.uint32).reshape(panels.shape)[...] = panels
