"""Verdicts on made-up machines whose gains are worked out by hand in the comments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine import CHAT, CPU, READER, Machine, diagnosis

from twophase.advise.diagnosis import Advice, Diagnosis
from twophase.advise.verdict import bound_of


def lever(result: Diagnosis, change: str) -> Advice:
    (found,) = [each for each in result.verdict.advice if change in each.change]
    return found


def order(result: Diagnosis) -> list[str]:
    return [each.change for each in result.verdict.advice]


@pytest.mark.parametrize(
    ("measured", "compute", "memory", "bound"),
    [
        (1.0, 0.8, 0.2, "compute"),
        (1.0, 0.2, 0.8, "memory"),
        (1.0, 0.26, 0.1, "compute"),
        (1.0, 0.1, 0.26, "memory"),
        (1.0, 0.24, 0.24, "overhead"),
        (1.0, 1.3, 0.1, "compute"),  # beats its floor: reported elsewhere, still bound by its larger side
    ],
)
def test_bound(measured: float, compute: float, memory: float, bound: str) -> None:
    assert bound_of(measured_s=measured, compute_s=compute, memory_s=memory) == bound


def test_decode_dominated_request() -> None:
    """2000 in: 0.2 s. 500 out: 499 passes of 10 ms, 4.99 s. Together 5.19 s."""
    result = diagnosis(CHAT, 2000, 500)
    verdict = result.verdict
    assert (verdict.dominant, verdict.bound) == ("decode", "memory")
    assert lever(result, "INT8 weights").gain == pytest.approx(5.19 / (0.2 + 4.99 / 2))
    # 4 + 20/128 bits of 16 remain, but four rows of arithmetic are still far below
    assert lever(result, "INT4 weights").gain == pytest.approx(5.19 / (0.2 + 4.15625 / 16 * 4.99))
    # 1 + 0.7 + 0.49 + 0.343 = 2.533 tokens a pass, and a batch of four costs the same as one here
    assert lever(result, "Speculative").gain == pytest.approx(5.19 / (0.2 + 4.99 / 2.533))
    assert lever(result, "bandwidth").gain == pytest.approx(5.19 / (0.2 + 4.99 / 2))
    assert lever(result, "Prefix").gain == pytest.approx(5.19 / 5.09, rel=1e-3)
    arithmetic = lever(result, "FLOP/s")
    assert arithmetic.gain == pytest.approx(5.19 / 5.09)
    assert not arithmetic.helps
    assert order(result)[:2] == ["INT4 weights", "Speculative decoding"]
    assert "Decode takes 96%" in verdict.summary
    assert "would not: twice the FLOP/s" in verdict.summary
    assert "3.47×" in verdict.summary  # INT4: 5.19 / 1.4962


def test_prefill_dominated_request() -> None:
    """30,000 in: 30 s. 200 out: 1.99 s. Together 31.99 s."""
    result = diagnosis(READER, 30_000, 200)
    assert (result.verdict.dominant, result.verdict.bound) == ("prefill", "compute")
    assert lever(result, "FLOP/s").gain == pytest.approx(31.99 / 16.99)
    assert lever(result, "Prefix").gain == pytest.approx(31.99 / 16.99, rel=1e-3)
    assert {"Prefix", "Twice the FLOP/s"} == {
        change.split(",")[0].replace(" caching", "") for change in order(result)[:2]
    }
    for change in ("INT8 weights", "INT4 weights", "Speculative", "bandwidth", "Batch"):
        assert not lever(result, change).helps, change
    assert lever(result, "INT4 weights").gain == pytest.approx(31.99 / (31.99 - (1 - 4.15625 / 16) * 1.99))
    assert "arithmetic" in lever(result, "INT4 weights").why


def test_batching_is_counted_in_requests_not_in_latency() -> None:
    """Batch 16 costs one pass of 10 ms: a request's share of decode falls to 4.99 / 16, its prefill stays."""
    batch = lever(diagnosis(CHAT, 2000, 500), "Batch")
    assert batch.gain is None
    assert batch.throughput_gain == pytest.approx(5.19 / (0.2 + 4.99 / 16))


