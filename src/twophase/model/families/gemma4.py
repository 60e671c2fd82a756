"""Gemma 4 and Gemma 3n: layers that borrow keys and values, embeddings for each layer, two head widths."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    decoder,
    layer_count,
    layer_kinds,
    mlp_of,
    overriding,
    per_layer,
    rope_of,
    softcap_of,
    window_of,
)
from twophase.model.families.deepseek import mixture
from twophase.model.keys import Keys
from twophase.model.mixers import Attention
from twophase.model.spec import MLP, FeedForward, Layer, ModelSpec, Weight

EXPERTS = {"n_routed_experts": "num_experts", "num_experts_per_tok": "top_k_experts"}
ACTIVATION = "hidden_activation"
ALTUP = ("projections", "unembed_projections")
ROPES = {
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}


def gemma4_text(keys: Keys, name: str) -> ModelSpec:
    """Five sliding layers to one full, the last is always full; the 26B has experts beside each MLP."""
    if keys.get("use_bidirectional_attention") == "all":
        raise InputError(f"{keys.where} sets use_bidirectional_attention to all: an encoder, not a decoder")
    keys = replace(assuming(keys, rope_parameters=ROPES), names=EXPERTS)
    count = layer_count(keys)
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING if (i + 1) % 6 else FULL for i in range(count)])
    kinds[-1] = FULL
    borrowing, own = _borrowing(keys, kinds), _own_heads(keys, kinds)
    dense = mlp_of(keys, activation=ACTIVATION)
    wide = replace(dense, d_ff=dense.d_ff * 2) if keys.switch("use_double_wide_mlp") else dense
    layers = []
    for kind, borrows, heads in zip(kinds, borrowing, own, strict=True):
        attention = _attention(overriding(keys, **heads), kind, borrows)
        shares = keys.switch("attention_k_eq_v") and kind == FULL
        block, extra = _gemma4_block(keys, wide if borrows else dense)
        mixers = (replace(attention, keys_are_values=shares),)
        layers.append(Layer(mixers, block, "around", (*extra, *_layer_inputs(keys))))
    return _gemma(keys, name, "gemma4_text", layers, _embeddings(keys))


def gemma3n_text(keys: Keys, name: str) -> ModelSpec:
    """Four sliding layers to one full; the residual is altup_num_inputs streams (AltUp), and a low rank."""
    count, d_model = layer_count(keys), keys.count("hidden_size")
    pattern = [SLIDING if (i + 1) % 5 else FULL for i in range(count)]
    kinds = layer_kinds(keys, (SLIDING, FULL), pattern)
    widths = [keys.get("intermediate_size")] * count
    if isinstance(widths[0], list):
        widths = per_layer(keys, "intermediate_size", count) or []
    streams = keys.count("altup_num_inputs")
    extra = (*_laurel(keys, d_model), *_altup(streams, d_model), *_layer_inputs(keys))
    layers = [
        Layer(
            (_attention(keys, kind, borrows, "rope_local_base_freq"),),
            mlp_of(overriding(keys, intermediate_size=width), activation=ACTIVATION),
            "around",
            extra,
        )
        for kind, borrows, width in zip(kinds, _borrowing(keys, kinds), widths, strict=True)
    ]
    unfolded = [Weight(f"altup_{what}", "mlp", (streams - 1) * d_model, d_model) for what in ALTUP]
    return _gemma(keys, name, "gemma3n_text", layers, (*_embeddings(keys), *unfolded * (streams > 1)))


def _attention(keys: Keys, kind: str, borrows: bool, local_theta: str = "rope_theta") -> Attention:
    """Scores are not scaled: queries and keys are normed. local_theta: sliding layers' key for it."""
    bias, full = keys.switch("attention_bias"), kind == FULL
    rope = rope_of(keys, kind, "rope_theta" if full else local_theta, 1e6 if full else 1e4, scaled=full)
    return attention_of(
        keys,
        rope,
        window_of(keys, kind),
        scale=1.0,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
        borrows_kv=borrows,
    )


def _borrowing(keys: Keys, kinds: Sequence[str]) -> list[bool]:
    """The last num_kv_shared_layers read keys and values of the last layer of their kind before them."""
    shared = keys.count("num_kv_shared_layers", 0, least=0)
    first = len(kinds) - shared
    if shared and not set(kinds[max(first, 0) :]) <= set(kinds[: max(first, 0)]):
        raise InputError(
            f"{keys.where}: num_kv_shared_layers is {shared}; no layer before has keys for all of them"
        )
    return [i >= first for i in range(len(kinds))]


