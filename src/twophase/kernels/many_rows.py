"""Many rows: x is packed once; a panel's block of k is unpacked into the first-level cache, where all tiles
of a block of rows pass it."""

from typing import Any

import numpy as np

from twophase.kernels.blocks import EXPERT, FIRST_ROW, FIRST_TILE, LAST_ROW
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, next_task, splat, store
from twophase.kernels.panel_tiles import (
    group_size,
    is_ready,
    k_a_factor,
    k_a_word,
    max_packed_rows,
    pack_tile,
    packed_tile,
    ready,
    unpack,
    x_group_size,
    x_scale_size,
)
from twophase.kernels.threads import share_out
from twophase.kernels.tile import PANELS


@kernel
def pack_tiles(
    first: int, last: int, x: Any, w: Any, blocks: Any, tiles: int, depth: int, packed: Any
) -> None:
    """packed [k / depth][tiles][depth][rows of a whole tile], of tiles first..last of x."""
    k, most = x.shape[1], max_packed_rows(w, x)
    for block in range(len(blocks)):
        row, rows = blocks[block, FIRST_ROW], blocks[block, LAST_ROW] - blocks[block, FIRST_ROW]
        count = -(-rows // most)
        for tile in range(count):
            number = blocks[block, FIRST_TILE] + tile
            height = rows // count + (1 if tile < rows % count else 0)
            if first <= number < last:
                for start in range(0, k, depth):
                    size = min(depth, k - start)
                    at = start * most * tiles + number * most * size
                    pack_tile(w, height, size // k_a_factor(w, x), x, row * k + start, k, packed, at)
            row += height


@kernel
def begin(bias: Any, rows: int, first: int, last: int, sums: Any) -> None:
    """sums [panels / PANELS][rows][PANELS·16] = bias, or 0."""
    for p in range(first, last):
        pair = (p - first) // PANELS * PANELS
        side = min(PANELS, last - first - pair)
        start = load(bias, p * LANES) if bias.size else splat(np.float32(0))
        for row in range(rows):
            store(sums, (pair * rows + row * side + p - first - pair) * LANES, start)


@kernel
def finish(sums: Any, row: int, rows: int, first: int, last: int, y: Any) -> None:
    """y[row : row + rows] of panels first..last = sums."""
    for pair in range(0, last - first, PANELS):
        side = min(PANELS, last - first - pair)
        for r in range(rows):
            for i in range(side):
                value = load(sums, (pair * rows + r * side + i) * LANES)
                store(y, (row + r) * y.shape[1] + (first + pair + i) * LANES, value)


@kernel
def multiply_block(
    packed: Any, x_scales: Any, k: int, tiles: int, depth: int, w: Any, scales: Any, first_tile: int,
    first_row: int, rows: int, before: int, first: int, last: int, sums: Any, buffer: Any,
) -> None:  # fmt: skip
    """sums += a block of rows · panels first..last, which lie behind `before` others."""
    most = max_packed_rows(w, packed)
    words, groups = k // k_a_word(w, packed), -(-k // group_size(w, packed))
    x_group, x_scale = x_group_size(w, packed), x_scale_size(w, packed)
    x_scales_row = -(-k // x_group) * x_scale
    source = ready(w, packed, buffer)
    count = -(-rows // most)
    tile_rows, taller = rows // count, rows % count
    for start in range(0, k, depth):
        size = min(depth, k - start)
        part, factors = size // k_a_word(w, packed), size // k_a_factor(w, packed)
        for p in range(first, last, PANELS):
            side = min(PANELS, last - p)
            at = (before + p) * words + start // k_a_word(w, packed)
            for i in range(side):
                unpack(w, at + i * words, part, packed, buffer, i * factors)
            following = at + words * side if last - first > PANELS else at + part
            at0, at1 = (at, at + words) if is_ready(w, packed) else (0, factors)
            scale, out = (before + p) * groups + start // group_size(w, packed), (p - first) * rows
            x_at = start * most * tiles + first_tile * most * size
            share = part * side * 64 // count  # of what follows: each tile prefetches as much
            next_at, next_step = following * 64, share // factors
            row, xs_at = 0, first_row * x_scales_row + start // x_group * x_scale
            for i in range(count):
                height = tile_rows + (1 if i < taller else 0)
                if PANELS == 2 and side == 2:
                    packed_tile(
                        height, factors, source, (at0, at1),
                        scales, (scale, scale + groups), packed, x_at, x_scales, xs_at, x_scales_row,
                        sums, (out + row * 2) * LANES, w, next_at, next_step,
                    )  # fmt: skip
                else:
                    packed_tile(
                        height, factors, source, (at0,), scales, (scale,),
                        packed, x_at, x_scales, xs_at, x_scales_row, sums, (out + row) * LANES,
                        w, next_at, next_step,
                    )  # fmt: skip
                row, x_at, next_at = row + height, x_at + most * size, next_at + share
                xs_at += height * x_scales_row


@kernel
def multiply_many(
    thread: int, _: int, packed: Any, x_scales: Any, k: int, tiles: int, depth: int, w: Any, scales: Any,
    bias: Any, blocks: Any, ends: Any, side: int, y: Any, all_sums: Any, all_buffers: Any, counter: Any,
) -> None:  # fmt: skip
    """Take a share of the panels, for a block of rows, at a time, `side` of them side by side."""
    sums, buffer = all_sums[thread], all_buffers[thread]
    panels = y.shape[1] // LANES
    tasks = len(blocks) * (len(ends) - 1)
    task = next_task(counter)
    while task < tasks:
        block, share = task % len(blocks), task // len(blocks)
        row, rows = blocks[block, FIRST_ROW], blocks[block, LAST_ROW] - blocks[block, FIRST_ROW]
        for first in range(ends[share], ends[share + 1], side):
            last = min(ends[share + 1], first + side)
            begin(bias, rows, first, last, sums)
            multiply_block(
                packed, x_scales, k, tiles, depth, w, scales, blocks[block, FIRST_TILE], row, rows,
                blocks[block, EXPERT] * panels, first, last, sums, buffer,
            )  # fmt: skip
            finish(sums, row, rows, first, last, y)
        task = next_task(counter)


@kernel
def many_rows(
    x: Any, x_scales: Any, w: Any, scales: Any, bias: Any, blocks: Any, tiles: int, depth: int, ends: Any,
    side: int, y: Any, packed: Any, sums: Any, buffer: Any, counter: Any, threads: int,
) -> None:  # fmt: skip
    """y = x · w + bias; a task is panels ends[i]..ends[i + 1]; packed, sums, buffer: scratch (by thread)."""
    share_out(pack_tiles, tiles, threads, (x, w, blocks, tiles, depth, packed))
    own = (packed, x_scales, x.shape[1], tiles, depth, w, scales, bias, blocks, ends, side, y)
    share_out(multiply_many, threads, threads, (*own, sums, buffer, counter))
