"""Pipeline stages: as many microbatches under way as stages, none of which comes round before the slowest."""

from collections.abc import Iterator

import numpy as np
import pytest
from pools_by_hand import DECODE_S, PREFILL_S, pool, workload
from steps_by_hand import in_step, times_in_step
from test_in_step import random_load, small

from twophase.cost.parallel import Plan
from twophase.errors import InputError
from twophase.hardware.accelerator import Link
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.report.simulation_activity import activity_of
from twophase.scheduler.policy import decode_first
from twophase.simulate import linking
from twophase.simulate.books import FINISHED_S, FIRST_TOKEN_S, OWN_S
from twophase.simulate.pools import Sizes, pool_of
from twophase.simulate.presets import PRESETS
from twophase.simulate.run import simulate
from twophase.simulate.running import Wire, run_pools
from twophase.workload.workload import Streams, Workload


@pytest.fixture(autouse=True)
def as_it_stands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(linking, "can_compile", lambda: False)
    yield


def test_two_requests_are_in_two_stages_at_once() -> None:
    """Each in a microbatch of its own, beside the other: neither waits, and all stages are at work."""
    run = run_pools([pool(stages=2)], workload((0.0, 10, 20), (0.0, 10, 4)))
    assert run.records.moments[:, FIRST_TOKEN_S].tolist() == [PREFILL_S, PREFILL_S]
    assert run.records.moments[:, FINISHED_S].tolist() == [
        PREFILL_S + 19 * DECODE_S,
        PREFILL_S + 3 * DECODE_S,
    ]
    assert [each.busy_s for each in run.replicas] == [PREFILL_S + 19 * DECODE_S] * 2


def test_a_decode_waits_behind_the_other_microbatch_s_prompt() -> None:
    """It can't come round again before the prompt has left the stage that it needs."""
    run = run_pools([pool(stages=2)], workload((0.0, 10, 20), (1.3, 10, 3)))
    begins = PREFILL_S + 3 * DECODE_S  # B came at 1.3 and goes into the first stage when A comes round
    assert run.records.moments[:, FIRST_TOKEN_S].tolist() == [PREFILL_S, begins + PREFILL_S]
    assert run.records.moments[0, FINISHED_S] == begins + PREFILL_S + 15 * DECODE_S
    own = run.replicas[0].passes.seconds[:, OWN_S].sum()  # what it waits for is none of its work
    assert own == pytest.approx(PREFILL_S + 19 * DECODE_S)


def test_one_link_carries_a_replica_s_prompts() -> None:
    """Two at once, from two microbatches: the second waits until the first has been sent."""
    pools = [pool("prefill", stages=2), pool("decode", stages=2)]
    wire = Wire(Link(1e6, 0.0), overlap=False)
    run = run_pools(pools, workload((0.0, 100, 4), (0.0, 100, 4)), wire=wire)
    assert run.transfers is not None
    begun, arrived = np.sort(run.transfers, axis=0).T
    assert begun[1] >= arrived[0] - 1e-9 > begun[0]


def test_requests_go_to_replicas_and_then_to_their_microbatches() -> None:
    load = workload(*[(float(at), 10, 5) for at in range(60)])
    run = run_pools([pool(), pool(stages=3)], load, router="round-robin")
    assert np.bincount(run.routes).tolist()[0] == 30
    assert run.routes.max() < 4


def test_microbatches_find_one_another_s_prefixes() -> None:
    """A conversation's next turn goes to the microbatch that has the one before it."""
    content = Streams(np.zeros(40, np.int64), 400, np.full(40, -1))
    load = Workload(np.arange(40.0) * 3, np.full(40, 480), np.full(40, 4), content)
    hits = []
    for plan in (Plan(tp=2), Plan(pp=2)):
        run = simulate("llama-3.1-8b", "h100-sxm", load, plan=plan, provenance="floor")
        hits.append(run.cached_tokens)
    assert hits[1] == hits[0] == 39 * 400


def test_stages_do_not_shorten_a_prompt_whose_experts_are_dealt_out() -> None:
    """Ranks exchange within a microbatch: an idle microbatch takes no share of the other's rows."""
    times, dealt = times_in_step(24, 6)
    load = workload((0.0, 24, 1))
    slow = in_step(load, small(), times, dealt, 2, "decode-first")
    for stages in (1, 2, 3):
        own = pool(ranks=2, stages=stages, limits=small(), times=times, dealt=dealt)
        assert run_pools([own], load).ttft_s[0] == pytest.approx(slow.first_s[0])


