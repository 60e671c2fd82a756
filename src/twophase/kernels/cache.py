"""Rotary positions and the KV cache's layout: blocks of 16 tokens, each a panel that attention reads as it
reads weights.

For each KV head of a block, keys and then values, `width` being head_dim padded to whole lanes, and g what
lies side by side in a word: 1 float32, 2 bf16 or 4 int8:

    keys    [width/g][16 tokens][g]
    values  [width/16][16/g][16 dims][g tokens]

An int8 key or value of a token and head has one scale, which holds 2^-24 too: q stands in its word's top bits
(operands.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import (
    LANES,
    fma,
    largest,
    load,
    maximum,
    mul,
    splat,
    store,
    sub,
    total,
)
from twophase.kernels.operands import k_of_a_word
from twophase.kernels.rows import norm_scale
from twophase.kernels.threads import SHARED_OUT, share_out

BLOCK_SIZE = LANES  # tokens of a KV block: one panel
INT8_UNIT = np.float32(2.0**-24)


class KVArrays(NamedTuple):
    """One layer's cache, flat: [blocks, kv_heads, width · 16], scales [blocks, kv_heads, 16]."""

    k: NDArray[Any]
    v: NDArray[Any]
    k_scales: NDArray[Any]  # empty for bf16 and float32
    v_scales: NDArray[Any]


@kernel
def rotate(y: Any, at: int, cosines: Any, sines: Any, position: int) -> None:
    """Rotary embedding of one head's first dimensions, halves against each other; the others stay."""
    half = cosines.shape[1]
    for i in range(half):
        first, second = y[at + i], y[at + half + i]
        y[at + i] = first * cosines[position, i] - second * sines[position, i]
        y[at + half + i] = second * cosines[position, i] + first * sines[position, i]


@kernel
def to_int8(y: Any, at: int, width: int, row: Any) -> Any:
    """row = y[at : at + width] in steps of a 127th of its largest; the step."""
    most, spoilt = splat(np.float32(0)), splat(np.float32(0))
    for i in range(at, at + width, LANES):
        value = load(y, i)
        most = maximum(most, maximum(value, sub(splat(np.float32(0)), value)))
        spoilt = fma(value, splat(np.float32(0)), spoilt)  # NaN where a value is not finite
    top = largest(most)
    steps = np.float32(127) / top if top > 0 else np.float32(0)
    for i in range(width):
        row[i] = np.int8(np.rint(y[at + i] * steps))
    return top / np.float32(127) + total(spoilt)


@kernel
def narrow_row(y: Any, at: int, width: int, row: Any, scales: Any, scale_at: int) -> None:
    """row = y[at : at + width] in the cache's format."""
    if row.itemsize == 1:
        scales[scale_at] = to_int8(y, at, width, row) * INT8_UNIT
    else:
        for i in range(0, width, LANES):
            store(row, i, load(y, at + i))


@kernel
def write_kv(
    kv: Any, block: int, slot: int, y: Any, k_at: int, v_at: int, width: int, k_row: Any, v_row: Any
) -> None:
    """One token's key and value of one head into its block; `block` counts heads of blocks."""
    k, v, k_scales, v_scales = kv
    narrow_row(y, k_at, width, k_row, k_scales, block * BLOCK_SIZE + slot)
    narrow_row(y, v_at, width, v_row, v_scales, block * BLOCK_SIZE + slot)
    base, g = block * width * BLOCK_SIZE, k_of_a_word(k)
    for word in range(width // g):
        at = base + (word * BLOCK_SIZE + slot) * g
        for i in range(g):
            k[at + i] = k_row[word * g + i]
    for strip in range(0, width, LANES):
        at = base + strip * BLOCK_SIZE + slot // g * LANES * g + slot % g
        for i in range(LANES):
            v[at + i * g] = v_row[strip + i]


@kernel
def position_row(
    y: Any, at: int, heads: int, kv_heads: int, width: int, head_dim: int, q_norm: Any, k_norm: Any, eps: Any,
    cosines: Any, sines: Any, position: int, slot: int, kv: Any, k_row: Any, v_row: Any,
) -> None:  # fmt: skip
    for head in range(heads + kv_heads):
        head_at = at + head * width
        weight = q_norm if head < heads else k_norm
        if weight.size:
            scale = splat(norm_scale(y, head_at, width, head_dim, eps))
            for i in range(0, width, LANES):
                store(y, head_at + i, mul(mul(load(y, head_at + i), scale), load(weight, i)))
        rotate(y, head_at, cosines, sines, position)
    for head in range(kv_heads):
        block = slot // BLOCK_SIZE * kv_heads + head
        k_at = at + (heads + head) * width
        write_kv(kv, block, slot % BLOCK_SIZE, y, k_at, k_at + kv_heads * width, width, k_row, v_row)


@kernel
def clear_begun_blocks(slots: Any, block_elements: int, block_scales: int, kv: Any) -> None:
    """Clear the blocks whose first token is written: nothing of an earlier owner may reach a masked lane."""
    k, v, k_scales, v_scales = kv
    for row in range(slots.size):
        if slots[row] % BLOCK_SIZE == 0:
            block = slots[row] // BLOCK_SIZE
            for i in range(block * block_elements, (block + 1) * block_elements):
                k[i] = 0
                v[i] = 0
            if k_scales.size:
                for i in range(block * block_scales, (block + 1) * block_scales):
                    k_scales[i] = 0
                    v_scales[i] = 0


@kernel
def position_rows(
    first: int, last: int, qkv: Any, heads: int, kv_heads: int, head_dim: int, q_norm: Any, k_norm: Any,
    eps: Any, cosines: Any, sines: Any, positions: Any, slots: Any, kv: Any,
) -> None:  # fmt: skip
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    y = qkv.reshape(qkv.size)
    k_row, v_row = np.empty(width, kv.k.dtype), np.empty(width, kv.v.dtype)
    for row in range(first, last):
        position_row(
            y, row * qkv.shape[1], heads, kv_heads, width, head_dim, q_norm, k_norm, eps, cosines, sines,
            positions[row], slots[row], kv, k_row, v_row,
        )  # fmt: skip


@kernel
def position_and_cache(
    qkv: Any, heads: int, kv_heads: int, head_dim: int, q_norm: Any, k_norm: Any, eps: Any, cosines: Any,
    sines: Any, positions: Any, slots: Any, kv: Any, threads: int,
) -> None:  # fmt: skip
    """Norm and rotate queries and keys in place, and write keys and values to their KV blocks.

    qkv: [rows, (heads + 2·kv_heads)·width], heads padded to `width`; q_norm, k_norm: [width], or empty;
    cosines, sines: [positions, half of what is rotated], no columns for no rotation; positions: [rows];
    slots: [rows], each row's block · 16 + place in it; kv: KVArrays.
    """
    width = qkv.shape[1] // (heads + 2 * kv_heads)
    clear_begun_blocks(slots, kv_heads * width * BLOCK_SIZE, kv_heads * BLOCK_SIZE, kv)
    threads = threads if qkv.size >= SHARED_OUT else 1
    own = (qkv, heads, kv_heads, head_dim, q_norm, k_norm, eps, cosines, sines, positions, slots, kv)
    share_out(position_rows, positions.size, threads, own)
