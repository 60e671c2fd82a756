"""Linear attention or short convolutions among attention layers: Qwen3-Next, Qwen3.5, Kimi Linear, LFM2."""

from collections.abc import Sequence
from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    assuming,
    attention_of,
    decoder,
    layer_count,
    layer_kinds,
    layers_named,
    mlp_of,
    plain_layer,
    rope_of,
)
from twophase.model.families.deepseek import dense_first, latent_attention, mixture
from twophase.model.families.mamba import LINEAR
from twophase.model.families.moe import qwen_blocks
from twophase.model.keys import Keys
from twophase.model.mixers import GatedDelta, KimiDelta, LatentAttention, ShortConvolution
from twophase.model.spec import FeedForward, Layer, ModelSpec, MoE, Weight

CONVOLUTION = "conv"
# What Kimi Linear's files call the keys of DeepSeek's.
KIMI = {
    "n_routed_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
    "max_position_embeddings": "model_max_length",
}


def qwen3_next(keys: Keys, name: str) -> ModelSpec:
    """decoder_sparse_step: every n-th layer has experts, except mlp_only_layers."""
    keys = replace(keys, names={"n_routed_experts": "num_experts"})
    return _qwen(keys, name, qwen_blocks(keys, _qwen_experts(keys)), fused=True)


def qwen3_5(keys: Keys, name: str) -> ModelSpec:
    return _qwen(keys, name, [mlp_of(keys)] * layer_count(keys), fused=False)


def qwen3_5_moe(keys: Keys, name: str) -> ModelSpec:
    keys = replace(keys, names={"n_routed_experts": "num_experts"})
    return _qwen(keys, name, [_qwen_experts(keys)] * layer_count(keys), fused=False)


def _qwen_experts(keys: Keys) -> MoE:
    shared = mlp_of(keys, keys.count("shared_expert_intermediate_size"))
    return replace(mixture(keys), shared=shared, shared_gate=True)


def _qwen(keys: Keys, name: str, blocks: Sequence[FeedForward], fused: bool) -> ModelSpec:
    """Every full_attention_interval-th layer attends, behind a gate; a quarter of each head is rotated.

    fused: the linear layers' projections are (Qwen3-Next's); q_proj holds queries and gate in any case.
    """
    if keys.get("attn_output_gate", True) is not True:
        raise InputError(f"{keys.where}: attn_output_gate must be true in a {keys.get('model_type')} model")
    keys, bias = assuming(keys, partial_rotary_factor=0.25), keys.switch("attention_bias")
    every = keys.count("full_attention_interval", 4)
    pattern = [LINEAR if (i + 1) % every else FULL for i in range(layer_count(keys))]
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias, qk_norm=True, gate="element")
    key_heads, value_heads = keys.count("linear_num_key_heads"), keys.count("linear_num_value_heads")
    if value_heads % key_heads:
        raise InputError(
            f"{keys.where}: {value_heads} linear value heads can't share {key_heads} keys evenly"
        )
    linear = GatedDelta(
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=keys.count("linear_key_head_dim"),
        value_dim=keys.count("linear_value_head_dim"),
        kernel=keys.count("linear_conv_kernel_dim"),
        fused=fused,
    )
    gate = attention.heads * attention.head_dim
    gate_bias = (Weight("self_attn.g_proj.bias", "attention", gate, split="outputs"),) * bias
    layers = [
        Layer((attention,), block, extra=gate_bias) if kind == FULL else Layer((linear,), block)
        for kind, block in zip(layer_kinds(keys, (LINEAR, FULL), pattern), blocks, strict=True)
    ]
    return decoder(keys, name, str(keys.get("model_type")), layers)


