"""Hybrids of attention and recurrent layers against transformers' own models, and published totals."""

import csv
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from meta_models import meta_model, unique_parameters

from twophase.errors import InputError
from twophase.model.cache import kv_bytes_per_token, state_bytes, state_elements
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import Attention, LatentAttention

SHARED = os.environ.get("TWOPHASE_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED is not set")
COMMON: dict[str, list[Any]] = {
    "vocab_size": [96],
    "hidden_size": [64],
    "intermediate_size": [48],
    "num_hidden_layers": [3, 6],
    "num_attention_heads": [4],
    "num_key_value_heads": [1, 2],
    "tie_word_embeddings": [True, False],
}
LINEAR = {
    "head_dim": [16, 32],
    "attention_bias": [True, False],
    "linear_key_head_dim": [8],
    "linear_value_head_dim": [16],
    "linear_num_key_heads": [2],
    "linear_num_value_heads": [2, 4],
    "linear_conv_kernel_dim": [3, 4],
}
EXPERTS = {
    "num_experts": [6],
    "num_experts_per_tok": [2],
    "moe_intermediate_size": [24],
    "shared_expert_intermediate_size": [16],
}
BAMBA = {
    "mamba_n_heads": [8],
    "mamba_d_head": ["auto", 16],
    "mamba_n_groups": [1, 2],
    "mamba_d_state": [8],
    "mamba_d_conv": [4],
    "mamba_expand": [2],
    "mamba_conv_bias": [True, False],
    "mamba_proj_bias": [True, False],
    "attention_bias": [True, False],
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "qwen3_next": {**LINEAR, **EXPERTS, "decoder_sparse_step": [1, 2], "mlp_only_layers": [None, [0]]},
    "qwen3_5_text": {**LINEAR, "full_attention_interval": [2, 4]},
    "qwen3_5_moe_text": {**LINEAR, **EXPERTS},
    "kimi_linear": {
        **{"q_lora_rank": [None, 12], "kv_lora_rank": [16], "qk_nope_head_dim": [8], "qk_rope_head_dim": [4]},
        **{
            "v_head_dim": [8, 12],
            "num_local_experts": [6],
            "num_experts_per_tok": [2],
            "n_shared_experts": [1, 2],
        },
        **{"moe_intermediate_size": [24], "attention_bias": [True, False], "linear_head_dim": [16]},
        **{"linear_num_heads": [2, 4], "linear_conv_kernel_dim": [3, 4], "pad_token_id": [0]},
        "tie_word_embeddings": [False],  # transformers never ties here, whatever the config says
    },
    "lfm2": {
        **{"conv_bias": [True, False], "conv_L_cache": [3, 4], "full_attn_idxs": [[1], [0, 2]]},
        **{"block_auto_adjust_ff_dim": [True, False], "block_multiple_of": [16]},
        **{"block_ffn_dim_multiplier": [1.0, 1.5], "tie_embedding": [True, False]},
    },
    "lfm2_moe": {
        **{"num_experts": [6], "num_experts_per_tok": [2], "moe_intermediate_size": [24]},
        **{
            "num_dense_layers": [0, 1],
            "conv_bias": [True, False],
            "conv_L_cache": [3],
            "num_hidden_layers": [3],
        },
        "layer_types": [["conv", "full_attention", "conv"]],
    },
    "jamba": {
        **{"attn_layer_period": [3], "attn_layer_offset": [0, 1], "expert_layer_period": [2]},
        **{"expert_layer_offset": [0, 1], "num_experts": [1, 4], "num_experts_per_tok": [1]},
        **{"mamba_d_state": [8], "mamba_d_conv": [4], "mamba_expand": [2], "mamba_dt_rank": ["auto", 6]},
        **{"mamba_conv_bias": [True, False], "mamba_proj_bias": [True, False]},
    },
    "nemotron_h": {
        **{"hybrid_override_pattern": ["M*-E", "ME*E"], "head_dim": [16, 32], "mlp_bias": [True, False]},
        **{"ssm_state_size": [8], "mamba_num_heads": [8], "mamba_head_dim": [8], "n_groups": [2]},
        **{"conv_kernel": [4], "use_conv_bias": [True, False], "use_bias": [True, False]},
        **{"n_routed_experts": [6], "num_experts_per_tok": [2], "moe_intermediate_size": [24]},
        **{"moe_shared_expert_intermediate_size": [16], "moe_latent_size": [None, 32]},
    },
    "falcon_h1": {
        **BAMBA,
        **{"mamba_d_ssm": [64, None], "mamba_d_head": ["auto"], "mamba_rms_norm": [True, False]},
        **{"projectors_bias": [True, False], "mlp_bias": [True, False]},
    },
    "bamba": {**BAMBA, "attn_layer_indices": [None, [1]], "mlp_bias": [True, False]},
    "granitemoehybrid": {
        **BAMBA,
        **{"num_local_experts": [0, 4], "num_experts_per_tok": [2], "shared_intermediate_size": [16]},
        **{"position_embedding_type": [None, "rope"], "num_hidden_layers": [3]},
        "layer_types": [["mamba", "attention", "mamba"], None],
    },
}


