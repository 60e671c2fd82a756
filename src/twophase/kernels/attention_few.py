"""A few query rows of several KV heads against pages where they lie, in the order in which they lie: the keys
of a block's heads, the next block's, so a group's values, then the next group's keys.

Single pages of 4 KiB come from memory at two thirds of the rate of long runs; the heads of a block are a run.
"""

from typing import Any

from twophase.kernels.attention_tasks import GROUP
from twophase.kernels.cache import BLOCK_SIZE
from twophase.kernels.compiling import kernel
from twophase.kernels.lanes import LANES, load, store
from twophase.kernels.pages import (
    PAGES_OF_ONE_ROW,
    address,
    page_tile,
    prefetch,
    rows_of_a_page,
    rows_of_two_pages,
)
from twophase.kernels.softmax import merge, weigh

PAGES = GROUP // BLOCK_SIZE  # of a group
NEAR = 4  # blocks beyond the last whose addresses are known, to prefetch them


@kernel
def list_visits(
    k: Any, v: Any, table: Any, kv_heads: int, head: int, page: int, first: int, last: int, newest: int,
    visits: Any,
) -> None:  # fmt: skip
    """visits: addresses of a head's keys in blocks first..last, of its values, and of keys that follow."""
    keys, values, count, size = address(k, 0), address(v, 0), last + 1 - first, page * k.itemsize
    for i in range(count):
        at = (table[first + i] * kv_heads + head) * size
        visits[i], visits[count + i] = keys + at, values + at
    for i in range(NEAR):
        following = table[min(last + 1 + i, newest)]
        visits[2 * count + i] = keys + (following * kv_heads + head) * size


