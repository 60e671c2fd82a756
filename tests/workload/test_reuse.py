import os
from pathlib import Path

import numpy as np
import pytest

from twophase.workload.reuse import reuse_of
from twophase.workload.traces import read_trace
from twophase.workload.workload import Blocks, Workload


def test_by_hand() -> None:
    content = Blocks(np.array([1, 2, 3, 1, 2, 4, 9, 1, 2, 3]), np.array([0, 3, 6, 7, 10]), 10)
    own = Workload(np.arange(4.0), np.array([25, 30, 10, 25]), np.ones(4, np.int64), content)
    found = reuse_of(own)
    assert found is not None
    assert (found.found, found.blocks, found.found_tokens, found.tokens) == (5, 10, 45, 90)
    small = reuse_of(own, 3)  # after 9 came, 1 was the least recently used of 1 2 4
    assert small is not None
    assert small.found == 2
    assert reuse_of(Workload(np.zeros(1), np.ones(1, np.int64), np.ones(1, np.int64))) is None


@pytest.mark.skipif("TWOPHASE_SHARED" not in os.environ, reason="needs the published traces")
def test_mooncake_s_conversation_trace_by_capacity() -> None:
    """SIM-09."""
    folder = Path(os.environ["TWOPHASE_SHARED"], "data", "traces")
    trace = read_trace(folder / "mooncake_conversation_trace.jsonl")
    assert trace.rate == pytest.approx(3.40, abs=0.005)
    for capacity, share in {
        **{1000: 0.0445, 10_000: 0.2112, 30_000: 0.3257, 50_000: 0.3546, 100_000: 0.3637, None: 0.3664}
    }.items():
        found = reuse_of(trace, capacity)
        assert found is not None
        assert round(found.share, 4) == share
    assert (found.found, found.blocks, round(found.token_share, 4)) == (105_710, 288_500, 0.3736)
