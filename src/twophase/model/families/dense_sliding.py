"""Dense families whose layers take turns: sliding or full, rotated or not."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    decoder,
    heads_of,
    layer_count,
    layer_kinds,
    mlp_of,
    per_layer,
    plain_layer,
    refuse,
    rope_of,
    softcap_of,
    window_of,
)
from twophase.model.families.dense import APERTUS_ROPE, assuming_rope, both_biases, dense
from twophase.model.keys import Keys
from twophase.model.mixers import Rope
from twophase.model.spec import ModelSpec

CWM_ROPE: Mapping[str, Any] = {**APERTUS_ROPE, "rope_theta": 1e6, "factor": 16.0}


def kinds_of(keys: Keys, pattern: int) -> list[str]:
    """layer_types, or one full layer after pattern - 1 sliding ones."""
    count = layer_count(keys)
    full = [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(count)]
    return layer_kinds(keys, (SLIDING, FULL), full)


def gemma2(keys: Keys, name: str) -> ModelSpec:
    """Sliding and full in turn; scores and logits capped; norms around both blocks, VaultGemma's before."""
    refuse(keys, "use_bidirectional_attention")
    attention = both_biases(keys) | {
        "scale": keys.number("query_pre_attn_scalar") ** -0.5,
        "softcap": softcap_of(keys, "attn_logit_softcapping"),
    }
    return dense(
        keys,
        name,
        attention=attention,
        mlp=mlp_of(keys, activation="hidden_activation"),
        norms="before" if keys.get("model_type") == "vaultgemma" else "around",
        kinds=kinds_of(keys, 2),
        embedding_scale=math.sqrt(keys.count("hidden_size")),
        logit_softcap=softcap_of(keys, "final_logit_softcapping"),
    )


def cohere2(keys: Keys, name: str) -> ModelSpec:
    """Three sliding layers to a full one, which is not rotated; one layer norm for both blocks."""
    return dense(
        keys,
        name,
        mlp=mlp_of(keys),
        norms="single",
        kinds=kinds_of(keys, keys.count("sliding_window_pattern", 4)),
        rope=lambda kind: rope_of(keys) if kind == SLIDING else None,
        norm="layer-no-bias",
        eps="layer_norm_eps",
    )


def olmo3(keys: Keys, name: str) -> ModelSpec:
    """As OLMo 2, with three sliding layers to a full one; only full layers' rope is scaled."""
    return dense(
        keys,
        name,
        attention=both_biases(keys) | {"qk_norm_wide": True},
        mlp=mlp_of(keys),
        norms="after",
        kinds=kinds_of(keys, 4),
        rope=lambda kind: rope_of(keys, kind, theta=5e5, scaled=kind == FULL),
    )


def exaone4(keys: Keys, name: str) -> ModelSpec:
    """Norms after each block; where layers slide, the full ones are not rotated."""
    kinds, slides = [FULL] * layer_count(keys), keys.given("sliding_window")
    if keys.get("layer_types") is not None or slides:
        kinds = kinds_of(keys, 4 if keys.get("layer_types") else keys.count("sliding_window_pattern", 4))
    return dense(
        keys,
        name,
        attention={"qk_norm": True},
        mlp=mlp_of(keys),
        norms="after",
        kinds=kinds,
        rope=lambda kind: None if slides and kind == FULL else rope_of(keys),
    )


def ministral(keys: Keys, name: str) -> ModelSpec:
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING] * layer_count(keys))
    return dense(keys, name, attention={}, mlp=mlp_of(keys), kinds=kinds)


def cwm(keys: Keys, name: str) -> ModelSpec:
    """Llama with a full layer before each three that slide."""
    first = [SLIDING if i % 4 else FULL for i in range(layer_count(keys))]
    kinds = layer_kinds(keys, (SLIDING, FULL), first)
    return dense(assuming_rope(keys, CWM_ROPE), name, attention={}, kinds=kinds)


def smollm3(keys: Keys, name: str) -> ModelSpec:
    """Each fourth layer is not rotated."""
    keys = assuming(keys, rope_theta=2e6)
    count, interval = layer_count(keys), keys.count("no_rope_layer_interval", 4)
    rotated = per_layer(keys, "no_rope_layers", count) or [(i + 1) % interval != 0 for i in range(count)]
    kinds = [FULL] * count
    if keys.switch("use_sliding_window"):
        kinds = layer_kinds(keys, (SLIDING, FULL), [FULL if each else SLIDING for each in rotated])
    mlp, rope, biases = mlp_of(keys, bias=keys.switch("mlp_bias")), rope_of(keys), both_biases(keys)
    layers = [
        plain_layer(attention_of(keys, rope if turned else None, window_of(keys, kind), **biases), mlp)
        for kind, turned in zip(kinds, rotated, strict=True)
    ]
    return decoder(keys, name, "smollm3", layers)


def granite_swa(keys: Keys, name: str) -> ModelSpec:
    """Sinks in every layer; a full layer before each three that slide; a rope for each layer, or none."""
    count = layer_count(keys)
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING if i % 4 else FULL for i in range(count)])
    mlp, rope = mlp_of(keys, bias=keys.switch("mlp_bias")), rope_of(keys)
    scale = keys.number("attention_multiplier", heads_of(keys)[2] ** -0.5)
    attention = attention_of(keys, rope, scale=scale, sinks=True, **both_biases(keys))
    thetas = per_layer(keys, "layer_rope_theta", count) or [rope.theta] * count
    layers = [
        plain_layer(replace(attention, window=window_of(keys, kind), rope=_turned(keys, rope, theta)), mlp)
        for kind, theta in zip(kinds, thetas, strict=True)
    ]
    scale = keys.number("embedding_multiplier", 1.0)
    return decoder(keys, name, "granite_swa", layers, embedding_scale=scale)


def _turned(keys: Keys, rope: Rope, theta: object) -> Rope | None:
    """None where a layer's theta is null or 0."""
    if isinstance(theta, bool) or not isinstance(theta, int | float | None) or not 0 <= (theta or 0) < 1e30:
        raise InputError(f"{keys.where}: layer_rope_theta must hold numbers, 0 or null for no rotation")
    return replace(rope, theta=float(theta)) if theta else None


READERS = {
    "gemma2": gemma2,
    "vaultgemma": gemma2,
    "cohere2": cohere2,
    "olmo3": olmo3,
    "exaone4": exaone4,
    "ministral": ministral,
    "cwm": cwm,
    "smollm3": smollm3,
    "granite_swa": granite_swa,
}
