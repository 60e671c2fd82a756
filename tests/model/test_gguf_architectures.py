"""GGUF headers of every architecture against transformers' own models, converted as llama.cpp does it.

A small model on the meta device gives the tensors' names and shapes (gguf's own map) and what it counts of
itself; the header's keys are those that llama.cpp's conversion writes for it.
"""

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf_as_converted import write_as_converted
from meta_models import meta_model, unique_parameters
from transformers import PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from twophase.errors import InputError
from twophase.model.catalogue import load_model, load_spec
from twophase.model.counts import parameters
from twophase.model.gguf_file import read_gguf
from twophase.model.gguf_header import spec_from_gguf
from twophase.model.hf_config import read_hf_config
from twophase.model.mixers import GatedDelta
from twophase.model.spec import Layer
from twophase.model.stored import weights_bytes

SIZES = {
    **{"vocab_size": 96, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "pad_token_id": 0},
}
KEYS: dict[str, Any] = {
    **{"name": "tiny", "context_length": 256, "embedding_length": 64, "block_count": 4},
    **{"feed_forward_length": 160, "head_count": 4, "head_count_kv": 2, "rope_freq_base": 5e5},
}
EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")
RMS, LAYER = {"layer_norm_rms_eps": 1e-6}, {"layer_norm_eps": 1e-5}
TURNED = {"rope_dimension_count": 32}
EVEN = {"num_key_value_heads": 4}  # no heads share keys and values
HEADS = {"key_length": 32, "value_length": 32}
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
EXPERTS = {"expert_count": 6, "expert_used_count": 2}
NARROW = {**EXPERTS, "expert_feed_forward_length": 96}
MANY = {**RMS, **NARROW, "expert_shared_count": 2, "leading_dense_block_count": 1}
MANY_KEYS = {
    **{"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "n_shared_experts": 2},
    **{"first_k_dense_replace": 1, "n_group": 1, "topk_group": 1},
}
MLA = {
    **{"q_lora_rank": 32, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16},
    **{"v_head_dim": 32, "num_key_value_heads": 4},
}
MLA_KEYS = {
    **{"head_count_kv": 1, "kv_lora_rank": 64, "key_length": 80, "value_length": 64, "key_length_mla": 48},
    **{"value_length_mla": 32, "rope_dimension_count": 16},
}
DELTA = {
    **{"linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2},
    **{"linear_num_value_heads": 4, "linear_conv_kernel_dim": 4, "head_dim": 32},
}
DELTA_KEYS = {
    **{**RMS, **HEADS, "ssm_conv_kernel": 4, "ssm_state_size": 32, "ssm_group_count": 2},
    **{"ssm_time_step_rank": 4, "ssm_inner_size": 128, "rope_dimension_count": 8},
    "full_attention_interval": 4,
}
MAMBA2 = {
    **{"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 4},
    "mamba_expand": 2,
}
MAMBA2_KEYS = {
    **{**RMS, "ssm_conv_kernel": 4, "ssm_state_size": 8, "ssm_group_count": 2, "ssm_time_step_rank": 8},
    "ssm_inner_size": 128,
}
SHARED = {"shared_expert_intermediate_size": 128}
SHARED_KEY = {"expert_shared_feed_forward_length": 128}
PATTERN = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
SLIDES = {"sliding_window": 32, "sliding_window_pattern": [True, True, True, False]}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5, "original_max_position_embeddings": 64}
YARN_KEYS = {
    "rope_scaling_type": gguf.RopeScalingType.YARN,
    "rope_scaling_factor": 4.0,
    "rope_scaling_orig_ctx_len": 64,
}
GEMMA3_ROPES = {
    "full_attention": {"rope_type": "default", "rope_theta": 5e5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
GEMMA4_TABLE = [1.0] * 8 + [1e30] * 24
GEMMA4_ROPES = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 5e5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}

# The cases that transformers' own table translates (integrations/ggml.py), and what it leaves at a default.
TRANSLATED: dict[str, dict[str, Any]] = {
    **{"llama, tied": {}, "qwen2": {}, "qwen3": {"head_dim": 32}, "gemma2": {}, "gemma3": {}, "phi3": {}},
    **{"bloom": {}, "starcoder2": {}, "stablelm": {}, "stablelm, parallel": {}, "nemotron": {}, "lfm2": {}},
    **{"qwen2moe": ROUTED | SHARED, "qwen3moe": ROUTED, "minimax-m2": {}},
    "gpt2": {"n_inner": 160, "n_positions": 256},
}

# name: (architecture, model_type, the config's keys, the header's keys); SIZES and KEYS hold beside them.
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", "llama", {"attention_bias": True}, RMS),
    "llama, tied": ("llama", "llama", {"tie_word_embeddings": True, "head_dim": 32}, RMS | HEADS | TURNED),
    "llama, yarn": ("llama", "llama", {"rope_parameters": YARN}, RMS | YARN_KEYS),
    "mixtral": ("llama", "mixtral", {**LOCAL, "sliding_window": None}, RMS | EXPERTS),
    "qwen2": ("qwen2", "qwen2", {}, RMS),
    "qwen2moe": ("qwen2moe", "qwen2_moe", ROUTED | SHARED, RMS | NARROW | SHARED_KEY),
    "qwen2moe, older": ("qwen2moe", "qwen2_moe", ROUTED | SHARED, RMS | EXPERTS),
    "qwen3": ("qwen3", "qwen3", {"head_dim": 32}, RMS | HEADS),
    "qwen3moe": (
        "qwen3moe",
        "qwen3_moe",
        {**ROUTED, "head_dim": 32, "norm_topk_prob": True},
        RMS | HEADS | NARROW,
    ),
    "qwen3next": ("qwen3next", "qwen3_next", DELTA | ROUTED | SHARED, DELTA_KEYS | NARROW | SHARED_KEY),
    "qwen35": ("qwen35", "qwen3_5_text", DELTA, DELTA_KEYS),
    "qwen35moe": ("qwen35moe", "qwen3_5_moe_text", DELTA | ROUTED | SHARED, DELTA_KEYS | NARROW | SHARED_KEY),
    "gemma": ("gemma", "gemma", {"head_dim": 32}, RMS | HEADS),
    "gemma2": (
        *("gemma2", "gemma2", {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 32}),
        {
            **RMS,
            **HEADS,
            "sliding_window": 32,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    ),
    "gemma3": (
        *("gemma3", "gemma3_text"),
        {
            "head_dim": 32,
            "query_pre_attn_scalar": 32,
            "sliding_window": 32,
            "num_hidden_layers": 7,
            "rope_parameters": GEMMA3_ROPES,
        },
        {**RMS, **HEADS, "sliding_window": 32, "block_count": 7},
    ),
    "gemma4": (
        *("gemma4", "gemma4_text"),
        {
            **{"head_dim": 32, "global_head_dim": 64, "sliding_window": 32, "layer_types": PATTERN},
            **{"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 96},
            **{"enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 96},
            **{"attention_k_eq_v": True, "num_global_key_value_heads": 1, "rope_parameters": GEMMA4_ROPES},
            "final_logit_softcapping": 30.0,
        },
        {
            **{**RMS, **SLIDES, **NARROW, "key_length": 64, "value_length": 64, "key_length_swa": 32},
            **{"value_length_swa": 32, "embedding_length_per_layer_input": 32, "shared_kv_layers": 0},
            **{"head_count_kv": [2, 2, 2, 1], "rope_dimension_count": 64, "rope_dimension_count_swa": 32},
            **{"rope_freq_base_swa": 1e4, "final_logit_softcapping": 30.0, "rope_freqs": GEMMA4_TABLE},
        },
    ),
    "gemma4, borrowing": (
        *("gemma4", "gemma4_text"),
        {
            **{"head_dim": 32, "global_head_dim": 64, "sliding_window": 32, "rope_parameters": GEMMA4_ROPES},
            **{"hidden_size_per_layer_input": 0, "use_double_wide_mlp": True, "num_kv_shared_layers": 2},
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
        {
            **{**RMS, "sliding_window": 32, "sliding_window_pattern": [True, False] * 2, "key_length": 64},
            **{"value_length": 64, "key_length_swa": 32, "value_length_swa": 32, "shared_kv_layers": 2},
            **{"feed_forward_length": [160, 160, 320, 320], "rope_freq_base_swa": 1e4},
            "rope_freqs": GEMMA4_TABLE,
        },
    ),
    "phi2": (
        *("phi2", "phi", EVEN),
        {**LAYER, "head_count_kv": 4, "rope_dimension_count": 8},
    ),
    "phi3": (
        "phi3",
        "phi3",
        {"sliding_window": 32},
        {**RMS, "sliding_window": 32, "rope_dimension_count": 16},
    ),
    "phi3, all": ("phi3", "phi3", {"sliding_window": None}, {**RMS, "sliding_window": 0}),
    "phimoe": (
        *("phimoe", "phimoe", {**LOCAL, "attention_bias": True, "lm_head_bias": True}),
        {**RMS, **EXPERTS},
    ),
    "gpt2": ("gpt2", "gpt2", {**EVEN, "n_inner": 160}, {**LAYER, "head_count_kv": 4}),
    "starcoder": (
        *("starcoder", "gpt_bigcode", {"n_inner": 160, "multi_query": True}),
        {**LAYER, "head_count_kv": 1},
    ),
    "gptj": (
        *("gptj", "gptj", {**EVEN, "n_inner": 160, "rotary_dim": 8}),
        {**LAYER, "head_count_kv": 4, "rope_dimension_count": 8},
    ),
    "gptneox": ("gptneox", "gpt_neox", EVEN, {**LAYER, "head_count_kv": 4, "rope_dimension_count": 4}),
    "falcon, one": (
        *("falcon", "falcon", {"ffn_hidden_size": 160, "multi_query": True}),
        {**LAYER, "head_count_kv": 1},
    ),
    "falcon, few": (
        *("falcon", "falcon"),
        {"ffn_hidden_size": 160, "new_decoder_architecture": True, "num_kv_heads": 2},
        LAYER,
    ),
    "mpt": (
        *("mpt", "mpt", {**EVEN, "max_seq_len": 256}),
        {**LAYER, "head_count_kv": 4, "feed_forward_length": 256, "max_alibi_bias": 8.0},
    ),
    "bloom": ("bloom", "bloom", EVEN, {**LAYER, "head_count_kv": 4, "feed_forward_length": 256}),
    "starcoder2": ("starcoder2", "starcoder2", {"sliding_window": None}, LAYER),
    "stablelm": ("stablelm", "stablelm", {"use_qkv_bias": True}, {**LAYER, "rope_dimension_count": 4}),
    "stablelm, parallel": (
        *("stablelm", "stablelm", {"use_parallel_residual": True}),
        {**LAYER, "rope_dimension_count": 4},
    ),
    "command-r": ("command-r", "cohere", {"use_qk_norm": True}, LAYER),
    "cohere2": ("cohere2", "cohere2", {"sliding_window": 32}, {**LAYER, "sliding_window": 32}),
    "olmo": ("olmo", "olmo", {}, LAYER),
    "olmo2": ("olmo2", "olmo2", {}, RMS),
    "olmo3": ("olmo2", "olmo3", {"sliding_window": 32, "layer_types": PATTERN}, RMS | SLIDES),
    "olmoe": ("olmoe", "olmoe", {"num_experts": 6, "num_experts_per_tok": 2}, RMS | EXPERTS),
    "deepseek2": ("deepseek2", "deepseek_v3", MANY_KEYS | MLA, {**MANY, **MLA_KEYS, "q_lora_rank": 32}),
    "deepseek2, v2": ("deepseek2", "deepseek_v2", {**MANY_KEYS, **MLA, "q_lora_rank": None}, MANY | MLA_KEYS),
    "deepseek2, older": (
        *("deepseek2", "deepseek_v2", {**MANY_KEYS, **MLA, "q_lora_rank": None}),
        {**MANY, "kv_lora_rank": 64, "key_length": 48, "value_length": 32, "rope_dimension_count": 16},
    ),
    "gpt-oss": (
        *("gpt-oss", "gpt_oss", {**LOCAL, "head_dim": 32, "sliding_window": 32, "rope_parameters": YARN}),
        {**RMS, **HEADS, **EXPERTS, **YARN_KEYS, "sliding_window": 32, "expert_feed_forward_length": 160},
    ),
    "glm4": ("glm4", "glm4", {"head_dim": 32}, {**RMS, **HEADS, "rope_dimension_count": 16}),
    "glm4moe": (
        *("glm4moe", "glm4_moe", {**MANY_KEYS, "head_dim": 32, "use_qk_norm": True, "attention_bias": True}),
        {**MANY, **HEADS, "rope_dimension_count": 16},
    ),
    "minimax-m2": (
        *("minimax-m2", "minimax_m2", {**LOCAL, "head_dim": 32, "rotary_dim": 16}),
        {**RMS, **HEADS, **EXPERTS, "rope_dimension_count": 16},
    ),
    "llama4": (
        *("llama4", "llama4_text"),
        {
            **{**LOCAL, "head_dim": 32, "intermediate_size": 96, "intermediate_size_mlp": 160},
            "interleave_moe_layer_step": 2,
        },
        {**RMS, **HEADS, **NARROW, "interleave_moe_layer_step": 2},
    ),
    "granite": (
        *("granite", "granite", {"attention_multiplier": 0.5, "embedding_multiplier": 12.0}),
        {**RMS, "attention_scale": 0.5, "embedding_scale": 12.0},
    ),
    "granitemoe": (
        *("granitemoe", "granitemoe", {**LOCAL, "attention_multiplier": 0.5}),
        {**RMS, **EXPERTS, "attention_scale": 0.5},
    ),
    "granitemoe, shared": (
        *("granitemoe", "granitemoeshared"),
        {**LOCAL, "attention_multiplier": 0.5, "shared_intermediate_size": 128},
        {**RMS, **EXPERTS, "attention_scale": 0.5, "expert_shared_feed_forward_length": 128},
    ),
    "granitehybrid": (
        *("granitehybrid", "granitemoehybrid"),
        {
            **{**LOCAL, **MAMBA2, "shared_intermediate_size": 128, "attention_multiplier": 0.5},
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
        },
        {
            **{**MAMBA2_KEYS, **EXPERTS, "attention_scale": 0.5, "head_count_kv": [0, 0, 2, 0]},
            "expert_shared_feed_forward_length": 128,
        },
    ),
    "granitehybrid, dense": (
        *("granitehybrid", "granitemoehybrid"),
        {
            **{**MAMBA2, "num_local_experts": 0, "shared_intermediate_size": 160},
            **{"attention_multiplier": 0.5, "layer_types": ["mamba", "mamba", "attention", "mamba"]},
        },
        {**MAMBA2_KEYS, "attention_scale": 0.5, "head_count_kv": [0, 0, 2, 0]},
    ),
    "exaone4": ("exaone4", "exaone4", {"sliding_window": 32, "layer_types": PATTERN}, RMS | SLIDES),
    "exaone4, all": (
        "exaone4",
        "exaone4",
        {"sliding_window": None, "layer_types": ["full_attention"] * 4},
        RMS,
    ),
    "nemotron": ("nemotron", "nemotron", {}, {**LAYER, "rope_dimension_count": 8}),
    "nemotron_h": (
        *("nemotron_h", "nemotron_h"),
        {
            **{"hybrid_override_pattern": "M*-M", "head_dim": 32, "ssm_state_size": 8, "mamba_num_heads": 8},
            **{"mamba_head_dim": 16, "n_groups": 2, "conv_kernel": 4},
        },
        {**MAMBA2_KEYS, **HEADS, "head_count_kv": [0, 2, 0, 0], "feed_forward_length": [0, 0, 160, 0]},
    ),
    "nemotron_h_moe": (
        *("nemotron_h_moe", "nemotron_h"),
        {
            **{"hybrid_override_pattern": "M*EM", "head_dim": 32, "ssm_state_size": 8, "mamba_num_heads": 8},
            **{"mamba_head_dim": 16, "n_groups": 2, "conv_kernel": 4},
            **{"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96},
            **{"moe_shared_expert_intermediate_size": 128, "moe_latent_size": 32},
        },
        {
            **{**MAMBA2_KEYS, **HEADS, **NARROW, **SHARED_KEY, "head_count_kv": [0, 2, 0, 0]},
            **{"feed_forward_length": [0, 0, 96, 0], "expert_shared_count": 1, "moe_latent_size": 32},
        },
    ),
    "jamba": (
        *("jamba", "jamba"),
        {
            **{"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "mamba_d_state": 8},
            **{"expert_layer_offset": 0, "num_experts": 6, "num_experts_per_tok": 2, "mamba_dt_rank": 32},
        },
        {
            **{**RMS, **EXPERTS, "ssm_conv_kernel": 4, "ssm_inner_size": 128, "ssm_state_size": 8},
            **{"ssm_time_step_rank": 32, "head_count_kv": [0, 2, 0, 2]},
        },
    ),
    "falcon-h1": (
        *("falcon-h1", "falcon_h1", {**MAMBA2, "mamba_d_ssm": 128, "mamba_rms_norm": True, "head_dim": 32}),
        MAMBA2_KEYS | HEADS,
    ),
    "lfm2": (
        *("lfm2", "lfm2"),
        {"block_auto_adjust_ff_dim": False, "full_attn_idxs": [1, 3], "conv_L_cache": 3},
        {**RMS, "head_count_kv": [0, 2, 0, 2], "shortconv_l_cache": 3},
    ),
    "lfm2moe": (
        *("lfm2moe", "lfm2_moe"),
        {**ROUTED, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"] * 2, "conv_L_cache": 3},
        {
            **RMS,
            **NARROW,
            "head_count_kv": [0, 2, 0, 2],
            "shortconv_l_cache": 3,
            "leading_dense_block_count": 1,
        },
    ),
    "ernie4_5": ("ernie4_5", "ernie4_5", {"head_dim": 32}, RMS | HEADS),
    "ernie4_5-moe": (
        *("ernie4_5-moe", "ernie4_5_moe"),
        {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 96, "moe_num_shared_experts": 2},
        {**MANY, "interleave_moe_layer_step": 1},
    ),
    "hunyuan-dense": ("hunyuan-dense", "hunyuan_v1_dense", {"head_dim": 32}, RMS | HEADS),
    "hunyuan-moe": (
        *("hunyuan-moe", "hunyuan_v1_moe", {"num_experts": 6, "moe_topk": 2, "head_dim": 32}),
        {
            **{**RMS, **HEADS, **EXPERTS, "expert_feed_forward_length": 160, "expert_shared_count": 1},
            "expert_shared_feed_forward_length": 160,
        },
    ),
    "smollm3": ("smollm3", "smollm3", {}, RMS),
    "seed_oss": ("seed_oss", "seed_oss", {"attention_bias": True, "head_dim": 32}, RMS | HEADS),
    "dots1": ("dots1", "dots1", {**MANY_KEYS, "head_dim": 32}, MANY | HEADS),
    "arcee": ("arcee", "arcee", {}, RMS),
    "chatglm": (
        "chatglm",
        "glm",
        {"attention_bias": True, "head_dim": 16},
        {**RMS, "rope_dimension_count": 8},
    ),
    "glm-dsa": (
        *("glm-dsa", "glm_moe_dsa"),
        {**MANY_KEYS, **MLA, "index_n_heads": 4, "index_head_dim": 32, "index_topk": 64},
        {
            **{**MANY, **MLA_KEYS, "q_lora_rank": 32, "indexer_head_count": 4, "indexer_key_length": 32},
            "indexer_top_k": 64,
        },
    ),
    "gemma3n": (
        *("gemma3n", "gemma3n_text"),
        {
            **{"head_dim": 32, "sliding_window": 32, "layer_types": PATTERN, "altup_num_inputs": 4},
            **{"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 96, "laurel_rank": 32},
            **{"num_kv_shared_layers": 0, "intermediate_size": [160] * 4, "rope_parameters": GEMMA3_ROPES},
            **{"activation_sparsity_pattern": [0.0] * 4, "final_logit_softcapping": 30.0},
        },
        {
            **{**RMS, **HEADS, **SLIDES, "altup_num_inputs": 4, "embedding_length_per_layer_input": 32},
            **{"shared_kv_layers": 0, "feed_forward_length": [160] * 4, "final_logit_softcapping": 30.0},
        },
    ),
    "exaone-moe": (
        *("exaone-moe", "exaone_moe"),
        {
            **{"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 96, "head_dim": 32},
            **{"num_shared_experts": 1, "first_k_dense_replace": 1, "sliding_window": 32},
            **{"layer_types": PATTERN, "n_group": 1, "topk_group": 1},
        },
        {**MANY, **HEADS, **SLIDES, "expert_shared_count": 1},
    ),
}


@dataclass(frozen=True)
class Converted:
    case: str
    model: PreTrainedModel
    path: Path


@pytest.fixture(scope="module", params=CASES)
def converted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """A case's model, and the file that llama.cpp would make of it."""
    architecture, model_type, keys, own = CASES[request.param]
    config = {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, **keys}
    drop = ("num_hidden_layers",) if model_type == "nemotron_h" else ()  # the pattern says it
    model = meta_model(model_type, **{key: value for key, value in config.items() if key not in drop})
    theirs = next((getattr(model.config, each) for each in EPS if hasattr(model.config, each)), 1e-5)
    eps = {key: theirs for key in own if key in (*RMS, *LAYER)}
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_as_converted(path, architecture, model, **(KEYS | own | eps))
    return Converted(request.param, model, path)


def test_parameters_are_those_of_transformers(converted: Converted) -> None:
    assert parameters(load_spec(str(converted.path))).total == unique_parameters(converted.model)


def test_the_network_is_that_of_config_json(converted: Converted, tmp_path: Path) -> None:
    """Layer by layer: heads, windows, rope, experts; not the family's own name, nor drafts."""
    converted.model.config.save_pretrained(tmp_path)
    known, found = read_hf_config(tmp_path), load_spec(str(converted.path))
    apart = {layer: _apart(layer) for layer in known.layers}
    known = replace(known, layers=tuple(apart[layer] for layer in known.layers))
    assert found.layers == known.layers
    same: dict[str, Any] = {"name": "", "family": "", "draft_layers": 0}
    assert replace(found, **same) == replace(known, **same)


def _apart(layer: Layer) -> Layer:
    """llama.cpp stores Qwen3-Next's projection of queries, keys, values and gate in two."""
    deltas = [replace(each, fused=False) if isinstance(each, GatedDelta) else each for each in layer.mixers]
    return replace(layer, mixers=tuple(deltas))


def test_bytes_are_the_files(converted: Converted) -> None:
    """Every tensor in its own type, but for tables of rotary frequencies, which are no weights."""
    model = load_model(str(converted.path))
    stored = gguf.GGUFReader(converted.path).tensors
    weights = sum(each.n_bytes for each in stored if each.name != "rope_freqs.weight")
    assert weights_bytes(model.spec, model.storage) == weights


@pytest.mark.parametrize("converted", TRANSLATED, indirect=True)
def test_transformers_reads_the_same_from_the_file(converted: Converted) -> None:
    theirs = load_gguf_checkpoint(converted.path)["config"] | TRANSLATED[converted.case]
    theirs = {key: value for key, value in theirs.items() if not key.startswith("_")}
    model = meta_model(theirs.pop("model_type"), **{**theirs, "vocab_size": 96, "pad_token_id": 0})
    assert parameters(load_spec(str(converted.path))).total == unique_parameters(model)


ODD = (0, -1, 3, 2**40, True, 1.5, math.nan, "", "none", [], ["a"], np.array([2, 0, 1]), np.array([True] * 9))


def test_any_value_under_a_key_is_taken_or_refused(converted: Converted) -> None:
    file = read_gguf(converted.path)
    pick = random.Random(converted.case)
    for key in file.metadata:
        for value in pick.sample(ODD, 4):
            try:
                spec = spec_from_gguf(replace(file, metadata={**file.metadata, key: value}))
            except InputError as error:
                assert "\n" not in str(error)
            else:
                assert parameters(spec).total > 0
    for key in file.metadata:
        kept = {name: value for name, value in file.metadata.items() if name != key}
        try:
            spec_from_gguf(replace(file, metadata=kept))
        except InputError as error:
            assert "\n" not in str(error)


def test_a_file_without_its_layers_tensors_is_taken_or_refused(converted: Converted) -> None:
    file = read_gguf(converted.path)
    outer = {name: place for name, place in file.tensors.items() if not name.startswith("blk.")}
    for tensors in (outer, {}):
        try:
            spec_from_gguf(replace(file, tensors=tensors))
        except InputError as error:
            assert "\n" not in str(error)
