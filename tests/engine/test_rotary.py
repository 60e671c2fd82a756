"""Rotary tables against transformers' own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Phi3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from twophase.engine.kv import new_pool
from twophase.engine.rotary import rotary_tables
from twophase.errors import InputError
from twophase.model.catalogue import load_spec
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


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("positions", "kind"), [(64, "short"), (65, "long"), (300, "long")])
def test_long_factors_are_transformers(tmp_path: Path, positions: int, kind: str, share: float) -> None:
    """As Phi-3's file says them, with a part of each head rotated as in Phi-4."""
    half = int(32 * share) // 2
    rope = {
        "type": "longrope",
        "short_factor": np.linspace(1, 1.4, half).tolist(),
        "long_factor": np.linspace(1, 30, half).tolist(),
    }
    config = Phi3Config(
        vocab_size=500,
        hidden_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=1,
        intermediate_size=64,
        max_position_embeddings=2048,
        original_max_position_embeddings=64,
        partial_rotary_factor=share,
        rope_scaling=rope,
        pad_token_id=0,
    )
    config.save_pretrained(tmp_path)
    theirs = Phi3RotaryEmbedding(config)(torch.ones(1), torch.arange(positions)[None])
    own = load_spec(str(tmp_path)).layers[0].attention.rope
    assert own and own.attention_factor == pytest.approx((1 + np.log(32) / np.log(64)) ** 0.5)
    assert (own.long_factors if kind == "long" else own.short_factors) == tuple(rope[f"{kind}_factor"])
    for mine, table in zip(rotary_tables(own, 32, positions), theirs, strict=True):
        assert mine.shape == (positions, half)
        np.testing.assert_allclose(mine, table[0, :, :half].numpy(), rtol=0, atol=1e-4)


def test_factors_of_another_count_are_refused() -> None:
    rope = Rope(1e4, "longrope", original_context=64, short_factors=(1.0,) * 16, long_factors=(1.0,) * 8)
    assert rotary_tables(rope, 32, 64)[0].shape == (64, 16)
    with pytest.raises(InputError, match="long rope factors are 8; its heads take 16"):
        rotary_tables(rope, 32, 65)


def test_without_rotation_tables_have_no_columns() -> None:
    assert [table.shape for table in rotary_tables(None, 64, 10)] == [(10, 0), (10, 0)]
