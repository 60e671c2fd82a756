"""Attention's work cut into tasks that threads take: an item against one KV head, and where few threads would
have work, against a few groups of its keys."""

from typing import Any

import numpy as np

from twophase.kernels.compiling import kernel

GROUP = 128  # tokens that share one maximum
TASKS_A_THREAD = 4
MANY_ROWS = 16  # from here on pages are widened for a task; fewer rows take them as they lie
LEAST_GROUPS = 4  # of a task that is a piece of an item
ITEM, HEAD, FIRST, LAST, PIECES, SLOT = range(6)  # columns of a task; FIRST and LAST count groups
SPAN, ROW, TOKENS, POSITION = range(4)  # columns of an item


@kernel()
def groups_of(position: int, tokens: int, window: int) -> Any:
    """First and last group of keys that tokens from `position` on see."""
    return max(0, position - window + 1) // GROUP, (position + tokens - 1) // GROUP


@kernel()
def plan_tasks(items: Any, heads: int, kv_heads: int, window: int, threads: int) -> Any:
    """(tasks [n, 6], rows of the largest, slots).

    SLOT is where the parts of an item in pieces begin, a slot for each row and group; -1 for one piece.
    """
    share = heads // kv_heads
    count, work = len(items), 0
    pieces = np.ones(count, np.int64)
    for i in range(count):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        work += (last + 1 - first) * items[i, TOKENS] * kv_heads
    fair = max(1, work // (threads * TASKS_A_THREAD))
    for i in range(count):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        groups = last + 1 - first
        if threads > 1 and items[i, TOKENS] * share < MANY_ROWS:
            wanted = (groups * items[i, TOKENS] + fair - 1) // fair
            pieces[i] = max(1, min(wanted, groups // LEAST_GROUPS))
    tasks = np.empty((pieces.sum() * kv_heads, 6), np.int64)
    n, most_rows, slots = 0, 0, 0
    for i in range(count):
        first, last = groups_of(items[i, POSITION], items[i, TOKENS], window)
        groups = last + 1 - first
        most_rows = max(most_rows, items[i, TOKENS] * share)
        for head in range(kv_heads):
            slot = slots if pieces[i] > 1 else -1
            for piece in range(pieces[i]):
                tasks[n, ITEM], tasks[n, HEAD] = i, head
                tasks[n, FIRST] = first + groups * piece // pieces[i]
                tasks[n, LAST] = first + groups * (piece + 1) // pieces[i] - 1
                tasks[n, PIECES], tasks[n, SLOT] = pieces[i], slot
                n += 1
            if slot >= 0:
                slots += groups * items[i, TOKENS] * share
    return tasks, most_rows, slots
