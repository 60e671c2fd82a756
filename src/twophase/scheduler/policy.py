"""Who is in the next pass. A policy is a function over the books that Numba can compile as it stands."""

import numpy as np

from twophase.scheduler.state import (
    HEAD,
    N_FREE,
    N_RUNNING,
    N_SEATS,
    N_WAITING,
    State,
    admit_first,
    blocks_for,
    preempt_newest,
    take_blocks,
)


def first_come_first_served(state: State, budget: int, block_size: int) -> int:
    """Fill `state.picked` and `state.rows` with the next pass, take its blocks, and return its spans.

    Running requests go first, oldest first, each with the tokens that it lacks; the newest gives way where
    blocks run out. Then the queue fills what is left of the budget, head first and nobody past the head.
    Decodes come before prompts without a rule of their own: a prompt is cut only by the end of the budget,
    so nobody is admitted behind a prompt under way, and it is always the newest that runs.
    The rules are those of vLLM V1 (v1/core/sched/scheduler.py in 0.33) with its defaults.
    """
    counts = state.counts
    running = state.running[: counts[N_RUNNING]]
    computed, wanted = state.computed[running], state.known[running] - state.computed[running]
    rows = np.minimum(wanted, np.maximum(0, budget - (np.cumsum(wanted) - wanted)))
    lacking = (computed + rows + block_size - 1) // block_size - state.held[running]
    for i in np.flatnonzero(lacking > 0):
        while lacking[i] > counts[N_FREE] and i < counts[N_RUNNING]:
            preempt_newest(state)
        if i >= counts[N_RUNNING]:  # it was itself the newest, or newer
            break
        take_blocks(state, running[i], lacking[i])
    spans = min(counts[N_RUNNING], np.count_nonzero(rows))
    state.picked[:spans], state.rows[:spans] = running[:spans], rows[:spans]
    left = budget - rows[:spans].sum()

    # A preempted request is the head now and needs more blocks than it left behind: no one follows it in.
    while counts[N_WAITING] > 0 and counts[N_SEATS] > 0 and left > 0:
        known = state.known[state.waiting[counts[HEAD]]]
        if blocks_for(known, block_size) > counts[N_FREE]:  # all of it must fit, not its first chunk alone
            break
        slot = admit_first(state)
        new = min(known, left)
        take_blocks(state, slot, blocks_for(new, block_size))
        state.picked[spans], state.rows[spans] = slot, new
        spans += 1
        left -= new
    return int(spans)
