"""What is flagged, and why: synthetic rows around floors worked out by hand or by the cost model alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lint_rows import assumptions, checked

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.roofline import floor
from twophase.cost.spans import decodes, prefills
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.quantization import uniform

# 80 layers of (8192 · (8192 + 2 · 1024) + 8192² + 3 · 8192 · 28672) weights and a head of 8192 · 128256
MATRICES = 80 * (8192 * 10240 + 8192**2 + 3 * 8192 * 28672) + 8192 * 128256
STEP_S = MATRICES / 3.35e12  # a byte each, at an H100's bandwidth


def test_a_step_can_t_be_faster_than_its_weights_are_read() -> None:
    """69.5 GB at 3.35 TB/s: 20.7 ms, or 48 tokens/s for one user."""
    assert abs(STEP_S - 0.0207) < 1e-4
    own = checked(tpot_s=STEP_S, concurrency=1.0, batch_is_resident=True)
    (itl,) = own.quantities
    assert itl.floor_s == pytest.approx(STEP_S, rel=1e-3)
    assert itl.mbu == pytest.approx(1, rel=1e-3) and itl.bound == "memory"
    assert not own.flags


def test_a_prompt_can_t_be_faster_than_its_arithmetic() -> None:
    """Two operations for each weight and token, an eighth on each of eight devices at 1979 TFLOP/s."""
    tokens = 4096
    blocks = MATRICES - 8192 * 128256
    pairs = 80 * 4 * 64 * 128 * tokens * (tokens + 1) / 2  # causal QK and AV
    least = (2 * blocks * tokens + pairs + 2 * 8192 * 128256) / (8 * 1979e12)
    own = checked(tp=8, ttft_s=2 * least, input_tokens=4096.0)
    (ttft,) = own.quantities
    assert ttft.floor_s == pytest.approx(least, rel=1e-3)
    assert ttft.mfu == pytest.approx(0.5, rel=1e-3) and ttft.bound == "compute"
    assert checked(tp=8, ttft_s=0.9 * least, input_tokens=4096.0).impossible


DENSE = (
    "llama-2-7b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen2.5-7b",
    "qwen3-32b",
    "mistral-nemo",
    "gemma-3-27b",
)
GPUS = ("h100-sxm", "a100-80gb", "b200", "mi300x", "l40s", "h20")


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(DENSE),
    gpu=st.sampled_from(GPUS),
    tp=st.sampled_from((1, 2, 4)),
    prompt=st.integers(1, 20_000),
    output=st.integers(2, 4000),
    below=st.floats(0.1, 0.95),
    above=st.floats(1.02, 50),
)
def test_a_row_at_k_times_its_floor(
    model: str, gpu: str, tp: int, prompt: int, output: int, below: float, above: float
) -> None:
    """Never flagged from 1.02 on, always up to 0.95: TTFT, ITL, E2E, each user's rate."""
    accelerator = load_accelerator(gpu)
    own = Deployment(load_model(model).spec, uniform("bf16"), plan=Plan(tp))
    first = float(floor(own, prefills(prompt), accelerator).seconds)
    step = float(floor(own, decodes(1, prompt), accelerator).seconds)
    base = {
        **{"model": model, "gpu": gpu, "tp": tp, "weights": "bf16", "concurrency": 1.0},
        **{"batch_is_resident": True, "input_tokens": float(prompt), "output_tokens": float(output)},
    }

    def rows(k: float) -> list[dict[str, float]]:
        return [
            {"ttft_s": k * first},
            {"tpot_s": k * step},
            {"e2e_s": k * (first + (output - 1) * step)},
            {"output_tokens_per_s_per_user": 1 / (k * step)},
        ]

    for fields in rows(above):
        assert not checked(**base, **fields).impossible
    for fields in rows(below):
        assert checked(**base, **fields).impossible


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 64),
    prompt=st.integers(1, 8000),
    output=st.integers(2, 2000),
    k=st.floats(1.0, 20),
)
def test_a_schedule_that_runs_at_the_roofs_is_never_flagged(
    batch: int, prompt: int, output: int, k: float
) -> None:
    """A static batch whose every pass takes its own floor: the rates and times of what can be are allowed."""
    accelerator = load_accelerator("h200")
    own = Deployment(load_model("llama-3.1-8b").spec, uniform("bf16"))
    first = float(floor(own, prefills(prompt, 0, batch), accelerator).seconds)
    steps = floor(own, decodes(batch, prompt + np.arange(output - 1)), accelerator).seconds
    whole = k * (first + float(steps.sum()))
    row = checked(
        **{"model": "llama-3.1-8b", "gpu": "h200", "weights": "bf16", "concurrency": float(batch)},
        **{"input_tokens": float(prompt), "output_tokens": float(output), "batch_is_resident": True},
        ttft_s=k * first,
        tpot_s=k * float(steps.mean()),
        e2e_s=whole,
        output_tokens_per_s=batch * output / whole,
        total_tokens_per_s=batch * (prompt + output) / whole,
        requests_per_s=batch / whole,
    )
    assert len(row.quantities) == 5
    assert not row.impossible


def test_speculation_and_more_devices_explain_a_fast_step() -> None:
    own = checked(tpot_s=STEP_S / 2.5, concurrency=1.0)
    assert own.impossible
    (flag,) = own.flags
    assert "at 2.5 tokens a pass or more" in flag.says and "over 4 devices" in flag.says
    assert assumptions(own) == {"one token a pass", "parallelism"}


def test_five_tokens_a_pass_are_not_believed() -> None:
    assert "one token a pass" not in assumptions(checked(tpot_s=STEP_S / 5, concurrency=1.0))


