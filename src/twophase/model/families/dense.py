"""Dense relatives of Llama: where biases and norms stand, which norm, what is gated, what is scaled."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    by_kind,
    decoder,
    heads_of,
    layer_count,
    mlp_of,
    plain_layer,
    refuse,
    rope_of,
    softcap_of,
    window_of,
)
from twophase.model.keys import Keys
from twophase.model.mixers import Rope
from twophase.model.spec import MLP, ModelSpec, NormPlaces, Weight

EXAONE_NAMES = {
    "num_hidden_layers": "num_layers",
    "rms_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation_function",
}
APERTUS_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 12e6,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
MINISTRAL_ROPE = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0}


def dense(
    keys: Keys,
    name: str,
    *,
    attention: Mapping[str, Any] | None = None,
    mlp: MLP | None = None,
    norms: NormPlaces = "before",
    kinds: Sequence[str] | None = None,
    rope: Callable[[str], Rope | None] | None = None,
    **traits: Any,
) -> ModelSpec:
    """Layers of attention and an MLP, alike but for their kind.

    attention: Attention's fields, without which attention_bias says all biases; mlp: gated, with mlp_bias,
    unless given; kinds: of layers, all full; rope: by a layer's kind; traits: ModelSpec's fields.
    """
    own = both_biases(keys) if attention is None else attention
    block = mlp or mlp_of(keys, bias=keys.switch("mlp_bias"))
    layers = by_kind(
        kinds or [FULL] * layer_count(keys),
        lambda kind: plain_layer(
            attention_of(keys, rope(kind) if rope else rope_of(keys, kind), window_of(keys, kind), **own),
            block,
            norms,
        ),
    )
    return decoder(keys, name, str(keys.get("model_type")), layers, **traits)


def both_biases(keys: Keys, key: str = "attention_bias") -> dict[str, Any]:
    bias = keys.switch(key)
    return {"qkv_bias": bias, "out_bias": bias}


def assuming_rope(keys: Keys, rope: Mapping[str, Any]) -> Keys:
    """rope_parameters of the class, where the file scales its rope in neither form."""
    return keys if keys.get("rope_scaling") else assuming(keys, rope_parameters=dict(rope))


def ungated(keys: Keys, name: str) -> ModelSpec:
    """Arcee's AFM: one projection up, squared ReLU."""
    return dense(keys, name, mlp=mlp_of(keys, bias=keys.switch("mlp_bias"), gated=False))


def nemotron(keys: Keys, name: str) -> ModelSpec:
    """Layer norms whose weight is 1 more than stored; half of a head rotated; squared ReLU. And Jais 2."""
    rotated = {} if keys.get("model_type") == "jais2" else {"partial_rotary_factor": 0.5}
    mlp = mlp_of(keys, bias=keys.switch("mlp_bias"), gated=False)
    eps = "norm_eps" if rotated else "layer_norm_eps"
    return dense(assuming(keys, **rotated), name, mlp=mlp, norm="layer", eps=eps)


def phi3(keys: Keys, name: str) -> ModelSpec:
    """No biases; every layer slides where sliding_window is given."""
    return dense(keys, name, attention={}, mlp=mlp_of(keys), kinds=[SLIDING] * layer_count(keys))


def ministral3(keys: Keys, name: str) -> ModelSpec:
    return phi3(assuming_rope(keys, MINISTRAL_ROPE), name)


def gemma(keys: Keys, name: str) -> ModelSpec:
    """Embeddings scaled by sqrt(d_model). Files that say gelu mean its tanh form, as transformers notes."""
    refuse(keys, "use_bidirectional_attention")
    mlp = mlp_of(keys)
    if mlp.activation == "gelu":
        mlp = replace(mlp, activation="gelu_tanh")
    return dense(keys, name, mlp=mlp, embedding_scale=math.sqrt(keys.count("hidden_size")))


def cohere(keys: Keys, name: str) -> ModelSpec:
    """Attention and MLP side by side behind one layer norm without bias; Command R+ norms each head."""
    keys = assuming(keys, rope_theta=5e5)
    traits = both_biases(keys) | {"qk_norm_wide": keys.switch("use_qk_norm")}
    return dense(
        keys,
        name,
        attention=traits,
        mlp=mlp_of(keys),
        norms="single",
        norm="layer-no-bias",
        eps="layer_norm_eps",
    )


def olmo(keys: Keys, name: str) -> ModelSpec:
    """Layer norms without weights."""
    return dense(keys, name, mlp=mlp_of(keys), norm="none", norm_eps=1e-5)


