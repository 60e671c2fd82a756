"""What the readers of most families share: heads, rotary embeddings, windows, feed-forward blocks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.keys import Keys
from twophase.model.mixers import Attention, Mixer, Rope, RopeScaling
from twophase.model.spec import MLP, Activation, FeedForward, Layer, ModelSpec, NormPlaces

ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "swigluoai": "swiglu_oai",
    "xielu": "xielu",
    "situ": "situ",
}
ROPES: dict[str, RopeScaling] = {
    "default": "default",
    "linear": "linear",
    "dynamic": "dynamic",
    "yarn": "yarn",
    "deepseek_yarn": "yarn",
    "longrope": "longrope",
    "su": "longrope",
    "llama3": "llama3",
    "proportional": "proportional",
    "mrope": "mrope",
}
SLIDING, FULL = "sliding_attention", "full_attention"
MOST_LAYERS = 10_000


def assuming(keys: Keys, **values: Any) -> Keys:
    """The keys with what the family's class computes where the file is silent."""
    return replace(keys, defaults={**keys.defaults, **values})


def overriding(keys: Keys, **values: Any) -> Keys:
    """The keys with these values whatever the file says: for a kind of layer that has its own."""
    return replace(keys, config={**keys.config, **values})


def refuse(keys: Keys, *switches: str) -> None:
    """InputError where one of them is on: it changes what is computed, and no model here does so."""
    for switch in switches:
        if keys.get(switch):
            raise InputError(f"{keys.where} sets {keys.own(switch)}, which is not known here")


def layer_count(keys: Keys) -> int:
    return keys.count("num_hidden_layers", most=MOST_LAYERS)


def layer_kinds(keys: Keys, known: Sequence[str], otherwise: Sequence[str]) -> list[str]:
    """The config's layer_types, each of which must be `known`; without the key, `otherwise`."""
    kinds = keys.get("layer_types")
    if kinds is None:
        return list(otherwise)
    layers = layer_count(keys)
    if not isinstance(kinds, list) or len(kinds) != layers or not all(kind in known for kind in kinds):
        named = f"{', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else known[0]
        raise InputError(f"{keys.where}: layer_types must name {layers} layers, each {named}")
    return list(kinds)


def per_layer(keys: Keys, key: str, layers: int) -> list[Any] | None:
    """A list with an entry for each layer (longer ones hold draft layers too); None where it is absent."""
    values = keys.get(key)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) < layers:
        raise InputError(f"{keys.where}: {key} must hold an entry for each of {layers} layers")
    return values[:layers]


def flags_of(keys: Keys, key: str, layers: int) -> list[bool] | None:
    """The same of lists that hold 1 or 0, true or false."""
    values = per_layer(keys, key, layers)
    if values is None:
        return None
    if not all(isinstance(value, int) and value in (0, 1) for value in values):
        raise InputError(f"{keys.where}: {key} must hold 1 or 0 for each of {layers} layers")
    return [bool(value) for value in values]


def layers_named(keys: Keys, key: str) -> list[int] | None:
    """A list of layers by number; None where it is absent."""
    values = keys.get(key)
    if values is None:
        return None
    if not isinstance(values, list) or not all(type(value) is int and value >= 0 for value in values):
        raise InputError(
            f"{keys.where}: {keys.own(key)} is {values!r:.40}; it must be a list of layers' numbers"
        )
    return values


def by_kind(kinds: Sequence[str], layer: Callable[[str], Layer]) -> list[Layer]:
    """`layer` is asked once for each kind."""
    made = {kind: layer(kind) for kind in dict.fromkeys(kinds)}
    return [made[kind] for kind in kinds]


def window_of(keys: Keys, kind: str) -> int | None:
    """Layers may be named sliding while the window is switched off by null or 0."""
    slides = kind == SLIDING and keys.given("sliding_window")
    return keys.count("sliding_window") if slides else None


