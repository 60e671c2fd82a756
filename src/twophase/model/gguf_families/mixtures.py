"""Mixtures of experts, and latent attention: their GGUF keys as config.json's."""

from twophase.errors import InputError
from twophase.model.gguf_families.common import (
    Config,
    common,
    expert_width,
    experts,
    kinds,
    shared_width,
)
from twophase.model.gguf_families.dense import Translate, multipliers
from twophase.model.gguf_keys import Header
from twophase.model.gguf_rope import rope_parameters

# Architectures whose experts' and common keys say all that the family's reader asks for.
PLAIN = {
    **{"dots1": "dots1", "phimoe": "phimoe", "olmoe": "olmoe", "minimax-m2": "minimax_m2"},
}
LLAMA4_CHUNK = 8192  # no key holds it


def _plain(model_type: str) -> Translate:
    return lambda header: {**common(header), **experts(header), "model_type": model_type}


def _qwen3moe(model_type: str) -> Translate:
    """No key says that the chosen experts' probabilities sum to one: llama.cpp has it so for all of them."""
    plain = _plain(model_type)
    return lambda header: {**plain(header), "norm_topk_prob": True}


def qwen2moe(header: Header) -> Config:
    shared = {"shared_expert_intermediate_size": shared_width(header)}
    bias = {"qkv_bias": header.stores("attn_q.bias")}
    return {**common(header), **experts(header), **shared, **bias, "model_type": "qwen2_moe"}


def gpt_oss(header: Header) -> Config:
    return {
        **common(header),
        **experts(header),
        "model_type": "gpt_oss",
        "intermediate_size": expert_width(header),
        "layer_types": kinds(header, 2),
    }


def glm4moe(header: Header) -> Config:
    normed = {"use_qk_norm": header.stores("attn_q_norm.weight")}
    return {**common(header), **experts(header), **normed, "model_type": "glm4_moe"}


def llama4(header: Header) -> Config:
    """Each fourth layer attends to all, without positions; the others within chunks."""
    config = common(header)
    sparse = sorted(header.blocks.get("ffn_gate_inp.weight", {}))
    return {
        **config,
        **experts(header),
        "model_type": "llama4_text",
        "intermediate_size": expert_width(header),
        "intermediate_size_mlp": config["intermediate_size"],
        "interleave_moe_layer_step": header.count("interleave_moe_layer_step", 1),
        "attention_chunk_size": LLAMA4_CHUNK,
        **({"moe_layers": sparse} if sparse else {}),
    }


def granitemoe(header: Header) -> Config:
    shared = header.optional("expert_shared_feed_forward_length")
    return {
        **common(header),
        **experts(header),
        **multipliers(header),
        "model_type": "granitemoeshared" if shared else "granitemoe",
        "intermediate_size": expert_width(header),
        "shared_intermediate_size": shared,
    }


def exaone_moe(header: Header) -> Config:
    config = common(header)
    if config["sliding_window"]:
        config["layer_types"] = kinds(header, 4)
    return {**config, **experts(header), "model_type": "exaone_moe"}


def ernie4_5_moe(header: Header) -> Config:
    own = experts(header)
    return {
        **common(header),
        **own,
        "model_type": "ernie4_5_moe",
        "moe_layer_start_index": own["first_k_dense_replace"],
        "moe_layer_interval": header.count("interleave_moe_layer_step", 1),
    }


def hunyuan_moe(header: Header) -> Config:
    """Experts and the shared MLP are of one width."""
    width, shared = expert_width(header), shared_width(header)
    if width != shared:
        raise InputError(
            f"{header.name('expert_shared_feed_forward_length')} is {shared}; it must be as wide as one of "
            f"the experts, {width}"
        )
    own = experts(header)
    return {
        **common(header),
        **own,
        "model_type": "hunyuan_v1_moe",
        "intermediate_size": width,
        "moe_topk": own["num_experts_per_tok"],
    }


def deepseek2(header: Header) -> Config:
    """DeepSeek V2, V3, Kimi K2 and GLM-4.7-Flash."""
    return {**_latent(header), **experts(header), "model_type": "deepseek_v3"}


def deepseek32(header: Header) -> Config:
    """DeepSeek V3.2 and GLM-5, whose indexer picks the tokens that are attended to."""
    return {
        **deepseek2(header),
        "model_type": "deepseek_v32",
        "index_n_heads": header.count("attention.indexer.head_count"),
        "index_head_dim": header.count("attention.indexer.key_length"),
        "index_topk": header.count("attention.indexer.top_k"),
    }


def _latent(header: Header) -> Config:
    """key_length and value_length are those of the cache in newer files, those of a head in older ones."""
    new = header.has("attention.key_length_mla")
    keys = header.count("attention.key_length_mla" if new else "attention.key_length")
    rotated = header.count("rope.dimension_count", most=keys - 1)
    return {
        **common(
            header,
            kv_heads=header.count("attention.head_count"),
            head_dim=keys,
            rope=rope_parameters(header, rotated),
        ),
        "q_lora_rank": header.optional("attention.q_lora_rank"),
        "kv_lora_rank": header.count("attention.kv_lora_rank"),
        "qk_nope_head_dim": keys - rotated,
        "qk_rope_head_dim": rotated,
        "v_head_dim": header.count("attention.value_length_mla" if new else "attention.value_length"),
    }


TRANSLATORS: dict[str, Translate] = {
    **{architecture: _plain(model_type) for architecture, model_type in PLAIN.items()},
    "qwen3moe": _qwen3moe("qwen3_moe"),
    "qwen3vlmoe": _qwen3moe("qwen3_vl_moe_text"),
    "qwen2moe": qwen2moe,
    "gpt-oss": gpt_oss,
    "glm4moe": glm4moe,
    "llama4": llama4,
    "granitemoe": granitemoe,
    "exaone-moe": exaone_moe,
    "ernie4_5-moe": ernie4_5_moe,
    "hunyuan-moe": hunyuan_moe,
    "deepseek2": deepseek2,
    "deepseek32": deepseek32,
    "glm-dsa": deepseek32,
}