def test_a_narrower_format_explains_a_bf16_row() -> None:
    own = checked(weights="bf16", tp=2, tpot_s=0.6 * STEP_S, concurrency=1.0)
    assert own.impossible and "with weights in fp8, not bf16" in own.flags[0].says


def test_sparse_peak_explains_twice_the_arithmetic() -> None:
    tokens = 16_384.0
    least = checked(ttft_s=9.0, input_tokens=tokens).quantities[0].floor_s
    own = checked(ttft_s=0.6 * least, input_tokens=tokens)
    assert own.impossible and {"dense peak", "no prefix cache", "parallelism"} <= assumptions(own)
    assert "dense peak" not in assumptions(checked(ttft_s=0.3 * least, input_tokens=tokens))


def test_a_prefix_cache_explains_a_fast_prompt_and_a_stated_one_is_counted() -> None:
    least = checked(ttft_s=9.0, input_tokens=4000.0).quantities[0].floor_s
    own = checked(ttft_s=least / 2, input_tokens=4000.0)
    assert "of each prompt was in a prefix cache" in own.flags[0].says
    assert not checked(ttft_s=least / 2, input_tokens=4000.0, cached_tokens=3000.0).flags


def test_a_rate_of_input_and_output_is_seen() -> None:
    fields = {"concurrency": 1.0, "input_tokens": 1000.0, "output_tokens": 1000.0}
    own = checked(output_tokens_per_s=1.5 / STEP_S, **fields)
    assert "if the rate counts input and output tokens together" in own.flags[0].says
    assert not checked(total_tokens_per_s=1.5 / STEP_S, **fields).impossible


def test_a_rate_of_all_devices_is_seen() -> None:
    own = checked(tp=4, concurrency=1.0, output_tokens_per_s_per_gpu=3 / STEP_S)
    assert "if the rate is of all 4 devices, not of each" in own.flags[0].says


def test_a_rate_over_decode_steps_alone_is_not_charged_with_prompts() -> None:
    """llama.cpp's aggregate rate is 2 clients / TPOT, whatever their prompts took."""
    row = checked(
        model="Qwen2.5-7B", gpu="Apple M2 Ultra", weights="q8_0", concurrency=2.0, input_tokens=512.0,
        output_tokens=32.0, tpot_s=0.01467, output_tokens_per_s=136.37,
    )  # fmt: skip
    assert row.quantities and not row.flags


def test_weights_beyond_memory_and_uneven_heads_are_suspicious() -> None:
    too_large = checked(weights="bf16", tpot_s=1.0)
    assert not too_large.impossible and "the weights are 141.1 GB" in too_large.flags[0].says
    uneven = checked(tp=12, tpot_s=1.0)
    assert "TP 12 can't share 64 heads evenly" in uneven.flags[0].says


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"model": None, "tpot_s": 1.0}, "names no model: give --model"),
        ({"model": "Nothing-3B", "tpot_s": 1.0}, "no model is called 'Nothing-3B'"),
        ({"gpu": None, "tpot_s": 1.0}, "names no GPU: give --gpu"),
        ({"gpu": "datacenter GPU", "tpot_s": 1.0}, "unknown accelerator 'datacenter GPU'"),
        ({"weights": "bf16/int8", "tpot_s": 1.0}, "no storage format is called 'bf16/int8'"),
        ({"kv": "odd", "tpot_s": 1.0}, "the KV cache's format 'odd' is not known"),
        ({}, "no time and no rate"),
        ({"ttft_s": 1.0}, "no time or rate that has a floor"),
        ({"tpot_s": 1.0, "disaggregated": True}, "no prefill_tp_size"),
        ({"ttft_s": 1.0, "input_tokens": 1e300}, "input_tokens"),
        ({"tpot_s": 1.0, "concurrency": 1e30}, "a concurrency of"),
        ({"output_tokens_per_s": 1e-320}, "is no rate"),
        ({"tpot_s": 1.0, "output_tokens": 1e-308}, "output_tokens of 1e-308 is less than one"),
        ({"tpot_s": 1.0, "pp": 81}, "PP 81: Llama-3.3-70B has 80 layers"),
        ({"tpot_s": 1.0, "tp": 10**300}, "tp of 1e+300 is more than 1,000,000"),
    ],
)
def test_what_is_not_known_is_not_checked(fields: dict[str, object], why: str) -> None:
    own = checked(**fields)
    assert why in own.why and not own.quantities and not own.impossible


def test_contradictions_are_flagged_without_any_model() -> None:
    own = checked(model="Nothing-3B", ttft_s=9.0, e2e_s=1.0)
    assert own.why and [flag.kind for flag in own.flags] == ["suspicious"]


def test_only_plain_digits_count_gpus_and_workers() -> None:
    assert "unknown accelerator '²x H100'" in checked(gpu="²x H100", tpot_s=1.0).why
    pools = {"prefill_tp_size": "²", "decode_tp_size": "9" * 5000}
    own = checked(tpot_s=1.0, disaggregated=True, unknown=pools)
    assert own.served is not None
    assert own.served.decode.own.plan == Plan(1)


def test_gpus_are_counted_before_their_name() -> None:
    own = checked(gpu="8x H100-80GB", tp=None, tpot_s=1.0)
    assert own.served is not None
    assert own.served.decode.own.plan == Plan(8)
    assert "8 GPUs share each layer" in own.notes[0]
    assert checked(tp=None, tpot_s=1.0).notes == ("one GPU (no number is stated)",)
