"""DeepSeek's families against transformers' own models of them, and against published totals."""

import csv
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf

from twophase.errors import InputError
from twophase.model.cache import kv_bytes_per_token, kv_bytes_per_token_unbounded
from twophase.model.catalogue import load_spec
from twophase.model.counts import parameters
from twophase.model.hf_config import spec_from_config
from twophase.model.mixers import CompressedAttention, LatentAttention

FAMILIES = (
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "glm_moe_dsa",
    "glm4_moe_lite",
    "deepseek_v4",
    "minicpm3",
)
YARN = {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7, "rope_theta": 1e4}
YARN["original_max_position_embeddings"] = 64
SHARED = os.environ.get("TWOPHASE_SHARED")
needs_shared = pytest.mark.skipif(not SHARED, reason="TWOPHASE_SHARED is not set")


def random_config(family: str, seed: int) -> tf.PreTrainedConfig:
    pick = random.Random(seed)
    layers = pick.choice([2, 5])
    keys: dict[str, Any] = {
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": pick.choice([2, 4]),
        "q_lora_rank": pick.choice([12, 20]),
        "attention_bias": pick.choice([True, False]),
        "tie_word_embeddings": pick.choice([True, False]),
        "rope_parameters": pick.choice([YARN, {"rope_type": "default", "rope_theta": 2e4}]),
    }
    if family != "deepseek_v4":
        keys |= {
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 8,
            "qk_rope_head_dim": 4,
            "v_head_dim": pick.choice([8, 12]),
        }
        keys |= {"intermediate_size": 48, "num_key_value_heads": keys["num_attention_heads"]}
    if family in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3"):
        keys["q_lora_rank"] = pick.choice([None, 12])
    if family != "minicpm3":
        keys |= {
            "n_routed_experts": 8,
            "num_experts_per_tok": pick.choice([1, 3]),
            "moe_intermediate_size": 24,
        }
        keys["n_shared_experts"] = 1 if family == "deepseek_v4" else pick.choice([1, 2])
    if family in ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa"):
        keys["first_k_dense_replace"] = pick.choice([0, 1, 9])
    if family in ("deepseek_v32", "glm_moe_dsa", "deepseek_v4"):
        keys |= {"index_n_heads": pick.choice([2, 4]), "index_head_dim": 16, "index_topk": 32}
    if family == "glm_moe_dsa":
        keys["indexer_types"] = pick.choice([None, ["full"] + ["shared"] * (layers - 1)])
        keys["mlp_layer_types"] = pick.choice([None, ["sparse"] + ["dense"] * (layers - 1)])
    if family == "minicpm3":
        keys |= {"mlp_bias": pick.choice([True, False])}
    if family == "deepseek_v4":
        keys |= {
            "head_dim": 32,
            "num_attention_heads": 4,
            "o_groups": 2,
            "o_lora_rank": 8,
            "hc_mult": pick.choice([2, 4]),
        }
        keys |= {"num_hash_layers": 1, "mlp_bias": pick.choice([True, False]), "qk_rope_head_dim": 8}
        keys |= pick.choice([{}, {"compress_ratios": [0, 4, 128, 4, 0, 0][: layers + 1]}])
    return tf.CONFIG_MAPPING[family](**keys)


def meta_parameters(config: tf.PreTrainedConfig) -> tuple[int, int]:
    """(all, those of routed experts) of transformers' model."""
    with torch.device("meta"):
        model = tf.AutoModelForCausalLM.from_config(config)
    sizes = {name: each.numel() for name, each in model.named_parameters()}  # tied ones once
    return sum(sizes.values()), sum(size for name, size in sizes.items() if ".mlp.experts." in name)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_parameters_are_those_of_transformers(family: str, seed: int, tmp_path: Path) -> None:
    config = random_config(family, seed)
    config.save_pretrained(tmp_path)
    counted = parameters(load_spec(str(tmp_path)))
    total, experts = meta_parameters(config)
    assert (counted.total, counted.experts) == (total, experts)
    idle = 1 - config.num_experts_per_tok / config.n_routed_experts if experts else 0
    assert counted.active == total - experts * idle


def test_longcat_has_the_parameters_of_transformers_without_its_empty_experts() -> None:
    """transformers allocates a gate and an up projection for experts that only give back their input."""
    keys = {
        "vocab_size": 96,
        "hidden_size": 64,
        "num_layers": 2,
        "num_attention_heads": 2,
        "ffn_hidden_size": 48,
    }
    keys |= {
        "q_lora_rank": 12,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 8,
    }
    keys |= {"n_routed_experts": 8, "zero_expert_num": 4, "moe_topk": 3, "expert_ffn_hidden_size": 24}
    config = tf.LongcatFlashConfig(**keys)
    spec = spec_from_config(config.to_dict(), "small", "config.json")
    assert parameters(spec).total == meta_parameters(config)[0] - 2 * 4 * 2 * 24 * 64
    assert len(spec.layers) == 4
    assert kv_bytes_per_token(spec) == 4 * (16 + 4) * 2


def test_longcat_flash_chat_counts_as_published() -> None:
    """560B in all, 27B active on average (arXiv 2509.01322); the class's defaults are that model's."""
    text = {"model_type": "longcat_flash"}  # inside a wrapper: the class's sizes stand in
    counted = parameters(spec_from_config({"text_config": text}, "LongCat-Flash", "config.json"))
    assert round(counted.total / 1e9) in (560, 561, 562)
    assert 26e9 < counted.active < 28.5e9