@kernel
def score_pages(
    q: Any, heads: int, rows: int, width: int, k: Any, visits: Any, count: int, scores: Any, begin: int
) -> None:
    """scores [heads, rows, 128] of q [heads, rows, width] with `count` blocks of keys."""
    tiles, page = -(-rows // rows_of_a_page(k, q)), width * BLOCK_SIZE * k.itemsize
    i = 0
    while i < count:
        side = 1
        if rows == 1 and i + PAGES_OF_ONE_ROW <= count:
            side = PAGES_OF_ONE_ROW
        elif rows <= rows_of_two_pages(k, q) and i + 2 <= count:
            side = 2
        for head in range(heads):
            at, x = head * page, head * rows * width
            y = head * rows * GROUP + begin + i * BLOCK_SIZE
            w0, w1, w2, w3 = visits[i] + at, visits[i + 1] + at, visits[i + 2] + at, visits[i + 3] + at
            if side == PAGES_OF_ONE_ROW:
                near = (visits[i + 4] + at, visits[i + 5] + at, visits[i + 6] + at, visits[i + 7] + at)
                page_tile(1, width, k, (w0, w1, w2, w3), near, q, x, width, scores, y, GROUP, 0)
            elif side == 2:
                page_tile(rows, width, k, (w0, w1), (w2, w3), q, x, width, scores, y, GROUP, 0)
            else:
                for tile in range(tiles):
                    row, some = rows * tile // tiles, rows * (tile + 1) // tiles - rows * tile // tiles
                    x_some, y_some = x + row * width, y + row * GROUP
                    page_tile(some, width, k, (w0,), (w1,), q, x_some, width, scores, y_some, GROUP, 0)
        i += side


@kernel
def sum_page(
    weights: Any, x: int, x_row: int, rows: int, width: int, v: Any, at: int, near: int, part: Any, y: int,
    more: int,
) -> None:  # fmt: skip
    """part [rows, width] (+)= weights [rows, 16 tokens] · a page of values."""
    tiles = -(-rows // rows_of_a_page(v, weights))
    strip, strips = LANES * BLOCK_SIZE * v.itemsize, width // LANES
    d = 0
    while d < strips:
        if rows == 1 and d + PAGES_OF_ONE_ROW <= strips:
            page_tile(
                1, BLOCK_SIZE, v, (at, at + strip, at + 2 * strip, at + 3 * strip),
                (near, near + strip, near + 2 * strip, near + 3 * strip), weights, x, x_row, part, y, width,
                more,
            )  # fmt: skip
            side = PAGES_OF_ONE_ROW
        elif rows <= rows_of_two_pages(v, weights) and d + 2 <= strips:
            two, near_two = (at, at + strip), (near, near + strip)
            page_tile(rows, BLOCK_SIZE, v, two, near_two, weights, x, x_row, part, y, width, more)
            side = 2
        else:
            for tile in range(tiles):
                row, some = rows * tile // tiles, rows * (tile + 1) // tiles - rows * tile // tiles
                x_some, y_some = x + row * x_row, y + row * width
                page_tile(
                    some, BLOCK_SIZE, v, (at,), (near,), weights, x_some, x_row, part, y_some, width, more
                )
            side = 1
        d, at, near, y = d + side, at + side * strip, near + side * strip, y + side * LANES


@kernel
def copy_scales(
    pool: Any, table: Any, kv_heads: int, head: int, heads: int, first: int, last: int, newest: int,
    scales: Any,
) -> None:  # fmt: skip
    """scales [heads, 128] of blocks first..last; those of the next group come nearer."""
    for block in range(first, last + 1):
        at, following = table[block] * kv_heads + head, table[min(block + PAGES, newest)] * kv_heads + head
        for h in range(heads):
            store(scales, h * GROUP + block % PAGES * BLOCK_SIZE, load(pool, (at + h) * BLOCK_SIZE))
            prefetch(address(pool, (following + h) * BLOCK_SIZE))


@kernel
def attend_few(
    q: Any, heads: int, rows: int, share: int, width: int, position: int, window: int, softcap: Any, k: Any,
    v: Any, k_pool_scales: Any, v_pool_scales: Any, table: Any, kv_heads: int, head: int, first_group: int,
    last_group: int, merged: bool, scores: Any, weights: Any, k_scales: Any, v_scales: Any, visits: Any,
    part: Any, part_state: Any, base: int, part_rows: int, out: Any, state: Any,
) -> None:  # fmt: skip
    """A few query rows, from the token at `position` on, of `heads` KV heads against groups of keys.

    merged: each group's part goes into the running result; else parts are left in rows `base` on, those of
    the next head `part_rows` further.
    """
    x_row = GROUP * 4 // weights.itemsize  # the weights lie where the scores did
    newest, page = position + (rows - 1) // share, width * BLOCK_SIZE
    for group in range(first_group, last_group + 1):
        start = group * GROUP
        first = max(start, position - window + 1) // BLOCK_SIZE
        last = min(start + GROUP - 1, newest) // BLOCK_SIZE
        count, begin, end = last + 1 - first, first * BLOCK_SIZE - start, (last + 1) * BLOCK_SIZE - start
        if k_scales.size:
            for pool, scales in ((k_pool_scales, k_scales), (v_pool_scales, v_scales)):
                copy_scales(pool, table, kv_heads, head, heads, first, last, newest // BLOCK_SIZE, scales)
        list_visits(k, v, table, kv_heads, head, page, first, last, newest // BLOCK_SIZE, visits)
        score_pages(q, heads, rows, width, k, visits, count, scores, begin)
        for row in range(heads * rows):
            h, r = row // rows, row % rows
            token = position + r // share - start
            weigh(
                scores, row * GROUP, max(token - window + 1, 0), token, begin, end, softcap, k_scales,
                v_scales, h * GROUP, weights, row * x_row, part_state, base + h * part_rows + r,
            )  # fmt: skip
        for i in range(count):
            for h in range(heads):
                at = h * page * v.itemsize
                sum_page(
                    weights, h * rows * x_row + begin + i * BLOCK_SIZE, x_row, rows, width, v,
                    visits[count + i] + at, visits[count + i + 1] + at, part, (base + h * part_rows) * width,
                    1 if i > 0 else 0,
                )  # fmt: skip
        if merged:
            for row in range(heads * rows):
                merge(state, out, row, part_state, part, base + row // rows * part_rows + row % rows, width)
        else:
            base += rows
