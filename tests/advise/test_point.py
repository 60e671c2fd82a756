"""A prompt and a decode pass of a made-up machine, added up by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from twophase.advise.point import around, decode_work, phase_seconds, prompt_work
from twophase.cost import pass_times as columns
from twophase.cost.pass_times import PassTimes
from twophase.scheduler.request import Limits
from twophase.simulate.books import DECODES, PROMPTS
from twophase.simulate.driven import simulate_with
from twophase.simulate.setting_up import requests_of
from twophase.simulate.simulation import Simulation, simulate_replica

PEAK, BANDWIDTH = 1e12, 1e9
WEIGHTS, ROW_FLOPS, PAIR_FLOPS, TOKEN_BYTES = 1e6, 1e9, 1e4, 100.0


def times(window: int = 0) -> PassTimes:
    """A ms a row and 2 ms a pass; a ns a pair, a µs a token of context, no other attention."""
    rows = np.arange(1025.0)
    mixers = np.zeros((1, columns.COLUMNS))
    mixers[0, columns.WINDOW] = window
    mixers[0, columns.PROMPT_PAIR_S] = 1e-9
    mixers[0, columns.DECODE_TOKEN_S] = 1e-6
    mixers[0, columns.PAIR_FLOPS] = PAIR_FLOPS
    mixers[0, columns.TOKEN_BYTES] = TOKEN_BYTES
    none = np.zeros(65)
    return PassTimes(
        rows_s=2e-3 * (rows > 0) + 1e-3 * rows,
        decode_rows_s=2e-3 * (rows > 0) + 1e-3 * rows,
        logits_s=none,
        mixers=mixers,
        rows_flops=ROW_FLOPS * rows,
        rows_bytes=WEIGHTS * (rows > 0),
        logits_flops=none,
        logits_bytes=none,
        roofs=np.array([PEAK, BANDWIDTH]),
    )


def test_a_prompt_in_one_pass() -> None:
    work = prompt_work(times(), 100, 1024)
    pairs = 100 * 101 / 2
    assert work.seconds == pytest.approx(2e-3 + 0.1 + pairs * 1e-9)
    assert work.compute_s == pytest.approx((100 * ROW_FLOPS + pairs * PAIR_FLOPS) / PEAK)
    assert work.weight_s == pytest.approx(WEIGHTS / BANDWIDTH)
    assert work.kv_s == pytest.approx(100 * TOKEN_BYTES / BANDWIDTH)
    assert work.bound == "compute"


def test_a_chunk_that_fills_a_quarter_of_the_machine() -> None:
    own = times()
    own.mixers[0, columns.PROMPT_FULL_ROWS] = 100
    whole, cut = (prompt_work(own, 100, budget) for budget in (1024, 25))
    pairs = 100 * 101 / 2
    assert whole.seconds == pytest.approx(2e-3 + 0.1 + pairs * 1e-9)
    assert cut.seconds == pytest.approx(4 * 2e-3 + 0.1 + 4 * pairs * 1e-9)


def test_a_prompt_in_chunks_reads_its_beginning_again() -> None:
    """Four chunks of 25: each pass reads the weights; later ones 25, 50 and 75 tokens of context."""
    work = prompt_work(times(), 100, 25)
    assert work.weight_s == pytest.approx(4 * WEIGHTS / BANDWIDTH)
    assert work.kv_s == pytest.approx((150 + 100) * TOKEN_BYTES / BANDWIDTH)
    assert work.seconds == pytest.approx(4 * 2e-3 + 0.1 + 100 * 101 / 2 * 1e-9)


def test_a_window_cuts_pairs() -> None:
    """Of 100 rows those from the tenth on see ten tokens each."""
    work = prompt_work(times(window=10), 100, 1024)
    assert work.attention * work.compute_s * PEAK == pytest.approx((55 + 90 * 10) * PAIR_FLOPS)


def test_a_decode_pass() -> None:
    work = decode_work(times(), 4, 1000)
    assert work.seconds == pytest.approx(2e-3 + 4e-3 + 4000 * 1e-6)
    assert work.compute_s == pytest.approx((4 * ROW_FLOPS + 4000 * PAIR_FLOPS) / PEAK)
    assert work.kv_s == pytest.approx(4 * 1001 * TOKEN_BYTES / BANDWIDTH)
    assert work.weight_share == pytest.approx(WEIGHTS / (WEIGHTS + 4 * 1001 * TOKEN_BYTES))


def test_requests_in_flight_by_littles_law() -> None:
    """So few requests that each is alone: 0.102 s of prompt and ten passes of 3.1 ms."""
    in_flight, service = around(times(), 100, 10, 1024, 64, 0.1)
    assert in_flight == 1.0
    assert service == pytest.approx(0.102 + 10 * (3e-3 + 105e-6) + 0.1 * 10 * 3.1e-3 * 0.102, rel=0.01)


@pytest.mark.parametrize("simulate", [simulate_with, simulate_replica])
def test_a_mixed_pass_shares_out_its_context(simulate: Callable[..., Simulation]) -> None:
    """One decodes while a prompt of 100 comes in chunks of 24: 24, 48, 72 and 96 tokens of context are the
    prompt's own. Five passes have both; the first decode saw 8 tokens, those see 9 to 13."""
    requests = requests_of([0.0, 0.012], [8, 100], [20, 1])
    limits = Limits(blocks=64, context_length=128, max_sequences=4, max_tokens=25)
    made = (requests, limits, times())
    done = simulate("decode-first", *made) if simulate is simulate_with else simulate(*made, "decode-first")
    seconds, decoding, counts = phase_seconds(times(), done.passes)
    mixed = (counts[:, PROMPTS] > 0) & (counts[:, DECODES] > 0)
    assert mixed.sum() == 5
    assert decoding[mixed].sum() == pytest.approx(5 * 3e-3 + (9 + 10 + 11 + 12 + 13) * 1e-6)
    assert (decoding[~mixed] == np.where(counts[~mixed, DECODES] > 0, seconds[~mixed], 0)).all()
