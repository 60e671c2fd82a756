"""Single replicas by hand: times of passes, arrivals between them, refusals, limits of time, sent KV."""

import numpy as np
import pytest
from random_loads import pass_times

from twophase.errors import InputError
from twophase.scheduler.policy import decode_first
from twophase.scheduler.request import Limits
from twophase.scheduler.state import N_FREE, TOO_LARGE, TOO_LONG, State
from twophase.simulate.books import (
    CACHED,
    FINISHED_S,
    FIRST_TOKEN_S,
    N_TOKENS,
    OUTCOME,
    PASSES,
    PRODUCED,
    REFUSAL,
    REJECTED,
    SCHEDULED_S,
    TRUNCATED,
    UNSEEN,
)
from twophase.simulate.checks import check_balance
from twophase.simulate.driven import simulate_with
from twophase.simulate.replica import DONE, advance, let_go, submit
from twophase.simulate.setting_up import new_replica, requests_of
from twophase.simulate.simulation import simulate_replica

LIMITS = Limits(blocks=50, context_length=150, max_sequences=4, max_tokens=100, block_size=4)


def prompt_s(rows: int, context: int = 0) -> float:
    """Of pass_times, one span, by hand: weights, rows, a row of logits, attention."""
    pairs = rows * context + rows * (rows + 1) // 2
    return 2.0 + max(0.3, 0.01 * rows) + 0.002 + 0.05 + 0.02 + 1e-4 * pairs + 3e-4 * context


def decode_s(context: int) -> float:
    return 0.9 * 2.3 + 0.002 + 0.03 + 0.01 + 7e-4 * context


def test_one_request_takes_a_pass_for_each_token() -> None:
    done = simulate_replica(requests_of([1.5], [10], [6]), LIMITS, pass_times(150, 4))
    first = 1.5 + prompt_s(10)
    last = first + sum(decode_s(10 + i) for i in range(5))
    assert done.passes.counts[:, PASSES].sum() == 6
    assert done.records.moments[0] == pytest.approx([1.5, first, last], rel=1e-12)


def test_who_comes_during_a_pass_is_seen_at_its_end() -> None:
    times = pass_times(150, 4)
    done = simulate_replica(requests_of([0.0, 0.1, prompt_s(10)], [10, 10, 10], [3, 1, 1]), LIMITS, times)
    assert done.records.moments[1:, SCHEDULED_S] == pytest.approx(prompt_s(10))


def test_equal_prompts_are_found() -> None:
    requests = requests_of([0.0, 50.0], [11, 11], [1, 1], keys=[7, 8, 7, 8], key_offsets=[0, 2, 4])
    done = simulate_replica(requests, LIMITS, pass_times(150, 4))
    assert done.records.counts[:, CACHED].tolist() == [0, 8]
    took = done.records.moments[:, FIRST_TOKEN_S] - requests.arrival_s
    assert took == pytest.approx([prompt_s(11), 0.9 * 2.3 + 0.002 + 0.03 + 0.01 + 7e-4 * 8], rel=1e-12)


def test_who_can_never_fit_is_refused_and_the_rest_is_served() -> None:
    small = Limits(blocks=20, context_length=150, max_sequences=4, max_tokens=100, block_size=4)
    requests = requests_of([0.0, 0.0, 0.0], [140, 90, 10], [11, 20, 2])
    done = simulate_replica(requests, small, pass_times(150, 4))
    assert done.records.counts[:, REFUSAL].tolist() == [TOO_LONG, TOO_LARGE, 0]
    assert done.records.counts[:2, OUTCOME].tolist() == [REJECTED, REJECTED]
    assert done.records.counts[2, PRODUCED] == 2


def test_time_runs_out() -> None:
    done = simulate_replica(
        requests_of([0.0, 100.0], [10, 10], [40, 1]), LIMITS, pass_times(150, 4), max_time_s=30.0
    )
    assert done.records.counts[:, OUTCOME].tolist() == [TRUNCATED, UNSEEN]
    assert 10 < done.records.counts[0, PRODUCED] < 15 and np.isnan(done.records.moments[0, FINISHED_S])


