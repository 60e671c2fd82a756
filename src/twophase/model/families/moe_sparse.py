"""Mixtures of experts with windows or chunks in some layers: gpt-oss, Llama 4, MiMo-V2, Step-3.5."""

from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    by_kind,
    decoder,
    flags_of,
    layer_count,
    layer_kinds,
    layers_named,
    mlp_of,
    overriding,
    per_layer,
    plain_layer,
    refuse,
    rope_of,
    window_of,
)
from twophase.model.families.deepseek import dense_first, mixture
from twophase.model.families.moe import LOCAL, flagged, zipped
from twophase.model.keys import Keys
from twophase.model.mixers import Attention, Rope
from twophase.model.spec import FeedForward, Layer, ModelSpec

CHUNKED = "chunked_attention"
GPT_OSS_ROPE = {"rope_type": "yarn", "factor": 32.0}
STEP = {
    "num_key_value_heads": "num_attention_groups",
    "num_experts_per_tok": "moe_top_k",
    "share_expert_dim": "share_expert_dims",
}


def gpt_oss(keys: Keys, name: str) -> ModelSpec:
    """Every other layer slides; sinks; biases on everything, experts and router too."""
    keys = assuming(replace(keys, names=LOCAL), rope_scaling=GPT_OSS_ROPE)
    keys = overriding(keys, hidden_act="swigluoai")
    rope, bias = rope_of(keys, theta=150_000.0), keys.switch("attention_bias")
    experts = mixture(keys)
    experts = replace(experts, expert=replace(experts.expert, bias=True), router_bias=True)
    alternating = [FULL if i % 2 else SLIDING for i in range(layer_count(keys))]

    def layer(kind: str) -> Layer:
        window = window_of(keys, kind)
        attention = attention_of(keys, rope, window, qkv_bias=bias, out_bias=bias, sinks=True)
        return plain_layer(attention, experts)

    kinds = layer_kinds(keys, (SLIDING, FULL), alternating)
    return decoder(keys, name, "gpt_oss", by_kind(kinds, layer))


def llama4_text(keys: Keys, name: str) -> ModelSpec:
    """Layers with rotation attend within their chunk, every fourth has none and attends to all."""
    keys = replace(keys, names=LOCAL)
    count, bias = layer_count(keys), keys.switch("attention_bias")
    interval = keys.count("no_rope_layer_interval", 4)
    rotates = per_layer(keys, "no_rope_layers", count) if keys.get("no_rope_layers") else None
    rotates = rotates or [(i + 1) % interval != 0 for i in range(count)]
    chunks = keys.given("attention_chunk_size") is not None
    kinds = layer_kinds(keys, (CHUNKED, FULL), [CHUNKED if each and chunks else FULL for each in rotates])
    rope = rope_of(keys, theta=5e5)
    attention = [
        attention_of(
            keys,
            rope if turn else None,
            chunk=keys.count("attention_chunk_size") if kind == CHUNKED else None,
            qkv_bias=bias,
            out_bias=bias,
        )
        for kind, turn in zip(kinds, rotates, strict=True)
    ]
    return decoder(keys, name, "llama4_text", zipped(attention, _llama4_blocks(keys)))


def _llama4_blocks(keys: Keys) -> list[FeedForward]:
    """Experts and a shared one in moe_layers, or in every interleave_moe_layer_step-th layer."""
    count, step = layer_count(keys), keys.count("interleave_moe_layer_step", 1)
    named = layers_named(keys, "moe_layers")
    sparse = range(step - 1, count, step) if named is None else named
    experts = replace(mixture(keys), shared=mlp_of(keys))
    dense = mlp_of(keys, keys.count("intermediate_size_mlp"))
    return [experts if i in sparse else dense for i in range(count)]


def mimo_v2_flash(keys: Keys, name: str) -> ModelSpec:
    """Sliding layers have heads, rotation and sinks of their own; values are narrower than keys."""
    count = layer_count(keys)
    keys = assuming(keys, partial_rotary_factor=0.334, first_k_dense_replace=1)
    sliding = flags_of(keys, "hybrid_layer_pattern", count) or [bool(i and (i + 1) % 6) for i in range(count)]
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING if each else FULL for each in sliding])
    made = {SLIDING: _mimo_sliding(keys), FULL: _mimo_full(keys)}
    blocks = dense_first(flagged(keys), mlp_of(keys), mixture(keys))
    eps = "rms_norm_eps" if "rms_norm_eps" in keys.config else "layernorm_epsilon"
    layers = zipped([made[kind] for kind in kinds], blocks)
    return decoder(keys, name, "mimo_v2_flash", layers, norm_eps=keys.number(eps, 1e-5))


