"""Ranks whose experts are dealt out go in step: by hand, and against a plain loop, pass by pass."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pools_by_hand import DECODE_S, PREFILL_S, plain_times, pool, workload
from random_loads import load as random_requests
from random_loads import pass_times
from steps_by_hand import in_step, times_in_step

from twophase.cost.dealt import Dealt
from twophase.hardware.accelerator import Link
from twophase.scheduler.request import Limits
from twophase.simulate import linking
from twophase.simulate.books import (
    FINISHED,
    FINISHED_S,
    FIRST_TOKEN_S,
    OUTCOME,
    OUTPUT_TOKENS,
    PASSES,
    PROMPT,
    SECONDS,
    SPECULATES,
    START_S,
    TRUNCATED,
)
from twophase.simulate.in_step import advance_in_step
from twophase.simulate.replica import DONE, submit
from twophase.simulate.running import Loop, Wire, cluster_of, replicas_of, run_pools
from twophase.simulate.simulation import simulate_replica
from twophase.workload.workload import Workload


@pytest.fixture(autouse=True)
def as_it_stands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(linking, "can_compile", lambda: False)
    yield


def small(blocks: int = 40) -> Limits:
    return Limits(
        blocks=blocks, context_length=150, max_sequences=6, max_tokens=24, block_size=4, prefix_cache=False
    )


def random_load(seed: int, count: int, gap_s: float, turns: int = 1) -> Workload:
    draw = np.random.default_rng(seed)
    arrivals = np.cumsum(draw.exponential(gap_s, count))
    follows = np.where(np.arange(count) % turns == 0, -1, np.arange(count) - 1)
    outputs = np.where(draw.random(count) < 0.3, draw.integers(40, 80, count), draw.integers(1, 20, count))
    return Workload(
        np.where(follows < 0, arrivals, draw.exponential(5.0, count)),
        draw.integers(1, 60, count),
        outputs,
        follows=follows if turns > 1 else None,
    )


def nothing_dealt(rows: int) -> Dealt:
    return Dealt(*np.zeros((4, rows + 1)))


def test_a_decoding_rank_waits_for_the_other_s_prompt() -> None:
    """A's fourth decode pass begins with B's prompt, and lasts as long."""
    both = pool(ranks=2, dealt=nothing_dealt(500))
    run = run_pools([both], workload((0.0, 10, 20), (1.3, 10, 3)))
    begins = PREFILL_S + 3 * DECODE_S  # B came at 1.3 and runs from the next boundary on
    assert run.records.moments[:, FIRST_TOKEN_S].tolist() == [PREFILL_S, begins + PREFILL_S]
    assert run.records.moments[0, FINISHED_S] == begins + PREFILL_S + 15 * DECODE_S
    assert run.records.moments[1, FINISHED_S] == begins + PREFILL_S + 2 * DECODE_S
    apart = run_pools([pool(ranks=2)], workload((0.0, 10, 20), (1.3, 10, 3)))
    assert apart.records.moments[0, FINISHED_S] == PREFILL_S + 19 * DECODE_S
    assert apart.records.moments[1, FIRST_TOKEN_S] == 1.3 + PREFILL_S


def test_a_decode_pool_in_step_takes_what_comes_at_its_boundaries() -> None:
    """A's KV is there at 1, B's at 2.05 on the other rank, while a pass of both runs from 2 to 2.125."""
    limits = Limits(blocks=1000, context_length=2000, max_sequences=8, max_tokens=500)
    pools = [pool("prefill", limits=limits), pool("decode", ranks=2, dealt=nothing_dealt(500))]
    run = run_pools(pools, workload((0.0, 100, 100), (1.05, 100, 2)), wire=Wire(Link(1e18, 0.0), False))
    assert run.records.moments[0, FINISHED_S] == pytest.approx(PREFILL_S + 100 * DECODE_S)
    first = 2.0 + 2 * DECODE_S
    assert run.records.moments[1, 1:].tolist() == pytest.approx([first, first + DECODE_S])


def test_experts_see_all_ranks_rows_and_exchanges_wait_for_the_fullest() -> None:
    """100 rows on one of two ranks: experts at 50, and an exchange of 100 to the other."""
    rows = np.arange(501.0)
    times = plain_times(500, 8)._replace(rows_s=1.0 + 0.05 * rows)
    dealt = nothing_dealt(500)._replace(experts_s=0.02 * rows, exchanges_s=0.01 * rows)
    run = run_pools([pool(ranks=2, times=times, dealt=dealt)], workload((0.0, 100, 1)))
    assert run.ttft_s[0] == pytest.approx(1.0 + 100 * (0.05 - 0.03) + 50 * 0.02 + 100 * 0.01)
    four = run_pools([pool(ranks=4, times=times, dealt=dealt)], workload((0.0, 100, 1)))
    assert four.ttft_s[0] == pytest.approx(1.0 + 100 * 0.02 + 25 * 0.02 + 34 * 0.01)  # 100 of 3 ranks


@pytest.mark.parametrize("policy", ["decode-first", "prefill-first", "shortest-first"])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_stepping_gives(seed: int, policy: str) -> None:
    load, ranks = random_load(seed, 40, (4.0, 12.0, 60.0, 200.0)[seed]), 2 + seed % 3
    times, dealt = times_in_step(24, 6)
    run = run_pools([pool(ranks=ranks, limits=small(), times=times, policy=policy, dealt=dealt)], load)
    slow = in_step(load, small(), times, dealt, ranks, policy)
    assert len(run.finished) > 30
    np.testing.assert_allclose(run.records.moments[:, FIRST_TOKEN_S], slow.first_s, rtol=1e-9)
    np.testing.assert_allclose(run.records.moments[:, FINISHED_S], slow.ends_s, rtol=1e-9)
    lasted = sum(seconds for _, seconds in slow.steps)
    for each in run.replicas:  # each rank takes part in each step
        assert each.busy_s == pytest.approx(lasted, rel=1e-9)
    if seed == 3:  # mostly one request at a time: far fewer rows than passes
        written = sum(len(each.passes.counts) for each in run.replicas)
        assert 4 * written < len(slow.steps)


def test_another_rank_becomes_the_slowest_within_a_run_of_passes() -> None:
    """One long sequence against three short ones: their attention grows three times as fast."""
    times, dealt = times_in_step(150, 6)
    first, short, gone = (0.0, 140, 50), (0.0, 4, 50), (0.0, 4, 1)
    load = workload(first, short, gone, short, gone, short)
    limits = Limits(blocks=1000, context_length=200, max_sequences=6, max_tokens=150, prefix_cache=False)
    slow = in_step(load, limits, times, dealt, 2, "decode-first")
    growths = np.diff([seconds for _, seconds in slow.steps])[2:]
    assert growths[0] == pytest.approx(7e-4)
    assert growths[-1] == pytest.approx(3 * 7e-4)
    run = run_pools([pool(ranks=2, limits=limits, times=times, dealt=dealt)], load)
    np.testing.assert_allclose(run.records.moments[:, FINISHED_S], slow.ends_s, rtol=1e-9)
    assert max(len(each.passes.counts) for each in run.replicas) < 8  # of 50


@pytest.mark.parametrize("seed", range(3))
def test_turns_come_when_the_answer_ended_on_whichever_rank(seed: int) -> None:
    load, (times, dealt) = random_load(seed, 30, 10.0, turns=3), times_in_step(24, 6)
    run = run_pools([pool(ranks=3, limits=small(), times=times, dealt=dealt)], load)
    slow = in_step(load, small(), times, dealt, 3, "decode-first")
    assert len(run.finished) > 20
    np.testing.assert_allclose(run.records.moments[:, FINISHED_S], slow.ends_s, rtol=1e-9)


def test_groups_go_each_at_its_own_pace() -> None:
    load, (times, dealt) = random_load(5, 60, 6.0), times_in_step(24, 6)
    run = run_pools([pool(count=2, ranks=2, limits=small(), times=times, dealt=dealt)], load)
    for group in range(2):
        rows = np.flatnonzero(np.arange(60) % 4 // 2 == group)
        mine = Workload(load.arrival_s[rows], load.prompt_tokens[rows], load.output_tokens[rows])
        slow = in_step(mine, small(), times, dealt, 2, "decode-first")
        np.testing.assert_allclose(run.records.moments[rows, FINISHED_S], slow.ends_s, rtol=1e-9)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["round-robin", "least-loaded"]))
def test_passes_of_ranks_coincide_or_do_not_meet(seed: int, ranks: int, router: str) -> None:
    """And no second is lost: where one rank runs alone or with others, passes follow each other."""
    load, (times, dealt) = random_load(seed, 25, 15.0), times_in_step(24, 6)
    own = pool(ranks=ranks, limits=small(60), times=times, dealt=dealt)
    run = run_pools([own], load, router=router)
    assert np.all(run.records.counts[:, OUTCOME] == FINISHED)
    every = [
        (start, seconds, alike)
        for each in run.replicas
        for start, seconds, alike in zip(
            each.passes.seconds[:, START_S],
            each.passes.seconds[:, SECONDS],
            each.passes.counts[:, PASSES],
            strict=True,
        )
    ]
    steps = sorted(set(every))
    for (start, seconds, _), (later, *_) in pairwise(steps):
        assert later >= start + seconds * (1 - 1e-12)
    lasted = sum(seconds for _, seconds, _ in steps)
    assert [each.busy_s for each in run.replicas] == pytest.approx([lasted] * ranks, rel=1e-9)
    gaps, often = run.gaps_s
    took = run.records.moments[:, FINISHED_S] - run.records.moments[:, FIRST_TOKEN_S]
    assert float(gaps @ often) == pytest.approx(float(took.sum()), rel=1e-9)


def test_work_is_shared_and_none_is_lost() -> None:
    """Two ranks, one of them without requests: FLOPs of experts go to both, in equal parts."""
    times, dealt = times_in_step(24, 6)
    run = run_pools([pool(ranks=2, limits=small(), times=times, dealt=dealt)], workload((0.0, 24, 1)))
    busy, idle = run.replicas
    assert idle.flops == 60 * 12
    assert busy.flops + idle.flops == pytest.approx(
        100 * 24 + 10 + 24 * 25 / 2
    )  # rows, logits, pairs of one FLOP


@pytest.mark.parametrize("seed", range(3))
def test_a_group_of_one_is_a_replica_alone(seed: int) -> None:
    """Through the ranks' own loop: its corrections are then nought, bit for bit."""
    requests, limits, times = random_requests(seed, drafts=seed == 1, outputs_keyed=True)
    alone = simulate_replica(requests, limits, times)
    whole = pool(limits=limits, times=times, dealt=times_in_step(150, 14)[1])
    load = Workload(requests.arrival_s, requests.counts[:, PROMPT], requests.counts[:, OUTPUT_TOKENS])
    replicas, _ = replicas_of([whole], load, 0, 0.0, 0)
    replicas[0] = replicas[0]._replace(
        requests=requests, state=replicas[0].state._replace(arena=requests.keys)
    )
    replicas[0].counts[SPECULATES] = seed == 1
    loop = Loop(replicas, None, len(load))
    cluster = loop.placed(cluster_of([whole], load, 1, "round-robin", None, 0))
    for row, moment in enumerate(requests.arrival_s.tolist()):
        assert advance_in_step(cluster, 0, moment)[0] == DONE
        assert submit(loop.replicas[0], row, moment) == DONE
    assert advance_in_step(cluster, 0, np.inf)[0] == DONE
    np.testing.assert_array_equal(loop.replicas[0].records.moments, alone.records.moments)
    assert np.array_equal(loop.replicas[0].records.counts, alone.records.counts)
    for mine, theirs in zip(loop.passes()[0], alone.passes, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_ranks_without_dealt_experts_go_alone() -> None:
    """Data-parallel replicas of a dense model: as replicas of a plan without --dp, bit for bit."""
    load, times = random_load(2, 40, 8.0), pass_times(24, 6)
    shares = run_pools([pool(ranks=3, limits=small(), times=times)], load)
    plain = run_pools([pool(count=3, limits=small(), times=times)], load)
    np.testing.assert_array_equal(shares.records.moments, plain.records.moments)
    assert [each.busy_s for each in shares.replicas] == [each.busy_s for each in plain.replicas]


def test_time_is_up_in_the_middle_of_a_step() -> None:
    both = pool(ranks=2, dealt=nothing_dealt(500))
    run = run_pools([both], workload((0.0, 10, 100), (0.0, 10, 2)), max_time_s=1.3)
    assert run.records.counts[:, OUTCOME].tolist() == [TRUNCATED, FINISHED]
