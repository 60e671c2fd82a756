"""Attention of any mix of spans over paged KV: never a square matrix, the same bits however rows are batched.

A query row passes its keys in groups of 128 tokens at fixed places in its sequence. Each group gives a
maximum, exponentials and a weighted sum of values of its own, merged into the row's running result in order
(online softmax, Milakov and Gimelshein 2018). So a row's result depends on its own tokens only: not on the
chunk it was prefilled in, nor on who else is in the pass.

The heads that share a KV head are rows like any other: query row r of a span is token r // share.
"""

from typing import Any

import numpy as np
from numba import prange

from twophase.kernels.cache import BLOCK_SIZE
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import (
    LANES,
    add,
    exp,
    fma,
    keep,
    largest,
    load,
    maximum,
    mul,
    next_task,
    splat,
    store,
    sub,
    total,
)
from twophase.kernels.tile import max_rows, tile

GROUP = 128  # tokens that share one maximum
QUERY_ROWS = 128  # rows that pass a group of keys while it is in cache
MANY_ROWS = 16  # from here on a group's values are gathered first, so that tiles sum over the whole group
NEVER = np.float32(-1e30)
MAX, SUM, GROUP_MAX, GROUP_SUM = 0, 1, 2, 3  # columns of a row's running state


@kernel()
def weigh(scores: Any, at: int, first: int, last: int, end: int, weights: Any, state: Any, row: int) -> None:
    """weights = exp(scores - their max) for tokens first..last of a group, 0 for the others up to `end`."""
    never, nothing = splat(NEVER), splat(np.float32(0))
    best = never
    for i in range(0, end, LANES):
        best = maximum(best, keep(load(scores, at + i), first - i, last - i, never))
    top = largest(best)
    sums = nothing
    for i in range(0, end, LANES):
        raised = keep(exp(sub(load(scores, at + i), splat(top))), first - i, last - i, nothing)
        sums = add(sums, raised)
        store(weights, at + i, raised)
    state[row, GROUP_MAX], state[row, GROUP_SUM] = top, total(sums)


@kernel()
def merge(part: Any, out: Any, at: int, width: int, state: Any, row: int) -> None:
    """Merge a group's maximum, sum and weighted values into the row's running ones."""
    best = max(state[row, MAX], state[row, GROUP_MAX])
    old, new = exp(splat(state[row, MAX] - best)), exp(splat(state[row, GROUP_MAX] - best))
    for i in range(at, at + width, LANES):
        store(out, i, fma(load(out, i), old, mul(load(part, i), new)))
    state[row, MAX] = best
    state[row, SUM] = largest(old) * state[row, SUM] + largest(new) * state[row, GROUP_SUM]


