"""Few rows: the panels stream by once, in order, converted in registers."""

from typing import Any

import numpy as np
from numba import prange

from twophase.kernels.blocks import EXPERT, FIRST_ROW, LAST_ROW
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, next_task, splat, store
from twophase.kernels.panel_tiles import direct_tile, group_size, k_a_word, max_rows_of_pairs


@kernel()
def multiply_tile(
    x: Any, w: Any, scales: Any, y: Any, row: int, rows: int, before: int, first: int, last: int
) -> None:
    """y[row : row + rows] += x · panels first..last, which lie behind `before` others; whole k at once."""
    n, k = y.shape[1], x.shape[1]
    words, groups = k // k_a_word(w, x), -(-k // group_size(w, x))
    p = first
    if rows == 1:
        while p + 4 <= last:
            at = before + p
            direct_tile(
                1, words, w, (at * words, (at + 1) * words, (at + 2) * words, (at + 3) * words),
                scales, (at * groups, (at + 1) * groups, (at + 2) * groups, (at + 3) * groups),
                x, row * k, k, y, row * n + p * LANES, n,
            )  # fmt: skip
            p += 4
    if rows <= max_rows_of_pairs(w, x):
        while p + 2 <= last:
            at = before + p
            direct_tile(
                rows, words, w, (at * words, (at + 1) * words), scales, (at * groups, (at + 1) * groups),
                x, row * k, k, y, row * n + p * LANES, n,
            )  # fmt: skip
            p += 2
    while p < last:
        at = before + p
        direct_tile(
            rows, words, w, (at * words,), scales, (at * groups,),
            x, row * k, k, y, row * n + p * LANES, n,
        )  # fmt: skip
        p += 1


@kernel()
def multiply_few(
    x: Any, w: Any, scales: Any, bias: Any, blocks: Any, step: int, y: Any, counter: Any
) -> None:
    """Take `step` panels of a block of rows at a time until none is left."""
    panels = y.shape[1] // LANES
    tasks = len(blocks) * -(-panels // step)
    task = next_task(counter)
    while task < tasks:
        block, first = task % len(blocks), task // len(blocks) * step
        last = min(panels, first + step)
        row, end = blocks[block, FIRST_ROW], blocks[block, LAST_ROW]
        for p in range(first, last):
            start = load(bias, p * LANES) if bias.size else splat(np.float32(0))
            for r in range(row, end):
                store(y, r * y.shape[1] + p * LANES, start)
        multiply_tile(x, w, scales, y, row, end - row, blocks[block, EXPERT] * panels, first, last)
        task = next_task(counter)


@kernel(parallel=True)
def few_rows(
    x: Any, w: Any, scales: Any, bias: Any, blocks: Any, step: int, y: Any, counter: Any, threads: int
) -> None:
    """y = x · w + bias for blocks of at most max_rows rows; `step` panels are a task."""
    for _ in prange(threads):
        multiply_few(x, w, scales, bias, blocks, step, y, counter)
