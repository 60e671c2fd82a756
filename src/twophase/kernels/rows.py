"""What happens to rows between matrix products: embedding, norms, rotary positions, KV writes, activations.

Rows are float32 and padded to whole lanes; the padding is zero and stays zero. `x`, what the next matrix
product takes, is float32 or bf16 by its array's type.
"""

from typing import Any

import numpy as np
from numba import prange

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, add, div, exp, fma, get, load, mul, put, splat, store, sub, total

BLOCK_SIZE = LANES  # tokens of a KV block: one panel


@kernel(parallel=True)
def embed(table: Any, ids: Any, scale: Any, h: Any, threads: int) -> None:
    """h[row] = scale · the table's row ids[row]; the table is packed in panels, as a head is."""
    width = h.shape[1]
    pair = 1 if table.itemsize == 4 else 2
    for thread in prange(threads):
        for row in range(ids.size * thread // threads, ids.size * (thread + 1) // threads):
            panel, lane = ids[row] // LANES, ids[row] % LANES
            for i in range(width):
                at = panel * LANES * width + (i // pair) * LANES * pair + lane * pair + i % pair
                h[row, i] = get(table, at) * scale


@kernel()
def norm_scale(h: Any, at: int, width: int, real_width: int, eps: Any) -> Any:
    """1 / sqrt(mean of squares + eps) of h[at : at + width]; real_width leaves padding out of the mean."""
    squares = splat(np.float32(0))
    for i in range(at, at + width, LANES):
        value = load(h, i)
        squares = fma(value, value, squares)
    return np.float32(1) / np.sqrt(total(squares) / np.float32(real_width) + eps)


@kernel(parallel=True)
def norm(h: Any, weight: Any, real_width: int, eps: Any, x: Any, threads: int) -> None:
    """x = RMS norm of h, row by row."""
    rows, width = h.shape
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            at = row * width
            scale = splat(norm_scale(h, at, width, real_width, eps))
            for i in range(0, width, LANES):
                store(x, at + i, mul(mul(load(h, at + i), scale), load(weight, i)))


@kernel(parallel=True)
def add_norm(
    h: Any, y: Any, post_weight: Any, weight: Any, real_width: int, eps: Any, x: Any, threads: int
) -> None:
    """h += y, or its norm where post_weight is given; then x = RMS norm of h."""
    rows, width = h.shape
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            at = row * width
            if post_weight.size:
                scale = splat(norm_scale(y, at, width, real_width, eps))
                for i in range(0, width, LANES):
                    normed = mul(mul(load(y, at + i), scale), load(post_weight, i))
                    store(h, at + i, add(load(h, at + i), normed))
            else:
                for i in range(0, width, LANES):
                    store(h, at + i, add(load(h, at + i), load(y, at + i)))
            scale = splat(norm_scale(h, at, width, real_width, eps))
            for i in range(0, width, LANES):
                store(x, at + i, mul(mul(load(h, at + i), scale), load(weight, i)))


@kernel(parallel=True)
def activate(y: Any, gelu: bool, x: Any, threads: int) -> None:
    """x = activation(gate) · up, where y holds gate and up side by side; SiLU, or GELU's tanh form."""
    rows, width = x.shape
    one, two = splat(np.float32(1)), splat(np.float32(2))
    cubic, slope = splat(np.float32(0.044715)), splat(np.float32(2 * 0.7978845608028654))
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            for i in range(0, width, LANES):
                gate, up = load(y, row * 2 * width + i), load(y, row * 2 * width + width + i)
                if gelu:  # g/2 · (1 + tanh u) = g · (1 - 1 / (1 + e^2u))
                    u = mul(slope, fma(mul(mul(gate, gate), gate), cubic, gate))
                    active = mul(gate, sub(one, div(one, add(one, exp(u)))))
                else:
                    active = div(gate, add(one, exp(mul(gate, sub(one, two)))))
                store(x, row * width + i, mul(active, up))


@kernel()
def rotate(y: Any, at: int, half: int, cosines: Any, sines: Any, position: int) -> None:
    """Rotary embedding of one head, halves against each other."""
    for i in range(half):
        first, second = y[at + i], y[at + half + i]
        y[at + i] = first * cosines[position, i] - second * sines[position, i]
        y[at + half + i] = second * cosines[position, i] + first * sines[position, i]


@kernel()
def write_kv(
    k_pool: Any, v_pool: Any, block: int, slot: int, y: Any, k_at: int, v_at: int, width: int
) -> None:
    """One token's key and value of one head into its block; `block` counts heads of blocks.

    A block is a panel: keys [width/2][16][2] (float32: [width][16]), values [width/16][8][16][2]
    ([width/16][16][16]).
    """
    base = block * width * BLOCK_SIZE
    pair = 1 if k_pool.itemsize == 4 else 2
    for i in range(width):
        put(k_pool, base + (i // pair) * LANES * pair + slot * pair + i % pair, y[k_at + i])
        panel = base + (i // LANES) * LANES * BLOCK_SIZE
        put(v_pool, panel + (slot // pair) * LANES * pair + (i % LANES) * pair + slot % pair, y[v_at + i])


@kernel()
def position_row(
    y: Any,
    at: int,
    heads: int,
    kv_heads: int,
    width: int,
    head_dim: int,
    q_norm: Any,
    k_norm: Any,
    eps: Any,
    cosines: Any,
    sines: Any,
    position: int,
    slot: int,
    k_pool: Any,
    v_pool: Any,
) -> None:
    for head in range(heads + kv_heads):
        head_at = at + head * width
        weight = q_norm if head < heads else k_norm
        if weight.size:
            scale = splat(norm_scale(y, head_at, width, head_dim, eps))
            for i in range(0, width, LANES):
                store(y, head_at + i, mul(mul(load(y, head_at + i), scale), load(weight, i)))
        rotate(y, head_at, head_dim // 2, cosines, sines, position)
    for head in range(kv_heads):
        block = slot // BLOCK_SIZE * kv_heads + head
        k_at = at + (heads + head) * width
        write_kv(k_pool, v_pool, block, slot % BLOCK_SIZE, y, k_at, k_at + kv_heads * width, width)


@kernel()
def clear_begun_blocks(slots: Any, block_elements: int, k_pool: Any, v_pool: Any) -> None:
    """Clear the blocks whose first token is written: nothing of an earlier owner may reach a masked lane."""
    for row in range(slots.size):
        if slots[row] % BLOCK_SIZE == 0:
            at = slots[row] // BLOCK_SIZE * block_elements
            for i in range(at, at + block_elements):
                k_pool[i] = 0
                v_pool[i] = 0


@kernel(parallel=True)
def position_and_cache(
    qkv: Any,
    heads: int,
    kv_heads: int,
    head_dim: int,
    q_norm: Any,
    k_norm: Any,
    eps: Any,
    cosines: Any,
    sines: Any,
    positions: Any,
    slots: Any,
    k_pool: Any,
    v_pool: Any,
    threads: int,
) -> None:
    """Norm and rotate queries and keys in place, and write keys and values to their KV blocks.

    qkv: [rows, (heads + 2·kv_heads)·width], heads padded to `width`; positions: [rows]; slots: [rows], each
    row's block · 16 + place in it.
    """
    rows = positions.size
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    y = qkv.reshape(qkv.size)
    clear_begun_blocks(slots, kv_heads * width * BLOCK_SIZE, k_pool, v_pool)
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            position_row(
                y, row * qkv.shape[1], heads, kv_heads, width, head_dim, q_norm, k_norm, eps, cosines, sines,
                positions[row], slots[row], k_pool, v_pool,
            )  # fmt: skip
