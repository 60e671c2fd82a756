"""Attention of any mix of spans over paged KV: never a square matrix, the same bits however rows are batched.

A query row passes its keys in groups of 128 tokens at fixed places in its sequence. Each group gives a
maximum, a sum of exponentials and a weighted sum of values of its own, which are merged into the row's
running result in order (online softmax, Milakov and Gimelshein 2018). So a row's result depends on its own
tokens only: not on the chunk it was prefilled in, nor on who else is in the pass, nor on which threads took
which groups.

The heads that share a KV head are rows like any other: query row r of a span is token r // share.
"""

from typing import Any

import numpy as np

from twophase.kernels.attention_few import NEAR, PAGES, attend_few
from twophase.kernels.attention_many import attend_many
from twophase.kernels.attention_tasks import (
    FIRST,
    GROUP,
    HEAD,
    HEADS,
    ITEM,
    LAST,
    MANY_ROWS,
    MOST_ROWS,
    PIECES,
    POSITION,
    ROW,
    SLOT,
    SPAN,
    TOKENS,
    groups_of,
    plan_tasks,
)
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, mul, next_task, splat, store
from twophase.kernels.pages import arrive
from twophase.kernels.softmax import MAX, NEVER, SUM, merge
from twophase.kernels.threads import share_out
from twophase.kernels.tile import PANELS

QUERY_ROWS = 128  # rows that pass a group of keys while it is in cache


@kernel
def take_rows(
    y: Any, y_row: int, first_row: int, rows: int, share: int, head: int, heads: int, width: int, scale: Any,
    q: Any, out: Any, state: Any,
) -> None:  # fmt: skip
    """q [heads, rows, width], scaled, of the query heads that share each KV head; a result of nothing."""
    for row in range(heads * rows):
        h, r = head + row // rows, row % rows
        at = (first_row + r // share) * y_row + (h * share + r % share) * width
        for i in range(0, width, LANES):
            store(q, row * width + i, mul(load(y, at + i), splat(scale)))
            store(out, row * width + i, splat(np.float32(0)))
        state[row, MAX], state[row, SUM] = NEVER, 0


@kernel
def leave_rows(
    out: Any, state: Any, rows: int, share: int, head: int, heads: int, width: int, x: Any, x_row: int,
    first_row: int,
) -> None:  # fmt: skip
    for row in range(heads * rows):
        h, r = head + row // rows, row % rows
        at = (first_row + r // share) * x_row + (h * share + r % share) * width
        factor = splat(np.float32(1) / state[row, SUM])
        for i in range(0, width, LANES):
            store(x, at + i, mul(load(out, row * width + i), factor))


@kernel
def attend_tasks(
    _: int, __: int, counter: Any, tasks: Any, most_rows: int, qkv: Any, heads: int, kv_heads: int,
    scale: Any, window: int, softcap: Any, items: Any, tables: Any, k: Any, v: Any, k_pool_scales: Any,
    v_pool_scales: Any, parts: Any, part_states: Any, arrived: Any, x: Any,
) -> None:  # fmt: skip
    """Take tasks until none is left: an item's rows of some KV heads, with all groups of keys or with some of
    them; and then, as the last to arrive, merge the parts of all."""
    width, share = qkv.shape[1] // (heads + 2 * kv_heads), heads // kv_heads
    y, z = qkv.reshape(qkv.size), x.reshape(x.size)
    q = np.empty(most_rows * width, x.dtype)
    out, state = np.empty(most_rows * width, np.float32), np.empty((most_rows, 2), np.float32)
    scores = np.empty(most_rows * GROUP, np.float32)
    weights = scores.view(x.dtype)
    group_size = width * GROUP if most_rows >= MANY_ROWS else 0
    keys, values = np.empty(group_size, x.dtype), np.empty(group_size, x.dtype)
    scale_size = kv_heads * GROUP if k_pool_scales.size else 0
    k_scales, v_scales = np.empty(scale_size, np.float32), np.empty(scale_size, np.float32)
    part = np.empty(max(MOST_ROWS * width, MANY_ROWS * LANES * PANELS), np.float32)
    part_state = np.empty((most_rows, 4), np.float32)
    visits = np.empty(2 * PAGES + NEAR, np.int64)
    t = next_task(counter)
    while t < len(tasks):
        item, head, some, slot = tasks[t, ITEM], tasks[t, HEAD], tasks[t, HEADS], tasks[t, SLOT]
        first_group, last_group, pieces = tasks[t, FIRST], tasks[t, LAST], tasks[t, PIECES]
        row, tokens, position = items[item, ROW], items[item, TOKENS], items[item, POSITION]
        rows, table = tokens * share, tables[items[item, SPAN]]
        take_rows(y, qkv.shape[1], row, rows, share, head, some, width, scale, q, out, state)
        t = next_task(counter)
        if rows >= MANY_ROWS:
            attend_many(
                q, rows, share, width, position, window, softcap, k, v, k_pool_scales, v_pool_scales, table,
                kv_heads, head, first_group, last_group, scores, weights, k_scales, v_scales, keys, values,
                part, part_state, out, state,
            )  # fmt: skip
        else:
            begin, end = groups_of(position, tokens, window)
            groups = end + 1 - begin
            base, part_rows = (
                (0, rows) if pieces == 1 else (slot + (first_group - begin) * rows, groups * rows)
            )
            own, own_state = (part, part_state) if pieces == 1 else (parts, part_states)
            attend_few(
                q, some, rows, share, width, position, window, softcap, k, v, k_pool_scales, v_pool_scales,
                table, kv_heads, head, first_group, last_group, pieces == 1, scores, weights, k_scales,
                v_scales, visits, own, own_state, base, part_rows, out, state,
            )  # fmt: skip
            if pieces > 1:
                if arrive(arrived, item * kv_heads + head) + 1 < pieces:
                    continue
                for i in range(some * groups * rows):
                    of = i // (groups * rows) * rows + i % rows
                    merge(state, out, of, part_states, parts, slot + i, width)
        leave_rows(out, state, rows, share, head, some, width, z, x.shape[1], row)


@kernel
def shared_parts(slots: int, width: int) -> Any:
    return np.empty(slots * width, np.float32), np.empty((slots, 4), np.float32)


@kernel
def attend(
    qkv: Any, heads: int, kv_heads: int, scale: Any, window: int, softcap: Any, items: Any, tables: Any,
    kv: Any, x: Any, threads: int,
) -> None:  # fmt: skip
    """x = attention of every query row, heads side by side.

    qkv: float32 [rows, (heads + 2·kv_heads)·width], positioned; window: tokens that a row sees, itself
    included; softcap: 0 for none; items: [n, 4] of (span, its first token's row, tokens, position of the
    first), with at most max(1, QUERY_ROWS · kv_heads // heads) tokens; tables: [spans, blocks]; kv: KVArrays;
    x: [rows, heads·width].
    """
    counter, arrived = np.zeros(1, np.int64), np.zeros(len(items) * kv_heads, np.int64)
    tasks, most_rows, slots = plan_tasks(items, heads, kv_heads, window, threads)
    parts, part_states = shared_parts(slots, qkv.shape[1] // (heads + 2 * kv_heads))
    k, v, k_scales, v_scales = kv.k, kv.v, kv.k_scales, kv.v_scales
    asked = (counter, tasks, most_rows, qkv, heads, kv_heads, scale, window, softcap, items, tables)
    share_out(
        attend_tasks, threads, threads, (*asked, k, v, k_scales, v_scales, parts, part_states, arrived, x)
    )
