"""y = x · Wᵀ (+ bias), for any number of rows, from one packed layout of W; and the same for each expert."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.blocks import blocks_of
from twophase.kernels.few_rows import few_rows
from twophase.kernels.lanes import LANES
from twophase.kernels.many_rows import many_rows
from twophase.kernels.operands import operands_of
from twophase.kernels.packing import Panels, aligned
from twophase.kernels.tile import PANELS

Array = NDArray[Any]
K_BLOCK = 256  # of a panel that is unpacked: 16 KiB, half of a first-level cache
ROW_TILES = 32  # of x that pass a block of a panel, from the second-level cache
SIDE = 8  # panels that pass a block of rows and k, their sums beside it
SEQUENTIAL_ROWS = 64  # up to here the sums of one panel are done before the next is begun
TASKS_A_THREAD = 8
EVERY_ROW = 1 << 40
NO_BIAS = np.zeros(0, np.float32)
NO_SCALES = np.zeros(0, np.float32)


def linear(x: Array, w: Panels | Array, bias: Array, y: Array, threads: int) -> None:
    """y[rows, n] = x[rows, k] · w + bias.

    x: float32 or bf16; w: panels of [n, k]; bias: [n], or empty; y: float32. n a multiple of 16.
    """
    if not isinstance(w, Panels):
        w = Panels(w, NO_SCALES)
    operands = operands_of(w.values.dtype, x.dtype)
    if len(x) <= operands.max_rows(PANELS):
        _few(x, w, bias, _one_block(len(x), EVERY_ROW, 1)[0], y, threads)
    else:
        most = operands.unpacked.max_rows(PANELS)
        _many(x, w, bias, *_one_block(len(x), ROW_TILES * most, most), y, threads)


def grouped_linear(x: Array, w: Panels, starts: Array, y: Array, threads: int) -> None:
    """y[rows of expert e] = x[rows of expert e] · w of expert e.

    x: [rows, k] sorted by expert; w: the experts' panels of [n, k] one after another; starts: int64
    [experts + 1], each expert's first row.
    """
    operands = operands_of(w.values.dtype, x.dtype)
    few, most = operands.max_rows(PANELS), operands.unpacked.max_rows(PANELS)
    blocks = np.empty((len(starts) + len(x) // (ROW_TILES * most), 4), np.int64)
    count, _ = blocks_of(starts, 1, few, EVERY_ROW, 1, blocks)
    if count:
        _few(x, w, NO_BIAS, blocks[:count], y, threads)
    count, tiles = blocks_of(starts, few + 1, EVERY_ROW, ROW_TILES * most, most, blocks)
    if count:
        _many(x, w, NO_BIAS, blocks[:count], tiles, y, threads)


@cache
def _one_block(rows: int, block_rows: int, tile_rows: int) -> tuple[Array, int]:
    blocks = np.empty((1 + rows // block_rows, 4), np.int64)
    count, tiles = blocks_of(np.array([0, rows], np.int64), 1, EVERY_ROW, block_rows, tile_rows, blocks)
    return blocks[:count], tiles


def _step(panels: int, blocks: int, threads: int, most: int) -> int:
    """Panels that are a task: such that threads get several each, in fours."""
    return max(1, min(most, panels * blocks // (TASKS_A_THREAD * threads)) // 4) * 4


def _few(x: Array, w: Panels, bias: Array, blocks: Array, y: Array, threads: int) -> None:
    step = _step(y.shape[1] // LANES, len(blocks), threads, 128)
    few_rows(x, w.values, w.scales, bias, blocks, step, y, np.zeros(1, np.int64), threads)


def _many(x: Array, w: Panels, bias: Array, blocks: Array, tiles: int, y: Array, threads: int) -> None:
    operands = operands_of(w.values.dtype, x.dtype)
    most = operands.unpacked.max_rows(PANELS)
    rows = int((blocks[:, 2] - blocks[:, 1]).max())
    side = SIDE if rows > SEQUENTIAL_ROWS else PANELS
    step = _step(y.shape[1] // LANES, len(blocks), threads, SIDE if rows > SEQUENTIAL_ROWS else 128)
    packed = aligned(tiles * most * x.shape[1], x.dtype)
    sums = aligned((threads, rows * side * LANES), np.float32)
    buffer = aligned((threads, PANELS * K_BLOCK * LANES), x.dtype)
    many_rows(
        x, w.values, w.scales, bias, blocks, tiles, K_BLOCK, step, side, y,
        packed, sums, buffer, np.zeros(1, np.int64), threads,
    )  # fmt: skip
