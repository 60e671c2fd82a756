"""MiniMax: lightning attention in MiniMax-01, all tokens attended to in M2, blocks of them picked in M3."""

from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    by_kind,
    decoder,
    layer_count,
    layer_kinds,
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
from twophase.model.mixers import Indexer, LightningAttention, Mixer
from twophase.model.spec import ModelSpec

LINEAR, INDEXED = "linear_attention", "minimax_m3_sparse"


def minimax_m2(keys: Keys, name: str) -> ModelSpec:
    """Queries and keys are normed over all heads together; a part of each head is rotated."""
    keys = rotated(replace(keys, names=LOCAL))
    if keys.get("qk_norm_type", "per_layer") != "per_layer" or not keys.get("use_qk_norm", True):
        raise InputError(
            f"{keys.where}: qk_norm_type must be per_layer, with use_qk_norm, in a minimax_m2 model"
        )
    refuse(keys, "shared_intermediate_size", "sliding_window", "attention_bias")
    attention = attention_of(keys, rope_of(keys, theta=5e6), qk_norm_wide=True)
    return decoder(keys, name, "minimax_m2", [plain_layer(attention, mixture(keys))] * layer_count(keys))


def rotated(keys: Keys) -> Keys:
    """MiniMax says how many of a head's dimensions are rotated, not which share of them."""
    if keys.get("rotary_dim") is None:
        return keys
    share = keys.count("rotary_dim", most=keys.count("head_dim")) / keys.count("head_dim")
    return assuming(keys, partial_rotary_factor=share)


def minimax(keys: Keys, name: str) -> ModelSpec:
    """MiniMax-01: lightning attention, and softmax attention in some layers (attn_type_list: 1)."""
    refuse(keys, "shared_intermediate_size")
    keys = rotated(replace(keys, names=LOCAL))
    count, experts = layer_count(keys), mixture(keys)
    types = per_layer(keys, "attn_type_list", count) or [(i + 1) % 2 for i in range(count)]
    kinds = layer_kinds(keys, (LINEAR, FULL), [FULL if each else LINEAR for each in types])
    attention = attention_of(keys, rope_of(keys, theta=1e6), window_of(keys, SLIDING))
    lightning = LightningAttention(attention.heads, attention.head_dim)
    mixers: dict[str, Mixer] = {FULL: attention, LINEAR: lightning}
    layers = by_kind(kinds, lambda kind: plain_layer(mixers[kind], experts))
    return decoder(keys, name, "minimax", layers)


def minimax_m3(keys: Keys, name: str) -> ModelSpec:
    """After a few dense layers that attend to all, an indexer picks blocks of keys; one expert is shared."""
    refuse(keys, "attention_output_gate")
    keys = overriding(replace(keys, names=LOCAL), hidden_act="swigluoai")
    kinds = layer_kinds(keys, (INDEXED, FULL), _indexed(keys))
    shared = keys.count("shared_intermediate_size") * keys.count("n_shared_experts", 1)
    experts = replace(mixture(keys), shared=mlp_of(keys, shared))
    dense = mlp_of(keys, keys.count("dense_intermediate_size"))
    full = attention_of(keys, rope_of(keys, theta=5e6), qk_norm=True)
    sparse = _sparse_attention(keys)
    indexer = Indexer(
        heads=sparse.count("index_n_heads"),
        dim=sparse.count("index_head_dim"),
        query_rank=None,
        weighted=False,
    )
    picked = sparse.count("index_topk_blocks") * sparse.count("index_block_size")
    made = {FULL: full, INDEXED: replace(full, top_k=picked, indexer=indexer)}
    blocks = dense_first(flagged(assuming(keys, first_k_dense_replace=0)), dense, experts)
    return decoder(keys, name, "minimax_m3_vl_text", zipped([made[kind] for kind in kinds], blocks))


def _sparse_attention(keys: Keys) -> Keys:
    """What MiniMax's files say in sparse_attention_config, transformers' say in keys of other names."""
    own = keys.inner("sparse_attention_config")
    names = {
        "index_n_heads": "sparse_num_index_heads",
        "index_head_dim": "sparse_index_dim",
        "index_block_size": "sparse_block_size",
        "index_topk_blocks": "sparse_topk_blocks",
    }
    return Keys({**keys.config, **own.config}, keys.defaults, own.where, names)


def _indexed(keys: Keys) -> list[str]:
    count, own = layer_count(keys), keys.inner("sparse_attention_config")
    flags = per_layer(own, "sparse_attention_freq", count)
    if flags is None or not own.get("use_sparse_attention", True):
        return [FULL] * count
    valueless = per_layer(own, "sparse_disable_index_value", count) or flags
    if any(flag and not without for flag, without in zip(flags, valueless, strict=True)):
        raise InputError(f"{own.where}: sparse_disable_index_value must be 1 where sparse_attention_freq is")
    return [INDEXED if flag else FULL for flag in flags]


READERS = {
    "minimax": minimax,
    "minimax_text_01": minimax,
    "minimax_m1": minimax,
    "minimax_m2": minimax_m2,
    "minimax_m3": minimax_m3,
    "minimax_m3_vl": minimax_m3,
    "minimax_m3_vl_text": minimax_m3,
}
