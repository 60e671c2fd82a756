"""This machine's roofs, measured: the best that several patterns of reading and multiplying reach."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from twophase.hardware import cuda
from twophase.hardware.accelerator import Accelerator
from twophase.kernels.lanes import LANES
from twophase.kernels.roofs import bytes_read, multiply_all, read_all, register_flops, tile_all, tile_rows
from twophase.kernels.tile import PANELS, activation_dtype

READ_PATTERNS = ((1, 1024), (1, 4096), (2, 1024), (4, 512))  # streams side by side, prefetch bytes
MOST_BYTES, LEAST_BYTES = 1 << 30, 1 << 20  # of a buffer that one probe reads
COMPUTES = {"bf16": "bf16", "float32": "fp32"}  # the engine's compute types, and operands' types
ROUNDS = 3
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


def machine_bytes() -> int:
    """Memory of this machine, or less where a control group limits us."""
    total = int(psutil.virtual_memory().total)
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        total = min(total, int(text))
    return total


def probe_machine(threads: int, seconds: float, report: Callable[[str, float], None]) -> Accelerator:
    """This machine as an accelerator: the best rates reached within about `seconds`, besides compiling.

    report(doing, share of the whole done) is called before each probe.
    """
    title, memory = cpu_name(), machine_bytes()
    report("compiling the probes", 0.0)
    # Zeros never written to would all be read from one page.
    buffer = np.ones(min(MOST_BYTES, memory // 8) // 2, np.uint16)
    read_rate(buffer, threads, 0.0)
    for compute in COMPUTES:
        matmul_rate(compute, threads, 0.0)
    best = {"read": 0.0} | dict.fromkeys(COMPUTES, 0.0)
    share = seconds / ROUNDS / len(best)
    for turn in range(ROUNDS * len(best)):  # by turns, for other programs come and go
        what = list(best)[turn % len(best)]
        report(f"measuring {what}", turn / (ROUNDS * len(best)))
        rate = read_rate(buffer, threads, share) if what == "read" else matmul_rate(what, threads, share)
        best[what] = max(best[what], rate)
    source = f"measured with {threads} threads"
    return Accelerator(
        name="this-machine",
        title=title,
        vendor="",
        flops={dtype: _rounded(best[compute]) for compute, dtype in COMPUTES.items()},
        memory_bytes=memory,
        marketed_bytes=memory,
        bandwidth=_rounded(best["read"]),
        sources={
            "flops": f"{source}: multiply-adds in registers and the engine's tile in cache",
            "memory": "as the operating system reports it",
            "bandwidth": f"{source}: reading {buffer.nbytes / 2**20:.0f} MiB once",
            "links": "assumed",
        },
        kind="measured",
    )


def probe_cuda(index: int, title: str, memory: int, seconds: float) -> Accelerator:
    """A CUDA device as an accelerator: torch's matmul in bf16 and fp32, reading and copying."""
    share = seconds / 3
    return Accelerator(
        name=f"cuda-{index}",
        title=title,
        vendor="",
        flops={dtype: _rounded(cuda.matmul_rate(index, dtype, share)) for dtype in ("bf16", "fp32")},
        memory_bytes=memory,
        marketed_bytes=memory,
        bandwidth=_rounded(cuda.read_rate(index, share)),
        sources={
            "flops": "measured: torch.matmul on square matrices",
            "memory": "total_memory as CUDA reports it",
            "bandwidth": "measured: the better of reading and copying",
            "links": "assumed",
        },
        kind="measured",
    )


def _rounded(rate: float) -> float:
    """To the digits that a second run would find again."""
    return float(f"{rate:.4g}")
