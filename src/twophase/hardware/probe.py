"""This machine's roofs, measured: the best that several patterns of reading and multiplying reach."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.lanes import LANES
from twophase.kernels.roofs import bytes_read, multiply_all, read_all, register_flops, tile_all, tile_rows
from twophase.kernels.tile import PANELS, activation_dtype

READ_PATTERNS = ((1, 1024), (1, 4096), (2, 1024), (4, 512))  # streams side by side, prefetch bytes
MOST_BYTES, LEAST_BYTES = 1 << 30, 1 << 20  # of a buffer that one probe reads
DEPTH = 256  # k of the tile that stays in the first-level cache


def read_rate(buffer: NDArray[Any], threads: int, seconds: float) -> float:
    """Bytes/s: the best of several ways to read `buffer` (well beyond the caches) once, within `seconds`."""

    found = np.zeros(threads, np.int64)
    buffer = buffer[: MOST_BYTES // buffer.itemsize]
    if buffer.nbytes < LEAST_BYTES:
        buffer = np.resize(buffer, LEAST_BYTES // buffer.itemsize)

    def reading(streams: int, ahead: int) -> Callable[[], object]:
        return lambda: read_all(buffer, streams, ahead, found, threads)

    ways = [
        (bytes_read(buffer, streams, threads), reading(streams, ahead)) for streams, ahead in READ_PATTERNS
    ]
    return _best_rate(ways, seconds)


def matmul_rate(compute: str, threads: int, seconds: float) -> float:
    """FLOP/s in the engine's compute type: multiply-adds in registers, and the engine's tile in cache."""
    dtype = np.uint16 if compute == "bf16" else np.float32
    w, x = np.zeros(PANELS * LANES * DEPTH, dtype), np.zeros(16 * DEPTH, activation_dtype(compute))
    y = np.zeros(threads * 16 * PANELS * LANES, np.float32)
    found = np.zeros(threads, np.float32)
    repeats = 10_000
    tile_flops = 2 * tile_rows(w, x) * PANELS * LANES * DEPTH * repeats
    rounds = 200 * repeats
    return _best_rate(
        [
            (threads * register_flops(w, x, rounds), lambda: multiply_all(w, x, rounds, found, threads)),
            (threads * tile_flops, lambda: tile_all(w, x, y, DEPTH, repeats, threads)),
        ],
        seconds,
    )


def _best_rate(ways: list[tuple[int, Callable[[], object]]], seconds: float) -> float:
    """Round and round until the time is up, each way once at least; work / seconds of the best run.

    The very first run of a way compiles it: a caller discards its first probe.
    """
    best, end = 0.0, time.perf_counter() + seconds
    while True:
        for work, run in ways:
            started = time.perf_counter()
            run()
            best = max(best, work / (time.perf_counter() - started))
        if time.perf_counter() >= end:
            return best


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
