"""The fixed point against what can be computed by hand: passes of constant parts, without kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from twophase.cost import pass_times as columns
from twophase.simulate.steady_loop import Load, Passes, Queueing, Solved, decode_s, prompt_s, solve

Floats = NDArray[np.float64]
FREE = Queueing(*(np.zeros(1) for _ in range(5)), prompts=np.ones(1))


def passes(fixed_s: float, row_s: float, token_s: float = 0.0, pair_s: float = 0.0) -> Passes:
    mixers = np.zeros((1, columns.COLUMNS))
    mixers[0, columns.DECODE_TOKEN_S] = token_s
    mixers[0, columns.PROMPT_PAIR_S] = pair_s

    def rows(count: Floats) -> Floats:
        return np.where(count > 0, fixed_s + row_s * count, 0.0)

    return Passes(rows, rows, np.zeros_like, mixers)


def load(clients: float, held: float = 1e9, **others: float) -> Load:
    known = {"prompt": 1000.0, "output": 101.0, "chunk": 8192.0, "apart": 0.0, "first": 0.0, "accepted": 1.0}
    known |= {"clients": clients, "prompters": clients, "held": held} | others
    return Load(**{name: np.array([value]) for name, value in known.items()})


def solved(own: Passes, asked: Load, queueing: Queueing = FREE) -> Solved:
    return solve(own, own, asked, queueing)


def test_one_client_waits_for_nobody() -> None:
    own = passes(fixed_s=5e-3, row_s=1e-5, token_s=1e-7)
    found = solved(own, load(clients=1), FREE._replace(waited=np.ones(1)))
    assert found.ttft_s == pytest.approx(5e-3 + 1000 * 1e-5 + 1050.5 * 1e-7, rel=1e-2)
    first = solved(own, load(clients=1, first=1.0))  # its pass is its own
    assert first.ttft_s == pytest.approx(5e-3 + 1000 * 1e-5)
    # decode passes of one row over the mean context, 1000 + 101 / 2
    assert found.tpot_s == pytest.approx(5e-3 + 1e-5 + 1050.5 * 1e-7)


def test_a_window_limits_what_is_read() -> None:
    own = passes(fixed_s=0.0, row_s=0.0, token_s=1e-6, pair_s=1e-9)
    own.mixers[0, columns.WINDOW] = 128
    assert decode_s(own, np.array([4.0]), np.array([1000.0])) == pytest.approx(4 * 128 * 1e-6)
    pairs = 1000 * 128 - 128**2 / 2
    assert prompt_s(own, np.zeros(1), np.array([1000.0]), np.array([8192.0])) == pytest.approx(pairs * 1e-9)


def test_chunks_pay_the_pass_again() -> None:
    own = passes(fixed_s=1e-3, row_s=1e-6)
    whole = prompt_s(own, np.zeros(1), np.array([4096.0]), np.array([4096.0]))
    cut = prompt_s(own, np.zeros(1), np.array([4096.0]), np.array([1024.0]))
    assert cut - whole == pytest.approx(3e-3)


def test_pairs_of_few_rows_wait_for_a_part_of_the_machine() -> None:
    """A chunk of 250 rows fills a quarter of it; of 1250, one and a quarter wave last two."""
    own = passes(fixed_s=0.0, row_s=0.0, pair_s=1e-9)
    own.mixers[0, [columns.PROMPT_FULL_ROWS, columns.PROMPT_STEP]] = 1000, 1
    chunk, pairs = np.array([8192.0]), 250**2 / 2
    assert prompt_s(own, np.zeros(1), np.array([250.0]), chunk) == pytest.approx(4 * pairs * 1e-9)
    assert prompt_s(own, np.zeros(1), np.array([1250.0]), chunk) == pytest.approx(
        2 / 1.25 * 25 * pairs * 1e-9
    )


def test_prompts_ride_in_decode_passes() -> None:
    """B clients that never wait: a token each pass, and (B - 1) / 100 prompts of 1000 rows."""
    found = solved(passes(fixed_s=10e-3, row_s=1e-6), load(clients=8))
    batch = float(found.batch[0])
    added = 1000 * 1e-6
    assert found.tpot_s == pytest.approx(10e-3 + batch * 1e-6 + (batch - 1) / 100 * added, rel=1e-6)
    # of 8 clients, those that are not computing their prompts
    decoding = 100 * found.tpot_s / (100 * found.tpot_s + found.ttft_s)
    assert batch == pytest.approx(8 * float(decoding[0]), rel=1e-3)


def test_memory_that_holds_half_makes_the_others_wait_a_turn() -> None:
    found = solved(passes(fixed_s=10e-3, row_s=0.0), load(clients=20, held=10))
    assert found.batch[0] <= 10
    # ten hold the memory for a request's decode time, and ten wait as long
    assert found.memory_wait_s == pytest.approx(100 * found.tpot_s, rel=1e-9)


def test_pools_apart_leave_decodes_alone() -> None:
    own = passes(fixed_s=10e-3, row_s=1e-5)
    together, apart = solved(own, load(clients=16)), solved(own, load(clients=16, apart=1.0))
    assert apart.tpot_s < together.tpot_s
    assert apart.tpot_s == pytest.approx(10e-3 + float(apart.batch[0]) * 1e-5, rel=1e-6)


def test_accepted_drafts_divide_the_pass() -> None:
    own = passes(fixed_s=10e-3, row_s=0.0)
    one = solved(own, load(clients=1))
    two = solved(own, load(clients=1, accepted=2.0))
    assert two.tpot_s == pytest.approx(one.tpot_s / 2)


@given(
    clients=st.floats(1, 2000),
    held=st.floats(1, 3000),
    output=st.floats(2, 4000),
    fixed=st.floats(1e-4, 0.1),
    row=st.floats(1e-8, 1e-4),
    burst=st.floats(0, 0.5),
)
def test_little_s_law_and_limits_hold(
    clients: float, held: float, output: float, fixed: float, row: float, burst: float
) -> None:
    queueing = FREE._replace(burst=np.array([burst]), front_s=np.array([0.01]), waited=np.ones(1))
    own = passes(fixed, row)
    found = solved(own, load(clients=clients, held=held, output=output), queueing)
    assert 0 < found.batch[0] <= min(clients, held) * (1 + 1e-9)
    assert found.tpot_s[0] >= fixed
    assert found.ttft_s[0] >= 0.01 + fixed
    more = solved(own, load(clients=clients * 2, held=held, output=output), queueing)
    assert more.ttft_s[0] >= found.ttft_s[0] * (1 - 1e-3)


def test_prompts_that_wait_together_share_their_passes() -> None:
    """Of 9 clients half go before: four prompts, in passes of four, which pay the fixed part once."""
    own, apart = passes(fixed_s=8e-3, row_s=1e-6), {"prompt": 1000.0, "output": 1e6, "apart": 1.0}
    half = FREE._replace(burst=np.full(1, 0.5))
    alone = solved(own, load(clients=9, chunk=1000, **apart), half)
    shared = solved(own, load(clients=9, chunk=4000, **apart), half)
    assert alone.ttft_s == pytest.approx(5 * (8e-3 + 1e-3))
    assert shared.ttft_s == pytest.approx((8e-3 + 1e-3) + 4 * (8e-3 / 4 + 1e-3))


def test_nobody_waits_for_more_prompts_than_there_are_others() -> None:
    own = passes(fixed_s=0.0, row_s=1e-6)
    found = solved(own, load(clients=3, chunk=1000, first=1.0), FREE._replace(together=np.full(1, 50.0)))
    assert found.ttft_s == pytest.approx(3 * 1e-3)