@kernel()
def gather_values(v_pool: Any, blocks: Any, kv_heads: int, head: int, width: int, values: Any) -> None:
    """values [width/16][128 tokens][16] from the blocks of a group; a panel's tokens become contiguous."""
    panel = LANES * BLOCK_SIZE
    for block in range(blocks.size):
        source = (blocks[block] * kv_heads + head) * width * BLOCK_SIZE
        for d in range(width // LANES):
            target = d * LANES * GROUP + block * panel
            for i in range(panel):
                values[target + i] = v_pool[source + d * panel + i]


@kernel()
def score(
    q: Any, q_at: int, rows: int, width: int, k_pool: Any, blocks: Any, kv_heads: int, head: int, first: int,
    newest: int, scores: Any,
) -> None:  # fmt: skip
    """scores [rows, 128] of a tile of rows against blocks first..newest of a group."""
    for block in range(first, newest + 1):
        at = (blocks[block] * kv_heads + head) * width * BLOCK_SIZE
        tile(rows, width, k_pool, (at,), q, q_at, width, scores, block * BLOCK_SIZE, GROUP, 0)


@kernel()
def sum_values(
    weights: Any, rows: int, width: int, v_pool: Any, blocks: Any, kv_heads: int, head: int, first: int,
    newest: int, part: Any, part_at: int,
) -> None:  # fmt: skip
    """part [rows, width] = weights [rows, 128] · values of blocks first..newest, block by block."""
    for d in range(0, width, LANES):
        for block in range(first, newest + 1):
            at = (blocks[block] * kv_heads + head) * width * BLOCK_SIZE + d * BLOCK_SIZE
            x_at, more = block * BLOCK_SIZE, 1 if block > first else 0
            tile(rows, BLOCK_SIZE, v_pool, (at,), weights, x_at, GROUP, part, part_at + d, width, more)


@kernel()
def sum_gathered(
    weights: Any, rows: int, width: int, values: Any, first: int, newest: int, part: Any, part_at: int
) -> None:
    """The same sums in the same order, from gathered values."""
    tokens = (newest + 1 - first) * BLOCK_SIZE
    for d in range(0, width, LANES):
        at = d * GROUP + first * LANES * BLOCK_SIZE
        tile(rows, tokens, values, (at,), weights, first * BLOCK_SIZE, GROUP, part, part_at + d, width, 0)


@kernel()
def attend_rows(
    q: Any,
    rows: int,
    share: int,
    width: int,
    position: int,
    window: int,
    k_pool: Any,
    v_pool: Any,
    table: Any,
    kv_heads: int,
    head: int,
    scores: Any,
    weights: Any,
    values: Any,
    part: Any,
    out: Any,
    state: Any,
) -> None:
    """Query rows of one span and KV head, from the token at `position` on, against all keys that they see."""
    most = max_rows(k_pool, q)
    for row in range(rows):
        state[row, MAX], state[row, SUM] = NEVER, 0
    for i in range(rows * width):
        out[i] = 0
    newest_of_all = position + (rows - 1) // share
    for start in range(max(0, position - window + 1) // GROUP * GROUP, newest_of_all + 1, GROUP):
        blocks = table[start // BLOCK_SIZE : min(start + GROUP, newest_of_all + BLOCK_SIZE) // BLOCK_SIZE]
        gathered = rows >= MANY_ROWS
        if gathered:
            gather_values(v_pool, blocks, kv_heads, head, width, values)
        tiles = (rows + most - 1) // most
        for i in range(tiles):
            row = rows * i // tiles
            count = rows * (i + 1) // tiles - row
            last = min(position + (row + count - 1) // share - start, GROUP - 1)
            first = max(position + row // share - window + 1 - start, 0)
            if last < 0 or first > last:
                continue
            b0, b1 = first // BLOCK_SIZE, last // BLOCK_SIZE
            at, end = row * width, (b1 + 1) * BLOCK_SIZE
            score(q, at, count, width, k_pool, blocks, kv_heads, head, b0, b1, scores)
            for r in range(count):
                token = position + (row + r) // share - start
                oldest = max(token - window + 1, 0)
                weigh(scores, r * GROUP, oldest, token, end, weights, state, row + r)
            if gathered:
                sum_gathered(weights, count, width, values, b0, b1, part, at)
            else:
                sum_values(weights, count, width, v_pool, blocks, kv_heads, head, b0, b1, part, at)
            for r in range(row, row + count):
                if state[r, GROUP_SUM] != 0:  # NaN goes on to the logits
                    merge(part, out, r * width, width, state, r)


@kernel()
def attend_tasks(
    counter: Any,
    qkv: Any,
    heads: int,
    kv_heads: int,
    scale: Any,
    window: int,
    items: Any,
    tables: Any,
    k_pool: Any,
    v_pool: Any,
    x: Any,
) -> None:
    """Take tasks until none is left; a task is an item's rows against one KV head."""
    width, share = qkv.shape[1] // (heads + 2 * kv_heads), heads // kv_heads
    y = qkv.reshape(qkv.size)
    room = max(QUERY_ROWS, share)
    q = np.empty(room * width, x.dtype)
    out, part = np.empty(room * width, np.float32), np.empty(room * width, np.float32)
    scores, weights = np.empty(16 * GROUP, np.float32), np.empty(16 * GROUP, x.dtype)
    values = np.empty(width * GROUP, v_pool.dtype)
    state = np.empty((room, 4), np.float32)
    task = next_task(counter)
    while task < items.shape[0] * kv_heads:
        item, head = task // kv_heads, task % kv_heads
        first_row, rows, position = items[item, 1], items[item, 2] * share, items[item, 3]
        for r in range(rows):
            at = (first_row + r // share) * qkv.shape[1] + (head * share + r % share) * width
            for i in range(0, width, LANES):
                store(q, r * width + i, mul(load(y, at + i), splat(scale)))
        attend_rows(
            q, rows, share, width, position, window, k_pool, v_pool, tables[items[item, 0]], kv_heads, head,
            scores, weights, values, part, out, state,
        )  # fmt: skip
        for r in range(rows):
            at = (first_row + r // share) * x.shape[1] + (head * share + r % share) * width
            whole = splat(np.float32(1) / state[r, SUM])
            for i in range(0, width, LANES):
                store(x, at + i, mul(load(out, r * width + i), whole))
        task = next_task(counter)


@kernel(parallel=True)
def attend(
    qkv: Any,
    heads: int,
    kv_heads: int,
    scale: Any,
    window: int,
    softcap: Any,
    items: Any,
    tables: Any,
    kv: Any,
    x: Any,
    threads: int,
) -> None:
    """x = attention of every query row, heads side by side.

    qkv: float32 [rows, (heads + 2·kv_heads)·width], positioned; window: tokens that a row sees, itself
    included; items: [n, 4] of (span, its first token's row, tokens, position of the first), with at most
    max(1, QUERY_ROWS · kv_heads // heads) tokens; tables: [spans, blocks]; x: [rows, heads·width].
    """
    counter, k_pool, v_pool = np.zeros(1, np.int64), kv.k, kv.v
    for _ in prange(threads):
        attend_tasks(counter, qkv, heads, kv_heads, scale, window, items, tables, k_pool, v_pool, x)
