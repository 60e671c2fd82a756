"""The classic families: plain MLPs, layer norms, learned positions or a part of a head rotated."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.families.common import (
    MOST_LAYERS,
    assuming,
    attention_of,
    decoder,
    heads_of,
    layer_count,
    mlp_of,
    plain_layer,
    refuse,
    rope_of,
    window_of,
)
from twophase.model.families.common import SLIDING as LOCAL
from twophase.model.keys import Keys
from twophase.model.mixers import Rope
from twophase.model.spec import MLP, Layer, ModelSpec, NormPlaces, Weight

GPT2_NAMES = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "max_position_embeddings": "n_positions",
    "intermediate_size": "n_inner",
    "hidden_act": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
}
GPT_NEO_NAMES = {
    "num_attention_heads": "num_heads",
    "num_hidden_layers": "num_layers",
    "hidden_act": "activation_function",
    "layer_norm_eps": "layer_norm_epsilon",
    "sliding_window": "window_size",
}
NEOX_NAMES = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}


def gpt2(keys: Keys, name: str) -> ModelSpec:
    """GPT-2, and GPT-BigCode (StarCoder) with one key-value head where multi_query says so."""
    keys = replace(keys, names=GPT2_NAMES)
    refuse(keys, "add_cross_attention")
    attention = attention_of(keys, None, qkv_bias=True, out_bias=True)
    if keys.switch("multi_query"):
        attention = replace(attention, kv_heads=1)
    if not keys.get("scale_attn_weights", True):
        attention = replace(attention, scale=1.0)
    by_depth = keys.switch("scale_attn_by_inverse_layer_idx")
    mlp = wide_mlp(keys, bias=True)
    layers = [
        plain_layer(replace(attention, scale=attention.scale / (i + 1)) if by_depth else attention, mlp)
        for i in range(layer_count(keys))
    ]
    return classic(keys, name, layers, extra=(_positions(keys),))


def gptj(keys: Keys, name: str) -> ModelSpec:
    """GPT-J and CodeGen: attention and MLP side by side behind one norm, no biases in attention."""
    keys = replace(keys, names=GPT2_NAMES)
    head_dim = heads_of(keys)[2]
    rotated = keys.count("rotary_dim", head_dim, most=head_dim) if keys.given("rotary_dim") else head_dim
    attention = attention_of(keys, Rope(10_000.0, share=rotated / head_dim))
    layer = plain_layer(attention, wide_mlp(keys, bias=True), "single")
    return classic(keys, name, [layer] * layer_count(keys), head_bias=True)


def gpt_neo(keys: Keys, name: str) -> ModelSpec:
    """Global and local layers in turn; scores are not scaled."""
    keys = replace(keys, names=GPT_NEO_NAMES)
    attention = attention_of(keys, None, scale=1.0, out_bias=True)
    mlp, window = wide_mlp(keys, bias=True), window_of(keys, LOCAL)
    layers = [
        plain_layer(replace(attention, window=window if kind == "local" else None), mlp)
        for kind in _neo_kinds(keys)
    ]
    return classic(keys, name, layers, extra=(_positions(keys),))


def _neo_kinds(keys: Keys) -> list[str]:
    """attention_types as in [[["global", "local"], 12]]: twelve times both."""
    count = layer_count(keys)
    wrong = InputError(f"{keys.where}: attention_types must name {count} layers, each global or local")
    try:
        kinds: list[Any] = []
        for names, times in keys.get("attention_types", [[["global", "local"], (count + 1) // 2]]):
            kinds += list(names) * min(times, MOST_LAYERS)
    except (TypeError, ValueError):
        raise wrong from None
    if keys.get("attention_types") is None:
        kinds = kinds[:count]
    if len(kinds) != count or not all(kind in ("global", "local") for kind in kinds):
        raise wrong
    return kinds


def gpt_neox(keys: Keys, name: str) -> ModelSpec:
    """GPT-NeoX and Pythia: two norms a layer, whether attention and MLP stand side by side or not."""
    keys = assuming(replace(keys, names=NEOX_NAMES), partial_rotary_factor=0.25)
    bias = keys.switch("attention_bias")
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias)
    layer = plain_layer(attention, mlp_of(keys, bias=True, gated=False))
    return classic(keys, name, [layer] * layer_count(keys))


def opt(keys: Keys, name: str) -> ModelSpec:
    """Positions start at 2; OPT-350M embeds in fewer dimensions, and norms after its blocks."""
    names = {"intermediate_size": "ffn_dim", "hidden_act": "activation_function"}
    keys = assuming(replace(keys, names=names), layer_norm_eps=1e-5)
    d = keys.count("hidden_size")
    width, bias = keys.count("word_embed_proj_dim", d), keys.switch("enable_bias")
    before = keys.switch("do_layer_norm_before")
    attention = attention_of(keys, None, qkv_bias=bias, out_bias=bias)
    layer = plain_layer(attention, mlp_of(keys, bias=bias, gated=False), "before" if before else "after")
    projections = (Weight("project_in", "embedding", d, width), Weight("project_out", "head", width, d))
    return classic(
        keys,
        name,
        [layer] * layer_count(keys),
        norm="layer" if keys.switch("layer_norm_elementwise_affine") else "none",
        final_norm=before and not keys.switch("_remove_final_layer_norm"),
        embedding_dim=width if width != d else None,
        extra=(_positions(keys, offset=2), *projections * (width != d)),
    )


def phi(keys: Keys, name: str) -> ModelSpec:
    """Phi-1 and Phi-2: attention and MLP side by side behind one norm; biases everywhere, on the head too."""
    keys = assuming(keys, partial_rotary_factor=0.5)
    layer = _normed_heads(keys, "single")
    return classic(keys, name, [layer] * layer_count(keys), head_bias=True)


def persimmon(keys: Keys, name: str) -> ModelSpec:
    layer = _normed_heads(assuming(keys, partial_rotary_factor=0.5), "before")
    return classic(keys, name, [layer] * layer_count(keys))


def _normed_heads(keys: Keys, norms: NormPlaces) -> Layer:
    """Layer norms with biases, one for all queries and one for all keys."""
    normed = keys.switch("qk_layernorm")
    attention = attention_of(keys, rope_of(keys), qkv_bias=True, out_bias=True, qk_norm=normed)
    biases = [Weight(f"self_attn.{each}_norm.bias", "norms", attention.head_dim) for each in "qk"]
    return Layer(
        (attention,), mlp_of(keys, bias=True, gated=False), norms, extra=tuple(biases) if normed else ()
    )


def stablelm(keys: Keys, name: str) -> ModelSpec:
    """A gated MLP between layer norms; StableLM 2 12B norms each head with a weight of its own."""
    keys = assuming(keys, partial_rotary_factor=0.25)
    attention = attention_of(
        keys,
        rope_of(keys),
        qkv_bias=keys.switch("use_qkv_bias"),
        qk_norm_wide=keys.switch("qk_layernorm"),
    )
    norms: NormPlaces = "single" if keys.switch("use_parallel_residual") else "before"
    layer = plain_layer(attention, mlp_of(keys), norms)
    return classic(keys, name, [layer] * layer_count(keys))


def starcoder2(keys: Keys, name: str) -> ModelSpec:
    bias = keys.switch("use_bias")
    attention = attention_of(keys, rope_of(keys), window_of(keys, LOCAL), qkv_bias=bias, out_bias=bias)
    layer = plain_layer(attention, mlp_of(keys, bias=bias, gated=False))
    return classic(keys, name, [layer] * layer_count(keys), eps="norm_epsilon")


def classic(keys: Keys, name: str, layers: Sequence[Layer], **traits: Any) -> ModelSpec:
    traits = {"norm": "layer", "eps": "layer_norm_eps"} | traits
    return decoder(keys, name, str(keys.get("model_type")), layers, **traits)


def wide_mlp(keys: Keys, bias: bool) -> MLP:
    """Four times as wide as the model, unless the config says otherwise."""
    return mlp_of(
        keys, keys.count("intermediate_size", 4 * keys.count("hidden_size")), bias=bias, gated=False
    )


def _positions(keys: Keys, offset: int = 0) -> Weight:
    rows = keys.count("max_position_embeddings") + offset
    return Weight("embed_positions", "embedding", rows, keys.count("hidden_size"), table=True)


READERS = {
    "gpt2": gpt2,
    "gpt-sw3": gpt2,
    "gpt_bigcode": gpt2,
    "gptj": gptj,
    "codegen": gptj,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "phi": phi,
    "persimmon": persimmon,
    "stablelm": stablelm,
    "starcoder2": starcoder2,
}