def _own_heads(keys: Keys, kinds: Sequence[str]) -> list[dict[str, int]]:
    """Keys that a layer has its own values of: per_layer_config by index, or full layers' global_head_dim."""
    table = keys.get("per_layer_config")
    if table is None:
        wide: dict[str, Any] = {"head_dim": keys.count("global_head_dim", 512)}
        if keys.switch("attention_k_eq_v") and keys.get("num_global_key_value_heads") is not None:
            wide["num_key_value_heads"] = keys.count("num_global_key_value_heads")
        return [wide if kind == FULL else {} for kind in kinds]
    known = {"head_dim", "num_key_value_heads"}
    rows = keys.inner("per_layer_config").config
    own: list[dict[str, int]] = [{} for _ in kinds]
    for key, row in rows.items():
        index = int(key) if str(key).isdecimal() else len(kinds)
        if index >= len(kinds) or not isinstance(row, dict) or not set(row) <= known:
            raise InputError(
                f"{keys.where}: per_layer_config[{key!r:.20}] must be a layer's {' and '.join(known)}"
            )
        own[index] = row
    return own


def _gemma4_block(keys: Keys, dense: MLP) -> tuple[FeedForward, tuple[Weight, ...]]:
    """Experts beside the MLP have a router with scales of its own, and three more norms."""
    if not keys.switch("enable_moe_block"):
        return dense, ()
    d_model = keys.count("hidden_size")
    experts = mixture(assuming(keys, hidden_act=keys.get(ACTIVATION)))
    scales = Weight("router.scale", "mlp", d_model + experts.experts)
    return replace(experts, shared=dense), (scales, Weight("experts.norms", "norms", 3 * d_model))


def _layer_inputs(keys: Keys) -> tuple[Weight, ...]:
    """A layer's part of the per-layer embedding is gated by the hidden state and added to it."""
    d_model, width = keys.count("hidden_size"), keys.count("hidden_size_per_layer_input", 0, least=0)
    if not width:
        return ()
    return (
        Weight("per_layer_input_gate", "mlp", width, d_model),
        Weight("per_layer_projection", "mlp", d_model, width),
        Weight("post_per_layer_input_norm", "norms", d_model),
    )


def _embeddings(keys: Keys) -> tuple[Weight, ...]:
    """The per-layer embedding's table, and what is added to it from the token's own."""
    width = keys.count("hidden_size_per_layer_input", 0, least=0)
    if not width:
        return ()
    vocabulary, every = keys.count("vocab_size_per_layer_input"), layer_count(keys) * width
    return (
        Weight("embed_tokens_per_layer", "embedding", vocabulary, every, table=True, split="outputs"),
        Weight("per_layer_model_projection", "mlp", every, keys.count("hidden_size")),
        Weight("per_layer_projection_norm", "norms", width),
    )


def _laurel(keys: Keys, d_model: int) -> tuple[Weight, ...]:
    rank = keys.count("laurel_rank")
    return (
        Weight("laurel.linear_left", "mlp", rank, d_model),
        Weight("laurel.linear_right", "mlp", d_model, rank),
        Weight("laurel.post_laurel_norm", "norms", d_model),
    )


def _altup(streams: int, d_model: int) -> tuple[Weight, ...]:
    return (
        Weight("altup.correction_coefs", "mlp", streams, streams),
        Weight("altup.prediction_coefs", "mlp", streams * streams, streams),
        Weight("altup.modality_router", "mlp", streams, d_model),
        Weight("altup.norm_and_scale", "norms", 2 * d_model),
    )


def _gemma(
    keys: Keys, name: str, family: str, layers: Sequence[Layer], extra: tuple[Weight, ...]
) -> ModelSpec:
    return decoder(
        keys,
        name,
        family,
        layers,
        embedding_scale=math.sqrt(keys.count("hidden_size")),
        logit_softcap=softcap_of(keys, "final_logit_softcapping"),
        extra=extra,
    )


READERS = {"gemma4_text": gemma4_text, "gemma3n_text": gemma3n_text}
