"""The scheduler's books: counts and KV blocks in flat arrays, and the moves that keep them balanced.

Requests lie in slots. The moves are plain loops over arrays, so that Numba can compile them as they stand.

    running  [ oldest ......... newest ]         first come first served keeps both lists in order of
    waiting    ring, from counts[HEAD] on        arrival, and everyone who runs came before all who wait

    running slot --seat--> a row of `table`: its blocks, the first `held` of which cover `computed` tokens
    free     [ stack of blocks that nobody owns ]       owners[block]: how many sequences hold it
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.scheduler.request import Limits

Ints = NDArray[np.int64]

VACANT, WAITING, RUNNING = range(3)  # State.status
N_RUNNING, N_WAITING, HEAD, N_FREE, N_SEATS, N_PREEMPTIONS = range(6)  # places in State.counts


class State(NamedTuple):
    # one entry a slot
    known: Ints  # tokens of prompt and output so far
    computed: Ints  # tokens whose KV lies in blocks; a pass lets it catch up with `known`
    output: Ints  # tokens produced
    max_output: Ints
    arrival: Ints  # a number that grows with every request added
    status: Ints
    held: Ints  # blocks in its row of the table
    seat: Ints  # its row of the table while it runs
    preempted: Ints  # times that it lost its blocks
    waiting: Ints  # ring of slots
    # one entry a seat
    running: Ints  # slots
    seats: Ints  # stack of free rows
    table: NDArray[np.int32]  # [seats, blocks of the longest sequence]
    picked: Ints  # the pass being planned: slots ...
    rows: Ints  # ... and the new rows of each
    # one entry a block
    free: Ints
    owners: Ints
    counts: Ints


SLOT_FIELDS = State._fields[: State._fields.index("running")]


def new_state(limits: Limits, slots: int) -> State:
    seats, blocks = limits.max_sequences, limits.blocks
    longest = min(blocks_for(limits.context_length, limits.block_size), blocks)
    sizes = dict.fromkeys(State._fields, seats) | dict.fromkeys(SLOT_FIELDS, slots)
    sizes |= {"free": blocks, "owners": blocks, "counts": 6}
    arrays: dict[str, Any] = {name: np.zeros(size, np.int64) for name, size in sizes.items()}
    arrays["table"] = np.zeros((seats, longest), np.int32)
    state = State(**arrays)
    state.seats[:] = np.arange(seats)[::-1]
    state.free[:] = np.arange(blocks)[::-1]
    state.counts[N_SEATS], state.counts[N_FREE] = seats, blocks
    return state


def with_more_slots(state: State) -> State:
    """The same books with room for twice as many requests."""
    head, slots = int(state.counts[HEAD]), len(state.known)
    grown = {name: np.concatenate([getattr(state, name), np.zeros(slots, np.int64)]) for name in SLOT_FIELDS}
    grown["waiting"][:slots] = np.roll(state.waiting, -head)
    state.counts[HEAD] = 0
    return state._replace(**grown)


def blocks_for(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)


def enqueue(state: State, slot: int) -> None:
    counts = state.counts
    state.waiting[(counts[HEAD] + counts[N_WAITING]) % len(state.waiting)] = slot
    counts[N_WAITING] += 1
    state.status[slot] = WAITING


def admit_first(state: State) -> int:
    """Move the head of the queue to a seat; its slot."""
    counts = state.counts
    slot = int(state.waiting[counts[HEAD]])
    counts[HEAD] = (counts[HEAD] + 1) % len(state.waiting)
    counts[N_WAITING] -= 1
    counts[N_SEATS] -= 1
    state.seat[slot] = state.seats[counts[N_SEATS]]
    state.running[counts[N_RUNNING]] = slot
    counts[N_RUNNING] += 1
    state.status[slot] = RUNNING
    return slot


def preempt_newest(state: State) -> None:
    """Take blocks and seat from the newest running request; it waits first in line, no token forgotten."""
    counts = state.counts
    counts[N_RUNNING] -= 1
    slot = int(state.running[counts[N_RUNNING]])
    release(state, slot)
    counts[HEAD] = (counts[HEAD] - 1) % len(state.waiting)
    state.waiting[counts[HEAD]] = slot
    counts[N_WAITING] += 1
    state.status[slot] = WAITING
    state.preempted[slot] += 1
    counts[N_PREEMPTIONS] += 1


def take_blocks(state: State, slot: int, count: int) -> None:
    row, held, top = state.seat[slot], state.held[slot], state.counts[N_FREE]
    for i in range(count):
        block = state.free[top - 1 - i]
        state.owners[block] = 1
        state.table[row, held + i] = block
    state.held[slot] = held + count
    state.counts[N_FREE] = top - count


def release(state: State, slot: int) -> None:
    """Give up blocks and seat of a running request."""
    counts, row = state.counts, state.seat[slot]
    for i in range(state.held[slot] - 1, -1, -1):
        block = state.table[row, i]
        state.owners[block] -= 1
        if state.owners[block] == 0:
            state.free[counts[N_FREE]] = block
            counts[N_FREE] += 1
    state.held[slot] = 0
    state.computed[slot] = 0
    state.seats[counts[N_SEATS]] = row
    counts[N_SEATS] += 1


def advance(state: State, slots: Ints, ends: Ints, kept: Ints) -> None:
    """A pass computed the tokens before `ends` and kept `kept` new ones, one entry a span.

    The newest token's KV is never there yet, nor that of drafts that were not accepted.
    """
    known = state.known[slots] + kept
    state.known[slots] = known
    state.output[slots] += kept
    state.computed[slots] = np.minimum(ends, known - 1)


def leave(state: State, slot: int) -> None:
    """The request is over. `close_ranks` must follow before the next plan if it was running."""
    if state.status[slot] == RUNNING:
        release(state, slot)
    else:
        leave_queue(state, slot)
    state.status[slot] = VACANT


def leave_queue(state: State, slot: int) -> None:
    counts, ring = state.counts, state.waiting
    kept = 0
    for i in range(counts[N_WAITING]):
        other = ring[(counts[HEAD] + i) % len(ring)]
        if other != slot:
            ring[(counts[HEAD] + kept) % len(ring)] = other
            kept += 1
    counts[N_WAITING] = kept


def close_ranks(state: State) -> None:
    kept = 0
    for i in range(state.counts[N_RUNNING]):
        slot = state.running[i]
        if state.status[slot] == RUNNING:
            state.running[kept] = slot
            kept += 1
    state.counts[N_RUNNING] = kept
