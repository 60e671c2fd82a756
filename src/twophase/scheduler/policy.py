"""Who is in the next pass. A policy is a function over the books that Numba can compile as it stands."""

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
    left, spans, short = budget, 0, False

    while spans < counts[N_RUNNING] and left > 0:
        slot = state.running[spans]
        rows = min(state.known[slot] - state.computed[slot], left)
        lacking = blocks_for(state.computed[slot] + rows, block_size) - state.held[slot]
        while lacking > counts[N_FREE] and spans < counts[N_RUNNING]:
            preempt_newest(state)
            short = True
        if spans == counts[N_RUNNING]:  # it was itself the newest
            break
        take_blocks(state, slot, lacking)
        state.picked[spans], state.rows[spans] = slot, rows
        spans += 1
        left -= rows

    # Whom a preemption has just thrown out would come straight back in.
    while not short and counts[N_WAITING] > 0 and counts[N_SEATS] > 0 and left > 0:
        known = state.known[state.waiting[counts[HEAD]]]
        if blocks_for(known, block_size) > counts[N_FREE]:  # all of it must fit, not its first chunk alone
            break
        slot = admit_first(state)
        rows = min(known, left)
        take_blocks(state, slot, blocks_for(rows, block_size))
        state.picked[spans], state.rows[spans] = slot, rows
        spans += 1
        left -= rows
    return spans
