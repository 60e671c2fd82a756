"""Clients are not the resident batch: Little's law, memory, and what the row leaves open."""

import pytest
from lint_rows import checked

from twophase.lint.resident import decode_share, resident
from twophase.results import Point


def test_a_client_that_waits_does_not_decode() -> None:
    """512 clients, 19.977 s before the first token, 1,023 more at 4.696 ms: 99 of them decode at once."""
    point = Point("a", ttft_s=19.977, tpot_s=0.0046964, output_tokens=1024.0)
    assert 512 * decode_share(point) == pytest.approx(99.3, abs=0.1)
    assert decode_share(Point("b", tpot_s=0.01, output_tokens=100.0)) == 1


def test_memory_holds_only_so_many() -> None:
    """Llama 3.3 70B in 8 bits beside 8 · 2 · 128 · 80 bytes a token in 90 % of an H100's 79.19 GiB."""
    own = checked(tpot_s=1.0, concurrency=64.0, input_tokens=1024.0, output_tokens=1024.0)
    assert own.served is not None
    batch = resident(own.point, own.served)
    pool = 0.9 * 79.19 * 2**30 - own.served.decode.weights_bytes
    assert batch.held == pytest.approx(pool / (2048 * 2 * 8 * 128 * 80), rel=1e-3)
    assert batch.decoding == pytest.approx(batch.held) and batch.stated == 64
    assert "of 64 clients about" in own.notes[0]


def test_a_static_batch_is_all_in_every_step() -> None:
    own = checked(tp=8, tpot_s=1.0, ttft_s=5.0, concurrency=64.0, batch_is_resident=True, output_tokens=10.0)
    assert own.served is not None and resident(own.point, own.served).decoding == 64


def test_without_a_concurrency_the_rate_tells_the_batch() -> None:
    """4,000 tokens/s at 20 ms each: 80 decode at once."""
    own = checked(tp=8, tpot_s=0.02, output_tokens_per_s=4000.0)
    assert own.served is not None and resident(own.point, own.served).decoding == pytest.approx(80)


def test_replicas_share_the_clients() -> None:
    own = checked(tp=2, dp=4, tpot_s=1.0, concurrency=64.0)
    assert own.served is not None
    assert own.served.replicas == 4 and own.served.devices == 8
    assert resident(own.point, own.served).decoding == 16


def test_more_than_memory_holds_is_said_and_not_taken_for_a_batch() -> None:
    """Prompts of 8,192 tokens of 400 clients that decode at once by their times, on one H100: 1.3 GB each."""
    own = checked(tpot_s=0.05, ttft_s=0.9, concurrency=400.0, input_tokens=8192.0, output_tokens=1024.0)
    (flag,) = own.flags
    assert flag.kind == "suspicious" and "sequences decode at once by their times" in flag.says
