"""Layers in words: every layer is said once, and what it does is what its model's paper says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.model.catalogue import catalogue, load_spec
from twophase.model.mixers import Attention
from twophase.model.spec import MLP, Layer
from twophase.report.layers import pattern

KINDS = [
    Layer((Attention(4, 2, 16, scale=0.25, rope=None, window=window),), MLP(96, "silu"))
    for window in (None, 8, 32)
]


def said(lines: list[str]) -> int:
    """How many layers the lines speak of."""
    repeated = re.fullmatch(r"(\d+) times", lines[0])
    counts = [int(line.split(" × ")[0]) for line in (lines[1:] if repeated else lines)]
    return sum(counts) * (int(repeated[1]) if repeated else 1)


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=40))
def test_each_layer_is_said_once(layers: list[Layer]) -> None:
    assert said(pattern(tuple(layers))) == len(layers)


@given(st.lists(st.sampled_from(KINDS), min_size=2, max_size=5), st.integers(2, 6))
def test_what_repeats_is_not_said_again(layers: list[Layer], times: int) -> None:
    lines = pattern(tuple(layers * times))
    assert said(lines) == len(layers) * times
    assert len(lines) <= 1 + len(layers)


@pytest.mark.parametrize("name", catalogue())
def test_each_layer_of_a_model_is_said(name: str) -> None:
    spec = load_spec(name)
    lines = pattern(spec.layers)
    assert said(lines) == len(spec.layers)
    assert len(lines) <= 12 and all(len(line) < 160 for line in lines)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("llama-3.1-8b", ["32 × attention, 32 heads over 8 of 128; MLP 14,336"]),
        # arXiv 2401.04088: 8 experts, of which 2
        ("mixtral-8x7b", ["32 × attention, 32 heads over 8 of 128; 2 of 8 experts of 14,336"]),
        # arXiv 2412.19437: three dense layers, then 8 of 256 experts and a shared one
        (
            "deepseek-v3",
            [
                "3 × latent attention, 128 heads, cache 512 + 64 a token; MLP 18,432",
                "58 × latent attention, 128 heads, cache 512 + 64 a token; "
                "8 of 256 experts of 2,048 and 2,048 shared",
            ],
        ),
        # arXiv 2503.19786: five local layers to a global one; the last layers break the pattern
        (
            "gemma-3-27b",
            [
                "52 × attention, 32 heads over 16 of 128, window 1,024; MLP 21,504",
                "10 × attention, 32 heads over 16 of 128; MLP 21,504",
            ],
        ),
        # the model card of Qwen3-Next: 12 · (3 · (gated delta → MoE) → (gated attention → MoE))
        (
            "qwen3-next-80b-a3b",
            [
                "12 times",
                "  3 × gated delta rule, 32 heads of 128 × 128 state; "
                "10 of 512 experts of 512 and 512 shared",
                "  1 × attention, 16 heads over 2 of 256; 10 of 512 experts of 512 and 512 shared",
            ],
        ),
        # arXiv 2311.16867: one key-value head; attention and MLP of four widths
        ("falcon-7b", ["32 × attention, 71 heads over 1 of 64; MLP 18,176"]),
    ],
)
def test_models_in_words(name: str, lines: list[str]) -> None:
    assert pattern(load_spec(name).layers) == lines