def heads_of(keys: Keys) -> tuple[int, int, int]:
    """(query heads, key-value heads, head_dim); an absent or null head_dim is hidden_size shared out."""
    heads = keys.count("num_attention_heads")
    kv_heads = heads if keys.given("num_key_value_heads") is None else keys.count("num_key_value_heads")
    if heads % kv_heads:
        raise InputError(
            f"{keys.where}: {heads} attention heads can't share {kv_heads} key-value heads evenly"
        )
    d_model = keys.count("hidden_size")
    if keys.get("head_dim") is None and d_model % heads:
        raise InputError(f"{keys.where}: {heads} attention heads can't share hidden_size {d_model} evenly")
    return heads, kv_heads, keys.count("head_dim", d_model // heads)


def attention_of(keys: Keys, rope: Rope | None, window: int | None = None, **traits: Any) -> Attention:
    """Grouped-query attention with the config's heads; traits: Attention's other fields, scale among them."""
    heads, kv_heads, head_dim = heads_of(keys)
    if rope is not None and head_dim % 2:
        raise InputError(f"{keys.where}: head_dim is {head_dim}; rotary embeddings need an even one")
    traits.setdefault("scale", head_dim**-0.5)
    return Attention(heads, kv_heads, head_dim, rope=rope, window=window, **traits)


def softcap_of(keys: Keys, key: str) -> float | None:
    """None where the cap is absent or null."""
    return keys.number(key) if keys.get(key) is not None else None


def activation_of(keys: Keys, key: str = "hidden_act", otherwise: str = "silu") -> Activation:
    name = keys.get(key, otherwise)
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise InputError(
            f"{keys.where}: activation {name!r:.40} is not known; known are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


def mlp_of(
    keys: Keys,
    d_ff: int | None = None,
    *,
    bias: bool = False,
    gated: bool = True,
    activation: str = "hidden_act",
) -> MLP:
    """d_ff: where it is not the key intermediate_size; activation: the key that names it."""
    width = keys.count("intermediate_size") if d_ff is None else d_ff
    return MLP(width, activation_of(keys, activation), bias, gated)


def rope_of(
    keys: Keys,
    kind: str = FULL,
    theta_key: str = "rope_theta",
    theta: float = 10_000.0,
    scaled: bool = True,
) -> Rope:
    """transformers 5 writes rope_parameters, for each kind of layer or for all; before, it was a few keys.

    theta: where the config names none. scaled: rope_scaling holds for this kind of layer.
    """
    theta = keys.number(theta_key, theta)
    share = keys.number("partial_rotary_factor", 1.0)
    if keys.get("rope_parameters") is not None:
        own = keys.inner("rope_parameters")
        if any(isinstance(value, dict) for value in own.config.values()):
            own = own.inner(kind)
        return _scaled(own, keys, theta, share)
    return _scaled(keys.inner("rope_scaling"), keys, theta, share) if scaled else Rope(theta, share=share)


def _scaled(own: Keys, model: Keys, theta: float, share: float) -> Rope:
    """theta and share: where the rope's own keys name none; model: the keys around them."""
    theta, share = own.number("rope_theta", theta), own.number("partial_rotary_factor", share)
    kind = own.get("rope_type", own.get("type", "default"))
    if not isinstance(kind, str) or kind not in ROPES:
        raise InputError(f"{own.where}: rope type {kind!r:.40} is not known; known are {', '.join(ROPES)}")
    scaling = ROPES[kind]
    if scaling == "llama3":
        return Rope(
            theta,
            scaling,
            factor=own.number("factor"),
            low_freq_factor=own.number("low_freq_factor"),
            high_freq_factor=own.number("high_freq_factor"),
            original_context=own.count("original_max_position_embeddings"),
            share=share,
        )
    if scaling == "longrope":
        return _longrope(own, model, theta, share)
    factor = own.number("factor") if scaling == "linear" else own.number("factor", 1.0)
    return Rope(theta, scaling, factor, share=share)


def _longrope(own: Keys, model: Keys, theta: float, share: float) -> Rope:
    """Phi-3 and its like: a factor for each frequency, one table up to the length trained on, one beyond."""
    longest = model.count("max_position_embeddings", 1)
    original = own.count(
        "original_max_position_embeddings", model.count("original_max_position_embeddings", longest)
    )
    factor = own.number("factor", longest / original)
    attention = 1.0 if factor <= 1 or original == 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return Rope(
        theta,
        "longrope",
        factor,
        original_context=original,
        share=share,
        short_factors=_factors(own, "short_factor"),
        long_factors=_factors(own, "long_factor"),
        attention_factor=own.number("attention_factor", attention),
    )


def _factors(own: Keys, key: str) -> tuple[float, ...]:
    values = own.get(key, [])
    if not isinstance(values, list) or not all(isinstance(each, int | float) and each > 0 for each in values):
        raise InputError(f"{own.where}: {key} is {values!r:.40}; it must be a list of numbers above zero")
    return tuple(float(each) for each in values)


def decoder(
    keys: Keys,
    name: str,
    family: str,
    layers: Sequence[Layer],
    *,
    context: str = "max_position_embeddings",
    eps: str = "rms_norm_eps",
    **traits: Any,
) -> ModelSpec:
    """context and eps: the keys that name them; traits: ModelSpec's other fields."""
    traits.setdefault("tied_embeddings", keys.switch("tie_word_embeddings"))
    traits.setdefault("norm_eps", keys.number(eps, 1e-6))
    return ModelSpec(
        name=name,
        family=family,
        vocab_size=keys.count("vocab_size"),
        d_model=keys.count("hidden_size"),
        layers=tuple(layers),
        context_length=keys.count(context),
        draft_layers=keys.count("num_nextn_predict_layers", 0, least=0),
        **traits,
    )


def plain_layer(mixer: Mixer, feed_forward: FeedForward, norms: NormPlaces = "before") -> Layer:
    return Layer((mixer,), feed_forward, norms)
