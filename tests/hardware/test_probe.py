"""The probes do the work that they are paid for."""

import numpy as np
import pytest

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
