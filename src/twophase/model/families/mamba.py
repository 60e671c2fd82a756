"""State-space layers among attention ones: Jamba, Nemotron-H, Falcon-H1, Bamba, Granite 4."""

import math
from dataclasses import replace
from typing import Any

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    assuming,
    attention_of,
    by_kind,
    decoder,
    heads_of,
    layer_count,
    layers_named,
    mlp_of,
    plain_layer,
    rope_of,
)
from twophase.model.families.deepseek import mixture
from twophase.model.keys import Keys
from twophase.model.mixers import Mamba, Mamba2
from twophase.model.spec import Layer, ModelSpec, MoE, Weight

LINEAR = "linear_attention"
OLD_KINDS = {"mamba": LINEAR, "attention": FULL}  # as transformers 4 called them
PATTERN = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}  # Nemotron-H's
# Nemotron-H's configs name their state-space keys as Mamba's do, or so.
NEMOTRON = {"n_groups": "mamba_n_groups", "conv_kernel": "mamba_d_conv", "use_conv_bias": "mamba_conv_bias"}


def jamba(keys: Keys, name: str) -> ModelSpec:
    """One layer in attn_layer_period attends, without positions; one in expert_layer_period has experts."""
    keys = replace(
        keys, names={"n_routed_experts": "num_experts", "moe_intermediate_size": "intermediate_size"}
    )
    attending, sparse = _periodic(keys, "attn"), _periodic(keys, "expert")
    attention, mamba, dense = attention_of(keys, None), _mamba(keys), mlp_of(keys)
    block = mixture(keys) if keys.count("n_routed_experts") > 1 else dense
    layers = [
        plain_layer(attention if i in attending else mamba, block if i in sparse else dense)
        for i in range(layer_count(keys))
    ]
    return decoder(keys, name, "jamba", layers)


def nemotron_h(keys: Keys, name: str) -> ModelSpec:
    """Each layer is one block behind one norm: Mamba-2, attention without positions, an MLP, or experts."""
    bias = keys.switch("mlp_bias")
    old = {new: value for new, key in NEMOTRON.items() if (value := keys.get(key)) is not None}
    keys = replace(keys, config={**keys.config, **old})

    def layer(kind: str) -> Layer:
        if kind == LINEAR:
            mamba = _mamba2(
                keys,
                heads=keys.count("mamba_num_heads"),
                head_dim=keys.count("mamba_head_dim"),
                groups=keys.count("n_groups"),
                state_dim=keys.count("ssm_state_size"),
                kernel=keys.count("conv_kernel"),
                conv_bias=keys.switch("use_conv_bias"),
                bias=keys.switch("use_bias"),
            )
            return Layer((mamba,), None, "single")
        if kind == FULL:
            return Layer((attention_of(keys, None),), None, "single")
        if kind == "moe":
            return _nemotron_experts(keys)
        return Layer((), mlp_of(keys, bias=bias, gated=False, activation="mlp_hidden_act"), "single")

    layers = by_kind(_nemotron_kinds(keys), layer)
    return decoder(keys, name, "nemotron_h", layers, eps="layer_norm_epsilon")


def falcon_h1(keys: Keys, name: str) -> ModelSpec:
    """Attention and Mamba-2 side by side in each layer."""
    inner = None if keys.given("mamba_d_ssm") is None else keys.count("mamba_d_ssm")
    mamba = replace(_bamba_mixer(keys, inner), norm=keys.switch("mamba_rms_norm"), bias=False)
    bias, d_model = keys.switch("attention_bias"), keys.count("hidden_size")
    scale = keys.number("key_multiplier", 1.0) / math.sqrt(heads_of(keys)[2])
    attention = attention_of(keys, rope_of(keys), scale=scale, qkv_bias=bias, out_bias=bias)
    widths = _projected(mamba) * keys.switch("mamba_proj_bias") + d_model * keys.switch("projectors_bias")
    extra = (Weight("mamba.bias", "recurrent", widths),) * (widths > 0)
    layer = Layer((attention, mamba), mlp_of(keys, bias=keys.switch("mlp_bias")), extra=extra)
    layers = [layer] * layer_count(keys)
    return decoder(keys, name, "falcon_h1", layers, embedding_scale=keys.number("embedding_multiplier", 1.0))


def bamba(keys: Keys, name: str) -> ModelSpec:
    """attn_layer_indices attend, with half of each head rotated; the others are Mamba-2."""
    keys, bias = assuming(keys, partial_rotary_factor=0.5), keys.switch("attention_bias")
    attending = layers_named(keys, "attn_layer_indices") or []
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias)
    mamba, mlp = _bamba_mixer(keys), mlp_of(keys, bias=keys.switch("mlp_bias"))
    layers = [plain_layer(attention if i in attending else mamba, mlp) for i in range(layer_count(keys))]
    return decoder(keys, name, "bamba", layers)