def test_kv_cache_counts_where_it_is_large() -> None:
    """One GB of weights, 1 MB of KV a token: at the middle context, 2250 + 1, a pass reads 1 + 2.251 GB."""
    heavy = Machine(
        flops_per_s=100e12,
        bytes_per_s=1e12,
        weight_bytes=1e9,
        kv_bytes=1e6,
        linear_flops=1e9,
        attention_flops=0.0,
    )
    result = diagnosis(heavy, 2000, 500)
    total, decode = 0.02 + 499 * 3.251e-3, 499 * 3.251e-3
    half = lever(result, "KV cache")
    assert half.gain == pytest.approx(total / (total - decode * (2.251 / 2) / 3.251), rel=1e-6)
    assert half.helps
    assert not lever(diagnosis(CHAT, 2000, 500), "KV cache").helps
    # half the prompt: 1000 tokens less prefill, 1000 less context in every pass
    shorter = lever(result, "Half the prompt")
    assert shorter.gain == pytest.approx(total / (total - 0.01 - 499 * 1e-3), rel=1e-3)


def test_no_lever_ignores_the_other_side_of_the_floor() -> None:
    """Decode at ridge: 9 ms of arithmetic against 10 ms of memory. Half the bytes gain one ms, not five."""
    ridge = Machine(
        flops_per_s=1e12,
        bytes_per_s=1e12,
        weight_bytes=10e9,
        kv_bytes=0.0,
        linear_flops=9e9,
        attention_flops=0.0,
    )
    result = diagnosis(ridge, 10, 1001)
    assert lever(result, "INT8 weights").gain == pytest.approx((0.09 + 10) / (0.09 + 9), rel=1e-6)
    assert not lever(result, "Speculative").helps  # four rows cost 3.6 passes


def test_overhead_is_named_and_closing_the_gap_is_what_pays() -> None:
    slow = Machine(
        flops_per_s=100e12,
        bytes_per_s=1e12,
        weight_bytes=1e9,
        kv_bytes=0.0,
        linear_flops=1e9,
        attention_flops=0.0,
        overhead_s=9e-3,
    )
    result = diagnosis(slow, 20, 500)
    assert result.verdict.bound == "overhead"
    assert "overhead" in result.verdict.summary
    gap = lever(result, "Decode at 90%")
    floor = 499 * 1e-3
    assert gap.gain == pytest.approx((10e-3 + 499 * 10e-3) / (10e-3 + floor / 0.9))
    assert max(each.gain for each in result.verdict.advice if each.gain) == gap.gain
    assert lever(result, "INT4 weights").gain < 1.1  # of 10 ms it can take 0.7


def test_a_kernel_at_its_floor_has_nothing_to_gain() -> None:
    result = diagnosis(CHAT, 2000, 500)
    for phase in ("Prefill", "Decode"):
        assert lever(result, f"{phase} at 90%").gain == 1.0


def test_workload_comes_after_what_keeps_the_answer() -> None:
    helping = [each.kind for each in diagnosis(CPU, 30_000, 200).verdict.advice if each.helps]
    assert helping == sorted(helping, key=lambda kind: kind == "workload")


@given(
    prompt=st.integers(1, 100_000),
    output=st.integers(1, 10_000),
    machine=st.builds(
        Machine,
        flops_per_s=st.floats(1e11, 1e15),
        bytes_per_s=st.floats(1e10, 1e13),
        weight_bytes=st.just(1e9),
        kv_bytes=st.floats(0, 1e6),
        linear_flops=st.just(1e9),
        attention_flops=st.just(1e6),
        mfu=st.floats(0.05, 1),
        mbu=st.floats(0.05, 1),
    ),
)
def test_gains_are_sane_on_any_machine(prompt: int, output: int, machine: Machine) -> None:
    result = diagnosis(machine, prompt, output)
    request = result.request
    total, floor = request.prefill_s + request.decode_s, request.prefill_floor_s + request.decode_floor_s
    assert result.verdict.dominant == ("prefill" if request.prefill_s > request.decode_s else "decode")
    for each in result.verdict.advice:
        if each.gain is None:
            assert each.throughput_gain is not None and each.throughput_gain >= 1
            continue
        assert each.gain >= 1 - 1e-9
        assert each.helps == (each.gain >= 1.1)
        if "90%" in each.change:
            assert each.gain <= total / floor * (1 + 1e-9)
