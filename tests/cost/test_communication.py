"""What devices send one another, by hand: rings, one-shots, sends and all-to-alls of published models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.communication import Exchange, bubble, communication_s, exchanges
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.roofline import floor
from twophase.cost.spans import decodes, prefills
from twophase.hardware.accelerator import Accelerator, Link
from twophase.model.catalogue import load_spec
from twophase.model.quantization import uniform

FAST, SLOW = Link(450e9, 5e-6), Link(50e9, 20e-6)
H100 = Accelerator(
    *("h100", "H100", "NVIDIA", {"bf16": 989e12, "fp8": 1979e12}, 80e9, 80e9, 3.35e12),
    devices_per_node=8,
    intra=FAST,
    inter=SLOW,
)
LLAMA = load_spec("llama-3.1-70b")
DEEPSEEK = load_spec("deepseek-v3")


def found(own: Deployment, batch: int = 1, context: int = 1000) -> dict[str, Exchange]:
    return {each.name: each for each in exchanges(own, decodes(batch, context), H100)}


def test_one_device_sends_nothing() -> None:
    assert exchanges(Deployment(LLAMA), prefills(5000), H100) == []
    assert exchanges(Deployment(LLAMA, plan=Plan(dp=4)), prefills(5000), H100) == []
    like = floor(Deployment(LLAMA), decodes([1, 2], 10), H100).seconds
    assert communication_s([], like).tolist() == [0.0, 0.0]


def test_a_decode_step_of_llama_70b_on_eight_is_160_latencies() -> None:
    """Two a layer of 8,192 activations: one shot sends 7·16 KiB in 36 ns; 160 x 5 µs is 0.8 ms."""
    (each,) = found(Deployment(LLAMA, plan=Plan(tp=8))).values()
    payload = 8192 * 2
    assert (each.name, each.times) == ("all-reduce", 160)
    assert each.bytes == 160 * 7 * payload
    assert each.seconds == pytest.approx(160 * (7 * payload / 450e9 + 5e-6))
    assert each.seconds == pytest.approx(0.8e-3, rel=0.06)


def test_a_prefill_is_a_ring() -> None:
    """2·7/8 of the payload in 14 hops, where one shot would send 7 times the payload."""
    rows = 8192
    (each,) = exchanges(Deployment(LLAMA, plan=Plan(tp=8)), prefills(rows), H100)
    payload = rows * 8192 * 2
    assert each.bytes == 160 * 2 * 7 / 8 * payload
    assert each.seconds == pytest.approx(160 * (2 * 7 / 8 * payload / 450e9 + 14 * 5e-6))


@given(st.sampled_from([2, 4, 8]), st.integers(1, 100_000))
def test_the_faster_of_both_is_taken(tp: int, rows: int) -> None:
    (each,) = exchanges(Deployment(LLAMA, plan=Plan(tp=tp)), prefills(rows), H100)
    payload = rows * 8192 * 2
    ring = 2 * (tp - 1) / tp * payload / 450e9 + 2 * (tp - 1) * 5e-6
    one_shot = (tp - 1) * payload / 450e9 + 5e-6
    assert each.seconds == pytest.approx(160 * min(ring, one_shot))


def test_beyond_a_node_the_slower_link_counts() -> None:
    """405B over two nodes of 8: 252 times one shot inside, then an eighth of it between, at 20 µs."""
    own = Deployment(load_spec("llama-3.1-405b"), plan=Plan(tp=16))
    (each,) = found(own).values()
    assert each.times == 2 * 126
    inside, between = 7 * 16384 * 2 / 450e9 + 5e-6, 16384 * 2 / 8 / 50e9 + 20e-6
    assert each.seconds == pytest.approx(252 * (inside + between))


def test_stages_send_activations_on() -> None:
    """Each of tp devices its part of 8,192 activations, once to each next stage."""
    both = found(Deployment(LLAMA, plan=Plan(tp=2, pp=4)), batch=16)
    assert both["all-reduce"].times == 160
    send = both["send"]
    assert send.times == 3
    assert send.bytes == 3 * 16 * 8192 * 2 / 2
    # 2·1·2 devices of two neighbouring stages are in one node
    assert send.seconds == pytest.approx(3 * (16 * 8192 * 2 / 2 / 450e9 + 5e-6))
    (across,) = (
        each for each in found(Deployment(LLAMA, plan=Plan(tp=8, pp=2))).values() if each.name == "send"
    )
    assert across.seconds == pytest.approx(8192 * 2 / 8 / 50e9 + 20e-6)


def others(experts: int, top_k: int, devices: int) -> float:
    """Expected other devices of a row: each has none of its experts in a share of draws without return."""
    elsewhere, missed = experts - experts // devices, 1.0
    for drawn in range(top_k):
        missed *= (elsewhere - drawn) / (experts - drawn)
    return (devices - 1) * (1 - missed)


def test_devices_of_a_row_are_those_of_random_draws() -> None:
    random = np.random.default_rng(0)
    draws = np.argsort(random.random((20_000, 256)), axis=1)[:, :8] // (256 // 16)
    met = np.mean([len(set(row.tolist()) - {0}) for row in draws])
    assert others(256, 8, 16) == pytest.approx(met, rel=0.01)


@pytest.mark.parametrize(("weights", "there"), [("bf16", 2), ("fp8-block", 1)])
def test_rows_go_to_their_experts_and_back(weights: str, there: int) -> None:
    """DeepSeek-V3, 58 layers of 8 of 256 experts on 16 devices: 7,168 activations, back in BF16.

    A row goes once to a device that has several of its experts.
    """
    own = Deployment(DEEPSEEK, uniform(weights), plan=Plan(dp=16, ep=16))
    (each,) = found(own, batch=32).values()
    assert (each.name, each.times) == ("all-to-all", 2 * 58)
    assert each.bytes == pytest.approx(58 * 32 * others(256, 8, 16) * 7168 * (there + 2))
    assert each.seconds == pytest.approx(float(each.bytes) / 50e9 + 116 * 20e-6)


def test_where_experts_are_dealt_out_their_layers_have_one_all_reduce() -> None:
    """61 after attention, and 3 after the dense layers; a device sends its eighth of the rows to experts."""
    both = found(Deployment(DEEPSEEK, plan=Plan(tp=8, ep=8)), batch=8)
    assert both["all-reduce"].times == 61 + 3
    assert both["all-to-all"].bytes == pytest.approx(58 * 8 / 8 * 7168 * others(256, 8, 8) * 4)


def test_two_devices_do_not_make_a_small_active_model_twice_as_fast() -> None:
    """gpt-oss-120b at batch 1: 36 layers x 2 collectives cost what half the weights save (vllm issue 22331:
    on A100 90 tokens/s alone, 77 on two)."""
    spec = load_spec("gpt-oss-120b")
    a100 = Accelerator(
        *("a100", "A100", "NVIDIA", {"bf16": 312e12}, 80e9, 80e9, 2.039e12),
        devices_per_node=8,
        intra=Link(300e9, 15e-6),
    )
    step = decodes(1, 1000)
    one, two = (Deployment(spec, uniform("mxfp4"), plan=Plan(tp=tp)) for tp in (1, 2))
    alone, halved = (float(floor(own, step, a100).seconds) for own in (one, two))
    (moved,) = exchanges(two, step, a100)
    assert moved.times == 72
    assert 0.5 * alone < halved < 0.6 * alone
    assert float(moved.seconds) > 0.8 * (alone - halved)


PLANS = st.sampled_from([Plan(tp=4), Plan(tp=2, pp=3), Plan(dp=8, ep=8), Plan(tp=4, ep=4, pp=2), Plan(pp=61)])


@given(PLANS, st.integers(1, 10_000), st.integers(1, 10_000))
def test_more_rows_never_send_less(plan: Plan, rows: int, more: int) -> None:
    own = Deployment(DEEPSEEK, plan=plan)
    some, all_ = (exchanges(own, prefills(n), H100) for n in (rows, rows + more))
    for before, after in zip(some, all_, strict=True):
        assert (before.name, before.times) == (after.name, after.times)
        assert after.bytes >= before.bytes or after.name == "all-reduce"  # a ring sends less than one shot
        assert after.seconds >= before.seconds


@pytest.mark.parametrize(
    ("pp", "microbatches", "share"), [(1, 1, 0), (4, 1, 3 / 4), (4, 4, 3 / 7), (2, 9, 0.1)]
)
def test_the_bubble_of_a_pipeline(pp: int, microbatches: int, share: float) -> None:
    assert bubble(Plan(pp=pp), microbatches) == pytest.approx(share)
