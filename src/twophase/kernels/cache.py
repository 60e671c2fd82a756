"""Rotary positions and the KV cache's layout: blocks of 16 tokens, each a panel that attention reads as it
reads weights.

For each KV head of a block, keys and then values, `width` being head_dim padded to whole lanes:

    keys    bf16: [width/2][16 tokens][2]        float32: [width][16 tokens]
    values  bf16: [width/16][8][16 dims][2]      float32: [width/16][16 tokens][16 dims]
"""

from typing import Any, NamedTuple

from numba import prange
from numpy.typing import NDArray

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, mul, put, splat, store
from twophase.kernels.rows import norm_scale

BLOCK_SIZE = LANES  # tokens of a KV block: one panel


class KVArrays(NamedTuple):
    """One layer's cache, flat: [blocks, kv_heads, width · 16], scales [blocks, kv_heads, 16]."""

    k: NDArray[Any]
    v: NDArray[Any]
    k_scales: NDArray[Any]  # empty for bf16 and float32
    v_scales: NDArray[Any]


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
    kv: Any,
    threads: int,
) -> None:
    """Norm and rotate queries and keys in place, and write keys and values to their KV blocks.

    qkv: [rows, (heads + 2·kv_heads)·width], heads padded to `width`; positions: [rows]; slots: [rows], each
    row's block · 16 + place in it.
    """
    rows, k_pool, v_pool = positions.size, kv.k, kv.v
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    y = qkv.reshape(qkv.size)
    clear_begun_blocks(slots, kv_heads * width * BLOCK_SIZE, k_pool, v_pool)
    for thread in prange(threads):
        for row in range(rows * thread // threads, rows * (thread + 1) // threads):
            position_row(
                y, row * qkv.shape[1], heads, kv_heads, width, head_dim, q_norm, k_norm, eps, cosines, sines,
                positions[row], slots[row], k_pool, v_pool,
            )  # fmt: skip
