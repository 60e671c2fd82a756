"""Few rows: the panels stream by once, in order, converted in registers by each tile of rows."""

from typing import Any

import numpy as np

from twophase.kernels.blocks import EXPERT, FIRST_ROW, LAST_ROW
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, next_task, splat, store
from twophase.kernels.panel_tiles import (
    direct_tile,
    group_size,
    k_a_word,
    max_rows_of_pairs,
    side_by_side,
    x_group_size,
    x_scale_size,
)
from twophase.kernels.threads import share_out
from twophase.kernels.tile import max_rows

K_BLOCK = 256  # of a panel that stays in the first-level cache while several tiles of rows pass it


@kernel
def multiply_tile(
    x: Any,
    x_scales: Any,
    w: Any,
    scales: Any,
    y: Any,
    row: int,
    rows: int,
    before: int,
    first: int,
    last: int,
) -> None:
    """y[row : row + rows] += x · panels first..last, which lie behind `before` others.

    One tile of rows takes whole panels, one row of most formats several side by side, for sums enough to be
    under way.
    """
    n, k = y.shape[1], x.shape[1]
    words, groups = k // k_a_word(w, x), -(-k // group_size(w, x))
    x_group = x_group_size(w, x)
    x_scales_row = -(-k // x_group) * x_scale_size(w, x)
    p = first
    if rows == 1 and side_by_side(w, x) == 4:
        while p + 4 <= last:
            at = before + p
            direct_tile(
                1, words, w, (at * words, (at + 1) * words, (at + 2) * words, (at + 3) * words),
                scales, (at * groups, (at + 1) * groups, (at + 2) * groups, (at + 3) * groups),
                x, row * k, k, x_scales, row * x_scales_row, x_scales_row, y, row * n + p * LANES, n,
            )  # fmt: skip
            p += 4
    if rows <= max_rows_of_pairs(w, x) and side_by_side(w, x) > 1:
        while p + 2 <= last:
            at = before + p
            direct_tile(
                rows, words, w, (at * words, (at + 1) * words), scales, (at * groups, (at + 1) * groups),
                x, row * k, k, x_scales, row * x_scales_row, x_scales_row, y, row * n + p * LANES, n,
            )  # fmt: skip
            p += 2
    most = max_rows(w, x)
    tiles = -(-rows // most)
    depth = k if tiles == 1 else K_BLOCK
    while p < last:
        at = before + p
        for start in range(0, k, depth):
            part, done = min(depth, k - start) // k_a_word(w, x), 0
            w_at, scale_at = at * words + start // k_a_word(w, x), at * groups + start // group_size(w, x)
            for tile in range(tiles):
                height = rows // tiles + (1 if tile < rows % tiles else 0)
                direct_tile(
                    height, part, w, (w_at,), scales, (scale_at,),
                    x, (row + done) * k + start, k,
                    x_scales, (row + done) * x_scales_row + start // x_group * x_scale_size(w, x),
                    x_scales_row,
                    y, (row + done) * n + p * LANES, n,
                )  # fmt: skip
                done += height
        p += 1


@kernel
def multiply_few(
    _: int, __: int, x: Any, x_scales: Any, w: Any, scales: Any, bias: Any, blocks: Any, ends: Any, y: Any,
    counter: Any,
) -> None:  # fmt: skip
    """Take a share of the panels, for a block of rows, at a time until none is left."""
    panels = y.shape[1] // LANES
    shares = len(ends) - 1
    task = next_task(counter)
    while task < len(blocks) * shares:
        block, share = task // shares, task % shares
        first, last = ends[share], ends[share + 1]
        row, end = blocks[block, FIRST_ROW], blocks[block, LAST_ROW]
        for p in range(first, last):
            start = load(bias, p * LANES) if bias.size else splat(np.float32(0))
            for r in range(row, end):
                store(y, r * y.shape[1] + p * LANES, start)
        multiply_tile(x, x_scales, w, scales, y, row, end - row, blocks[block, EXPERT] * panels, first, last)
        task = next_task(counter)


@kernel
def few_rows(
    x: Any,
    x_scales: Any,
    w: Any,
    scales: Any,
    bias: Any,
    blocks: Any,
    ends: Any,
    y: Any,
    counter: Any,
    threads: int,
) -> None:
    """y = x · w + bias, x: bf16, float32, or integers with scales; a task is panels ends[i]..ends[i + 1]."""
    share_out(multiply_few, threads, threads, (x, x_scales, w, scales, bias, blocks, ends, y, counter))
