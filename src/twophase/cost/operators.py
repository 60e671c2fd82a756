"""What a pass costs, operator by operator: operations, bytes read and bytes written.

Conventions: a multiply-add is two FLOPs; attention is causal, 4·head_dim FLOPs a (query, key) pair and head;
logits for the rows that want them; weights are read once a pass in the format in which they are resident; of
the KV cache, what lies in it before the pass is read and the new tokens' part is written, as far as a window
lets anyone see it again; the embedding is a gather of the pass's rows. Norms, rotations and activations are
not counted: no floor needs them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_ import Pass
from twophase.model.counts import matrices_active
from twophase.model.spec import Layer, ModelSpec
from twophase.model.weights import feed_forward_weights, mixer_weights

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of operator, over all layers. FLOPs, and bytes from and to memory."""

    name: str
    flops: float
    read_bytes: float
    written_bytes: float


def visible_pairs(new: Ints, context: Ints, window: int | None) -> Ints:
    """(query, key) pairs of each span: a row sees itself and all before it, `window` tokens at the most."""
    pairs = new * context + new * (new + 1) // 2
    if window is None:
        return pairs
    first = np.minimum(context + 1, window)  # keys that the first row sees
    growing = np.minimum(new, window - first)  # rows, after which every row sees the whole window
    before = growing * first + growing * (growing - 1) // 2
    return np.asarray(before + (new - growing) * window)


def operators(
    spec: ModelSpec, pass_: Pass, weight_bytes: float = 2.0, kv_bytes: float = 2.0
) -> list[Operator]:
    """The operators of a pass; weight_bytes and kv_bytes: bytes an element in storage."""
    return _operators(spec, Counter(spec.layers), pass_, weight_bytes, kv_bytes)


def totals(
    spec: ModelSpec, pass_: Pass, weight_bytes: float = 2.0, kv_bytes: float = 2.0
) -> tuple[float, float]:
    """(FLOPs, compulsory bytes) of a pass."""
    return _sum(operators(spec, pass_, weight_bytes, kv_bytes))


def price_of(spec: ModelSpec, weight_bytes: float, kv_bytes: float) -> Callable[[Pass], tuple[float, float]]:
    """`totals` of one model's passes, for who asks after every pass: like layers are found once."""
    layers = Counter(spec.layers)
    return lambda pass_: _sum(_operators(spec, layers, pass_, weight_bytes, kv_bytes))


def _operators(
    spec: ModelSpec, layers: Counter[Layer], pass_: Pass, weight_bytes: float, kv_bytes: float
) -> list[Operator]:
    new = np.array([span.new for span in pass_.spans], np.int64)
    context = np.array([span.context for span in pass_.spans], np.int64)
    rows, logit_rows = int(new.sum()), sum(span.wants_logits for span in pass_.spans)
    d = spec.d_model

    def matmul(name: str, weights: int, times: int) -> Operator:
        return Operator(name, 2.0 * times * weights, weights * weight_bytes if times else 0.0, 0.0)

    projections = mlps = 0
    attention_flops = kv_read = kv_written = 0.0
    for layer, count in layers.items():
        own = layer.attention
        projections += count * matrices_active(mixer_weights(own, d))
        mlps += count * matrices_active(feed_forward_weights(layer.mlp, d))
        pairs = int(visible_pairs(new, context, own.window).sum())
        attention_flops += count * 4.0 * own.heads * own.head_dim * pairs
        seen = context if own.window is None else np.minimum(context, own.window - 1)
        token_bytes = count * 2 * own.kv_heads * own.head_dim * kv_bytes
        kept = new if own.window is None else np.minimum(new, own.window - 1)
        kv_read += token_bytes * int(seen.sum())
        kv_written += token_bytes * int(kept.sum())
    return [
        Operator("embedding", 0.0, rows * d * weight_bytes, 0.0),
        matmul("attention projections", projections, rows),
        Operator("attention", attention_flops, kv_read, kv_written),
        matmul("mlp", mlps, rows),
        matmul("head", spec.vocab_size * d, logit_rows),
    ]


def _sum(every: list[Operator]) -> tuple[float, float]:
    return sum(each.flops for each in every), sum(each.read_bytes + each.written_bytes for each in every)
