"""Small configs of every family that is known, and transformers' own models of them."""

import random
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

CLASSES = {
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "gemma3_text": Gemma3TextConfig,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SCALINGS = ({"rope_type": "default"}, {"rope_type": "linear", "factor": 4.0}, LLAMA3)


def random_config(family: str, seed: int) -> dict[str, Any]:
    """A config as files have them: keys given, null or left out, rotary keys in the old form or the new."""
    pick = random.Random(seed)
    heads = pick.choice([2, 4, 8])
    config = {
        "model_type": family,
        "vocab_size": pick.choice([64, 100]),
        "hidden_size": heads * pick.choice([8, 16]),
        "intermediate_size": 48,
        "num_hidden_layers": pick.choice([1, 3, 7]),
        "num_attention_heads": heads,
        "num_key_value_heads": pick.choice([1, 2, heads, None]),
    }
    if family in ("llama", "mistral"):
        config |= pick.choice([{}, {"head_dim": None}, {"head_dim": 32}])
    else:
        config |= {"head_dim": pick.choice([8, 32])}
    if family in ("mistral", "gemma3_text"):  # theirs take no null
        config["num_key_value_heads"] = pick.choice([1, 2])
    optional = {
        "max_position_embeddings": [128, 4096],
        "tie_word_embeddings": [True, False],
        "attention_bias": [True, False],
        "mlp_bias": [True, False],
        "sliding_window": [16, None],
        "use_sliding_window": [True, False],
        "max_window_layers": [0, 2, 28],
        "rms_norm_eps": [1e-5],
        "hidden_activation" if family == "gemma3_text" else "hidden_act": ["silu", "gelu_pytorch_tanh"],
    }
    if family == "gemma3_text":
        optional |= {"sliding_window_pattern": [2, 6], "query_pre_attn_scalar": [64, 168]}
        optional |= {"rope_local_base_freq": [5000.0]}
    if family in ("qwen2", "qwen3", "gemma3_text"):
        kinds = [pick.choice(["sliding_attention", "full_attention"]) for _ in range(7)]
        optional |= {"layer_types": [kinds[: config["num_hidden_layers"]]]}
    for key, values in optional.items():
        if pick.random() < 0.5:
            config[key] = pick.choice(values)
    scaling = pick.choice(SCALINGS)
    if pick.random() < 0.5:
        return config | {"rope_theta": 5e5, "rope_scaling": scaling}
    rope = {"rope_theta": 5e5, **scaling}
    if family == "gemma3_text":
        return config | {
            "rope_parameters": {
                "full_attention": rope,
                "sliding_attention": {"rope_type": "default", "rope_theta": 1234.0},
            }
        }
    return config | {"rope_parameters": rope}


def reference(config: dict[str, Any], device: str = "meta", **named: Any) -> PreTrainedModel:
    """transformers' model of a config, by default without memory for its weights."""
    keys = {key: value for key, value in config.items() if key not in ("model_type", "title", "source")}
    with torch.device(device):
        return AutoModelForCausalLM.from_config(CLASSES[config["model_type"]](**keys), **named)
