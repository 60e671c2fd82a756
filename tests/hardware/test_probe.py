"""The probes do the work that they are paid for. How fast is for nobody to assert."""

import numpy as np
import pytest

from twophase.hardware.probe import matmul_rate, read_rate
from twophase.kernels.packing import aligned
from twophase.kernels.roofs import read_all


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


@pytest.mark.parametrize("compute", ["bf16", "float32"])
def test_rates_are_rates(compute: str) -> None:
    """Between what a processor of thirty years ago and one of thirty years hence would do."""
    assert 1e8 < matmul_rate(compute, 1, 0.01) < 1e15
    assert 1e8 < read_rate(aligned(1 << 24, np.float32), 1, 0.01) < 1e14
