"""Weights into panels, the one layout that both phases read, and float32 into bf16."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.lanes import LANES


def padded(size: int) -> int:
    """The next multiple of 16: what a row or a panel takes."""
    return -(-size // LANES) * LANES


def pack_panels(matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the panels of a matrix [n, k], both multiples of 16, to the flat `out`.

    uint16 (bf16 bits): [n/16][k/2][16][2]; float32: [n/16][k][16].
    """
    n = len(matrix)
    words = np.ascontiguousarray(matrix).view(np.uint32)  # a pair of bf16, or one float32
    panels = words.reshape(n // LANES, LANES, -1).transpose(0, 2, 1)
    out.view(np.uint32).reshape(panels.shape)[...] = panels
