"""Several replicas: against each alone, and against times computed by hand."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from pools_by_hand import DECODE_S, PREFILL_S, pool, workload
from random_loads import pass_times
from steps_by_hand import times_in_step

from twophase.hardware.accelerator import Link
from twophase.model.cache import kv_bytes
from twophase.model.catalogue import load_model
from twophase.scheduler.compiling import can_compile
from twophase.scheduler.request import Limits
from twophase.simulate import linking
from twophase.simulate.books import CACHED, FINISHED, FIRST_TOKEN_S, OUTCOME, SCHEDULED_S, TRUNCATED
from twophase.simulate.running import Wire, run_pools
from twophase.workload.workload import Blocks, Streams, Workload

BLOCK = 16


@pytest.fixture(autouse=True)
def as_it_stands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plain Python, but for the test that compares both: small runs need no compiler."""
    if "compiled" not in request.node.name:
        monkeypatch.setattr(linking, "can_compile", lambda: False)
    yield


def random_load(seed: int, count: int = 60, turns: int = 1) -> Workload:
    draw = np.random.default_rng(seed)
    prompts, outputs = draw.integers(1, 60, count), draw.integers(1, 40, count)
    arrivals = np.cumsum(draw.exponential(6.0, count))
    talk = np.arange(count) // turns
    follows = np.where(np.arange(count) % turns == 0, -1, np.arange(count) - 1)
    if turns > 1:
        prompts = np.concatenate([np.cumsum(each) for each in np.array_split(prompts, count // turns)])
        prompts = np.minimum(prompts, 100)
    return Workload(
        np.where(follows < 0, arrivals, 3.0),
        prompts,
        outputs,
        Streams(talk % 3, 20, talk) if turns > 1 else Streams(np.arange(count) % 3, 20, np.full(count, -1)),
        follows=follows if turns > 1 else None,
    )


def small() -> Limits:
    return Limits(blocks=40, context_length=150, max_sequences=6, max_tokens=24, block_size=4)


@pytest.mark.parametrize("seed", range(4))
def test_round_robin_is_each_replica_alone_on_its_share(seed: int) -> None:
    load, times = random_load(seed), pass_times(150, 6)
    both = run_pools([pool(count=3, limits=small(), times=times)], load, router="round-robin")
    for at in range(3):
        rows = np.arange(at, len(load), 3)
        content = load.content
        assert isinstance(content, Streams)
        share = replace(
            load,
            arrival_s=load.arrival_s[rows],
            prompt_tokens=load.prompt_tokens[rows],
            output_tokens=load.output_tokens[rows],
            content=Streams(content.prefix[rows], content.prefix_tokens, content.conversation[rows]),
        )
        alone = run_pools([pool(limits=small(), times=times)], share)
        np.testing.assert_allclose(both.records.moments[rows], alone.records.moments, rtol=1e-12)
        assert np.array_equal(both.records.counts[rows], alone.records.counts)
        assert both.replicas[at].busy_s == pytest.approx(alone.replicas[0].busy_s, rel=1e-12)


def wire(bandwidth: float, latency_s: float = 0.0, overlap: bool = False) -> Wire:
    return Wire(Link(bandwidth, latency_s), overlap)


def prompt_bytes(tokens: int) -> float:
    return kv_bytes(load_model("llama-3.1-8b").spec, tokens)


def test_a_split_request_waits_for_prefill_transfer_and_the_first_decode() -> None:
    """First token: prefill 1 s, 64 MiB at 128 MiB/s, latency, one decode pass; then seven more."""
    tokens = 512
    assert prompt_bytes(tokens) == 64 * 2**20  # 128 KiB a token
    limits = Limits(blocks=1000, context_length=2000, max_tokens=1000)
    pools = [pool("prefill", limits=limits), pool("decode", limits=limits)]
    run = run_pools(pools, workload((2.0, tokens, 8)), wire=wire(128 * 2**20, 0.25))
    first = 2.0 + PREFILL_S + 0.5 + 0.25 + DECODE_S
    assert run.records.moments[0].tolist() == pytest.approx([2.0, first, first + 7 * DECODE_S])
    faster = run_pools(pools, workload((2.0, tokens, 8)), wire=wire(256 * 2**20, 0.25))
    assert run.transfers is not None
    assert faster.transfers is not None
    assert np.diff(run.transfers[0])[0] - 0.25 == 2 * (np.diff(faster.transfers[0])[0] - 0.25)


def test_layers_sent_as_they_are_computed_hide_all_but_the_last_one_s() -> None:
    limits = Limits(blocks=1000, context_length=2000, max_tokens=1000)
    pools = [pool("prefill", limits=limits), pool("decode", limits=limits)]
    layers = len(load_model("llama-3.1-8b").spec.layers)
    hidden = run_pools(pools, workload((0.0, 512, 2)), wire=wire(128 * 2**20, overlap=True))
    assert hidden.ttft_s[0] == pytest.approx(PREFILL_S + 0.5 / layers + DECODE_S)
    slow = run_pools(pools, workload((0.0, 512, 2)), wire=wire(16 * 2**20, overlap=True))  # 4 s
    assert slow.ttft_s[0] == pytest.approx(4.0 + DECODE_S)


def test_transfers_of_one_replica_go_one_after_the_other() -> None:
    limits = Limits(blocks=1000, context_length=2000, max_tokens=2000)
    pools = [pool("prefill", limits=limits), pool("decode", 2, limits=limits)]
    run = run_pools(pools, workload((0.0, 512, 2), (0.0, 512, 2)), wire=wire(128 * 2**20))
    # both prompts are in one pass
    assert run.transfers is not None
    assert run.transfers.tolist() == [[1.0, 1.5], [1.5, 2.0]]


def test_prefill_blocks_are_held_until_they_are_sent() -> None:
    """A pool for one prompt: the second is admitted when the first has gone, 4 s after its prefill."""
    limits = Limits(blocks=33, context_length=2000, max_tokens=1000)
    pools = [pool("prefill", limits=limits), pool("decode")]
    load = workload((0.0, 512, 1), (0.0, 512, 1))
    run = run_pools(pools, load, wire=wire(16 * 2**20))
    assert run.records.moments[:, SCHEDULED_S].tolist() == [0.0, 5.0]
    assert run.records.moments[:, FIRST_TOKEN_S].tolist() == [5.0 + DECODE_S, 10.0 + DECODE_S]


@pytest.mark.parametrize("seed", range(3))
def test_a_link_without_bounds_leaves_prefill_alone_and_decode_alone(seed: int) -> None:
    load, times = random_load(seed), pass_times(150, 6)
    limits = replace(small(), prefix_cache=False)
    pools = [pool(role, limits=limits, times=times) for role in ("prefill", "decode")]
    run = run_pools(pools, load, wire=wire(1e18))
    ones = replace(load, output_tokens=np.ones_like(load.output_tokens))
    alone = run_pools([pool(limits=limits, times=times)], ones)
    assert len(run.finished) == len(load)
    np.testing.assert_allclose(
        run.records.moments[:, SCHEDULED_S], alone.records.moments[:, SCHEDULED_S], rtol=1e-9
    )
    assert np.all(run.records.moments[:, FIRST_TOKEN_S] > alone.records.moments[:, FIRST_TOKEN_S])


def test_a_turn_comes_when_the_answer_before_it_ended_and_finds_its_prefix() -> None:
    load = Workload(
        np.array([1.0, 10.0]),
        np.array([100, 260]),
        np.array([60, 4]),
        Streams(np.full(2, -1), 0, np.zeros(2, np.int64)),
        follows=np.array([-1, 0]),
    )
    run = run_pools([pool()], load)
    first_ends = 1.0 + PREFILL_S + 59 * DECODE_S
    assert run.arrival_s.tolist() == pytest.approx([1.0, first_ends + 10.0])
    assert run.ttft_s.tolist() == pytest.approx([PREFILL_S, PREFILL_S])
    # 159 tokens were computed: nine full blocks
    assert run.records.counts[:, CACHED].tolist() == [0, 9 * BLOCK]


@pytest.mark.parametrize("seed", range(3))
def test_turns_of_one_replica_are_what_arrivals_at_their_times_give(seed: int) -> None:
    load, times = random_load(seed, turns=3), pass_times(150, 6)
    own = pool(limits=small(), times=times)
    run = run_pools([own], load)
    assert np.isfinite(run.arrival_s).all()
    order = np.argsort(run.arrival_s, kind="stable")
    content = load.content
    assert isinstance(content, Streams)
    known = Workload(
        run.arrival_s[order],
        load.prompt_tokens[order],
        load.output_tokens[order],
        Streams(content.prefix[order], content.prefix_tokens, content.conversation[order]),
    )
    again = run_pools([own], known)
    np.testing.assert_allclose(run.records.moments[order], again.records.moments, rtol=1e-9)
    assert np.array_equal(run.records.counts[order], again.records.counts)


def test_who_is_refused_is_counted_and_so_are_its_turns() -> None:
    load = Workload(
        np.array([0.0, 1.0, 0.5]),
        np.array([5000, 6000, 10]),
        np.array([10, 10, 10]),
        follows=np.array([-1, 0, -1]),
    )
    run = run_pools([pool()], load)
    assert run.records.counts[:, OUTCOME].tolist() == [3, 3, FINISHED]
    assert run.arrival_s[1] == 1.0  # a second after it was told, as after an answer


def test_time_is_up_for_some() -> None:
    run = run_pools([pool()], workload((0.0, 10, 4), (1.5, 10, 100), (50.0, 10, 1)), max_time_s=3.0)
    assert run.records.counts[:, OUTCOME].tolist() == [FINISHED, TRUNCATED, 0]


@pytest.mark.skipif(not can_compile(), reason="needs Numba")
@pytest.mark.slow
def test_compiled_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    times = pass_times(150, 6)
    both = [pool(count=2, limits=small(), times=times)]
    split = [pool("prefill", limits=small(), times=times), pool("decode", 2, limits=small(), times=times)]
    steps = [pool(count=2, ranks=2, limits=small(), times=times, dealt=times_in_step(150, 6)[1])]
    ids = Blocks(np.arange(60) % 5, np.arange(61), 8)
    cases = [
        (both, replace(random_load(1), content=ids), "prefix-aware", None),
        (both, random_load(2), "power-of-two", None),
        (both, random_load(3, turns=3), "least-loaded", None),
        (split, random_load(4), "least-loaded", wire(2e6, 0.5, overlap=True)),
        (split, random_load(5, turns=3), "round-robin", wire(2e6)),
        (steps, random_load(6), "least-loaded", None),
        (steps, random_load(7, turns=3), "round-robin", None),
    ]

    def results() -> list[tuple[object, ...]]:
        made = [run_pools(pools, load, router=router, wire=own) for pools, load, router, own in cases]
        return [(r.records.moments.tolist(), r.records.counts.tolist(), r.ended_s) for r in made]

    compiled = results()
    monkeypatch.setattr(linking, "can_compile", lambda: False)
    assert str(compiled) == str(results())  # nan is itself
