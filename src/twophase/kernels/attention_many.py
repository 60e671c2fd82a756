"""Many query rows against a group of keys: its pages are widened once into panels that stay in the
second-level cache, and each panel stays in the first while all rows pass it."""

from typing import Any

import numpy as np

from twophase.kernels.attention_few import PAGES, copy_scales
from twophase.kernels.attention_tasks import GROUP
from twophase.kernels.cache import BLOCK_SIZE
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES
from twophase.kernels.operands import k_of_a_word
from twophase.kernels.pages import (
    address,
    page_tile,
    prefetch,
    rows_of_a_page,
    rows_of_two_pages,
    widen_word,
)
from twophase.kernels.softmax import SUM, merge_state, merge_values, weigh
from twophase.kernels.tile import PANELS

STRIP = LANES * BLOCK_SIZE  # elements of 16 dims of a page of values
STATE_OLD, STATE_NEW = 2, 3  # columns of a group's state: factors of its merge


@kernel
def widen_pages(
    k: Any, v: Any, table: Any, kv_heads: int, head: int, width: int, first: int, last: int, newest: int,
    keys: Any, values: Any,
) -> None:  # fmt: skip
    """Pages first..last of a group: keys [pages][width][16], values [width/16][128 tokens][16 dims]."""
    size, word = width * BLOCK_SIZE, LANES * k_of_a_word(k)
    for block in range(first, last + 1):
        at, place = (table[block] * kv_heads + head) * size, block % PAGES
        near = (table[min(block + 1, newest)] * kv_heads + head) * size
        for d in range(0, width, LANES):
            for i in range(d * BLOCK_SIZE, d * BLOCK_SIZE + STRIP, word):
                prefetch(address(k, near + i))
                prefetch(address(v, near + i))
                widen_word(k, at + i, keys, place * size + i)
                widen_word(v, at + i, values, d * GROUP + place * STRIP + i - d * BLOCK_SIZE)


@kernel
def cut_rows(rows: int, share: int, most: int, oldest: int, newest: int, tiles: Any) -> Any:
    """tiles [n, 4] of (first row, rows, first page, last page), and n, for rows whose first sees tokens
    oldest..newest of the group; the last page is below the first where a tile sees none."""
    count = -(-rows // most)
    for i in range(count):
        row, end = rows * i // count, rows * (i + 1) // count
        first, last = max(oldest + row // share, 0), min(newest + (end - 1) // share, GROUP - 1)
        tiles[i, 0], tiles[i, 1] = row, end - row
        tiles[i, 2], tiles[i, 3] = first // BLOCK_SIZE, last // BLOCK_SIZE if first <= last else -1
    return count


@kernel
def attend_many(
    q: Any, rows: int, share: int, width: int, position: int, window: int, softcap: Any, k: Any, v: Any,
    k_pool_scales: Any, v_pool_scales: Any, table: Any, kv_heads: int, head: int, first_group: int,
    last_group: int, scores: Any, weights: Any, k_scales: Any, v_scales: Any, keys: Any, values: Any,
    part: Any, part_state: Any, out: Any, state: Any,
) -> None:  # fmt: skip
    """Query rows of one span and KV head, from the token at `position` on, against groups of keys."""
    most = rows_of_two_pages(keys, q) if PANELS == 2 else rows_of_a_page(keys, q)
    page, strip = width * BLOCK_SIZE * keys.itemsize, GROUP * LANES * values.itemsize
    key, value = address(keys, 0), address(values, 0)
    x_row = GROUP * 4 // weights.itemsize  # the weights lie where the scores did
    tiles = np.empty((-(-rows // most), 4), np.int64)
    newest = position + (rows - 1) // share
    for group in range(first_group, last_group + 1):
        start = group * GROUP
        b0 = max(start, position - window + 1) // BLOCK_SIZE
        b1 = min(start + GROUP - 1, newest) // BLOCK_SIZE
        seen = (position - window + 1 - start, position - start)
        n = cut_rows(rows, share, most, seen[0], seen[1], tiles)
        widen_pages(k, v, table, kv_heads, head, width, b0, b1, newest // BLOCK_SIZE, keys, values)
        if k_scales.size:
            for pool, scales in ((k_pool_scales, k_scales), (v_pool_scales, v_scales)):
                copy_scales(pool, table, kv_heads, head, 1, b0, b1, newest // BLOCK_SIZE, scales)

        for p in range(b0 % PAGES // PANELS * PANELS, b1 % PAGES + 1, PANELS):
            for i in range(n):
                row, count, first, last = tiles[i, 0], tiles[i, 1], tiles[i, 2], tiles[i, 3]
                if first < p + PANELS and p <= last:
                    y_at = row * GROUP + p * BLOCK_SIZE
                    if PANELS == 2:
                        two = (key + p * page, key + (p + 1) * page)
                        page_tile(count, width, keys, two, (), q, row * width, width, scores, y_at, GROUP, 0)
                    else:
                        one = (key + p * page,)
                        page_tile(count, width, keys, one, (), q, row * width, width, scores, y_at, GROUP, 0)

        for i in range(n):
            row, count, first, last = tiles[i, 0], tiles[i, 1], tiles[i, 2], tiles[i, 3]
            for r in range(row, row + count):
                part_state[r, SUM] = 0
                if first <= last:
                    oldest, token = max(seen[0] + r // share, 0), seen[1] + r // share
                    weigh(
                        scores, r * GROUP, oldest, token, first * BLOCK_SIZE, (last + 1) * BLOCK_SIZE,
                        softcap, k_scales, v_scales, 0, weights, r * x_row, part_state, r,
                    )  # fmt: skip
                if part_state[r, SUM] != 0:  # NaN goes on to the logits
                    part_state[r, STATE_OLD], part_state[r, STATE_NEW] = merge_state(state, r, part_state, r)

        for d in range(0, width, PANELS * LANES):
            side = min(PANELS, (width - d) // LANES)
            for i in range(n):
                row, count, first, last = tiles[i, 0], tiles[i, 1], tiles[i, 2], tiles[i, 3]
                if last < first:
                    continue
                at = value + (d * GROUP + first * STRIP) * values.itemsize
                x_at = row * x_row + first * BLOCK_SIZE
                tokens = (last + 1 - first) * BLOCK_SIZE
                if PANELS == 2 and side == 2:
                    page_tile(
                        count, tokens, values, (at, at + strip), (), weights, x_at, x_row, part, 0,
                        PANELS * LANES, 0,
                    )  # fmt: skip
                else:
                    page_tile(
                        count, tokens, values, (at,), (), weights, x_at, x_row, part, 0, PANELS * LANES, 0
                    )
                for r in range(count):
                    if part_state[row + r, SUM] != 0:
                        merge_values(
                            out, (row + r) * width + d, part, r * PANELS * LANES, side * LANES,
                            part_state[row + r, STATE_OLD], part_state[row + r, STATE_NEW],
                        )  # fmt: skip