def published() -> list[dict[str, str]]:
    if not SHARED:
        return []
    families = (*FAMILIES, "kimi_k2", "kimi_k25")
    with (Path(SHARED) / "data/configs/params.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["model_type"] in families]


@needs_shared
@pytest.mark.parametrize("row", published(), ids=lambda row: row["file"])
def test_real_configs_count_as_transformers_counts_them(row: dict[str, str]) -> None:
    counted = parameters(load_spec(f"{SHARED}/data/configs/{row['file']}.json"))
    if row["status"] == "ok":
        assert counted.total == int(row["total_params_text"])
        assert counted.active == int(row["active_params_text_incl_embed_and_head"])
        assert counted.active_without_embedding == int(row["active_excl_input_embedding"])
    else:  # Kimi K2's own type is unknown to transformers; K2.5's language model has the same shape
        assert (counted.total, counted.active) == (1_026_408_209_408, 32_861_477_888)


@needs_shared
@pytest.mark.parametrize("size", ["Flash", "Pro"])
def test_the_reference_configs_of_v4_are_the_same_model(size: str) -> None:
    configs = f"{SHARED}/data/configs"
    short = load_spec(f"{configs}/sgl-project--DeepSeek-V4-{size}-FP8.json")
    full = load_spec(f"{configs}/deepseek-ai--DeepSeek-V4-{size}.json")
    assert short.layers == full.layers
    assert parameters(short) == parameters(full)


V3 = {
    **{"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432},
    **{
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "n_routed_experts": 256,
        "moe_intermediate_size": 2048,
    },
}


def test_the_cache_holds_one_latent_vector_a_layer() -> None:
    """vLLM's and SGLang's logs for DeepSeek-V3 and Kimi K2: 61 x (512 + 64) x 2 bytes a token."""
    spec = spec_from_config(V3, "V3", "config.json")
    assert kv_bytes_per_token(spec) == kv_bytes_per_token_unbounded(spec) == 70_272
    assert kv_bytes_per_token(spec, 1.0) == 35_136


def test_the_indexer_caches_its_keys_in_the_layers_that_pick() -> None:
    """Of 5 layers 1, 2 and 5 pick: offset 2, every 3rd; a key of 128 in FP8 with one 32-bit scale (vLLM)."""
    sparse = {**V3, "model_type": "glm_moe_dsa", "num_hidden_layers": 5, "index_topk_freq": 3}
    spec = spec_from_config(sparse, "small", "config.json")
    picking = [layer.mixers[0].indexer is not None for layer in spec.layers]  # type: ignore[union-attr]
    assert picking == [True, True, False, False, True]
    assert kv_bytes_per_token(spec) == 5 * 1152 + 3 * 132


def test_yarn_sharpens_the_scores() -> None:
    """transformers' own attention module, the same keys."""
    config = random_config("deepseek_v3", 0)
    config.rope_parameters = {**YARN}
    attention = tf.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3Attention(config, 0)
    mixer = spec_from_config(config.to_dict(), "small", "config.json").layers[0].mixers[0]
    assert isinstance(mixer, LatentAttention)
    assert mixer.scale == pytest.approx(attention.scaling)
    assert mixer.scale > 12**-0.5


def test_v4_compresses_as_its_layers_say() -> None:
    """The draft layer's ratio at the end of the list is left out."""
    config = random_config("deepseek_v4", 1).to_dict()
    config.pop("layer_types")
    config |= {"num_hidden_layers": 3, "compress_ratios": [0, 4, 128, 4], "sliding_window": 128}
    config["mlp_layer_types"] = None
    spec = spec_from_config(config, "small", "config.json")
    mixers = [layer.mixers[0] for layer in spec.layers]
    assert all(isinstance(mixer, CompressedAttention) for mixer in mixers)
    found = [
        (each.ratio, each.window, each.top_k) for each in mixers if isinstance(each, CompressedAttention)
    ]
    assert found == [(0, 128, None), (4, 128, 32), (128, 128, None)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_routed_experts": 4}, "num_experts_per_tok is 8, n_routed_experts only 4"),
        ({"kv_lora_rank": "512"}, "kv_lora_rank is '512'"),
        ({"qk_rope_head_dim": 0}, "qk_rope_head_dim is 0"),
        ({"model_type": "glm_moe_dsa", "indexer_types": ["shared"] * 61}, "the first full"),
        ({"model_type": "glm_moe_dsa", "index_topk_pattern": 7}, "index_topk_pattern"),
        ({"model_type": "glm_moe_dsa", "mlp_layer_types": ["dense"] * 60}, "mlp_layer_types must hold"),
        ({"model_type": "deepseek_v32", "mlp_layer_types": ["thick"] * 61}, "dense or sparse"),
        (
            {"model_type": "deepseek_v4", "compress_ratios": [0, 4, 5] * 21},
            "compress_ratios may hold 0, 4, 128",
        ),
        (
            {"model_type": "deepseek_v4", "compress_rates": {"compressed_sparse_attention": "4"}},
            "whole number",
        ),
        ({"rope_scaling": {"type": "yarn", "mscale_all_dim": 1.0}}, "has no factor"),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_what_is_wrong_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named) as raised:
        spec_from_config({**V3, **change}, "V3", "config.json")
    assert "\n" not in str(raised.value)
