"""Families with ALiBi in place of positions: BLOOM, MPT, and Falcon, which mostly rotates."""

from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    assuming,
    attention_of,
    layer_count,
    plain_layer,
    refuse,
    rope_of,
)
from twophase.model.families.gpt import classic, wide_mlp
from twophase.model.keys import Keys
from twophase.model.spec import MLP, ModelSpec, NormPlaces, Weight

BLOOM_NAMES = {
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "seq_length",
    "layer_norm_eps": "layer_norm_epsilon",
}
MPT_NAMES = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "max_position_embeddings": "max_seq_len",
    "layer_norm_eps": "layer_norm_epsilon",
}
FALCON_NAMES = {
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "ffn_hidden_size",
    "hidden_act": "activation",
    "layer_norm_eps": "layer_norm_epsilon",
}
MPT_KV_HEADS = ("multihead_attention", "multiquery_attention")


def bloom(keys: Keys, name: str) -> ModelSpec:
    """ALiBi, and a norm on the embeddings. Nothing limits its context but the length it was trained on."""
    names = BLOOM_NAMES | ({"hidden_size": "n_embed"} if keys.get("n_embed") else {})
    keys = assuming(replace(keys, names=names), max_position_embeddings=2048)
    d = keys.count("hidden_size")
    attention = attention_of(keys, None, qkv_bias=True, out_bias=True)
    layer = plain_layer(attention, MLP(4 * d, "gelu_tanh", bias=True, gated=False))
    norm = Weight("word_embeddings_layernorm", "norms", 2 * d)
    return classic(keys, name, [layer] * layer_count(keys), extra=(norm,))


def falcon(keys: Keys, name: str) -> ModelSpec:
    """7B has one key-value head, 40B and 180B a few (new_decoder_architecture); norms by the block's form."""
    names = FALCON_NAMES | ({"hidden_size": "n_embed"} if keys.get("n_embed") else {})
    keys = replace(keys, names=names)
    bias, new = keys.switch("bias"), keys.switch("new_decoder_architecture")
    if not new:  # num_kv_heads says nothing then
        heads = keys.count("num_attention_heads")
        keys = replace(
            keys, config={**keys.config, "num_kv_heads": 1 if keys.switch("multi_query") else heads}
        )
    rope = None if keys.switch("alibi") else rope_of(keys)
    attention = attention_of(keys, rope, qkv_bias=bias, out_bias=bias)
    two_norms = keys.count("num_ln_in_parallel_attn", 2 if new else 1) == 2
    norms: NormPlaces = "before" if two_norms or not keys.switch("parallel_attn") else "single"
    layer = plain_layer(attention, wide_mlp(keys, bias=bias), norms)
    return classic(keys, name, [layer] * layer_count(keys))


def mpt(keys: Keys, name: str) -> ModelSpec:
    """ALiBi and no biases at all; what attention is stands in attn_config."""
    keys = replace(keys, names=MPT_NAMES)
    own = assuming(keys.inner("attn_config"), attn_type="multihead_attention", alibi=True)
    refuse(own, "qk_ln", "prefix_lm")
    if own.get("attn_type") not in MPT_KV_HEADS or not own.switch("alibi"):
        raise InputError(f"{own.where}: attention of another kind than {', '.join(MPT_KV_HEADS)} with alibi")
    if not keys.switch("no_bias"):
        raise InputError(f"{keys.where}: no_bias is false, which is not known here")
    attention = attention_of(keys, None)
    if own.get("softmax_scale") is not None:
        attention = replace(attention, scale=own.number("softmax_scale"))
    if own.get("attn_type") == "multiquery_attention":
        attention = replace(attention, kv_heads=1)
    width = keys.count("expansion_ratio", 4) * keys.count("hidden_size")
    layer = plain_layer(attention, MLP(width, "gelu", gated=False))
    return classic(keys, name, [layer] * layer_count(keys), norm="layer-no-bias")


READERS = {"bloom": bloom, "falcon": falcon, "mpt": mpt}
