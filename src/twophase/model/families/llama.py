"""Llama and its nearest relatives: grouped-query attention, rotary embeddings, a gated MLP, RMS norms."""

import math

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    SLIDING,
    attention_of,
    by_kind,
    decoder,
    heads_of,
    layer_count,
    layer_kinds,
    mlp_of,
    plain_layer,
    rope_of,
    softcap_of,
    window_of,
)
from twophase.model.keys import Keys
from twophase.model.spec import Layer, ModelSpec


def llama(keys: Keys, name: str) -> ModelSpec:
    bias = keys.switch("attention_bias")
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias)
    layer = plain_layer(attention, mlp_of(keys, bias=keys.switch("mlp_bias")))
    return decoder(keys, name, "llama", [layer] * layer_count(keys))


def mistral(keys: Keys, name: str) -> ModelSpec:
    """Never with biases; all layers slide unless layer_types says otherwise, or the window is null."""
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING] * layer_count(keys))
    mlp, rope = mlp_of(keys), rope_of(keys)
    layers = by_kind(kinds, lambda kind: plain_layer(attention_of(keys, rope, window_of(keys, kind)), mlp))
    return decoder(keys, name, "mistral", layers)


def qwen2(keys: Keys, name: str) -> ModelSpec:
    """Biases on queries, keys and values always; windows only where use_sliding_window says so."""
    return decoder(keys, name, "qwen2", _qwen_layers(keys, qkv_bias=True))


def qwen3(keys: Keys, name: str) -> ModelSpec:
    bias = keys.switch("attention_bias")
    return decoder(keys, name, "qwen3", _qwen_layers(keys, qkv_bias=bias, out_bias=bias, qk_norm=True))


def _qwen_layers(keys: Keys, **traits: bool) -> list[Layer]:
    first = keys.count("max_window_layers", least=0)
    count = layer_count(keys)
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING if i >= first else FULL for i in range(count)])
    if not keys.switch("use_sliding_window"):
        kinds = [FULL] * count
    mlp, rope = mlp_of(keys), rope_of(keys)
    return by_kind(
        kinds, lambda kind: plain_layer(attention_of(keys, rope, window_of(keys, kind), **traits), mlp)
    )


def gemma3_text(keys: Keys, name: str) -> ModelSpec:
    """Five sliding layers to one full; norms around both blocks; embeddings scaled by sqrt(d_model)."""
    if keys.get("use_bidirectional_attention"):
        raise InputError(f"{keys.where} sets use_bidirectional_attention: an encoder, not a decoder")
    pattern = keys.count("_sliding_window_pattern", keys.count("sliding_window_pattern", 6))
    full = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(layer_count(keys))]
    kinds = layer_kinds(keys, (SLIDING, FULL), full)
    bias = keys.switch("attention_bias")
    mlp = mlp_of(keys, activation="hidden_activation")

    def layer(kind: str) -> Layer:
        local = kind == SLIDING
        key, theta = ("rope_local_base_freq", 1e4) if local else ("rope_theta", 1e6)
        attention = attention_of(
            keys,
            rope_of(keys, kind, key, theta, scaled=not local),
            window_of(keys, kind),
            scale=keys.number("query_pre_attn_scalar", heads_of(keys)[2]) ** -0.5,
            qkv_bias=bias,
            out_bias=bias,
            qk_norm=True,
            softcap=softcap_of(keys, "attn_logit_softcapping"),
        )
        return Layer((attention,), mlp, "around")

    return decoder(
        keys,
        name,
        "gemma3_text",
        by_kind(kinds, layer),
        embedding_scale=math.sqrt(keys.count("hidden_size")),
        logit_softcap=softcap_of(keys, "final_logit_softcapping"),
    )


READERS = {
    "llama": llama,
    "mistral": mistral,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma3_text": gemma3_text,
}