def olmo2(keys: Keys, name: str) -> ModelSpec:
    """Norms after each block; queries and keys are normed over all their heads together."""
    attention = both_biases(keys) | {"qk_norm_wide": True}
    return dense(keys, name, attention=attention, mlp=mlp_of(keys), norms="after")


def exaone(keys: Keys, name: str) -> ModelSpec:
    return dense(assuming(replace(keys, names=EXAONE_NAMES), rope_theta=5e5), name)


def granite(keys: Keys, name: str) -> ModelSpec:
    """Multipliers in place of scales; HyperCLOVA X has them too, and norms after its blocks by a switch."""
    scale = keys.number("attention_multiplier", heads_of(keys)[2] ** -0.5)
    multiplied, logits = keys.get("model_type") == "hyperclovax", keys.number("logits_scaling", 1.0)
    return dense(
        keys,
        name,
        attention=both_biases(keys) | {"scale": scale},
        norms="around" if keys.switch("use_post_norm") else "before",
        embedding_scale=keys.number("embedding_multiplier", 1.0),
        residual_scale=keys.number("residual_multiplier", 1.0),
        logit_scale=logits if multiplied else 1 / logits,
    )


def glm(keys: Keys, name: str) -> ModelSpec:
    """Half of a head rotated, biases on queries, keys and values; GLM-4-0414 norms around both blocks."""
    return dense(
        assuming(keys, partial_rotary_factor=0.5),
        name,
        attention={"qkv_bias": keys.switch("attention_bias")},
        mlp=mlp_of(keys),
        norms="around" if keys.get("model_type") == "glm4" else "before",
    )


def seed_oss(keys: Keys, name: str) -> ModelSpec:
    biases = {"qkv_bias": keys.switch("attention_bias"), "out_bias": keys.switch("attention_out_bias")}
    return dense(keys, name, attention=biases)


def helium(keys: Keys, name: str) -> ModelSpec:
    keys = assuming(keys, rope_theta=1e5)
    return dense(keys, name, attention={"qkv_bias": keys.switch("attention_bias")})


def hunyuan(keys: Keys, name: str) -> ModelSpec:
    attention = both_biases(keys) | {"qk_norm": True}
    return dense(keys, name, attention=attention, mlp=mlp_of(keys))


def ernie(keys: Keys, name: str) -> ModelSpec:
    keys = assuming(keys, rope_theta=5e5)
    mlp = mlp_of(keys, bias=keys.switch("use_bias"))
    return dense(keys, name, attention=both_biases(keys, "use_bias"), mlp=mlp)


def internlm3(keys: Keys, name: str) -> ModelSpec:
    keys = replace(keys, names={"attention_bias": "qkv_bias", "mlp_bias": "bias"})
    biases = {"qkv_bias": keys.switch("attention_bias"), "out_bias": keys.switch("mlp_bias")}
    return dense(keys, name, attention=biases)


def apertus(keys: Keys, name: str) -> ModelSpec:
    """Norms of queries and keys; an activation with two weights of its own (xIELU, arXiv 2411.13010)."""
    keys = assuming_rope(assuming(keys, rope_theta=12e6), APERTUS_ROPE)
    mlp = mlp_of(keys, gated=False)
    attention = attention_of(keys, rope_of(keys), qk_norm=True, **both_biases(keys))
    learned = (Weight("mlp.act_fn", "mlp", 2),) if mlp.activation == "xielu" else ()
    layer = replace(plain_layer(attention, mlp), extra=learned)
    return decoder(keys, name, "apertus", [layer] * layer_count(keys))


def nanochat(keys: Keys, name: str) -> ModelSpec:
    """Norms without weights, of queries and keys too; logits capped."""
    mlp = mlp_of(keys, gated=False)
    cap = softcap_of(keys, "final_logit_softcapping")
    return dense(keys, name, mlp=mlp, norm="none", logit_softcap=cap)


READERS = {
    "arcee": ungated,
    "nemotron": nemotron,
    "jais2": nemotron,
    "phi3": phi3,
    "ministral3": ministral3,
    "gemma": gemma,
    "cohere": cohere,
    "olmo": olmo,
    "olmo2": olmo2,
    "exaone": exaone,
    "granite": granite,
    "hyperclovax": granite,
    "glm": glm,
    "glm4": glm,
    "seed_oss": seed_oss,
    "helium": helium,
    "hunyuan_v1_dense": hunyuan,
    "ernie4_5": ernie,
    "internlm3": internlm3,
    "iquestcoder": dense,
    "apertus": apertus,
    "nanochat": nanochat,
}
