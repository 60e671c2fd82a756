"""The roofs of a CUDA (or HIP) device, measured with torch."""

import time
from collections.abc import Callable
from typing import Any

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
SIDE = {"bf16": 8192, "fp16": 8192, "fp32": 4096}  # of the square matrices: 1.1 TFLOP, 0.14 TFLOP
READ_BYTES = 4 << 30
CALLS = 10  # enqueued before the clock is read: a call costs the host less than the device


def devices() -> list[tuple[int, str, int]]:
    """(index, name, bytes that the driver reports) of each device; none where torch is absent or blind."""
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [(index, each.name, int(each.total_memory)) for index, each in enumerate(found)]


def matmul_rate(index: int, dtype: str, seconds: float) -> float:
    """FLOP/s of the best burst of torch.matmul: bf16, fp16 or fp32 (TF32 as torch leaves it: off)."""
    import torch

    side, kind = SIDE[dtype], getattr(torch, DTYPES[dtype])
    a, b = (torch.randn(side, side, device=f"cuda:{index}").to(kind) for _ in range(2))
    y = torch.empty(side, side, device=f"cuda:{index}", dtype=kind)
    return 2 * side**3 / _best_s(index, lambda: torch.matmul(a, b, out=y), seconds)


def read_rate(index: int, seconds: float) -> float:
    """Bytes/s: the better of reading a buffer (its maximum) and of copying it, whose writes count, too."""
    import torch

    size = min(READ_BYTES, torch.cuda.mem_get_info(index)[0] // 4) // 4
    buffer = torch.zeros(size, device=f"cuda:{index}", dtype=torch.float32)
    copy = torch.empty_like(buffer)
    reading = buffer.nbytes / _best_s(index, buffer.amax, seconds / 2)
    copying = 2 * buffer.nbytes / _best_s(index, lambda: copy.copy_(buffer), seconds / 2)
    return max(reading, copying)


def _best_s(index: int, run: Callable[[], Any], seconds: float) -> float:
    """Seconds of a call in the best of several bursts, by the device's own clock; the first warms up."""
    import torch

    event: Any = torch.cuda.Event
    with torch.cuda.device(index):
        run()
        torch.cuda.synchronize()
        best, end = float("inf"), time.perf_counter() + seconds
        while True:
            started, ended = (event(enable_timing=True) for _ in range(2))
            started.record()
            for _ in range(CALLS):
                run()
            ended.record()
            torch.cuda.synchronize()
            best = min(best, float(started.elapsed_time(ended)) / 1e3 / CALLS)
            if time.perf_counter() >= end:
                return best
