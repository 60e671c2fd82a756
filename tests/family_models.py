"""transformers' own small model of every family that it has too: odd sizes, windows of 16, few experts."""

from functools import cache
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from twophase.model.hf_config import spec_from_config
from twophase.model.spec import ModelSpec

SLIDING, FULL = "sliding_attention", "full_attention"
BASE: dict[str, Any] = {
    "vocab_size": 102,
    "hidden_size": 48,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WIDE = {"head_dim": 20}  # times the heads it is not hidden_size
WINDOW = {"sliding_window": 16}
KINDS = {"layer_types": [SLIDING, FULL, SLIDING]}
GPT2 = {"vocab_size": 102, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 64}
OLD = {"vocab_size": 102, "hidden_size": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LATENT = {
    "q_lora_rank": 12,
    "kv_lora_rank": 18,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 14,
    "num_key_value_heads": 4,
}
ROUTED = {
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 22,
    "n_shared_experts": 2,
    "n_group": 1,
    "topk_group": 1,
}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
QWEN_MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 22, "mlp_only_layers": [1]}
LINEAR = {
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
}
LINEAR_KINDS = {"layer_types": ["linear_attention", FULL, "linear_attention"]}
MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 12,
    "mamba_n_groups": 2,
    "mamba_d_state": 10,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}
INDEX = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64}

MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 3, 3]}}
MROPE_12 = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 2, 2]}}
STEP = {
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 22,
    "share_expert_dim": 26,
    "head_dim": 20,
    "layer_types": [FULL, SLIDING, FULL],
    "sliding_window": 16,
    "num_sliding_attention_heads": 8,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
}
BLOCKS = {
    "dense_intermediate_size": 56,
    "shared_intermediate_size": 26,
    "head_dim": 20,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "layer_types": ["minimax_m3_sparse", FULL, "minimax_m3_sparse"],
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_block_size": 4,
    "index_topk_blocks": 3,
}

