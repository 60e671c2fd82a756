"""y = x · Wᵀ (+ bias), for any number of rows, from one packed layout of W."""

from typing import Any

import numpy as np
from numba import prange

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, next_task, splat, store
from twophase.kernels.tile import PANELS, max_rows, max_rows_of_pairs, tile

K_BLOCK = 256  # of a panel: with a tile of x, what stays in the first-level cache
TASKS_A_THREAD = 8
ROW_BLOCK = 64  # of x: what stays in the second-level cache while the panels pass by


@kernel()
def panel_rows(w: Any, x: Any, y: Any, k: int, first: int, last: int, row: int, rows: int) -> None:
    """A few rows of x against panels first..last, whole k at once: W is read once, in order."""
    n = y.shape[1]
    p = first
    if rows == 1:
        while p + 4 <= last:
            at = (p * LANES * k, (p + 1) * LANES * k, (p + 2) * LANES * k, (p + 3) * LANES * k)
            tile(1, k, w, at, x, row * k, k, y, row * n + p * LANES, n, 1)
            p += 4
    if rows <= max_rows_of_pairs(w, x):
        while p + 2 <= last:
            at2 = (p * LANES * k, (p + 1) * LANES * k)
            tile(rows, k, w, at2, x, row * k, k, y, row * n + p * LANES, n, 1)
            p += 2
    while p < last:
        tile(rows, k, w, (p * LANES * k,), x, row * k, k, y, row * n + p * LANES, n, 1)
        p += 1


@kernel()
def panel_block(w: Any, x: Any, y: Any, k: int, first: int, last: int, row: int, end: int, most: int) -> None:
    """Many rows: a block of each panel's k stays in cache while all tiles of rows pass it."""
    n = y.shape[1]
    p = first
    while p < last:
        side = PANELS if p + PANELS <= last else 1
        for k0 in range(0, k, K_BLOCK):
            depth = min(K_BLOCK, k - k0)
            tiles = (end - row + most - 1) // most
            for i in range(tiles):
                r = row + (end - row) * i // tiles
                rows = row + (end - row) * (i + 1) // tiles - r
                if side == 2:
                    at2 = (p * LANES * k + k0 * LANES, (p + 1) * LANES * k + k0 * LANES)
                    tile(rows, depth, w, at2, x, r * k + k0, k, y, r * n + p * LANES, n, 1)
                else:
                    tile(
                        rows,
                        depth,
                        w,
                        (p * LANES * k + k0 * LANES,),
                        x,
                        r * k + k0,
                        k,
                        y,
                        r * n + p * LANES,
                        n,
                        1,
                    )
        p += side


@kernel()
def panels(x: Any, w: Any, bias: Any, y: Any, first: int, last: int) -> None:
    """Outputs of panels first..last, for all rows."""
    rows, k = x.shape
    most = max_rows(w, x)
    for row in range(rows):
        for p in range(first, last):
            start = load(bias, p * LANES) if bias.size else splat(np.float32(0))
            store(y, row * y.shape[1] + p * LANES, start)
    if rows <= most:
        panel_rows(w, x, y, k, first, last, 0, rows)
    else:
        for row in range(0, rows, ROW_BLOCK):
            panel_block(w, x, y, k, first, last, row, min(rows, row + ROW_BLOCK), most)


@kernel()
def tasks_of_panels(x: Any, w: Any, bias: Any, y: Any, size: int, counter: Any) -> None:
    """Take `size` panels at a time until none is left."""
    count = y.shape[1] // LANES
    first = next_task(counter) * size
    while first < count:
        panels(x, w, bias, y, first, min(count, first + size))
        first = next_task(counter) * size


@kernel(parallel=True)
def linear(x: Any, w: Any, bias: Any, y: Any, threads: int) -> None:
    """y[rows, n] = x[rows, k] · w + bias.

    x: float32 or bf16; w: panels of [n, k], flat; bias: [n], or empty; y: float32. n a multiple of 16.
    """
    counter = np.zeros(1, np.int64)
    size = max(1, min(32, y.shape[1] // LANES // (TASKS_A_THREAD * threads) // 4)) * 4
    for _ in prange(threads):
        tasks_of_panels(x, w, bias, y, size, counter)