def random_keys(family: str, seed: int) -> dict[str, Any]:
    pick = random.Random(f"{family}{seed}")
    return {key: pick.choice(values) for key, values in {**COMMON, **CHOICES[family]}.items()}


@pytest.mark.parametrize("family", CHOICES)
@pytest.mark.parametrize("seed", range(4))
def test_parameters_are_those_of_transformers(family: str, seed: int, tmp_path: Path) -> None:
    keys = random_keys(family, seed)
    model = meta_model(family, **keys)
    model.config.save_pretrained(tmp_path)
    spec = load_spec(str(tmp_path))
    counted = parameters(spec)
    sizes = {name: each.numel() for name, each in model.named_parameters()}
    routed = sum(size for name, size in sizes.items() if ".experts." in name)
    assert (counted.total, counted.experts) == (unique_parameters(model), routed)
    if routed:
        experts = keys.get("num_experts") or keys.get("num_local_experts") or keys["n_routed_experts"]
        routed = routed * (experts - keys["num_experts_per_tok"]) // experts
    assert counted.active == counted.total - routed
    attends = [
        any(isinstance(each, Attention | LatentAttention) for each in own.mixers) for own in spec.layers
    ]
    kinds = model.config.layer_types if family != "falcon_h1" else ["full_attention"] * len(spec.layers)
    assert attends == [kind == "full_attention" for kind in kinds]


@pytest.mark.parametrize("family", sorted(set(CHOICES) - {"kimi_linear"}))  # transformers' own fails on meta
def test_the_cache_is_that_of_transformers(family: str) -> None:
    """Elements that a pass of 3 tokens leaves in the model's own cache; its convolutions keep a tap more."""
    keys = random_keys(family, 1)
    if "layer_types" not in keys:
        keys |= {"num_hidden_layers": 6, "attn_layer_indices": [1]}
    model = meta_model(family, **keys).to(torch.bfloat16).eval()
    output = model(torch.zeros((1, 3), dtype=torch.long, device="meta"), use_cache=True)
    layers = output.past_key_values.layers
    recurrent = [layer for layer in layers if hasattr(layer, "recurrent_states")]
    states = sum(
        each.numel() for layer in recurrent for each in layer.recurrent_states.values() if each is not None
    )
    widths = sum(
        each.shape[1] for layer in recurrent for each in layer.conv_states.values() if each is not None
    )
    cached = sum(
        each.numel() for layer in layers for each in (getattr(layer, "keys", None),) if each is not None
    )
    spec = spec_from_config(model.config.to_dict(), "small", "config.json")
    mixers = [each for layer in spec.layers for each in layer.mixers if not isinstance(each, Attention)]
    found = [state_elements(each) for each in mixers]  # type: ignore[arg-type]
    assert (sum(each[0] for each in found), sum(each[1] for each in found)) == (states, widths)
    assert kv_bytes_per_token(spec, 1.0) * 3 == 2 * cached


