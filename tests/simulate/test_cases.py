"""Users' questions about simulation, answered through `simulate`, the verb's own function."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.scheduler.policy import Policy, decode_first
from twophase.scheduler.state import State
from twophase.simulate.books import (
    CACHED,
    DECODES,
    FIRST_TOKEN_S,
    PASSES,
    PROMPTS,
    RUNNING_REQUESTS,
    WAITING_REQUESTS,
)
from twophase.simulate.outcome import Run
from twophase.simulate.pools import Sizes
from twophase.simulate.run import simulate
from twophase.workload.closed import closed
from twophase.workload.workload import Streams, Workload

LLAMA = "llama-3.1-8b"


def at_once(*groups: tuple[int, int, int], arrival_s: float = 0.0) -> Workload:
    """(requests, prompt, output) of each group, all at one moment."""
    prompts = np.concatenate([np.full(number, prompt) for number, prompt, _ in groups])
    outputs = np.concatenate([np.full(number, output) for number, _, output in groups])
    return Workload(np.full(len(prompts), arrival_s), prompts, outputs)


def served(load: Workload, policy: str | Policy = "vllm", model: str = LLAMA, **more: Any) -> Run:
    return simulate(model, more.pop("gpu", "h100-sxm"), load, policy, **more)


def test_sim_01_a_long_prompt_stalls_decodes_less_in_chunks() -> None:
    """130,000 tokens at 512 a pass: at least 254 passes, in each of which all others get a token."""
    others, long = 20, 130_000
    arrivals = np.concatenate([np.zeros(others), [1.0]])
    load = Workload(arrivals, np.array([100] * others + [long]), np.array([3000] * others + [10]))
    chunked = served(load, sizes=Sizes(max_tokens=512, context_length=131_072))
    counts = chunked.replicas[0].passes.counts
    mixed = counts[(counts[:, PROMPTS] > 0) & (counts[:, DECODES] == others)]
    # the last chunk is within the pass that ends the prompt
    assert mixed[:, PASSES].sum() == -(-long // (512 - others))
    assert mixed[:, PASSES].sum() >= 254
    whole = served(load, "prefill-first", sizes=Sizes(max_tokens=131_072, context_length=131_072))
    stall, gap = (run.gaps_s[0].max() for run in (whole, chunked))
    assert stall > 20 * gap
    prefill = whole.records.moments[-1, FIRST_TOKEN_S] - 1.0
    assert stall == pytest.approx(prefill, rel=0.05)  # everyone waits for all of it


def test_sim_04_preemption_storm() -> None:
    """77,088 tokens of KV hold 72 of the 256: 184 wait, many lose their blocks, TTFT grows with the queue."""
    blocks = 77_088 // 16
    load = at_once((256, 571, 500))
    run = served(
        load,
        model="qwen2.5-7b",
        gpu="a10g",
        sizes=Sizes(blocks=blocks, max_sequences=256, max_tokens=2048),
    )
    counts = run.replicas[0].passes.counts
    assert len(run.finished) == 256
    # with their whole length 72 fit; more are admitted by their prompts, and some of them must go again
    assert 77_088 // 1071 == 71
    assert 72 <= counts[:, RUNNING_REQUESTS].max() <= 77_088 // 571
    assert counts[:, WAITING_REQUESTS].max() >= 256 - 77_088 // 571
    assert run.records.counts[:, 3].sum() >= 50
    ttft = run.ttft_s
    assert np.percentile(ttft, 90) > 5 * np.percentile(ttft, 10)


def test_sim_05_tokens_a_second_by_clients() -> None:
    """gpt-oss-120b on 8 H100, published milliseconds a token at 4 to 64 clients, 1k in and 1k or 8k out.

    The published run of 64 clients and 8k takes 16 ms, three times its neighbours'. Weights and cache give
    no reason for it (its 64 sequences take a tenth of the pool), so no arithmetic shows it: left out here.
    """
    published = {
        1024: {4: 3.72, 8: 4.05, 32: 5.82, 64: 7.36},
        8192: {4: 3.68, 8: 4.00, 16: 4.53, 32: 5.65},
    }
    for output, points in published.items():
        before = 0.0
        for clients, tpot_ms in points.items():
            count = 2 * clients
            load = closed(at_once((count, 1024, output)), clients)
            run = served(load, model="gpt-oss-120b", plan=Plan(tp=8), provenance="served")
            tpot_s = float(np.median(run.tpot_s))
            assert 1e3 * tpot_s == pytest.approx(tpot_ms, rel=0.1)
            gpu_tokens = count * (1024 + output) / run.ended_s / 8
            assert gpu_tokens > 1.2 * before  # more clients, more tokens
            before = gpu_tokens
            # each client gets a token every TPOT, and takes as many of its prompt with it
            assert gpu_tokens == pytest.approx((1 + 1024 / output) * clients / tpot_s / 8, rel=0.05)


def test_sim_08_a_prefix_shorter_than_a_block_is_never_found() -> None:
    """240 shared tokens are found with blocks of 16, and not with those of 784 and 1536 tokens."""
    load = Workload(
        np.arange(10) * 5.0,
        np.full(10, 2000),
        np.full(10, 4),
        Streams(np.zeros(10, np.int64), 240, np.full(10, -1)),
    )
    for block_size, found in ((16, 240), (784, 0), (1536, 0)):
        run = served(load, sizes=Sizes(block_size=block_size))
        assert run.records.counts[:, CACHED].tolist() == [0] + [found] * 9


def test_sim_11_how_many_nodes_of_each_kind() -> None:
    """608e9 tokens a day at 73,700/s a node, 168e9 at 14,800/s: 95.5 and 131.4 nodes, 1.38 to one."""
    prefill, decode = 608e9 / 86_400 / 73_700, 168e9 / 86_400 / 14_800
    assert (round(prefill, 1), round(decode, 1), round(decode / prefill, 2)) == (95.5, 131.4, 1.38)


def test_sim_14_a_burst_queues_and_short_prompts_first_would_not_wait() -> None:
    """18 prompts of 24k and 11 of 2k: FCFS makes both kinds wait; by length the short ones go first."""
    order = np.random.default_rng(0).permutation(29)
    prompts = np.array([24_000] * 18 + [2_000] * 11)[order]
    load = Workload(np.sort(np.random.default_rng(1).random(29) * 0.191), prompts, np.full(29, 20))
    short = prompts == 2_000
    fcfs = served(load, "sglang")
    work_s = fcfs.replicas[0].busy_s
    assert fcfs.ttft_s[short].max() > 0.5 * work_s
    assert fcfs.ttft_s[~short].max() > 0.8 * work_s
    by_length = served(load, "shortest-first")
    assert by_length.ttft_s[short].max() < 0.6 * 1.5
    assert by_length.ttft_s[short].max() < fcfs.ttft_s[short].max() / 4


def test_sim_16_the_clock_is_made_of_arithmetic_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same input twice gives the same bits, however long this machine takes."""
    draw = np.random.default_rng(2)
    arrivals = np.cumsum(draw.exponential(0.05, 300))
    load = Workload(arrivals, draw.integers(1, 3000, 300), draw.integers(1, 200, 300))
    one = served(load)
    monkeypatch.setattr("time.perf_counter", lambda: 1e9)
    two = served(load, show=lambda *_: None)
    assert one.records.moments.tobytes() == two.records.moments.tobytes()
    assert one.ended_s == two.ended_s


