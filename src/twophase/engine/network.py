"""The network in memory: weights packed in panels, in one arena, and the forward pass over them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from twophase.engine.batch import Batch
from twophase.engine.feed_forward import NOTHING, FeedForwardWeights, feed_forward, router_rows, up_rows
from twophase.engine.kv import KVPool, LayerKV
from twophase.engine.scratch import Array, Scratch
from twophase.kernels.attention import attend
from twophase.kernels.cache import position_and_cache
from twophase.kernels.linear import linear
from twophase.kernels.packing import Panels, padded
from twophase.kernels.rows import add_norm, embed, finish_logits, norm, norm_wide
from twophase.kernels.tile import activation_dtype
from twophase.model.mixers import Attention
from twophase.model.spec import FeedForward, Layer, ModelSpec, MoE

Compute = Literal["bf16", "float32"]
ENDLESS = 1 << 30  # a window that nothing outgrows


class Norm(NamedTuple):
    """float32 [d_model, padded]; empty where absent."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Matrices in panels, heads padded to whole lanes; norms and biases float32, empty where absent."""

    attention_norm: Norm
    qkv: Panels
    qkv_bias: Array
    q_norm: Array  # of one head, or of all
    k_norm: Array
    o: Panels
    o_bias: Array
    attention_post_norm: Norm
    mlp_norm: Norm
    feed_forward: FeedForwardWeights
    mlp_post_norm: Norm


@dataclass(frozen=True, slots=True)
class Network:
    spec: ModelSpec
    compute: Compute
    arena: Array  # every matrix, one after another: what a decode pass reads
    embedding: Panels
    positions: Array  # learned ones: float32 [positions, d_model padded], flat
    head: Panels  # the same panels where the embeddings are tied
    head_bias: Array
    norm: Norm
    layers: tuple[LayerWeights, ...]


def activation_bytes(spec: ModelSpec, rows: int, logit_rows: int) -> int:
    """What a pass of so many rows takes beside weights and KV cache, at most."""
    widest = max(
        max(_attention_columns(layer.attention), _feed_forward_columns(layer.feed_forward, spec))
        for layer in spec.layers
    )
    d = padded(spec.d_model)
    return 4 * (rows * (3 * d + widest) + logit_rows * (d + padded(spec.vocab_size)))


def _attention_columns(own: Attention) -> int:
    return 2 * (own.heads + own.kv_heads) * padded(own.head_dim)


def _feed_forward_columns(own: FeedForward | None, spec: ModelSpec) -> int:
    if not isinstance(own, MoE):
        return up_rows(own) + padded(own.d_ff) if own else 0
    d = padded(spec.d_model)
    choice = 2 * d + up_rows(own.expert) + padded(own.expert.d_ff) + 5  # 5: its expert, place and share
    shared = d + up_rows(own.shared) + padded(own.shared.d_ff) if own.shared else 0
    return own.top_k * choice + router_rows(own) + shared


def forward(
    network: Network, pool: KVPool, batch: Batch, threads: int, scratch: Scratch | None = None
) -> Array:
    """Run a pass: write its KV into the pool and return float32 logits [rows that want them, vocabulary].

    They lie in `scratch`, if one is given, until its next pass.
    """
    spec, rows, width = network.spec, len(batch.ids), padded(network.spec.d_model)
    room = scratch or Scratch()
    eps, residual_scale = np.float32(spec.norm_eps), np.float32(spec.residual_scale)
    centred, x_type = spec.norm != "rms", activation_dtype(network.compute)
    items, buffer = cache(batch.items), cache(room.buffer)  # layers of one shape share them

    h, y = (buffer(use, rows, width) for use in ("h", "y"))
    x = buffer("x", rows, width, x_type)
    embed(
        network.embedding.values, network.embedding.scales,
        batch.ids, np.float32(spec.embedding_scale), network.positions,
        batch.positions, h, threads,
    )  # fmt: skip
    norm(h, *network.layers[0].attention_norm, spec.d_model, eps, centred, x, threads)
    for layer, weights, kv, following in _with_next_norm(network, pool):
        own = layer.attention
        heads, kv_heads = own.heads, own.kv_heads
        qkv = buffer("wide", rows, (heads + 2 * kv_heads) * kv.width)
        attended = buffer("active", rows, heads * kv.width, x_type)
        linear(x, weights.qkv, weights.qkv_bias, qkv, threads)
        q_norm, k_norm = weights.q_norm, weights.k_norm
        if own.qk_norm_wide:
            norm_wide(qkv, heads, kv_heads, own.head_dim, q_norm, k_norm, eps, threads)
            q_norm, k_norm = NOTHING, NOTHING
        position_and_cache(
            qkv, heads, kv_heads, own.head_dim, q_norm, k_norm, eps, kv.cosines, kv.sines, batch.positions,
            batch.slots, kv.arrays, threads,
        )  # fmt: skip
        attend(
            qkv, heads, kv_heads, np.float32(own.scale), own.window or ENDLESS, np.float32(own.softcap or 0),
            items(heads, kv_heads), batch.tables, kv.arrays, attended, threads,
        )  # fmt: skip
        linear(attended, weights.o, weights.o_bias, y, threads)
        add_norm(
            h, y, residual_scale, *weights.attention_post_norm, *weights.mlp_norm, spec.d_model, eps,
            centred, x, threads,
        )  # fmt: skip
        assert layer.feed_forward
        feed_forward(x, weights.feed_forward, layer.feed_forward, buffer, y, threads)
        add_norm(
            h, y, residual_scale, *weights.mlp_post_norm, *following, spec.d_model, eps, centred, x, threads
        )  # fmt: skip
    return _logits(network, x, batch, room, threads)


def _logits(network: Network, x: Array, batch: Batch, room: Scratch, threads: int) -> Array:
    spec, wanted = network.spec, len(batch.logit_rows)
    logits = room.buffer("logits", wanted, padded(spec.vocab_size))
    if wanted:
        last = room.buffer("last", wanted, x.shape[1], x.dtype)
        np.take(x, batch.logit_rows, axis=0, out=last)
        linear(last, network.head, network.head_bias, logits, threads)
        if spec.logit_scale != 1 or spec.logit_softcap:
            finish_logits(logits, np.float32(spec.logit_scale), np.float32(spec.logit_softcap or 0), threads)
    return logits[:, : spec.vocab_size]


def _with_next_norm(network: Network, pool: KVPool) -> Iterator[tuple[Layer, LayerWeights, LayerKV, Norm]]:
    """Each layer with its weights, its KV, and the norm of what comes after it."""
    norms = [weights.attention_norm for weights in network.layers[1:]] + [network.norm]
    yield from zip(network.spec.layers, network.layers, pool.layers, norms, strict=True)