def kimi_linear(keys: Keys, name: str) -> ModelSpec:
    """Kimi delta attention, and latent attention without positions; Kimi K3's extensions where they are set.

    K3: a gate on latent attention, experts in a narrower width, and attention over the outputs of earlier
    blocks of layers (attn_res_block_size), which has a norm and a query of d_model before every block.
    """
    keys = assuming(replace(keys, names=KIMI), n_routed_experts=keys.defaults.get("num_local_experts"))
    d_model, own = keys.count("hidden_size"), keys.inner("linear_attn_config")
    linear = KimiDelta(
        heads=own.count("num_heads", keys.count("linear_num_heads", 32)),
        key_dim=(dim := own.count("head_dim", keys.count("linear_head_dim", 128))),
        value_dim=dim,
        kernel=own.count("short_conv_kernel_size", keys.count("linear_conv_kernel_dim", 4)),
        full_gate=own.switch("use_full_rank_gate"),
    )
    mixers: dict[str, KimiDelta | LatentAttention] = {LINEAR: linear, FULL: _kimi_attention(keys)}
    latent = keys.count("routed_expert_hidden_size") if keys.get("routed_expert_hidden_size") else None
    experts = replace(mixture(keys), latent=latent)
    residual = 4 * d_model if keys.get("attn_res_block_size") else 0
    extra = (Weight("res_norm_and_proj", "norms", residual),) * (residual > 0)
    normed = latent is not None and keys.switch("latent_moe_use_norm")
    norm = (Weight("mlp.routed_expert_norm", "norms", latent or 0),) * normed
    layers = [
        Layer((mixers[kind],), block, extra=extra + norm if isinstance(block, MoE) else extra)
        for kind, block in zip(_kimi_kinds(keys), dense_first(keys, mlp_of(keys), experts), strict=True)
    ]
    outer = (Weight("output_attn_res", "norms", 2 * d_model),) * (residual > 0)
    return decoder(keys, name, "kimi_linear", layers, extra=outer)


def _kimi_attention(keys: Keys) -> LatentAttention:
    rope = rope_of(keys) if keys.get("mla_use_nope") is False else None
    gate = keys.switch("mla_use_output_gate")
    return replace(latent_attention(keys, rope), gate="element" if gate else "none")


def _kimi_kinds(keys: Keys) -> list[str]:
    """layer_types, or linear_attn_config's lists of layers, which count from 1."""
    count, own = layer_count(keys), keys.inner("linear_attn_config")
    full, linear = layers_named(own, "full_attn_layers"), layers_named(own, "kda_layers")
    if full is None or linear is None:
        return layer_kinds(keys, (LINEAR, FULL), [FULL if i and i % 4 == 0 else LINEAR for i in range(count)])
    if sorted(full + linear) != list(range(1, count + 1)):
        raise InputError(
            f"{own.where}: full_attn_layers and kda_layers must name layers 1 to {count} once each"
        )
    return layer_kinds(keys, (LINEAR, FULL), [FULL if i + 1 in full else LINEAR for i in range(count)])


def lfm2(keys: Keys, name: str) -> ModelSpec:
    """The MLP's width is two thirds of intermediate_size, scaled and rounded up; full_attn_idxs attend."""
    count, attending = layer_count(keys), layers_named(keys, "full_attn_idxs")
    pattern = [FULL if attending is None or i in attending else CONVOLUTION for i in range(count)]
    return _lfm2(keys, name, pattern, [mlp_of(keys, _lfm2_width(keys))] * count)


def _lfm2_width(keys: Keys) -> int:
    width = keys.count("block_ff_dim", keys.count("intermediate_size"))
    if not keys.switch("block_auto_adjust_ff_dim"):
        return width
    width = int(2 * width / 3)
    if keys.given("block_ffn_dim_multiplier") is None:
        return width
    step = keys.count("block_multiple_of")
    return -(-int(keys.number("block_ffn_dim_multiplier") * width) // step) * step


def lfm2_moe(keys: Keys, name: str) -> ModelSpec:
    """num_dense_layers with an MLP, then experts."""
    keys = replace(
        keys, names={"n_routed_experts": "num_experts", "first_k_dense_replace": "num_dense_layers"}
    )
    return _lfm2(keys, name, [], dense_first(keys, mlp_of(keys), mixture(keys)))


def _lfm2(keys: Keys, name: str, pattern: Sequence[str], blocks: Sequence[FeedForward]) -> ModelSpec:
    attention = attention_of(keys, rope_of(keys, theta=1e6), qk_norm=True)
    convolution = ShortConvolution(
        keys.count("hidden_size"), keys.count("conv_L_cache"), keys.switch("conv_bias")
    )
    kinds = layer_kinds(keys, (CONVOLUTION, FULL), pattern)
    if not kinds:
        raise InputError(f"{keys.where} has no layer_types")
    layers = [
        plain_layer(attention if kind == FULL else convolution, block)
        for kind, block in zip(kinds, blocks, strict=True)
    ]
    tied = keys.switch("tie_embedding" if keys.get("tie_embedding") is not None else "tie_word_embeddings")
    family = str(keys.get("model_type"))
    return decoder(keys, name, family, layers, eps="norm_eps", tied_embeddings=tied)


READERS = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5,
    "qwen3_5_moe_text": qwen3_5_moe,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
}
