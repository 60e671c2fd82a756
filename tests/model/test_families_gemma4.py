"""Gemma 4 and Gemma 3n against transformers' own models, and published totals."""

import csv
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_models import meta_model, unique_parameters
from transformers import PreTrainedModel

from twophase.errors import InputError
from twophase.model.cache import kv_bytes_per_token, kv_bytes_per_token_unbounded
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.hf_config import spec_from_config
from twophase.model.spec import MoE

SHARED = os.environ.get("TWOPHASE_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED is not set")
COMMON: dict[str, list[Any]] = {
    "vocab_size": [96],
    "vocab_size_per_layer_input": [96],
    "hidden_size": [64],
    "intermediate_size": [48],
    "num_attention_heads": [4],
    "num_key_value_heads": [1, 2],
    "head_dim": [16, 32],
    "attention_bias": [True, False],
    "tie_word_embeddings": [True, False],
    "sliding_window": [8],
    "hidden_size_per_layer_input": [8, 16],
    "final_logit_softcapping": [30.0],
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "gemma4_text": {
        **{
            "num_hidden_layers": [6, 12],
            "global_head_dim": [32, 64],
            "num_global_key_value_heads": [None, 1],
        },
        **{"attention_k_eq_v": [True, False], "use_double_wide_mlp": [True, False]},
        **{"enable_moe_block": [True, False], "num_experts": [6], "top_k_experts": [2]},
        **{"moe_intermediate_size": [24], "hidden_size_per_layer_input": [0, 8]},
    },
    "gemma3n_text": {
        **{"num_hidden_layers": [10], "num_kv_shared_layers": [0, 4], "laurel_rank": [4, 8]},
        **{"altup_num_inputs": [2, 4], "intermediate_size": [48, [48] * 5 + [32] * 5]},
    },
}


def random_keys(family: str, seed: int) -> dict[str, Any]:
    pick = random.Random(f"{family}{seed}")
    keys = {key: pick.choice(values) for key, values in {**COMMON, **CHOICES[family]}.items()}
    if keys["num_hidden_layers"] == 12:
        keys["num_kv_shared_layers"] = pick.choice([0, 3, 5])
    return keys


def cached_elements(model: PreTrainedModel) -> int:
    """Elements that a pass of 3 tokens leaves in the model's own cache; borrowing layers have none."""
    cache = model.eval()(torch.zeros((1, 3), dtype=torch.long, device="meta"), use_cache=True).past_key_values
    return sum(2 * layer.keys.numel() for layer in cache.layers if layer.keys is not None)


@pytest.mark.parametrize("family", CHOICES)
@pytest.mark.parametrize("seed", range(6))
def test_parameters_and_cache_are_those_of_transformers(family: str, seed: int, tmp_path: Path) -> None:
    keys = random_keys(family, seed)
    model = meta_model(family, **keys)
    model.config.save_pretrained(tmp_path)
    spec = load_spec(str(tmp_path))
    counted = parameters(spec)
    routed = sum(each.numel() for name, each in model.named_parameters() if ".experts." in name)
    assert (counted.total, counted.experts) == (unique_parameters(model), routed)
    assert counted.active == counted.total - routed * 4 // 6
    assert [layer.attention.window for layer in spec.layers] == [
        8 if kind == "sliding_attention" else None for kind in model.config.layer_types
    ]
    if not keys.get("enable_moe_block"):  # grouped experts don't run on meta in float32
        assert kv_bytes_per_token(spec, 1.0) * 3 == cached_elements(model)


@pytest.mark.parametrize("seed", range(3))
def test_files_of_the_hub_name_the_wide_heads(seed: int) -> None:
    """global_head_dim and num_global_key_value_heads, which transformers turns into per_layer_config."""
    keys = {**random_keys("gemma4_text", seed), "model_type": "gemma4_text"}
    keys["max_position_embeddings"] = 128
    spec = spec_from_config(keys, "small", "config.json")
    keys.pop("model_type")
    assert parameters(spec).total == unique_parameters(meta_model("gemma4_text", **keys))


def published() -> list[dict[str, str]]:
    if not SHARED:
        return []
    with (Path(SHARED) / "data/configs/params.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["model_type"] == "gemma4"]


@needs_shared
@pytest.mark.parametrize("row", published(), ids=lambda row: row["file"])
def test_real_configs_count_as_transformers_counts_them(row: dict[str, str]) -> None:
    counted = parameters(load_spec(f"{SHARED}/data/configs/{row['file']}.json"))
    assert counted.total == int(row["total_params_text"])
    assert counted.active == int(row["active_params_text_incl_embed_and_head"])
    assert counted.active_without_embedding == int(row["active_excl_input_embedding"])


SMALL = {
    **{"model_type": "gemma4_text", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 48},
    **{"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    **{"global_head_dim": 32, "sliding_window": 8},
}


def test_heads_and_ropes_differ_by_kind() -> None:
    """By hand: five sliding layers of 2 heads x 16, one full of 2 x 32, keys and values, 2 bytes."""
    spec = spec_from_config(SMALL, "small", "config.json")
    assert kv_bytes_per_token(spec) == (5 * 2 * 16 + 2 * 32) * 2 * 2
    assert kv_bytes_per_token_unbounded(spec) == 2 * 32 * 2 * 2
    sliding, full = spec.layers[0].attention, spec.layers[5].attention
    assert sliding.rope is not None
    assert full.rope is not None
    assert (sliding.rope.theta, sliding.rope.share, sliding.scale) == (1e4, 1.0, 1.0)
    assert (full.rope.theta, full.rope.share, full.rope.scaling) == (1e6, 0.25, "proportional")


def test_experts_stand_beside_a_dense_mlp() -> None:
    experts = {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 24}
    block = spec_from_config({**SMALL, **experts}, "small", "config.json").layers[0].feed_forward
    assert isinstance(block, MoE)
    assert block.shared is not None
    assert (block.experts, block.top_k, block.expert.d_ff, block.shared.d_ff) == (8, 2, 24, 48)
    assert block.expert.activation == "gelu_tanh"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"use_bidirectional_attention": "all"}, "an encoder"),
        ({"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6"),
        ({"num_kv_shared_layers": 1}, "no layer before has keys"),
        ({"per_layer_config": {"9": {"head_dim": 32}}}, "per_layer_config"),
        ({"per_layer_config": {"5": {"sliding_window": 32}}}, "per_layer_config"),
        ({"enable_moe_block": True}, "has no num_experts"),
        ({"model_type": "gemma3n_text", "intermediate_size": [48] * 3}, "intermediate_size must hold"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named) as raised:
        spec_from_config({**SMALL, **change}, "small", "config.json")
    assert "\n" not in str(raised.value)
