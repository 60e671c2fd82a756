"""Closed loops as `bench` drives them: spread over the time of a warm-up, whose first round stands apart."""

from dataclasses import replace

import numpy as np
import pools_by_hand as by_hand
import pytest

from twophase.errors import InputError
from twophase.report.simulation import record_of, simulation_of
from twophase.report.simulation_summary import full_height, share, summarise
from twophase.scheduler.policy import decode_first
from twophase.simulate.clients import by_clients, request_s, told_apart
from twophase.simulate.outcome import Run
from twophase.simulate.run import simulate
from twophase.simulate.running import run_pools
from twophase.workload.closed import closed
from twophase.workload.workload import Workload

LLAMA, H100 = "llama-3.1-8b", "h100-sxm"


def alike(count: int, prompt: int = 512, output: int = 64) -> Workload:
    return Workload(np.zeros(count), np.full(count, prompt), np.full(count, output))


def served(load: Workload) -> Run:
    return run_pools([by_hand.pool()], load)


def test_the_warm_up_takes_what_is_computed_by_hand() -> None:
    """Eight prompts of 60 are one pass of 1 s, and 8 later tokens as many passes of 0.125 s."""
    assert request_s(served, alike(40, 60, 9), 20) == pytest.approx(2.0)
    refused = alike(40, 5000, 9)
    assert request_s(served, refused, 20) == 0.0
    assert request_s(served, alike(40, 60, 900), 20) == 10.0  # at the most


def test_the_first_cohort_is_spread_evenly_over_the_warm_up() -> None:
    load = by_clients(served, alike(40, 60, 9), 16)
    np.testing.assert_allclose(load.arrival_s[:16], np.arange(16) / 8)
    assert not load.arrival_s[16:].any()


def test_clients_of_a_model_begin_evenly_spread() -> None:
    """Over what eight requests at once take, each its own prompts: less than eight one after the other."""
    run = simulate(LLAMA, H100, alike(30), clients=10)
    alone = float(simulate(LLAMA, H100, alike(1)).e2e_s[0])
    assert alone < run.arrival_s[1] * 10 < 8 * alone
    assert len(run.finished) == 30
    assert run.first_cohort.tolist() == list(range(10))
    assert np.diff(run.arrival_s[:10]) == pytest.approx(np.full(9, run.arrival_s[1]))


def test_ttft_is_less_than_in_lockstep() -> None:
    """In lockstep all prompts are computed together for ever."""
    clients = 32
    spread = simulate(LLAMA, H100, alike(10 * clients), clients=clients)
    lockstep = simulate(LLAMA, H100, closed(alike(10 * clients), clients))
    own, other = summarise(spread), summarise(lockstep)
    assert own.latencies.ttft is not None and other.latencies.ttft is not None
    assert own.latencies.ttft.p50 < other.latencies.ttft.p50 / 2
    assert own.throughput.output_tokens_per_s > 0.9 * other.throughput.output_tokens_per_s
    assert (own.cohort_requests, other.cohort_requests) == (clients, 0)


def test_the_first_round_stands_apart_where_enough_others_are_left() -> None:
    run = simulate(LLAMA, H100, alike(24), clients=8)
    own = summarise(run)
    assert own.first_cohort is not None and own.first_cohort.ttft is not None
    assert own.latencies.ttft is not None and own.latencies.tpot is not None
    assert own.first_cohort.ttft.mean == pytest.approx(float(run.ttft_s[:8].mean()))
    assert own.latencies.ttft.mean == pytest.approx(float(run.ttft_s[8:].mean()))
    assert own.latencies.tpot.count == 16
    few = summarise(simulate(LLAMA, H100, alike(12), clients=8))  # 4 others
    assert few.first_cohort is None
    assert few.latencies.ttft is not None and few.latencies.ttft.count == 12
    kept = record_of(simulation_of(run, "m", "vllm", open_loop=False))
    assert kept.first_cohort == tuple(range(8))


def test_full_height_begins_when_the_last_client_does() -> None:
    run = told_apart(served(closed(alike(200, 60, 9), 8, 2.0)), 8)
    full = full_height(run)
    assert full == (1.75, run.arrival_s.max())
    assert full_height(replace(run, first_cohort=np.zeros(0, np.int64))) == (0.0, run.arrival_s.max())


def test_shares_of_spans_and_moments() -> None:
    begins, ends = np.array([0.0, 1, 2, 5, 0, 3, 6]), np.array([2.0, 3, 4, 6, 9, 3, 6])
    assert share(begins, ends, (1.0, 4.0)).tolist() == pytest.approx([0.5, 1, 1, 0, 1 / 3, 1, 0])


def test_a_policy_of_ones_own_has_no_clients() -> None:
    with pytest.raises(InputError, match="without stages, turns and clients"):
        simulate(LLAMA, H100, alike(4), decode_first, clients=2)
