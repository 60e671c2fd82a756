"""What happens to rows between matrix products: embedding, norms, activations, the last touch to logits.

Rows are float32 and padded to whole lanes; the padding is zero and stays zero. `x`, what the next matrix
product takes, is float32 or bf16 by its array's type. A norm or bias that a model hasn't is an empty array.
"""

from typing import Any

import numpy as np

from twophase.kernels.compiling import kernel
from twophase.kernels.gathering import gather_row
from twophase.kernels.lanes import (
    LANES,
    add,
    div,
    exp,
    fma,
    keep,
    load,
    maximum,
    mul,
    splat,
    store,
    sub,
    total,
)
from twophase.kernels.threads import SHARED_OUT, share_out

# As `activate` numbers them.
ACTIVATIONS = {"silu": 0, "gelu_tanh": 1, "relu": 2, "relu2": 3}


@kernel
def embed_rows(
    first: int, last: int, table: Any, scales: Any, ids: Any, scale: Any, learned: Any, positions: Any, h: Any
) -> None:
    width, flat = h.shape[1], h.reshape(h.size)
    for row in range(first, last):
        at = row * width
        gather_row(table, scales, ids[row], width, flat, at)
        for i in range(0, width, LANES):
            value = mul(load(h, at + i), splat(scale))
            if learned.size:
                value = add(value, load(learned, positions[row] * width + i))
            store(h, at + i, value)


@kernel
def embed(
    table: Any, scales: Any, ids: Any, scale: Any, learned: Any, positions: Any, h: Any, threads: int
) -> None:
    """h[row] = scale · the table's row ids[row], plus the row of `learned` positions where there are any.

    table, scales: in panels, as a head is; learned: float32 [positions, width], flat.
    """
    threads = threads if h.size >= SHARED_OUT else 1
    share_out(embed_rows, ids.size, threads, (table, scales, ids, scale, learned, positions, h))


@kernel
def norm_scale(h: Any, at: int, width: int, real_width: int, eps: Any) -> Any:
    """1 / sqrt(mean of squares + eps) of h[at : at + width]; real_width leaves padding out of the mean."""
    squares = splat(np.float32(0))
    for i in range(at, at + width, LANES):
        value = load(h, i)
        squares = fma(value, value, squares)
    return np.float32(1) / np.sqrt(total(squares) / np.float32(real_width) + eps)


@kernel
def mean_and_scale(h: Any, at: int, width: int, real_width: int, eps: Any) -> Any:
    """A layer norm's mean, and 1 / sqrt(variance + eps)."""
    sums, squares = splat(np.float32(0)), splat(np.float32(0))
    for i in range(at, at + width, LANES):
        sums = add(sums, load(h, i))
    mean = total(sums) / np.float32(real_width)
    for i in range(0, width, LANES):
        value = keep(sub(load(h, at + i), splat(mean)), 0, real_width - 1 - i, splat(np.float32(0)))
        squares = fma(value, value, squares)
    return mean, np.float32(1) / np.sqrt(total(squares) / np.float32(real_width) + eps)


@kernel
def norm_row(
    h: Any, at: int, real_width: int, eps: Any, centred: bool, weight: Any, bias: Any, out: Any, more: Any
) -> None:
    """out = norm of h's row at `at`, or h itself without a norm; with `more`, out += more · that."""
    width = h.shape[1]
    mean, scale = np.float32(0), np.float32(1)
    if weight.size:
        if centred:
            mean, scale = mean_and_scale(h, at, width, real_width, eps)
        else:
            scale = norm_scale(h, at, width, real_width, eps)
    for i in range(0, width, LANES):
        value = load(h, at + i)
        if weight.size:
            value = mul(mul(sub(value, splat(mean)), splat(scale)), load(weight, i))
            if bias.size:
                value = add(value, load(bias, i))
        if more != 0:
            value = add(load(out, at + i), mul(value, splat(more)))
        store(out, at + i, value)


@kernel
def norm_rows(
    first: int, last: int, h: Any, weight: Any, bias: Any, real_width: int, eps: Any, centred: bool, x: Any
) -> None:
    for row in range(first, last):
        norm_row(h, row * h.shape[1], real_width, eps, centred, weight, bias, x, np.float32(0))


@kernel
def norm(
    h: Any, weight: Any, bias: Any, real_width: int, eps: Any, centred: bool, x: Any, threads: int
) -> None:
    """x = norm of h, row by row: RMS, or a layer norm where `centred`; h itself where weight is empty."""
    threads = threads if h.size >= SHARED_OUT else 1
    share_out(norm_rows, len(h), threads, (h, weight, bias, real_width, eps, centred, x))


