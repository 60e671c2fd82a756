"""ModelSpec from a Hugging Face config.json, or from the same keys in the catalogue."""

import json
import math
from pathlib import Path
from typing import Any

from twophase.errors import InputError, require_regular
from twophase.model.keys import Config, Keys
from twophase.model.spec import MLP, Activation, Attention, Layer, ModelSpec, Rope

# What each config class assumes where the file is silent (transformers 5.24, configuration_*.py).
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048},
    "mistral": {"max_position_embeddings": 131072, "sliding_window": 4096, "num_key_value_heads": 8},
    "qwen2": {
        "max_position_embeddings": 32768,
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_window_layers": 28,
    },
    "qwen3": {
        "max_position_embeddings": 32768,
        "num_key_value_heads": 32,
        "sliding_window": 4096,
        "max_window_layers": 28,
        "head_dim": 128,
    },
    "gemma3_text": {
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "hidden_activation": "gelu_pytorch_tanh",
    },
}
ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu": "gelu",
}
SLIDING, FULL = "sliding_attention", "full_attention"
MOST_LAYERS = 10_000


def read_hf_config(path: Path) -> ModelSpec:
    """`path`: a config.json, or the directory that holds it. InputError names what is missing or unknown."""
    file = path / "config.json" if path.is_dir() else path
    require_regular(file)
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON, or is cut off: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{file} is not a model's config: it holds no JSON object")
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return spec_from_config(config, name, str(file))


def spec_from_config(config: Config, name: str, where: str) -> ModelSpec:
    """`where`: how error messages call the config."""
    model_type = config.get("model_type")
    if model_type == "gemma3":
        text = config.get("text_config")
        if not isinstance(text, dict):
            raise InputError(f"{where} has no text_config, which a gemma3 model needs")
        config = {**text, "model_type": "gemma3_text"}
        model_type = "gemma3_text"
    if model_type is None:
        raise InputError(f"{where} has no model_type")
    if not isinstance(model_type, str) or model_type not in DEFAULTS:
        known = ", ".join(sorted([*DEFAULTS, "gemma3"]))
        raise InputError(f"{where}: architecture {model_type!r:.80} is not known here; known are {known}")
    keys = Keys(config, DEFAULTS[model_type], where)
    _refuse_other_rules(keys)
    layers = keys.count("num_hidden_layers", most=MOST_LAYERS)
    kinds = _layer_kinds(keys, model_type, layers)
    of_kind = {kind: _layer(keys, model_type, kind) for kind in dict.fromkeys(kinds)}
    gemma = model_type == "gemma3_text"
    d_model = keys.count("hidden_size")
    return ModelSpec(
        name=name,
        family=model_type,
        vocab_size=keys.count("vocab_size"),
        d_model=d_model,
        layers=tuple(of_kind[kind] for kind in kinds),
        context_length=keys.count("max_position_embeddings"),
        tied_embeddings=keys.switch("tie_word_embeddings"),
        norm_eps=keys.number("rms_norm_eps", 1e-6),
        sandwich_norms=gemma,
        embedding_scale=math.sqrt(d_model) if gemma else 1.0,
    )


def _refuse_other_rules(keys: Keys) -> None:
    """Switches of the config classes that change what a network computes."""
    for key in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
        if keys.get(key):
            raise InputError(f"{keys.where} sets {key}; models that use it are not known here")


def _layer_kinds(keys: Keys, model_type: str, layers: int) -> list[str]:
    """Which layers slide: said layer by layer, by a pattern, or by a switch."""
    kinds = keys.get("layer_types")
    if kinds is not None:
        right = isinstance(kinds, list) and len(kinds) == layers
        if not right or not all(kind in (SLIDING, FULL) for kind in kinds):
            raise InputError(f"{keys.where}: layer_types must name {layers} layers, each {SLIDING} or {FULL}")
        return list(kinds)
    if model_type == "gemma3_text":
        pattern = keys.count("_sliding_window_pattern", keys.count("sliding_window_pattern"))
        return [FULL if (i + 1) % pattern == 0 else SLIDING for i in range(layers)]
    if model_type == "mistral":
        return [SLIDING] * layers
    if model_type in ("qwen2", "qwen3"):
        first = keys.count("max_window_layers", least=0)
        return [SLIDING if i >= first else FULL for i in range(layers)]
    return [FULL] * layers