def test_devices_that_wait_for_another_stage_are_not_used() -> None:
    """One request alone: of four stages' devices, one is at work at a time."""
    used, load = [], workload((0.0, 8000, 1))
    for pp in (1, 4):
        run = simulate("llama-3.1-8b", "h100-sxm", load, plan=Plan(pp=pp), provenance="floor")
        used.append(activity_of(run).work.mfu)
    assert used[1] == pytest.approx(used[0] / 4, rel=0.05)


def test_a_stage_has_a_sequence_at_least() -> None:
    load, one = workload((0.0, 9, 9)), Sizes(max_sequences=1)
    with pytest.raises(InputError, match="1 sequence at once, and 2 pipeline stages"):
        simulate("llama-3.1-8b", "h100-sxm", load, plan=Plan(pp=2), sizes=one)


@pytest.mark.parametrize("policy", ["decode-first", "prefill-first"])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_stepping_gives(seed: int, policy: str) -> None:
    load, stages = random_load(seed, 40, (4.0, 12.0, 60.0, 200.0)[seed]), 2 + seed % 3
    times, _ = times_in_step(24, 6)
    own = pool(stages=stages, count=2, limits=small(), times=times, policy=policy)
    run = run_pools([own], load, router="round-robin")
    for replica in range(2):
        mine = np.flatnonzero(np.arange(len(load)) % 2 == replica)
        part = Workload(load.arrival_s[mine], load.prompt_tokens[mine], load.output_tokens[mine])
        slow = in_step(part, small(), times, None, stages, policy)
        np.testing.assert_allclose(run.records.moments[mine, FIRST_TOKEN_S], slow.first_s, rtol=1e-9)
        np.testing.assert_allclose(run.records.moments[mine, FINISHED_S], slow.ends_s, rtol=1e-9)


def test_microbatches_share_a_replica_s_memory_and_devices() -> None:
    asked = workload(*[(0.0, 512, 64)] * 8)
    model, gpu = load_model("llama-3.1-8b"), load_accelerator("h100-sxm")
    one, two = (
        pool_of(
            model, gpu, asked, PRESETS["vllm"], policy="vllm", plan=Plan(pp=pp), count=3, provenance="floor"
        )
        for pp in (1, 2)
    )
    assert (one.count, two.count, one.replicas, two.replicas) == (3, 6, 3, 3)
    assert (one.devices, two.devices) == (3, 6)
    assert two.limits.max_sequences == one.limits.max_sequences // 2
    # two devices hold the weights once: of 80 GB each, more than twice one's room is left
    assert 2 * two.limits.blocks > 2 * one.limits.blocks
    np.testing.assert_allclose(two.estimate.times.roofs, one.estimate.times.roofs)  # of the stage it is in


def test_a_pipeline_computes_prompts_as_two_devices_do() -> None:
    """Both stages always have a prompt. Of decodes each microbatch reads all weights: nothing is gained."""
    prompts, decodes = rates(workload(*[(0.0, 2048, 1)] * 32)), rates(workload(*[(0.0, 16, 200)] * 64))
    assert prompts[1] == pytest.approx(2 * prompts[0], rel=0.05)
    assert prompts[1] == pytest.approx(prompts[2], rel=0.02)
    assert decodes[1] == pytest.approx(decodes[0], rel=0.1)


def rates(asked: Workload) -> list[float]:
    """Requests a second of one device, of two as stages, and of two as replicas."""
    found = []
    for plan, replicas in ((Plan(), 1), (Plan(pp=2), 1), (Plan(), 2)):
        run = simulate(
            "llama-3.1-8b",
            "h100-sxm",
            asked,
            plan=plan,
            replicas=replicas,
            provenance="floor",
            router="least-loaded",
        )
        found.append(len(asked) / run.ended_s)
    return found


def test_a_policy_of_one_s_own_has_no_stages() -> None:
    with pytest.raises(InputError, match="without stages"):
        simulate("llama-3.1-8b", "h100-sxm", workload((0.0, 9, 9)), decode_first, plan=Plan(pp=2))
