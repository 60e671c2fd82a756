"""A few query rows against pages where they lie, in the order in which they come from memory: a group's keys,
its values, the next group's keys."""

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
NEAR = 4  # pages beyond the last whose addresses are known, to prefetch them


@kernel()
def list_visits(
    k: Any, v: Any, table: Any, kv_heads: int, head: int, page: int, first: int, last: int, newest: int,
    visits: Any,
) -> None:  # fmt: skip
    """visits: addresses of keys first..last, of their values, and of a few keys that follow."""
    keys, values, count, size = address(k, 0), address(v, 0), last + 1 - first, page * k.itemsize
    for i in range(count):
        at = (table[first + i] * kv_heads + head) * size
        visits[i], visits[count + i] = keys + at, values + at
    for i in range(NEAR):
        following = table[min(last + 1 + i, newest)]
        visits[2 * count + i] = keys + (following * kv_heads + head) * size


@kernel()
def score_pages(
    q: Any, rows: int, width: int, k: Any, visits: Any, count: int, scores: Any, y_at: int
) -> None:
    """scores [rows, 128] of q [rows, width] with `count` pages of keys."""
    most = rows_of_a_page(k, q)
    i = 0
    while i < count:
        y = y_at + i * BLOCK_SIZE
        if rows == 1 and i + PAGES_OF_ONE_ROW <= count:
            pages = (visits[i], visits[i + 1], visits[i + 2], visits[i + 3])
            near = (visits[i + 4], visits[i + 5], visits[i + 6], visits[i + 7])
            page_tile(1, width, k, pages, near, q, 0, width, scores, y, GROUP, 0)
            i += PAGES_OF_ONE_ROW
        elif rows <= rows_of_two_pages(k, q) and i + 2 <= count:
            two, near_two = (visits[i], visits[i + 1]), (visits[i + 2], visits[i + 3])
            page_tile(rows, width, k, two, near_two, q, 0, width, scores, y, GROUP, 0)
            i += 2
        else:
            for row in range(0, rows, most):
                one, near_one, some = (visits[i],), (visits[i + 2],), min(most, rows - row)
                page_tile(
                    some, width, k, one, near_one, q, row * width, width, scores, y + row * GROUP, GROUP, 0
                )
            i += 1


@kernel()
def sum_pages(
    weights: Any, x_at: int, x_row: int, rows: int, width: int, v: Any, visits: Any, count: int, part: Any,
    part_at: int,
) -> None:  # fmt: skip
    """part [rows, width] = weights · `count` pages of values, token by token."""
    most = rows_of_a_page(v, weights)
    strip, strips = LANES * BLOCK_SIZE * v.itemsize, width // LANES
    for i in range(count):
        x, more = x_at + i * BLOCK_SIZE, 1 if i > 0 else 0
        at, near, d = visits[count + i], visits[count + i + 2], 0
        while d < strips:
            y = part_at + d * LANES
            if rows == 1 and d + PAGES_OF_ONE_ROW <= strips:
                page_tile(
                    1, BLOCK_SIZE, v, (at, at + strip, at + 2 * strip, at + 3 * strip),
                    (near, near + strip, near + 2 * strip, near + 3 * strip), weights, x, x_row, part, y,
                    width, more,
                )  # fmt: skip
                side = PAGES_OF_ONE_ROW
            elif rows <= rows_of_two_pages(v, weights) and d + 2 <= strips:
                two, near_two = (at, at + strip), (near, near + strip)
                page_tile(rows, BLOCK_SIZE, v, two, near_two, weights, x, x_row, part, y, width, more)
                side = 2
            else:
                for row in range(0, rows, most):
                    some, x_some, y_some = min(most, rows - row), x + row * x_row, y + row * width
                    page_tile(
                        some, BLOCK_SIZE, v, (at,), (near,), weights, x_some, x_row, part, y_some, width, more
                    )
                side = 1
            d, at, near = d + side, at + side * strip, near + side * strip


@kernel()
def copy_scales(
    pool: Any, table: Any, kv_heads: int, head: int, first: int, last: int, newest: int, scales: Any
) -> None:
    """scales of pages first..last; those of the next group come nearer."""
    for block in range(first, last + 1):
        at = (table[block] * kv_heads + head) * BLOCK_SIZE
        store(scales, block % PAGES * BLOCK_SIZE, load(pool, at))
        following = table[min(block + PAGES, newest)]
        prefetch(address(pool, (following * kv_heads + head) * BLOCK_SIZE))


@kernel()
def attend_few(
    q: Any, rows: int, share: int, width: int, position: int, window: int, softcap: Any, k: Any, v: Any,
    k_pool_scales: Any, v_pool_scales: Any, table: Any, kv_heads: int, head: int, first_group: int,
    last_group: int, merged: bool, scores: Any, weights: Any, k_scales: Any, v_scales: Any, visits: Any,
    part: Any, part_state: Any, base: int, out: Any, state: Any,
) -> None:  # fmt: skip
    """A few query rows, from the token at `position` on, against groups of keys.

    merged: each group's part goes into the running result; else parts are left in rows `base` on.
    """
    x_row = GROUP * 4 // weights.itemsize  # the weights lie where the scores did
    newest = position + (rows - 1) // share
    for group in range(first_group, last_group + 1):
        start = group * GROUP
        first = max(start, position - window + 1) // BLOCK_SIZE
        last = min(start + GROUP - 1, newest) // BLOCK_SIZE
        count, begin, end = last + 1 - first, first * BLOCK_SIZE - start, (last + 1) * BLOCK_SIZE - start
        if k_scales.size:
            for pool, scales in ((k_pool_scales, k_scales), (v_pool_scales, v_scales)):
                copy_scales(pool, table, kv_heads, head, first, last, newest // BLOCK_SIZE, scales)
        list_visits(
            k, v, table, kv_heads, head, width * BLOCK_SIZE, first, last, newest // BLOCK_SIZE, visits
        )
        score_pages(q, rows, width, k, visits, count, scores, begin)
        for r in range(rows):
            token = position + r // share - start
            weigh(
                scores, r * GROUP, max(token - window + 1, 0), token, begin, end, softcap, k_scales, v_scales,
                weights, r * x_row, part_state, base + r,
            )  # fmt: skip
        sum_pages(weights, begin, x_row, rows, width, v, visits, count, part, base * width)
        if merged:
            for r in range(rows):
                merge(state, out, r, part_state, part, base + r, width)
        else:
            base += rows
