"""How measured rows are split into weights and KV cache, checked on bytes written down by hand."""

import pytest

from twophase.advise.diagnosis import DecodeRow
from twophase.advise.evidence import line, weights_a_pass


def row(batch: int, context: int, moved: float) -> DecodeRow:
    return DecodeRow(
        batch=batch,
        context=context,
        itl_s=1.0,
        floor_s=0.5,
        compute_s=0.1,
        memory_s=0.5,
        flops=1.0,
        bytes=moved,
        mfu=0.1,
        mbu=0.5,
        bound="memory",
        runs=3,
    )


def test_weights_are_what_is_left_beyond_the_kv_cache() -> None:
    rows = [row(1, 99, 5000 + 100 * 10), row(4, 49, 5000 + 4 * 50 * 10)]
    assert (
        weights_a_pass(rows, 9000, 10) == 5000
    )  # of the 9000 resident, 4000 are an embedding that is gathered


def test_a_sliding_window_does_not_hide_weights() -> None:
    """KV of 10 bytes a token up to a window of 128: the longest row reads far less than context · 10."""
    rows = [row(1, context, 5000 + min(context + 1, 128) * 10) for context in (16, 4096)]
    assert weights_a_pass(rows, 5000, 10) == 5000


def test_never_more_than_is_resident() -> None:
    assert weights_a_pass([row(1, 1, 7000)], 5000, 10) == 5000


def test_line_goes_on_straight() -> None:
    assert line(2.5, [1, 2, 4], [10, 20, 0]) == pytest.approx(15)
    assert line(6, [1, 2, 4], [10, 20, 40]) == pytest.approx(60)
    assert line(0, [1, 2, 4], [10, 20, 40]) == pytest.approx(0)
    assert line(9, [3], [7]) == 7
