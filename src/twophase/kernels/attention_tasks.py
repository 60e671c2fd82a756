"""Attention's work cut into tasks that threads take: an item's rows against one KV head where they are many,
else against as many heads and as few groups of keys as give every thread work."""

from typing import Any

import numpy as np

from twophase.kernels.compiling import kernel

GROUP = 128  # tokens that share one maximum
MANY_ROWS = 16  # of a head: from here on its pages are widened; fewer rows take them as they lie
TASKS_A_THREAD = 2
LEAST_GROUPS = 2  # of a task that is a piece of an item
MOST_ROWS = 64  # of a task with several heads
ITEM, HEAD, HEADS, FIRST, LAST, PIECES, SLOT = range(7)  # columns of a task; FIRST and LAST count groups
SPAN, ROW, TOKENS, POSITION = range(4)  # columns of an item


@kernel
def groups_of(position: int, tokens: int, window: int) -> Any:
    """First and last group of keys that tokens from `position` on see."""
    return max(0, position - window + 1) // GROUP, (position + tokens - 1) // GROUP


@kernel
def cuts_of(rows: int, kv_heads: int, groups: int, wanted: int) -> Any:
    """(pieces of the groups, parts of the heads) that an item is cut into, for about `wanted` tasks."""
    if rows >= MANY_ROWS:
        return 1, kv_heads
    pieces = max(1, min(wanted, groups // LEAST_GROUPS))
    most_heads = max(1, min(kv_heads, MOST_ROWS // rows))
    return pieces, max(-(-kv_heads // most_heads), min(kv_heads, -(-wanted // pieces)))


@kernel
def plan_tasks(items: Any, heads: int, kv_heads: int, window: int, threads: int) -> Any:
    """(tasks [n, 7], rows of the largest, slots).

    SLOT is where the parts of an item in pieces begin, a slot for each row and group; -1 for one piece.
    """
    share, work, count = heads // kv_heads, 0, 0
    sizes = np.empty(len(items), np.int64)
    for i in range(len(items)):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        sizes[i] = (last + 1 - first) * items[i, TOKENS]
        work += sizes[i]
    wanted = np.ones(len(items), np.int64)
    for i in range(len(items)):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        if threads > 1:
            wanted[i] = -(-sizes[i] * threads * TASKS_A_THREAD // work)
        pieces, parts = cuts_of(items[i, TOKENS] * share, kv_heads, last + 1 - first, wanted[i])
        count += pieces * parts
    tasks = np.empty((count, 7), np.int64)
    n, most_rows, slots = 0, 0, 0
    for i in range(len(items)):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        groups, rows = last + 1 - first, items[i, TOKENS] * share
        pieces, parts = cuts_of(rows, kv_heads, groups, wanted[i])
        for part in range(parts):
            head, end = kv_heads * part // parts, kv_heads * (part + 1) // parts
            most_rows = max(most_rows, rows * (end - head))
            for piece in range(pieces):
                tasks[n, ITEM], tasks[n, HEAD], tasks[n, HEADS] = i, head, end - head
                tasks[n, FIRST] = first + groups * piece // pieces
                tasks[n, LAST] = first + groups * (piece + 1) // pieces - 1
                tasks[n, PIECES] = pieces
                tasks[n, SLOT] = slots + head * groups * rows if pieces > 1 else -1
                n += 1
        if pieces > 1:
            slots += kv_heads * groups * rows
    return tasks, most_rows, slots