def _mimo_full(keys: Keys) -> Attention:
    sinks = bool(keys.get("add_full_attention_sink_bias", False))
    rope, bias = rope_of(keys, FULL, theta=5e6), keys.switch("attention_bias")
    return attention_of(keys, rope, qkv_bias=bias, v_dim=keys.count("v_head_dim"), sinks=sinks)


def _mimo_sliding(keys: Keys) -> Attention:
    """sliding_window_size counts the tokens before a row, sliding_window the row too."""
    others = keys.get("sliding_window_size")
    return replace(
        _mimo_full(
            overriding(
                keys,
                num_attention_heads=keys.get("swa_num_attention_heads", keys.get("num_attention_heads")),
                num_key_value_heads=keys.get(
                    "swa_num_key_value_heads", 2 * keys.count("num_key_value_heads")
                ),
                head_dim=keys.get("swa_head_dim", keys.get("head_dim")),
                v_head_dim=keys.get("swa_v_head_dim", keys.get("v_head_dim")),
            )
        ),
        rope=rope_of(keys, SLIDING, "swa_rope_theta", 1e4),
        window=keys.count("sliding_window") if others is None else keys.count("sliding_window_size") + 1,
        sinks=bool(keys.get("add_swa_attention_sink_bias", True)),
    )


def step3p5(keys: Keys, name: str) -> ModelSpec:
    """Step-3.5 and 3.7: sliding layers may have more heads; a gate a head; lists may hold drafts too."""
    refuse(keys, "use_bidirectional_attention")
    experts_key = next(
        (key for key in ("moe_num_experts", "num_experts", "num_local_experts") if key in keys.config),
        "n_routed_experts",
    )
    keys = replace(keys, names={**STEP, "n_routed_experts": experts_key})
    keys = assuming(keys, first_k_dense_replace=3, rms_norm_eps=keys.number("rms_norm_eps", 1e-5))
    count = layer_count(keys)
    keys = overriding(keys, layer_types=per_layer(keys, "layer_types", count))
    kinds = layer_kinds(keys, (SLIDING, FULL), [FULL] * count)
    made = {kind: _step_attention(keys, kind, kinds.index(kind)) for kind in set(kinds)}
    keys = _step_sparse_layers(keys)
    bias = keys.switch("mlp_bias")
    shared = mlp_of(keys, keys.count("share_expert_dim"), bias=bias)
    blocks = dense_first(keys, mlp_of(keys, bias=bias), replace(mixture(keys), shared=shared))
    return decoder(keys, name, "step3p5", zipped([made[kind] for kind in kinds], blocks))


def _step_attention(keys: Keys, kind: str, first: int) -> Attention:
    """first: the first layer of this kind, which speaks for all."""
    rope = _step_rope(keys, kind, first)
    bias = keys.switch("attention_bias")
    if kind == SLIDING:
        other = keys.inner("attention_other_setting")
        heads = other.get("num_attention_heads", keys.get("num_attention_heads"))
        keys = overriding(
            keys,
            num_attention_heads=keys.get("num_sliding_attention_heads", heads),
            num_key_value_heads=other.get("num_attention_groups", keys.get("num_key_value_heads")),
            head_dim=other.get("head_dim", keys.get("head_dim")),
        )
    scale = keys.number("query_pre_attn_scalar", keys.count("head_dim")) ** -0.5
    window = window_of(keys, kind)
    return attention_of(
        keys, rope, window, scale=scale, qkv_bias=bias, out_bias=bias, qk_norm=True, gate="head"
    )


def _step_rope(keys: Keys, kind: str, layer: int) -> Rope:
    """theta and the share that is rotated may be given layer by layer; only full layers are stretched."""

    def at(key: str) -> Any:
        values = keys.get(key)
        if not isinstance(values, list):
            return values
        return (per_layer(keys, key, layer_count(keys)) or values)[layer]

    share = at("partial_rotary_factors") or keys.get("partial_rotary_factor")
    own = overriding(keys, rope_theta=at("rope_theta"), partial_rotary_factor=share)
    return rope_of(own, kind, scaled=kind == FULL)


def _step_sparse_layers(keys: Keys) -> Keys:
    """moe_layers_enum names the layers with experts, in a list or with commas between."""
    named = keys.get("moe_layers_enum")
    if named is None:
        return keys
    try:
        sparse = {int(each) for each in (named.split(",") if isinstance(named, str) else named)}
    except (TypeError, ValueError):
        raise InputError(f"{keys.where}: moe_layers_enum is {named!r:.40}; it must name layers") from None
    kinds = ["sparse" if i in sparse else "dense" for i in range(layer_count(keys))]
    return assuming(keys, mlp_layer_types=kinds)


READERS = {
    "gpt_oss": gpt_oss,
    "llama4_text": llama4_text,
    "mimo_v2_flash": mimo_v2_flash,
    "step3p5": step3p5,
    "step3p7": step3p5,
}
