"""y = x · Wᵀ (+ bias), for any number of rows, from one packed layout of W; and the same for each expert."""

import threading
from functools import cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from twophase.kernels.blocks import blocks_of
from twophase.kernels.few_rows import few_rows
from twophase.kernels.lanes import LANES
from twophase.kernels.many_rows import many_rows
from twophase.kernels.operands import FORMATS, GROUP, X_GROUP
from twophase.kernels.packing import Panels, aligned
from twophase.kernels.pairing import operands_of
from twophase.kernels.rounding import round_to_int16
from twophase.kernels.rounding8 import round_to_int8
from twophase.kernels.tile import PANELS

Array = NDArray[Any]
K_BLOCK = 256  # of a panel that is unpacked: 16 KiB, half of a first-level cache
ROW_TILES = 44  # of x that pass a block of a panel: with their sums, what the second-level cache holds
SIDE = 8  # panels that pass a block of rows and k, their sums beside it
SEQUENTIAL_ROWS = 64  # up to here the sums of one panel are done before the next is begun
MOST_PANELS = 512  # of a share
EVERY_ROW = 1 << 40
MOST_VIEWS = 1000
_kept = threading.local()  # scratch memory, and views of it
NO_BIAS = np.zeros(0, np.float32)
NO_SCALES = np.zeros(0, np.float32)
# rows for which x isn't packed
FEW = {"bf16": 20, "bf16_dot": 14, "float32": 12, "int8": 20, "int4": 16, "int8_a8": 20, "int4_a8": 16}


def linear(x: Array, w: Panels, bias: Array, y: Array, threads: int) -> None:
    """y[rows, n] = x[rows, k] · w + bias.

    x: float32 or bf16; w: panels of [n, k]; bias: [n], or empty; y: float32. n a multiple of 16.
    """
    if not len(x):
        return
    x, x_scales = _taken(x, w, threads)
    operands = operands_of(w.values.dtype, x.dtype)
    if len(x) <= FEW[operands.name]:
        _few(x, x_scales, w, bias, _one_block(len(x), EVERY_ROW, 1)[0], y, threads)
    else:
        most = operands.unpacked.max_rows(PANELS)
        _many(x, x_scales, w, bias, *_one_block(len(x), ROW_TILES * most, most), y, threads)


def grouped_linear(x: Array, w: Panels, starts: Array, y: Array, threads: int) -> None:
    """y[rows of expert e] = x[rows of expert e] · w of expert e.

    x: [rows, k] sorted by expert; w: the experts' panels of [n, k] one after another; starts: int64
    [experts + 1], each expert's first row.
    """
    x, x_scales = _taken(x, w, threads)
    operands = operands_of(w.values.dtype, x.dtype)
    few, most = FEW[operands.name], operands.unpacked.max_rows(PANELS)
    blocks = np.empty((len(starts) + len(x) // (ROW_TILES * most), 4), np.int64)
    count, _ = blocks_of(starts, 1, few, EVERY_ROW, 1, blocks)
    if count:
        _few(x, x_scales, w, NO_BIAS, blocks[:count], y, threads)
    count, tiles = blocks_of(starts, few + 1, EVERY_ROW, ROW_TILES * most, most, blocks)
    if count:
        _many(x, x_scales, w, NO_BIAS, blocks[:count], tiles, y, threads)


def _taken(x: Array, w: Panels, threads: int) -> tuple[Array, Array]:
    """x as these weights take it: as it is, or rounded to int16 or int8 with its scales by groups, flat."""
    group = GROUP.get(FORMATS[numba.from_dtype(w.values.dtype)])
    if not group:
        return x, NO_SCALES
    rows, k = x.shape
    if w.x_bits == 8:
        rounded = _scratch("bytes", rows * k, np.dtype(np.int8))
        starts = _scratch("starts", 2 * rows * -(-k // X_GROUP), np.dtype(np.int32))
        scales = starts.view(np.float32)
        round_to_int8(x, w.values, rounded, starts, scales, threads)
        return rounded.reshape(rows, k), scales
    rounded = _scratch("rounded", rows * k, np.dtype(np.int16))
    scales = _scratch("scales", rows * -(-k // group), np.dtype(np.float32))
    round_to_int16(x, group, rounded, scales, threads)
    return rounded.reshape(rows, k), scales


@cache
def _one_block(rows: int, block_rows: int, tile_rows: int) -> tuple[Array, int]:
    blocks = np.empty((1 + rows // block_rows, 4), np.int64)
    count, tiles = blocks_of(np.array([0, rows], np.int64), 1, EVERY_ROW, block_rows, tile_rows, blocks)
    return blocks[:count], tiles


@cache
def _ends(panels: int, blocks: int, threads: int, most: int) -> Array:
    """Where shares of the panels end: large ones first, which stream, and small ones to finish together."""
    ends, parts = [0], max(1, 2 * threads // blocks)
    while (left := panels - ends[-1]) > 0:
        ends.append(ends[-1] + min(left, most, -(-left // (4 * parts)) * 4))
    return np.array(ends, np.int64)


def _few(x: Array, x_scales: Array, w: Panels, bias: Array, blocks: Array, y: Array, threads: int) -> None:
    ends = _ends(y.shape[1] // LANES, len(blocks), threads, MOST_PANELS)
    few_rows(x, x_scales, w.values, w.scales, bias, blocks, ends, y, np.zeros(1, np.int64), threads)


def _scratch(use: str, size: int, dtype: np.dtype[Any]) -> Array:
    """Memory that this thread keeps: fresh pages would cost more than a small product."""
    views: dict[Any, Array] = _kept.__dict__.setdefault(use, {})
    view = views.get((size, dtype.char))
    if view is None:
        needed, whole = size * dtype.itemsize, views.get(use)
        if whole is None or whole.nbytes < needed or len(views) > MOST_VIEWS:
            views.clear()
            whole = views[use] = aligned(needed, np.uint8)
        view = views[size, dtype.char] = whole[:needed].view(dtype)
    return view


def _many(
    x: Array, x_scales: Array, w: Panels, bias: Array, blocks: Array, tiles: int, y: Array, threads: int
) -> None:
    operands = operands_of(w.values.dtype, x.dtype)
    most = operands.unpacked.max_rows(PANELS)
    rows = max(last - first for first, last in blocks[:, 1:3].tolist())
    side = SIDE if rows > SEQUENTIAL_ROWS else PANELS
    most_panels = SIDE if rows > SEQUENTIAL_ROWS else MOST_PANELS
    ends = _ends(y.shape[1] // LANES, len(blocks), threads, most_panels)
    packed = _scratch("packed", tiles * most * x.shape[1], x.dtype)
    sums = _scratch("sums", threads * rows * side * LANES, np.dtype(np.float32)).reshape(threads, -1)
    buffer_type = np.dtype(np.uint32) if x.dtype == np.int8 else x.dtype
    buffer_size = threads * PANELS * K_BLOCK * LANES * x.itemsize // buffer_type.itemsize
    buffer = _scratch("buffer", buffer_size, buffer_type).reshape(threads, -1)
    many_rows(
        x, x_scales, w.values, w.scales, bias, blocks, tiles, K_BLOCK, ends, side, y,
        packed, sums, buffer, np.zeros(1, np.int64), threads,
    )  # fmt: skip