def published() -> list[dict[str, str]]:
    if not SHARED:
        return []
    families = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "nemotron_h")
    with (Path(SHARED) / "data/configs/params.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["model_type"] in families]


@needs_shared
@pytest.mark.parametrize("row", published(), ids=lambda row: row["file"])
def test_real_configs_count_as_transformers_counts_them(row: dict[str, str]) -> None:
    counted = parameters(load_spec(f"{SHARED}/data/configs/{row['file']}.json"))
    assert counted.total == int(row["total_params_text"])
    assert counted.active == int(row["active_params_text_incl_embed_and_head"])
    assert counted.active_without_embedding == int(row["active_excl_input_embedding"])


K3 = {
    **{"model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 7168, "intermediate_size": 33792},
    **{"num_hidden_layers": 93, "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512},
    **{
        "num_experts": 896,
        "num_experts_per_token": 16,
        "num_shared_experts": 2,
        "moe_intermediate_size": 3072,
    },
    **{"routed_expert_hidden_size": 3584, "latent_moe_use_norm": True, "mla_use_output_gate": True},
    **{
        "hidden_act": "situ",
        "attn_res_block_size": 12,
        "mla_use_nope": True,
        "max_position_embeddings": 1048576,
    },
    "linear_attn_config": {
        **{"head_dim": 128, "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": True},
        "full_attn_layers": [*range(4, 93, 4), 93],
        "kda_layers": [i for i in range(1, 93) if i % 4],
    },
}


def test_kimi_k3_counts_as_published() -> None:
    """2.8T in all, 104B active (Moonshot); 2,779.93B with its vision tower of 0.45B (a registry's entry)."""
    counted = parameters(spec_from_config(K3, "Kimi-K3", "config.json"))
    assert counted.total / 1e9 == pytest.approx(2779.93 - 0.45, abs=0.03)
    assert round(counted.active_without_embedding / 1e9) == 104


def test_kimi_k3_remembers_a_latent_vector_in_24_layers_and_a_state_in_69() -> None:
    spec = spec_from_config(K3, "Kimi-K3", "config.json")
    assert kv_bytes_per_token(spec) == 24 * (512 + 64) * 2
    assert state_bytes(spec) == 69 * (96 * 128 * 128 * 4 + 3 * 3 * 96 * 128 * 2)


@pytest.mark.parametrize("odd", [None, "4", [4], {}, True, -4, 4.0])
@pytest.mark.parametrize("key", ["full_attn_layers", "kda_layers"])
def test_a_layer_that_is_no_number_is_refused(key: str, odd: object) -> None:
    own = K3["linear_attn_config"]
    config = {**K3, "linear_attn_config": {**own, key: [odd, *own[key][1:]]}}
    with pytest.raises(InputError, match=f"{key} is .* a list of layers' numbers"):
        spec_from_config(config, "odd", "config.json")


def test_kimi_linear_counts_as_published() -> None:
    """48B in all, 3B active (arXiv 2510.26692): the class's defaults are that model's."""
    counted = parameters(
        spec_from_config({"text_config": {"model_type": "kimi_linear"}}, "Kimi", "config.json")
    )
    assert 48e9 < counted.total < 50e9
    assert 2.5e9 < counted.active < 3.6e9


def test_qwen_caches_in_every_fourth_layer() -> None:
    """vLLM's log for a 27B of 64 layers with FP8 KV: 16 layers x 2 x 4 heads x 256 = 32,768 bytes a token."""
    keys = {
        "model_type": "qwen3_5_text",
        "vocab_size": 248320,
        "hidden_size": 5120,
        "intermediate_size": 17408,
    }
    keys |= {"num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256}
    spec = spec_from_config({**keys, "linear_num_value_heads": 48}, "Qwen", "config.json")
    assert kv_bytes_per_token(spec, 1.0) == 32_768
    rotated = spec.layers[3].mixers[0]
    assert isinstance(rotated, Attention)
    assert rotated.rope is not None
    assert rotated.rope.share == 0.25


QWEN = {
    **{
        "model_type": "qwen3_next",
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_experts": 8,
    },
    **{"num_attention_heads": 4, "intermediate_size": 48, "num_experts_per_tok": 2},
    "moe_intermediate_size": 24,
}
NEMOTRON = {"model_type": "nemotron_h", "vocab_size": 96, "hidden_size": 64, "num_attention_heads": 32}
NEMOTRON |= {"intermediate_size": 48, "hybrid_override_pattern": "M*-"}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({**QWEN, "attn_output_gate": False}, "attn_output_gate must be true"),
        ({**QWEN, "linear_num_key_heads": 5}, "32 linear value heads can't share 5"),
        ({**QWEN, "layer_types": ["mamba"] * 4}, "layer_types must name 4 layers"),
        ({**NEMOTRON, "hybrid_override_pattern": "MX"}, "hybrid_override_pattern may hold"),
        ({**NEMOTRON, "hybrid_override_pattern": None}, "has no hybrid_override_pattern"),
        ({**NEMOTRON, "n_groups": 7}, "128 Mamba heads can't share 7 groups"),
        ({**NEMOTRON, "layers_block_type": "M*"}, "layers_block_type must name each layer"),
        ({**K3, "num_hidden_layers": 92}, "must name layers 1 to 92 once each"),
        ({**K3, "linear_attn_config": [1]}, "linear_attn_config is"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named) as raised:
        spec_from_config(config, "small", "config.json")
    assert "\n" not in str(raised.value)
