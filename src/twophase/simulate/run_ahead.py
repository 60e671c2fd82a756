"""Runs of decode passes with the same members, all at once: what stepping gives, in closed form.

The policy planned the first of them. It would plan the others alike until someone ends, arrives or lacks a
block: a queue whose head is held up stays held up, since free blocks only get fewer. Passes in which a block
gets a key are left to stepping, as they may change what a waiting prompt finds.
"""

import numpy as np

from twophase.cost.pass_seconds import decode_growth
from twophase.scheduler.policy import let_ratio_fall
from twophase.scheduler.pool import take
from twophase.scheduler.state import (
    BLOCK_SIZE,
    BUDGET,
    COMPUTED,
    HELD,
    KEY_ROOM,
    KNOWN,
    LEFT,
    MAX_OUTPUT,
    N_FREE,
    N_LOST,
    N_RUNNING,
    NAMED,
    OUTPUT,
    PASS,
    RATIO,
    SEAT,
    State,
)
from twophase.simulate.books import CLOSED_FORM, NOW, SLOT, SPAN_CONTEXT, Ints, Replica


def all_decode(replica: Replica, spans: int, decodes: int, steady: int) -> bool:
    """One row of everyone who runs, each with a token in the pass before: nobody had to go, and nobody was
    admitted, beside whom others could not begin. So the next pass may be like this one."""
    counts = replica.state.counts
    rows = replica.state.settings[BUDGET] - counts[LEFT]
    return bool(
        replica.counts[CLOSED_FORM] > 0
        and decodes == spans
        and steady == spans
        and rows == spans
        and spans == counts[N_RUNNING]
        and counts[N_LOST] == 0
    )


def total_seconds(first: float, growth: float, passes: int) -> float:
    """Of passes that each take `growth` longer than the one before."""
    return first * passes + growth * (passes * (passes - 1) // 2)


def passes_until(start: float, first: float, growth: float, most: int, until_s: float) -> int:
    """Passes until the first that ends at `until_s` or later, `most` at most."""
    if start + total_seconds(first, growth, most) <= until_s:
        return most
    left, half = until_s - start, first - growth / 2
    guess = left / first if growth <= 0 else 2 * left / (half + np.sqrt(half * half + 2 * growth * left))
    passes = max(1, min(most, int(np.ceil(guess))))
    while passes > 1 and start + total_seconds(first, growth, passes - 1) >= until_s:
        passes -= 1
    while passes < most and start + total_seconds(first, growth, passes) < until_s:
        passes += 1
    return passes


def blocks_for_more(state: State, slots: Ints, context: Ints, passes: int) -> int:
    """Blocks that they take in these passes, the first of which has its own already."""
    size, blocks = state.settings[BLOCK_SIZE], 0
    for i in range(len(slots)):
        lacks = context[i] + passes - state.slots[slots[i], HELD] * size
        if lacks > 0:
            blocks += (lacks + size - 1) // size
    return blocks


def fitting(state: State, slots: Ints, context: Ints, most: int) -> int:
    """Passes for which there are free blocks, `most` at most."""
    free, count = state.counts[N_FREE], len(slots)
    if count * (most // state.settings[BLOCK_SIZE] + 1) <= free:
        return most
    if blocks_for_more(state, slots, context, most) <= free:
        return most
    low, high = 1, most  # the first pass fits, `most` don't
    while high - low > 1:
        middle = (low + high) // 2
        if blocks_for_more(state, slots, context, middle) <= free:
            low = middle
        else:
            high = middle
    return low


def passes_alike(
    replica: Replica, spans: int, first_s: float, until_s: float
) -> tuple[int, float, float, float]:
    """How many passes are like the one just planned, itself included, and by how much seconds, FLOPs, bytes
    grow from each to the next. Nobody ends before the last of them ends."""
    state, slots, context = replica.state, replica.spans[SLOT][:spans], replica.spans[SPAN_CONTEXT][:spans]
    size = state.settings[BLOCK_SIZE]
    growth_s, flops, bytes_, most = decode_growth(replica.times, context)
    for i in range(spans):
        request = state.slots[slots[i]]
        most = min(most, request[MAX_OUTPUT] - request[OUTPUT])
        if request[NAMED] < request[KEY_ROOM]:
            most = min(most, (request[NAMED] + 1) * size - context[i] - 1)
    if most > 1:
        most = passes_until(replica.clock[NOW], first_s, growth_s, most, until_s)
    if most > 1:
        most = fitting(state, slots, context, most)
    return most, growth_s, flops, bytes_


def run_ahead(replica: Replica, spans: int, passes: int) -> None:
    """Take in all but the last of these passes, and the blocks of all."""
    state = replica.state
    size, done = state.settings[BLOCK_SIZE], passes - 1
    for i in range(spans):
        request = state.slots[replica.spans[SLOT, i]]
        request[KNOWN] += done
        request[OUTPUT] += done
        request[COMPUTED] += done
        replica.spans[SPAN_CONTEXT, i] += done
        if request[HELD] * size <= request[COMPUTED]:
            blocks = request[COMPUTED] // size + 1 - request[HELD]
            take(state, state.table[request[SEAT]], request[HELD], blocks)
            request[HELD] += blocks
    state.counts[PASS] += done
    if state.counts[RATIO] > 0:
        let_ratio_fall(state, done)