def _window(keys: Keys, model_type: str, kind: str) -> int | None:
    """Layers may be named sliding while the window is switched off: by null, by 0, or by Qwen's switch."""
    switched_on = model_type not in ("qwen2", "qwen3") or keys.switch("use_sliding_window")
    if kind != SLIDING or model_type == "llama" or not switched_on or not keys.given("sliding_window"):
        return None
    return keys.count("sliding_window")


def _layer(keys: Keys, model_type: str, kind: str) -> Layer:
    heads = keys.count("num_attention_heads")
    kv_heads = heads if keys.given("num_key_value_heads") is None else keys.count("num_key_value_heads")
    if heads % kv_heads:
        raise InputError(
            f"{keys.where}: {heads} attention heads can't share {kv_heads} key-value heads evenly"
        )
    d_model = keys.count("hidden_size")
    if keys.get("head_dim") is None and d_model % heads:
        raise InputError(f"{keys.where}: {heads} attention heads can't share hidden_size {d_model} evenly")
    head_dim = keys.count("head_dim", d_model // heads)
    if head_dim % 2:
        raise InputError(f"{keys.where}: head_dim is {head_dim}; rotary embeddings need an even one")
    # Qwen2 always has biases on queries, keys and values, and Mistral never; neither reads the key.
    bias = model_type not in ("mistral", "qwen2") and keys.switch("attention_bias")
    attention = Attention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        scale=keys.number("query_pre_attn_scalar", head_dim) ** -0.5,
        rope=_rope(keys, model_type, kind),
        window=_window(keys, model_type, kind),
        qkv_bias=bias or model_type == "qwen2",
        out_bias=bias,
        qk_norm=model_type in ("qwen3", "gemma3_text"),
    )
    activation = keys.get("hidden_activation" if model_type == "gemma3_text" else "hidden_act", "silu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise InputError(
            f"{keys.where}: activation {activation!r:.40} is not known; known are {', '.join(ACTIVATIONS)}"
        )
    mlp_bias = model_type == "llama" and keys.switch("mlp_bias")
    mlp = MLP(keys.count("intermediate_size"), ACTIVATIONS[activation], mlp_bias)
    return Layer(attention, mlp)


def _rope(keys: Keys, model_type: str, kind: str) -> Rope:
    """transformers 5 writes rope_parameters, by kind of layer or for all; before, it was a few keys."""
    local = model_type == "gemma3_text" and kind == SLIDING
    theta = keys.number("rope_local_base_freq" if local else "rope_theta", 10_000.0)
    if keys.get("rope_parameters") is not None:
        scaling = keys.inner("rope_parameters")
        if SLIDING in scaling.config or FULL in scaling.config:
            scaling = scaling.inner(kind)
        return _scaled(scaling, theta)
    return Rope(theta) if local else _scaled(keys.inner("rope_scaling"), theta)


def _scaled(scaling: Keys, theta: float) -> Rope:
    """theta: where the rope's own keys name none."""
    theta = scaling.number("rope_theta", theta)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return Rope(theta)
    if kind == "linear":
        return Rope(theta, "linear", scaling.number("factor"))
    if kind == "llama3":
        return Rope(
            theta,
            "llama3",
            factor=scaling.number("factor"),
            low_freq_factor=scaling.number("low_freq_factor"),
            high_freq_factor=scaling.number("high_freq_factor"),
            original_context=scaling.count("original_max_position_embeddings"),
        )
    raise InputError(
        f"{scaling.where}: rope type {kind!r:.40} is not known; known are default, linear, llama3"
    )
