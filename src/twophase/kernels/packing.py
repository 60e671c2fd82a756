"""Weights into panels, the one layout that both phases read, and float32 into bf16."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from twophase.kernels.lanes import LANES

CACHE_LINE = 64


class Panels(NamedTuple):
    """A matrix [n, k] in panels of 16 outputs, flat, and the scales of its groups where it is quantised."""

    values: NDArray[Any]
    scales: NDArray[Any]  # empty for bf16 and float32


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


def pack_panels(matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the panels of a matrix [n, k], both multiples of 16, to the flat `out`.

    uint16 (bf16 bits): [n/16][k/2][16][2]; float32: [n/16][k][16].
    """
    n = len(matrix)
    words = np.ascontiguousarray(matrix).view(np.uint32)  # a pair of bf16, or one float32
    panels = words.reshape(n // LANES, LANES, -1).transpose(0, 2, 1)
    out.view(np.uint32).reshape(panels.shape)[...] = panels
