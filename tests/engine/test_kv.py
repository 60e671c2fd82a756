"""Rotary tables against transformers' own, and the cache's size by hand."""

import numpy as np
import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from twophase.engine.kv import new_pool, pool_bytes, rotary_tables
from twophase.kernels.cache import BLOCK_SIZE
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import MLP, Layer, ModelSpec

POSITIONS = 2048
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
# Angles are float32: at position 2048 one unit in the last place of a frequency near 1 is 1.2e-4 rad.
TOLERANCE = POSITIONS * 2.0**-24


@pytest.mark.parametrize("dim", [16, 64, 80, 128])
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": 8192},
        {"rope_type": "llama3", **LLAMA3, "factor": 32.0, "original_max_position_embeddings": 256},
    ],
)
def test_tables_are_transformers(scaling: dict[str, object], theta: float, dim: int) -> None:
    config = LlamaConfig(
        hidden_size=4 * dim, num_attention_heads=4, rope_parameters={"rope_theta": theta, **scaling}
    )
    theirs = LlamaRotaryEmbedding(config)
    cosines, sines = (
        table[0, :, : dim // 2].numpy() for table in theirs(torch.ones(1), torch.arange(POSITIONS)[None])
    )
    named = {"original_context": scaling.get("original_max_position_embeddings", 0)}
    named |= {key: scaling[key] for key in LLAMA3 if key in scaling}
    ours = rotary_tables(Rope(theta, scaling["rope_type"], **named), dim, POSITIONS)
    assert ours[0].dtype == ours[1].dtype == np.float32
    assert ours[0].shape == (POSITIONS, dim // 2)
    np.testing.assert_allclose(ours[0], cosines, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours[1], sines, rtol=0, atol=TOLERANCE)


def test_gemmas_local_and_global_layers_turn_by_their_own_tables() -> None:
    kinds = ["sliding_attention", "full_attention"]
    config = Gemma3TextConfig(
        head_dim=32,
        num_hidden_layers=2,
        layer_types=kinds,
        rope_parameters={
            kinds[0]: {"rope_type": "default", "rope_theta": 10_000.0},
            kinds[1]: {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        },
    )
    theirs = Gemma3RotaryEmbedding(config)
    ropes = (Rope(10_000.0), Rope(1e6, "linear", 8.0))
    layers = (Layer((Attention(4, 1, 32, 1.0, rope),), MLP(8, "silu")) for rope in ropes)
    spec = ModelSpec("two", "gemma3_text", 8, 8, tuple(layers), 64, True, 1e-6)
    pool = new_pool(spec, 1, "float32", 64)
    for kind, layer in zip(kinds, pool.layers, strict=True):
        cosines, sines = theirs(torch.ones(1), torch.arange(64)[None], layer_type=kind)
        np.testing.assert_allclose(layer.cosines, cosines[0, :, :16].numpy(), rtol=0, atol=1e-5)
        np.testing.assert_allclose(layer.sines, sines[0, :, :16].numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("compute", "item_bytes"), [("bf16", 2), ("float32", 4)])
def test_the_pool_is_as_large_as_was_said(compute: str, item_bytes: int) -> None:
    layer = Layer((Attention(4, 2, 64, 0.125, Rope(1e4)),), MLP(8, "silu"))
    spec = ModelSpec("three", "llama", 8, 256, (layer,) * 3, 64, False, 1e-6)
    # 3 layers, K and V, 5 blocks of 16 tokens, 2 heads of 64
    assert BLOCK_SIZE == 16
    assert pool_bytes(spec, 5, item_bytes) == 3 * 2 * 5 * 16 * 2 * 64 * item_bytes
    assert new_pool(spec, 5, compute, 64).bytes == pool_bytes(spec, 5, item_bytes)
