"""The textbook's formulas against values worked out by hand, and their order against the floor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.cost.deployment import Deployment, as_bits
from twophase.cost.operators import Work, works
from twophase.cost.phases import phases, turning_point
from twophase.cost.spans import decodes, prefills
from twophase.cost.textbook import decode, prefill
from twophase.hardware.catalogue import load_accelerator
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec


def small(window: int | None = None) -> ModelSpec:
    """d 8, two layers, 2 heads of 4, 1 KV head, d_ff 16, 32 tokens: W = 2·(8·24 + 3·8·16) + 256 = 1408."""
    attention = Attention(heads=2, kv_heads=1, head_dim=4, scale=0.5, rope=Rope(1e4), window=window)
    layer = Layer((attention,), MLP(16, "silu"))
    return ModelSpec("small", "llama", 32, 8, (layer, layer), 64, False, 1e-6)


def alone(stages: list[Work]) -> Work:
    """Of a deployment on one device."""
    (work,) = stages
    return work


def test_prefill_by_hand() -> None:
    work = alone(prefill(Deployment(small()), [1, 10]))
    # 2·1408·S + 2·2·8·S²; 2·1408 + 2 layers·2·4·2 bytes = 32 a token
    assert work.total_flops.tolist() == [2816 + 32, 28160 + 3200]
    assert work.bytes.tolist() == [2816 + 32, 2816 + 320]


def test_prefill_with_the_last_rows_logits_only() -> None:
    work = alone(prefill(Deployment(small()), 10, "last"))
    assert float(work.total_flops) == 28160 + 3200 - 9 * 2 * 256


def test_decode_by_hand() -> None:
    work = alone(decode(Deployment(small(), as_bits(1.0), 1.0), [1, 3], 10))
    # B·(2·1408 + 4·2·8·10); 1408 + B·10·16
    assert work.total_flops.tolist() == [2816 + 640, 3 * (2816 + 640)]
    assert work.bytes.tolist() == [1408 + 160, 1408 + 480]


def test_a_window_caps_what_is_seen() -> None:
    inside = alone(decode(Deployment(small()), 2, 6))
    capped = alone(decode(Deployment(small(window=6)), 2, 50))
    assert (capped.total_flops, capped.bytes) == (inside.total_flops, inside.bytes)
    # ten rows, of which the last see 6: 4·16·(10·6 - 6·6/2) FLOPs of attention
    assert alone(prefill(Deployment(small(window=6)), 10)).total_flops == 28160 + 64 * 42


@given(
    batch=st.integers(1, 40),
    context=st.integers(1, 10_000),
    window=st.sampled_from([None, 16, 4096]),
    weight_bytes=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
)
def test_decode_lies_within_a_token_of_the_floor(
    batch: int, context: int, window: int | None, weight_bytes: float
) -> None:
    """They differ by the step's own token and the embedding's gather, and by nothing else."""
    own = Deployment(small(window), as_bits(weight_bytes))
    work, exact = alone(decode(own, batch, context)), alone(works(own, decodes(batch, context)))
    assert 0 <= exact.total_flops - work.total_flops <= batch * 4 * 2 * 8
    assert -batch * 32 <= exact.bytes - work.bytes <= batch * (32 + 8 * weight_bytes)


@given(prompt=st.integers(1, 10_000), window=st.sampled_from([None, 16, 4096]))
def test_prefill_with_last_logits_lies_below_the_exact_triangle(prompt: int, window: int | None) -> None:
    own = Deployment(small(window))
    work, exact = alone(prefill(own, prompt, "last")), alone(works(own, prefills(prompt)))
    rows_on_the_diagonal = exact.total_flops - work.total_flops
    assert 0 <= rows_on_the_diagonal <= prompt * 2 * 2 * 8  # half a pair a row


def test_turning_point_is_the_first() -> None:
    assert turning_point(lambda prompts: prompts >= 295) == 295
    assert turning_point(lambda prompts: prompts > 0) == 1
    assert turning_point(lambda prompts: prompts < 0) is None


def test_a_request_is_the_sum_of_its_steps() -> None:
    gpu = load_accelerator("h100-sxm")
    made = phases(Deployment(small()), gpu, [8], [8], [2], (20, 5))
    steps = [
        max(2 * (2816 + 64 * seen) / 989e12, (2816 + 2 * 32 * seen) / 3.35e12)
        for seen in (20, 21, 22, 23, 24)
    ]
    assert made.request.decode_s == pytest.approx(np.sum(steps), rel=1e-12)
    assert made.request.prefill_s == pytest.approx(max((2816 * 20 + 32 * 400) / 989e12, 3456 / 3.35e12))
