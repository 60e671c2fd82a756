"""Dense families whose classes live beside their checkpoints, not in transformers."""

import math
from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    assuming,
    attention_of,
    decoder,
    layer_count,
    mlp_of,
    overriding,
    per_layer,
    refuse,
    rope_of,
)
from twophase.model.families.dense import both_biases, dense
from twophase.model.families.llama import qwen2
from twophase.model.keys import Keys
from twophase.model.mixers import Attention, Mixer
from twophase.model.spec import FeedForward, Layer, ModelSpec, NormPlaces, Weight

QWEN_NAMES = {
    "head_dim": "kv_channels",
    "rms_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "seq_length",
    "rope_theta": "rotary_emb_base",
    "partial_rotary_factor": "rotary_pct",
}
NORM_PLACES: tuple[NormPlaces, ...] = ("none", "single", "before")


def mimo(keys: Keys, name: str) -> ModelSpec:
    """Qwen2 with a draft layer, which is not counted (XiaomiMiMo/MiMo-7B-Base)."""
    return replace(qwen2(assuming(keys, max_window_layers=0), name), family="mimo")


def internlm(keys: Keys, name: str) -> ModelSpec:
    """InternLM 1 and 2: biases in attention where `bias` says so, none in the MLP."""
    keys = assuming(keys, bias=True)
    bias = keys.switch("bias")
    return dense(keys, name, attention={"qkv_bias": bias, "out_bias": bias}, mlp=mlp_of(keys))


def qwen(keys: Keys, name: str) -> ModelSpec:
    """Qwen 1: intermediate_size is that of gate and up together; biases on queries, keys and values."""
    keys = replace(keys, names=QWEN_NAMES)
    if not keys.get("no_bias", True):
        raise InputError(f"{keys.where}: no_bias is false, which is not known here")
    mlp = mlp_of(keys, keys.count("intermediate_size", least=2) // 2)
    return dense(keys, name, attention={"qkv_bias": True}, mlp=mlp)


def baichuan(keys: Keys, name: str) -> ModelSpec:
    """No biases; the 7B models rotate, the 13B ones, of the same type, have ALiBi."""
    keys = replace(keys, names={"max_position_embeddings": "model_max_length"})
    rope = rope_of(keys) if keys.count("hidden_size") == 4096 else None
    return dense(keys, name, attention={}, mlp=mlp_of(keys), rope=lambda kind: rope)


def nemotron_nas(keys: Keys, name: str) -> ModelSpec:
    """Llama whose layers were found by search (nvidia/Llama-3_3-Nemotron-Super-49B-v1, modeling_decilm.py).

    block_configs says for each layer how many heads share keys and values and how wide the MLP is, or that
    either is one matrix, or missing with its norm.
    """
    count = layer_count(keys)
    blocks = per_layer(keys, "block_configs", count)
    if blocks is None:
        raise InputError(f"{keys.where} has no block_configs")
    layers = []
    for i, block in enumerate(blocks):
        if not isinstance(block, dict):
            raise InputError(f"{keys.where}: block_configs[{i}] must be an object")
        layers.append(_searched(keys, Keys(block, {}, f"{keys.where}, block_configs[{i}]")))
    return decoder(keys, name, "nemotron-nas", layers)


def _searched(keys: Keys, block: Keys) -> Layer:
    d = keys.count("hidden_size")
    attention, ffn = block.inner("attention"), block.inner("ffn")
    refuse(attention, "num_sink_tokens", "unshifted_sink", "use_prefill_window_in_sink_attention")
    mixers: tuple[Mixer, ...] = ()
    feed_forward: FeedForward | None = None
    extra: tuple[Weight, ...] = ()
    if attention.switch("replace_with_linear"):
        extra += (Weight("self_attn.linear_attn", "attention", d, d),)
    elif not attention.switch("no_op"):
        mixers = (_grouped(keys, attention),)
    if ffn.switch("replace_with_linear"):
        extra += (Weight("mlp.linear_mlp", "mlp", d, d),)
    elif not ffn.switch("no_op"):
        feed_forward = mlp_of(keys, _width(ffn, d), bias=keys.switch("mlp_bias"))
    norms = 2 - attention.switch("no_op") - ffn.switch("no_op")
    return Layer(mixers, feed_forward, NORM_PLACES[norms], extra)


def _grouped(keys: Keys, block: Keys) -> Attention:
    heads, group = keys.count("num_attention_heads"), block.count("n_heads_in_group")
    if heads % group:
        raise InputError(f"{block.where}: {heads} attention heads can't form groups of {group}")
    window = block.count("window_length") if block.get("window_length") else None
    own = overriding(keys, num_key_value_heads=heads // group)
    return attention_of(own, rope_of(keys), window, **both_biases(keys))


def _width(block: Keys, d: int) -> int:
    """Two thirds of ffn_mult times d_model, up to the next multiple of 256."""
    return math.ceil(int(2 * block.number("ffn_mult") * d / 3) / 256) * 256


READERS = {
    "mimo": mimo,
    "internlm": internlm,
    "internlm2": internlm,
    "qwen": qwen,
    "baichuan": baichuan,
    "nemotron-nas": nemotron_nas,
}