def granitemoehybrid(keys: Keys, name: str) -> ModelSpec:
    """Granite 4: an MLP for every token, and beside it experts where num_local_experts says so."""
    names = {"n_routed_experts": "num_local_experts", "moe_intermediate_size": "intermediate_size"}
    keys, bias = replace(keys, names=names), keys.switch("attention_bias")
    rope = rope_of(keys) if keys.get("position_embedding_type") == "rope" else None
    scale = keys.number("attention_multiplier", 1.0)
    shared = mlp_of(keys, keys.count("shared_intermediate_size"))
    block = replace(mixture(keys), shared=shared) if keys.get("n_routed_experts") else shared
    attention = attention_of(keys, rope, scale=scale, qkv_bias=bias, out_bias=bias)
    mamba = _bamba_mixer(keys)
    kinds = _named_kinds(keys, "layer_types") or [LINEAR] * layer_count(keys)
    layers = [plain_layer(attention if kind == FULL else mamba, block) for kind in kinds]
    embedding_scale = keys.number("embedding_multiplier", 1.0)
    return decoder(keys, name, "granitemoehybrid", layers, embedding_scale=embedding_scale)


def _periodic(keys: Keys, what: str) -> range:
    """attn_layer_period 8, attn_layer_offset 4: layers 4, 12, 20 ..."""
    period = keys.count(f"{what}_layer_period")
    offset = keys.count(f"{what}_layer_offset", least=0, most=period - 1)
    return range(offset, layer_count(keys), period)


def _mamba(keys: Keys) -> Mamba:
    d_model = keys.count("hidden_size")
    rank = keys.get("mamba_dt_rank", "auto")
    return Mamba(
        inner=keys.count("mamba_expand") * d_model,
        state_dim=keys.count("mamba_d_state"),
        dt_rank=math.ceil(d_model / 16) if rank == "auto" else keys.count("mamba_dt_rank"),
        kernel=keys.count("mamba_d_conv"),
        conv_bias=keys.switch("mamba_conv_bias"),
        bias=keys.switch("mamba_proj_bias"),
    )


def _bamba_mixer(keys: Keys, inner: int | None = None) -> Mamba2:
    """inner: the width of all heads, where it is not mamba_expand times hidden_size."""
    heads = keys.count("mamba_n_heads")
    width = inner or keys.count("mamba_expand") * keys.count("hidden_size")
    head_dim = width // heads if keys.get("mamba_d_head", "auto") == "auto" else keys.count("mamba_d_head")
    if heads * head_dim != width:
        raise InputError(f"{keys.where}: {heads} Mamba heads of {head_dim} don't make up {width}")
    return _mamba2(
        keys,
        heads=heads,
        head_dim=head_dim,
        groups=keys.count("mamba_n_groups"),
        state_dim=keys.count("mamba_d_state"),
        kernel=keys.count("mamba_d_conv"),
        conv_bias=keys.switch("mamba_conv_bias"),
        bias=keys.switch("mamba_proj_bias"),
    )


def _mamba2(keys: Keys, heads: int, groups: int, **sizes: Any) -> Mamba2:
    if heads % groups:
        raise InputError(f"{keys.where}: {heads} Mamba heads can't share {groups} groups evenly")
    return Mamba2(heads=heads, groups=groups, **sizes)


def _projected(own: Mamba2) -> int:
    """Outputs of the projection in: gate, what is convolved, and a step for each head."""
    return 2 * own.heads * own.head_dim + 2 * own.groups * own.state_dim + own.heads


def _nemotron_experts(keys: Keys) -> Layer:
    """Experts are ungated; where moe_latent_size is set, they work in that width."""
    bias, latent = keys.switch("mlp_bias"), keys.get("moe_latent_size") and keys.count("moe_latent_size")
    shared_width = keys.count("moe_shared_expert_intermediate_size")
    width, act = keys.count("moe_intermediate_size"), "mlp_hidden_act"
    block = MoE(
        experts=keys.count("n_routed_experts"),
        top_k=keys.count("num_experts_per_tok", most=keys.count("n_routed_experts")),
        expert=mlp_of(keys, width, gated=False, activation=act),
        shared=mlp_of(keys, shared_width, bias=bias, gated=False, activation=act),
        latent=latent or None,
    )
    biases = (latent + keys.count("hidden_size")) * bias if latent else 0
    return Layer((), block, "single", (Weight("mlp.latent_proj.bias", "mlp", biases),) * (biases > 0))


def _nemotron_kinds(keys: Keys) -> list[str]:
    """What each layer is: a list, or a pattern of M, *, - and E."""
    pattern = keys.get("hybrid_override_pattern")
    named = _named_kinds(keys, "layers_block_type") or _named_kinds(keys, "layer_types")
    if named or pattern is None:
        if not named:
            raise InputError(f"{keys.where} has no hybrid_override_pattern or layers_block_type")
        return named
    if not isinstance(pattern, str) or not pattern or not all(each in PATTERN for each in pattern):
        raise InputError(f"{keys.where}: hybrid_override_pattern may hold {' '.join(PATTERN)}, one a layer")
    return [PATTERN[each] for each in pattern]


def _named_kinds(keys: Keys, key: str) -> list[str]:
    kinds, known = keys.get(key, []), (*PATTERN.values(), *OLD_KINDS)
    if not isinstance(kinds, list) or not all(kind in known for kind in kinds):
        raise InputError(f"{keys.where}: {key} must name each layer, one of {', '.join(known)}")
    return [OLD_KINDS[kind] if kind in OLD_KINDS else str(kind) for kind in kinds]


READERS = {
    "jamba": jamba,
    "nemotron_h": nemotron_h,
    "falcon_h1": falcon_h1,
    "bamba": bamba,
    "granitemoehybrid": granitemoehybrid,
}
