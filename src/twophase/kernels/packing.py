"""Weights into panels: the one layout that both phases read."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.lanes import LANES


def padded(size: int) -> int:
    """The next multiple of 16: what a row or a panel takes."""
    return -(-size // LANES) * LANES


def pack_panels(matrix: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Panels of a matrix [n, k], zero-padded to multiples of 16, flat.

    uint16 (bf16 bits): [n/16][k/2][16][2]; float32: [n/16][k][16]. `out`: where to put them.
    """
    n, k = matrix.shape
    pair = 2 if matrix.dtype == np.uint16 else 1
    if (padded(n), padded(k)) != (n, k):
        whole = np.zeros((padded(n), padded(k)), matrix.dtype)
        whole[:n, :k] = matrix
        return pack_panels(whole, out)
    panels = matrix.reshape(n // LANES, LANES, k // pair, pair).transpose(0, 2, 1, 3)
    if out is None:
        out = np.empty(n * k, matrix.dtype)
    out.reshape(panels.shape)[...] = panels
    return out