@kernel
def add_norm_rows(
    first: int, last: int, h: Any, y: Any, scale: Any, post_weight: Any, post_bias: Any, weight: Any,
    bias: Any, real_width: int, eps: Any, centred: bool, x: Any,
) -> None:  # fmt: skip
    for row in range(first, last):
        at = row * h.shape[1]
        norm_row(y, at, real_width, eps, centred, post_weight, post_bias, h, scale)
        norm_row(h, at, real_width, eps, centred, weight, bias, x, np.float32(0))


@kernel
def add_norm(
    h: Any, y: Any, scale: Any, post_weight: Any, post_bias: Any, weight: Any, bias: Any, real_width: int,
    eps: Any, centred: bool, x: Any, threads: int,
) -> None:  # fmt: skip
    """h += scale · y, or its norm where post_weight is given; then x = norm of h, as `norm` does."""
    threads = threads if h.size >= SHARED_OUT else 1
    own = (h, y, scale, post_weight, post_bias, weight, bias, real_width, eps, centred, x)
    share_out(add_norm_rows, len(h), threads, own)


@kernel
def norm_wide_rows(
    first: int, last: int, qkv: Any, heads: int, kv_heads: int, head_dim: int, q_norm: Any, k_norm: Any,
    eps: Any,
) -> None:  # fmt: skip
    stride = qkv.shape[1]
    width = stride // (heads + 2 * kv_heads)
    for row in range(first, last):
        for part in range(2):
            at, count, weight = row * stride, heads, q_norm
            if part:
                at, count, weight = at + heads * width, kv_heads, k_norm
            scale = splat(norm_scale(qkv, at, count * width, count * head_dim, eps))
            for i in range(0, count * width, LANES):
                store(qkv, at + i, mul(mul(load(qkv, at + i), scale), load(weight, i)))


@kernel
def norm_wide(
    qkv: Any, heads: int, kv_heads: int, head_dim: int, q_norm: Any, k_norm: Any, eps: Any, threads: int
) -> None:
    """RMS norm of all heads' queries together, and of all heads' keys, in place.

    qkv: [rows, (heads + 2·kv_heads)·width]; the norms: [heads·width] and [kv_heads·width].
    """
    threads = threads if qkv.size >= SHARED_OUT else 1
    share_out(norm_wide_rows, len(qkv), threads, (qkv, heads, kv_heads, head_dim, q_norm, k_norm, eps))


@kernel
def activate_row(y: Any, at: int, kind: int, gated: bool, x: Any, row: int) -> None:
    width = x.shape[1]
    nothing, one = splat(np.float32(0)), splat(np.float32(1))
    cubic, slope = splat(np.float32(0.044715)), splat(np.float32(2 * 0.7978845608028654))
    for i in range(0, width, LANES):
        gate = load(y, at + i)
        if kind == 0:
            active = div(gate, add(one, exp(sub(nothing, gate))))
        elif kind == 1:  # g/2 · (1 + tanh u) = g · (1 - 1 / (1 + e^2u))
            u = mul(slope, fma(mul(mul(gate, gate), gate), cubic, gate))
            active = mul(gate, sub(one, div(one, add(one, exp(u)))))
        else:
            active = maximum(gate, nothing)
            if kind == 3:
                active = mul(active, active)
        if gated:
            active = mul(active, load(y, at + width + i))
        store(x, row * width + i, active)


@kernel
def activate_rows(first: int, last: int, y: Any, kind: int, gated: bool, x: Any) -> None:
    for row in range(first, last):
        activate_row(y, row * y.shape[1], kind, gated, x, row)


@kernel
def activate(y: Any, kind: int, gated: bool, x: Any, threads: int) -> None:
    """x = activation(gate) · up, where y holds gate and up side by side; not gated, activation(y).

    kind: one of ACTIVATIONS; gelu_tanh is GELU's tanh form, relu2 the square of ReLU.
    """
    share_out(activate_rows, len(x), threads if x.size >= SHARED_OUT else 1, (y, kind, gated, x))


@kernel
def finish_lanes(first: int, last: int, logits: Any, scale: Any, cap: Any) -> None:
    one, two = splat(np.float32(1)), splat(np.float32(2))
    for i in range(first * LANES, last * LANES, LANES):
        value = mul(load(logits, i), splat(scale))
        if cap != 0:  # tanh u = 1 - 2 / (1 + e^2u)
            u = mul(value, splat(np.float32(2) / cap))
            value = mul(sub(one, div(two, add(one, exp(u)))), splat(cap))
        store(logits, i, value)


@kernel
def finish_logits(logits: Any, scale: Any, cap: Any, threads: int) -> None:
    """logits ·= scale, and then cap · tanh(logits / cap) where cap is not 0. [rows, whole lanes]."""
    share_out(finish_lanes, logits.size // LANES, threads, (logits, scale, cap))
