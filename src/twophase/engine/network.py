"""The network in memory: weights packed in panels, in one arena, and the forward pass over them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twophase.engine.batch import Batch
from twophase.engine.kv import KVPool
from twophase.kernels.attention import attend
from twophase.kernels.cache import position_and_cache
from twophase.kernels.linear import linear
from twophase.kernels.packing import aligned, padded
from twophase.kernels.rows import activate, add_norm, embed, norm
from twophase.kernels.tile import activation_dtype
from twophase.model.spec import Layer, ModelSpec

Compute = Literal["bf16", "float32"]
Array = NDArray[Any]
FLOAT32 = np.dtype(np.float32)
NOTHING = np.zeros(0, FLOAT32)
ENDLESS = 1 << 30  # a window that nothing outgrows


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Matrices in panels, heads padded to whole lanes; norms and biases float32, empty where absent."""

    attention_norm: Array
    qkv: Array
    qkv_bias: Array
    q_norm: Array
    k_norm: Array
    o: Array
    o_bias: Array
    attention_post_norm: Array
    mlp_norm: Array
    gate_up: Array
    gate_up_bias: Array
    down: Array
    down_bias: Array
    mlp_post_norm: Array


@dataclass(frozen=True, slots=True)
class Network:
    spec: ModelSpec
    compute: Compute
    arena: Array  # every matrix, one after another: what a decode pass reads
    embedding: Array
    head: Array  # the same panels where the embeddings are tied
    norm: Array
    layers: tuple[LayerWeights, ...]


def activation_bytes(spec: ModelSpec, rows: int, logit_rows: int) -> int:
    """What a pass of so many rows takes beside weights and KV cache."""
    widest = max(
        (layer.attention.heads * 2 + layer.attention.kv_heads * 2) * padded(layer.attention.head_dim)
        + 3 * padded(layer.mlp.d_ff)
        for layer in spec.layers
    )
    return 4 * (rows * (3 * padded(spec.d_model) + widest) + logit_rows * padded(spec.vocab_size))


def forward(network: Network, pool: KVPool, batch: Batch, threads: int) -> Array:
    """Run a pass: write its KV into the pool and return float32 logits [rows that want them, vocabulary]."""
    spec, rows, width = network.spec, len(batch.ids), padded(network.spec.d_model)
    eps, x_type = np.float32(spec.norm_eps), activation_dtype(network.compute)
    items = cache(batch.items)

    @cache  # layers of one shape share their buffers
    def buffer(use: str, columns: int, dtype: np.dtype[Any] = FLOAT32) -> Array:
        return aligned((rows, columns), dtype)

    h, y, x = buffer("h", width), buffer("y", width), buffer("x", width, x_type)
    embed(network.embedding, batch.ids, np.float32(spec.embedding_scale), h, threads)
    norm(h, network.layers[0].attention_norm, spec.d_model, eps, x, threads)
    for layer, weights, kv, following in _with_next_norm(network, pool):
        attention = layer.attention
        heads, kv_heads = attention.heads, attention.kv_heads
        qkv = buffer("qkv", (heads + 2 * kv_heads) * kv.width)
        attended = buffer("attended", heads * kv.width, x_type)
        linear(x, weights.qkv, weights.qkv_bias, qkv, threads)
        position_and_cache(
            qkv, heads, kv_heads, attention.head_dim, weights.q_norm, weights.k_norm, eps,
            kv.cosines, kv.sines, batch.positions, batch.slots, kv.arrays, threads,
        )  # fmt: skip
        attend(
            qkv, heads, kv_heads, np.float32(attention.scale), attention.window or ENDLESS,
            np.float32(attention.softcap or 0), items(heads, kv_heads), batch.tables, kv.arrays, attended,
            threads,
        )  # fmt: skip
        linear(attended, weights.o, weights.o_bias, y, threads)
        add_norm(h, y, weights.attention_post_norm, weights.mlp_norm, spec.d_model, eps, x, threads)

        gate_up = buffer("gate_up", 2 * padded(layer.mlp.d_ff))
        active = buffer("active", padded(layer.mlp.d_ff), x_type)
        linear(x, weights.gate_up, weights.gate_up_bias, gate_up, threads)
        activate(gate_up, layer.mlp.activation == "gelu_tanh", active, threads)
        linear(active, weights.down, weights.down_bias, y, threads)
        add_norm(h, y, weights.mlp_post_norm, following, spec.d_model, eps, x, threads)

    last = np.ascontiguousarray(x[batch.logit_rows])
    logits = aligned((len(last), padded(spec.vocab_size)), np.float32)
    if len(last):
        linear(last, network.head, NOTHING, logits, threads)
    return logits[:, : spec.vocab_size]


def _with_next_norm(network: Network, pool: KVPool) -> Iterator[tuple[Layer, LayerWeights, Any, Array]]:
    """Each layer with its weights, its KV, and the norm of what comes after it."""
    norms = [weights.attention_norm for weights in network.layers[1:]] + [network.norm]
    yield from zip(network.spec.layers, network.layers, pool.layers, norms, strict=True)