def test_sim_18_prefill_bounds_how_many_run() -> None:
    """40k prompts with 16 output tokens: memory for 50 sequences, and never more than a few run."""
    load = Workload(np.arange(30) * 0.1, np.full(30, 40_000), np.full(30, 16))
    run = served(load, sizes=Sizes(blocks=53 * 40_016 // 16, max_tokens=8192))
    assert run.replicas[0].passes.counts[:, RUNNING_REQUESTS].max() <= 5
    assert run.replicas[0].passes.counts[:, WAITING_REQUESTS].max() > 10


def test_a_load_beyond_capacity_says_so_and_at_which_rate_it_would_not_grow() -> None:
    draw = np.random.default_rng(3)

    def load(rate: float) -> Workload:
        return Workload(np.cumsum(draw.exponential(1 / rate, 1500)), np.full(1500, 3000), np.full(1500, 20))

    over = served(load(100.0), max_time_s=10.0)
    assert over.growth is not None
    assert over.growth.arriving_per_s == pytest.approx(100, rel=0.15)
    assert over.ended_s == pytest.approx(10.0, abs=1.0)
    below = served(load(0.9 * over.growth.served_per_s))
    assert below.growth is None
    assert len(below.finished) == 1500


def test_a_policy_of_ones_own_is_served_as_ours_are() -> None:
    load = Workload(np.arange(40) * 0.02, np.full(40, 700), np.full(40, 12))

    def own(state: State) -> None:
        decode_first(state)

    mine, ours = served(load, own), served(load, "decode-first")
    np.testing.assert_allclose(mine.records.moments, ours.records.moments, rtol=1e-9)
    assert mine.replicas[0].busy_s == pytest.approx(ours.replicas[0].busy_s)
    with pytest.raises(InputError, match="one replica"):
        served(load, own, replicas=2)


def test_the_documents_own_example_runs(tmp_path: Path) -> None:
    """Five lines."""
    from twophase.workload.traces import read_trace

    (tmp_path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,200,20\n")
    run = simulate(LLAMA, "h100-sxm", read_trace(tmp_path / "trace.csv"), "vllm")
    assert np.percentile(run.ttft_s, 99) > 0
    assert run.output_tokens_per_s > 0
