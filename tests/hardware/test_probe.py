"""The probes do the work that they are paid for."""

import time

import numpy as np
import psutil
import pytest

from twophase.hardware import cuda, probe
from twophase.hardware.catalogue import load_accelerator
from twophase.hardware.probe import probe_machine
from twophase.kernels.packing import aligned
from twophase.kernels.roofs import bytes_read, read_all


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("streams", [1, 2, 4])
def test_reading_reaches_every_element(streams: int, threads: int) -> None:
    """A bit in any one place of the whole blocks is found, whichever thread and stream it falls to."""
    size, found = 2048 * 4 * 2 * 3, np.zeros(threads, np.int64)
    for place in (0, 1, 2047, 2048, 12_345, size // 2, size - 1):
        buffer = aligned(size, np.uint16)
        buffer[:] = 0
        buffer[place] = 1
        read_all(buffer, streams, 1024, found, threads)
        assert found.any()
    buffer[:] = 0
    read_all(buffer, streams, 1024, found, threads)
    assert not found.any()


@pytest.mark.parametrize(("streams", "threads"), [(1, 1), (2, 2), (4, 1)])
def test_what_is_paid_for_is_what_is_read(streams: int, threads: int) -> None:
    """Of a size that no block divides, just the elements are paid for whose bits are found."""
    buffer, found = aligned(2048 * 5 + 777, np.uint16), np.zeros(threads, np.int64)
    buffer[:] = 0
    reached = 0
    for place in range(buffer.size):
        buffer[place] = 1
        read_all(buffer, streams, 1024, found, threads)
        buffer[place] = 0
        reached += bool(found.any())
    assert bytes_read(buffer, streams, threads) == reached * buffer.itemsize


def test_this_machine_is_measured_on_both_sides_of_what_is_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One core: no less than NumPy's matrix product reaches on it, and no more than its widest units do."""
    monkeypatch.setattr("twophase.hardware.probe.MOST_BYTES", 64 << 20)
    told: list[float] = []
    own = probe_machine(1, 0.6, lambda doing, done: told.append(done))
    numpys = numpys_matmul()
    assert own.kind == "measured"
    assert own.flops["fp32"] > 0.7 * numpys
    assert own.flops["fp32"] < 6e9 * 128  # four 512-bit multiply-adds a clock at 6 GHz
    assert 0.5e9 < own.bandwidth < 64 * 6e9 / 4  # a line every four clocks is the first cache's pace
    assert own.memory_bytes >= psutil.virtual_memory().available
    assert told == sorted(told) and 0 <= told[0] <= told[-1] < 1


def numpys_matmul() -> float:
    """FLOP/s of the best of several matrix-vector blocks small enough that NumPy's BLAS takes one thread."""
    a = np.ones((96, 96), np.float32)
    best = 0.0
    for _ in range(50):
        started = time.perf_counter()
        for _ in range(20):
            a @ a
        best = max(best, 20 * 2 * 96**3 / (time.perf_counter() - started))
    return best


def test_memory_of_the_probe_is_written_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of zeros that were never written to are all one page, which the first cache holds."""
    seen = []
    monkeypatch.setattr(probe, "read_rate", lambda buffer, threads, seconds: seen.append(buffer) or 1e9)
    monkeypatch.setattr(probe, "matmul_rate", lambda compute, threads, seconds: 1e9)
    monkeypatch.setattr(probe, "MOST_BYTES", 64 << 20)
    before = psutil.Process().memory_info().rss
    probe.probe_machine(1, 0.0, lambda doing, done: None)
    assert psutil.Process().memory_info().rss - before > 0.9 * seen[0].nbytes


@pytest.mark.skipif(not cuda.devices(), reason="needs a CUDA device that torch sees")
def test_a_cuda_device_stays_under_its_datasheet() -> None:
    for index, title, memory in cuda.devices():
        measured = probe.probe_cuda(index, title, memory, 3.0)
        known = load_accelerator(title)
        assert 0.3 < measured.flops["bf16"] / known.flops["bf16"] <= 1
        assert 0.5 < measured.bandwidth / known.bandwidth <= 1
        assert measured.memory_bytes == pytest.approx(known.memory_bytes, rel=0.01)
