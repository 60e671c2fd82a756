"""The books must balance after every pass."""

import numpy as np

from twophase.scheduler.pool import find
from twophase.scheduler.queue import goes_first
from twophase.scheduler.state import (
    BLOCK_SIZE,
    COMPUTED,
    EMPTY,
    GRANTED,
    HEAP,
    HELD,
    HELD_BLOCK,
    IN_LINE,
    KEY,
    KEY_COUNT,
    KEY_ROOM,
    KEY_START,
    KEYED,
    KNOWN,
    LINE,
    LINE_FROM,
    LINE_TO,
    N_FREE,
    N_RUNNING,
    N_SEATS,
    N_SPARE,
    N_WAITING,
    OWNERS,
    PLACE,
    RUNNING,
    RUNS,
    SEAT,
    SPARE,
    STATUS,
    VACANT_SEAT,
    WAITING,
    Ints,
    State,
    blocks_for,
)


def check(state: State) -> None:
    """RuntimeError that names the first invariant that does not hold."""
    counts, slots, blocks = state.counts, state.slots, state.blocks
    block_size = int(state.settings[BLOCK_SIZE])
    running = state.seats[: counts[N_RUNNING], RUNS]
    waiting = slots[: counts[N_WAITING], HEAP]
    free = free_in_order(state)
    tables = [state.table[slots[slot, SEAT], : slots[slot, HELD]] for slot in running]
    owners = np.bincount(np.concatenate([*tables, np.empty(0, np.int64)]).astype(int), minlength=len(blocks))
    seats = np.concatenate([state.seats[: counts[N_SEATS], VACANT_SEAT], slots[running, SEAT]])
    active = np.concatenate([running, waiting])
    keyed = np.flatnonzero(blocks[:, KEYED])

    require = {
        "a block's owners are the tables that list it": np.array_equal(owners, blocks[:, OWNERS]),
        "free blocks and held blocks are all blocks": np.array_equal(
            np.sort(np.concatenate([free, np.flatnonzero(owners)])), np.arange(len(owners))
        ),
        "the count of free blocks is right": len(free) == state.counts[N_FREE],
        "whoever stands in line has a key, and nobody else": np.array_equal(
            np.flatnonzero(blocks[:, IN_LINE] != EMPTY),
            np.flatnonzero((blocks[:, KEYED] > 0) & (blocks[:, OWNERS] == 0)),
        ),
        "no sequence lists a block twice": all(len(set(table)) == len(table) for table in tables),
        "every key has one block, and it is found": all(
            find(state, state.blocks[b, KEY]) == b for b in keyed
        ),
        "buckets hold the keyed blocks": np.array_equal(
            np.sort(state.buckets[state.buckets[:, HELD_BLOCK] != EMPTY, HELD_BLOCK]), keyed
        ),
        "free seats and taken seats are all seats": np.array_equal(
            np.sort(seats), np.arange(len(state.seats))
        ),
        "whoever runs is on the list once": set(running) == set(np.flatnonzero(slots[:, STATUS] == RUNNING))
        and len(set(running)) == len(running),
        "whoever waits is in the queue once": set(waiting) == set(np.flatnonzero(slots[:, STATUS] == WAITING))
        and len(set(waiting)) == len(waiting),
        "the queue knows its places": np.array_equal(slots[waiting, PLACE], np.arange(len(waiting))),
        "nobody in the queue outranks the one above": not any(
            goes_first(state, waiting[i], waiting[(i - 1) // 2]) for i in range(1, len(waiting))
        ),
        "tables cover the computed tokens": all(
            slots[slot, HELD] >= blocks_for(slots[slot, COMPUTED], block_size) for slot in running
        ),
        "whoever waits holds nothing": not slots[waiting][:, [COMPUTED, GRANTED, HELD]].any(),
        "someone's last token is still to be computed": bool(
            np.all(slots[active, COMPUTED] < slots[active, KNOWN])
        ),
        "keys are of full blocks": bool(
            np.all(slots[active, KEY_COUNT] <= slots[active, KNOWN] // block_size)
            and np.all(slots[:, KEY_COUNT] <= slots[:, KEY_ROOM])
        ),
        "no two requests share room for keys": rooms_are_apart(state),
    }
    for invariant, holds in require.items():
        if not holds:
            raise RuntimeError(f"the scheduler's books don't balance: not so that {invariant}")


def free_in_order(state: State) -> Ints:
    """Free blocks, the next to be taken first."""
    counts = state.counts
    spare = state.free[SPARE, : counts[N_SPARE]][::-1]
    places = np.arange(counts[LINE_FROM], counts[LINE_TO])
    line = state.free[LINE, places]
    return np.concatenate([spare, line[state.blocks[line, IN_LINE] == places]])


def rooms_are_apart(state: State) -> bool:
    taken = np.flatnonzero(state.slots[:, KEY_ROOM])
    order = taken[np.argsort(state.slots[taken, KEY_START])]
    ends = state.slots[order, KEY_START] + state.slots[order, KEY_ROOM]
    return bool(np.all(ends[:-1] <= state.slots[order, KEY_START][1:]) and np.all(ends <= len(state.arena)))