# Of these keys alone, or beside BASE.
ALONE: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "gpt-sw3": GPT2,
    "gpt_bigcode": GPT2,
    "gptj": GPT2 | {"rotary_dim": 8, "n_inner": 56},
    "codegen": GPT2 | {"rotary_dim": 8, "n_inner": 56},
    "gpt_neo": OLD
    | {"num_layers": 4, "num_heads": 4, "window_size": 16, "attention_types": [[["global", "local"], 2]]},
    "opt": OLD
    | {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "ffn_dim": 56,
        "word_embed_proj_dim": 24,
        "max_position_embeddings": 64,
    },
    "bloom": OLD | {"n_layer": 3, "num_attention_heads": 4},
    "falcon": OLD
    | {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "new_decoder_architecture": True,
        "ffn_hidden_size": 56,
    },
    "gpt_neox": OLD | {"num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 56},
    "persimmon": OLD | {"num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 56},
    "mpt": {"vocab_size": 102, "d_model": 48, "n_heads": 4, "n_layers": 3, "max_seq_len": 128},
    "dbrx": {
        "vocab_size": 102,
        "d_model": 48,
        "n_heads": 4,
        "n_layers": 3,
        "max_seq_len": 128,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 22, "moe_num_experts": 6, "moe_top_k": 2, "hidden_size": 48},
    },
}
BESIDE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("llama", "granite", "nemotron", "arcee", "ministral3", "gemma", "glm", "glm4"), WIDE),
    **dict.fromkeys(("seed_oss", "hunyuan_v1_dense", "qwen3", "ernie4_5", "internlm3", "exaone"), WIDE),
    **dict.fromkeys(("starcoder2", "phi3"), WINDOW),
    **dict.fromkeys(("gemma2", "vaultgemma", "gemma3_text", "cwm"), WIDE | WINDOW | KINDS),
    **dict.fromkeys(("cohere2", "olmo3", "exaone4", "granite_swa"), WINDOW | KINDS),
    "stablelm": {"hidden_size": 64},
    "helium": {"head_dim": 12},
    "mistral": WIDE | WINDOW,
    "ministral": WINDOW | KINDS | WIDE | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    "qwen2": WINDOW | KINDS | {"use_sliding_window": True},
    "smollm3": WINDOW | KINDS | {"use_sliding_window": True},
    "gemma4_text": WINDOW
    | {
        "head_dim": 20,
        "global_head_dim": 28,
        "num_hidden_layers": 6,
        "layer_types": [SLIDING, FULL, SLIDING, FULL, SLIDING, FULL],
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 102,
        "enable_moe_block": True,
        "num_experts": 6,
        "top_k_experts": 2,
        "moe_intermediate_size": 22,
    },
    "gemma3n_text": WINDOW
    | {
        "head_dim": 20,
        "num_hidden_layers": 5,
        "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
        "num_kv_shared_layers": 2,
        "laurel_rank": 6,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 102,
    },
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "glm4_moe_lite"), LATENT | ROUTED | {"first_k_dense_replace": 1}
    ),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), LATENT | ROUTED | INDEX | {"first_k_dense_replace": 1}),
    "deepseek_v4": ROUTED
    | INDEX
    | {
        "head_dim": 20,
        "o_groups": 2,
        "o_lora_rank": 10,
        "q_lora_rank": 12,
        "n_shared_experts": 1,
        "qk_rope_head_dim": 8,
        "hc_mult": 2,
        "num_hash_layers": 0,
        "sliding_window": 16,
        "layer_types": [SLIDING, "compressed_sparse_attention", "heavily_compressed_attention"],
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
    },
    "minicpm3": LATENT,
    "longcat_flash": LATENT
    | {
        "num_layers": 2,
        "ffn_hidden_size": 56,
        "n_routed_experts": 6,
        "zero_expert_num": 0,
        "moe_topk": 2,
        "head_dim": 6,
        "expert_ffn_hidden_size": 22,
    },
    "qwen3_next": LINEAR | LINEAR_KINDS | QWEN_MOE | WIDE | {"shared_expert_intermediate_size": 26},
    "qwen3_5_text": LINEAR | LINEAR_KINDS | WIDE,
    "qwen3_5_moe_text": LINEAR | LINEAR_KINDS | QWEN_MOE | WIDE | {"shared_expert_intermediate_size": 26},
    "kimi_linear": LATENT
    | {
        "num_local_experts": 6,
        "num_experts_per_tok": 2,
        "n_shared_experts": 2,
        "moe_intermediate_size": 22,
        "linear_head_dim": 12,
        "linear_num_heads": 4,
        "linear_conv_kernel_dim": 4,
        "tie_word_embeddings": False,
        "layer_types": ["linear_attention", FULL, "linear_attention"],
    },
    "lfm2": {"full_attn_idxs": [1], "conv_L_cache": 3},
    "lfm2_moe": {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 22,
        "num_dense_layers": 1,
        "conv_L_cache": 3,
        "layer_types": ["conv", FULL, "conv"],
    },
    "jamba": {
        "attn_layer_period": 3,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "mamba_d_state": 10,
        "mamba_dt_rank": 6,
    },
    "nemotron_h": {
        "hybrid_override_pattern": "M*-E",
        "num_hidden_layers": 4,
        "head_dim": 20,
        "ssm_state_size": 10,
        "mamba_num_heads": 8,
        "mamba_head_dim": 12,
        "n_groups": 2,
        "chunk_size": 8,
        "moe_shared_expert_intermediate_size": 26,
        "moe_latent_size": 32,
        **{key: ROUTED[key] for key in ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")},
    },
    "falcon_h1": MAMBA | {"mamba_d_ssm": 96},
    "bamba": MAMBA | {"attn_layer_indices": [1]},
    "granitemoehybrid": MAMBA
    | LOCAL
    | {"shared_intermediate_size": 26, "layer_types": ["mamba", "attention", "mamba"]},
    "mixtral": LOCAL | WINDOW | WIDE,
    "phimoe": LOCAL | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    "olmoe": {"num_experts": 6, "num_experts_per_tok": 2},
    "granitemoe": LOCAL,
    "granitemoeshared": LOCAL | {"shared_intermediate_size": 26},
    "qwen2_moe": QWEN_MOE | {"shared_expert_intermediate_size": 26},
    "qwen3_moe": QWEN_MOE | WIDE,
    "qwen3_vl_moe_text": QWEN_MOE | WIDE | MROPE,
    "qwen3_vl_text": WIDE | MROPE,
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), MROPE_12),
    **dict.fromkeys(("step3p5", "step3p7"), STEP),
    "glm4_moe": ROUTED | WIDE | {"first_k_dense_replace": 1},
    "dots1": ROUTED | {"first_k_dense_replace": 1},
    "exaone_moe": WINDOW
    | KINDS
    | WIDE
    | {
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 2,
        "moe_intermediate_size": 22,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
    },
    "ernie4_5_moe": {
        "moe_num_experts": 6,
        "moe_k": 2,
        "moe_num_shared_experts": 2,
        "moe_intermediate_size": 22,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": -1,
    },
    "hunyuan_v1_moe": {"num_experts": 6, "moe_topk": 2, "head_dim": 20},
    "gpt_oss": LOCAL | WINDOW | KINDS | WIDE,
    "llama4_text": LOCAL
    | WIDE
    | {
        "intermediate_size_mlp": 80,
        "interleave_moe_layer_step": 2,
        "attention_chunk_size": 16,
        "no_rope_layers": [1, 0, 1],
    },
    "mimo_v2_flash": WINDOW
    | KINDS
    | {
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 22,
        "head_dim": 24,
        "v_head_dim": 16,
        "mlp_layer_types": ["dense", "sparse", "sparse"],
        "rope_parameters": None,
    },
    "minimax": LOCAL | WIDE | LINEAR_KINDS | {"block_size": 8},
    "minimax_m2": LOCAL | WIDE,
    **dict.fromkeys(("minimax_m3_vl", "minimax_m3_vl_text"), LOCAL | BLOCKS),
}


# Families whose language model transformers builds inside a multimodal one.
VISION = {"num_hidden_layers": 1, "depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
VISION |= {"embed_dim": 32}
WRAPPED = {
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text"), "qwen2_vl"),
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_text"), "qwen2_5_vl"),
    **dict.fromkeys(("step3p5", "step3p7"), "step3p7"),
    "qwen3_vl_text": "qwen3_vl",
    "qwen3_vl_moe_text": "qwen3_vl_moe",
    "minimax_m3_vl": "minimax_m3_vl",
}


def small_config(family: str) -> dict[str, Any]:
    return ALONE.get(family) or BASE | BESIDE.get(family, {})


@cache
def small_model(family: str) -> tuple[PreTrainedModel, ModelSpec]:
    """On the CPU in float32, one matmul for each expert and its rows; and our reading of its config."""
    keys: dict[str, Any] = small_config(family)
    auto: Any = AutoModelForCausalLM
    if family in WRAPPED:
        keys, auto = {"text_config": keys, "vision_config": VISION}, AutoModelForImageTextToText
    config = CONFIG_MAPPING[WRAPPED.get(family, family)](**keys)
    text = config.get_text_config()
    text._experts_implementation = config._experts_implementation = "eager"
    torch.manual_seed(0)
    model = auto.from_config(config, attn_implementation="eager").float().eval().requires_grad_(False)
    spec = spec_from_config({**text.to_dict(), "model_type": family}, family, "config.json")
    return model, spec
