"""Architectures without experts or recurrences: their GGUF keys as config.json's."""

from collections.abc import Callable

from twophase.errors import InputError
from twophase.model.gguf_families.common import Config, common, experts, kinds
from twophase.model.gguf_keys import Header

Translate = Callable[[Header], Config]

# Architectures whose common keys say all that the family's reader asks for.
PLAIN = {
    **{"qwen2": "qwen2", "qwen2vl": "qwen2_vl_text", "qwen3": "qwen3", "qwen3vl": "qwen3_vl_text"},
    **{"gemma": "gemma", "phi2": "phi", "phi3": "phi3", "bloom": "bloom", "gptneox": "gpt_neox"},
    **{"starcoder2": "starcoder2", "olmo": "olmo", "glm4": "glm4", "chatglm": "glm", "arcee": "arcee"},
    **{"exaone": "exaone", "nemotron": "nemotron", "smollm3": "smollm3", "internlm2": "internlm2"},
    **{"ernie4_5": "ernie4_5", "hunyuan-dense": "hunyuan_v1_dense", "seed_oss": "seed_oss"},
    "baichuan": "baichuan",
}


def _plain(model_type: str) -> Translate:
    return lambda header: {**common(header), "model_type": model_type}


def llama(header: Header) -> Config:
    """Also Mistral's, and Mixtral's with experts."""
    config = common(header)
    if header.optional("expert_count"):
        return {**config, **experts(header), "model_type": "mixtral"}
    return {**config, "model_type": "mistral" if config["sliding_window"] else "llama"}


def mistral3(header: Header) -> Config:
    return {**llama(header), "model_type": "mixtral" if header.optional("expert_count") else "mistral"}


def gpt2(header: Header) -> Config:
    return {**common(header), "model_type": "gpt2", "n_inner": header.count("feed_forward_length")}


def starcoder(header: Header) -> Config:
    return {**gpt2(header), "model_type": "gpt_bigcode", "multi_query": False}


def gptj(header: Header) -> Config:
    return {**gpt2(header), "model_type": "gptj", "rotary_dim": header.optional("rope.dimension_count")}


def falcon(header: Header) -> Config:
    """7B has one key-value head and one norm a layer, 40B and 180B a few and two."""
    config = common(header)
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    two_norms = header.stores("attn_norm_2.weight")
    return {
        **config,
        "model_type": "falcon",
        "new_decoder_architecture": two_norms or kv_heads not in (1, heads),
        "multi_query": kv_heads == 1,
        "num_ln_in_parallel_attn": 2 if two_norms else 1,
        "parallel_attn": True,
        "alibi": False,
    }


def mpt(header: Header) -> Config:
    config = common(header)
    kind = "multiquery_attention" if config["num_key_value_heads"] == 1 else "multihead_attention"
    ratio, rest = divmod(config["intermediate_size"], config["hidden_size"])
    if rest or not ratio:
        raise InputError(f"{header.name('feed_forward_length')} is no multiple of its embedding_length")
    alibi = header.has("attention.max_alibi_bias")
    own = {"attn_type": kind, "alibi": alibi, "qk_ln": header.stores("attn_q_norm.weight")}
    return {**config, "model_type": "mpt", "attn_config": own, "expansion_ratio": ratio, "no_bias": True}


def stablelm(header: Header) -> Config:
    return {
        **common(header),
        "model_type": "stablelm",
        "use_parallel_residual": not header.stores("ffn_norm.weight"),
        "qk_layernorm": header.stores("attn_q_norm.weight"),
    }


def command_r(header: Header) -> Config:
    return {**common(header), "model_type": "cohere", "use_qk_norm": header.stores("attn_q_norm.weight")}


def cohere2(header: Header) -> Config:
    return {**common(header), "model_type": "cohere2", "layer_types": kinds(header, 4)}


def olmo2(header: Header) -> Config:
    """Also OLMo 3's, whose layers slide."""
    config = common(header)
    if not config["sliding_window"]:
        return {**config, "model_type": "olmo2"}
    return {**config, "model_type": "olmo3", "layer_types": kinds(header, 4)}


def exaone4(header: Header) -> Config:
    config = common(header)
    if config["sliding_window"]:
        config["layer_types"] = kinds(header, 4)
    return {**config, "model_type": "exaone4"}


def granite(header: Header) -> Config:
    return {**common(header), **multipliers(header), "model_type": "granite"}


def multipliers(header: Header) -> Config:
    """Granite's, where a file has them."""
    names = {
        **{"attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale"},
        **{"residual_multiplier": "residual_scale", "logits_scaling": "logit_scale"},
    }
    return {ours: header.number(theirs) for ours, theirs in names.items() if header.has(theirs)}


TRANSLATORS: dict[str, Translate] = {
    "llama": llama,
    "mistral3": mistral3,
    **{architecture: _plain(model_type) for architecture, model_type in PLAIN.items()},
    "gpt2": gpt2,
    "gptj": gptj,
    "starcoder": starcoder,
    "falcon": falcon,
    "mpt": mpt,
    "stablelm": stablelm,
    "command-r": command_r,
    "cohere2": cohere2,
    "olmo2": olmo2,
    "exaone4": exaone4,
    "granite": granite,
}
