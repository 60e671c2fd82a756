"""The books must balance after every pass."""

import numpy as np

from twophase.scheduler.state import (
    HEAD,
    N_FREE,
    N_RUNNING,
    N_SEATS,
    N_WAITING,
    RUNNING,
    WAITING,
    State,
    blocks_for,
)


def check(state: State, block_size: int) -> None:
    """RuntimeError that names the first invariant that does not hold."""
    counts = state.counts
    running = state.running[: counts[N_RUNNING]]
    ring = (counts[HEAD] + np.arange(counts[N_WAITING])) % len(state.waiting)
    waiting = state.waiting[ring]
    free = state.free[: counts[N_FREE]]
    tables = [state.table[state.seat[slot], : state.held[slot]] for slot in running]
    owners = np.bincount(
        np.concatenate([*tables, np.empty(0, np.int64)]).astype(int), minlength=len(state.owners)
    )
    seats = np.concatenate([state.seats[: counts[N_SEATS]], state.seat[running]])
    active = np.concatenate([running, waiting])

    require = {
        "a block's owners are the tables that list it": np.array_equal(owners, state.owners),
        "free blocks and held blocks are all blocks": np.array_equal(
            np.sort(np.concatenate([free, np.flatnonzero(owners)])), np.arange(len(owners))
        ),
        "free seats and taken seats are all seats": np.array_equal(
            np.sort(seats), np.arange(len(state.seats))
        ),
        "whoever runs is on the list once": set(running) == set(np.flatnonzero(state.status == RUNNING))
        and len(set(running)) == len(running),
        "whoever waits is on the list once": set(waiting) == set(np.flatnonzero(state.status == WAITING))
        and len(set(waiting)) == len(waiting),
        "tables cover the computed tokens": all(
            state.held[slot] >= blocks_for(state.computed[slot], block_size) for slot in running
        ),
        "whoever waits holds nothing": not state.held[waiting].any() and not state.computed[waiting].any(),
        "someone's last token is still to be computed": bool(
            np.all(state.computed[active] < state.known[active])
        ),
        "lists are in order of arrival": bool(np.all(np.diff(state.arrival[active]) > 0)),
    }
    for invariant, holds in require.items():
        if not holds:
            raise RuntimeError(f"the scheduler's books don't balance: not so that {invariant}")