def test_a_pass_below_its_floor_is_an_error() -> None:
    times = pass_times(150, 4)._replace(roofs=np.array([1e2, 1e6]))
    with pytest.raises(RuntimeError, match="floor"):
        simulate_replica(requests_of([0.0], [10], [6]), LIMITS, times)


def test_books_that_do_not_balance_are_an_error() -> None:
    requests = requests_of([0.0], [10], [6])
    for spoil, what in (
        (lambda each: each.counts.__setitem__(N_TOKENS, 5), "every token is produced once"),
        (lambda each: each.state.counts.__setitem__(N_FREE, 49), "blocks"),
        (lambda each: each.clock.__setitem__(slice(2, 3), 0.0), "busy"),
    ):
        replica = new_replica(LIMITS, "decode-first", requests, pass_times(150, 4))
        assert submit(replica, 0, 0.0) == DONE and advance(replica, np.inf) == DONE
        check_balance([replica])
        spoil(replica)
        with pytest.raises(RuntimeError, match=what):
            check_balance([replica])


def test_a_policy_of_ones_own() -> None:
    calls = []

    def mine(state: State) -> None:
        calls.append(1)
        decode_first(state)

    requests = requests_of([0.0, 0.5], [10, 20], [6, 3])
    own = simulate_with(mine, requests, LIMITS, pass_times(150, 4))
    ours = simulate_replica(requests, LIMITS, pass_times(150, 4))
    assert len(calls) > 5 and np.allclose(own.records.moments, ours.records.moments, rtol=1e-12)


def test_kv_that_another_replica_computed() -> None:
    """A prompt is computed in one place, and held there until the other has it."""
    requests = requests_of([0.0], [40], [1], keeps_blocks=1)
    first = new_replica(LIMITS, "decode-first", requests, pass_times(150, 4))
    assert submit(first, 0, 0.0) == DONE and advance(first, 60.0) == DONE
    assert first.records.moments[0, FINISHED_S] == pytest.approx(prompt_s(40))
    assert first.state.counts[N_FREE] == 50 - 10
    check_balance([first])
    let_go(first, 0, 60.0)
    assert first.state.counts[N_FREE] == 50

    later = requests_of([0.0], [41], [5], kv_given=40)
    second = new_replica(LIMITS, "decode-first", later, pass_times(150, 4))
    assert submit(second, 0, 60.0) == DONE
    assert advance(second, np.inf) == DONE
    lasted = second.records.moments[0, FINISHED_S] - 60.0
    assert lasted == pytest.approx(sum(decode_s(40 + i) for i in range(5)), rel=1e-9)


def test_more_requests_than_there_is_room_for_at_first() -> None:
    count = 3000
    requests = requests_of(np.zeros(count), np.full(count, 3), np.full(count, 2))
    limits = Limits(blocks=2000, context_length=20, max_sequences=200, max_tokens=600, block_size=4)
    done = simulate_replica(requests, limits, pass_times(600, 200))
    assert np.all(done.records.counts[:, PRODUCED] == 2)
    assert np.all(np.diff(done.records.moments[:, FIRST_TOKEN_S]) >= 0)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (([1.0, 0.5], [3, 3], [1, 1]), "in order"),
        (([np.nan], [3], [1]), "in order"),
    ],
)
def test_arrivals_must_be_in_order(arguments: tuple[list[float], list[int], list[int]], what: str) -> None:
    with pytest.raises(InputError, match=what):
        requests_of(*arguments)


def test_pass_times_must_reach_as_far_as_passes() -> None:
    with pytest.raises(InputError, match="go up to 50 rows"):
        simulate_replica(requests_of([0.0], [3], [1]), LIMITS, pass_times(50, 4))
