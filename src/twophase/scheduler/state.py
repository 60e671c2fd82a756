"""The scheduler's books: counts, KV blocks and the queue in a few arrays. Requests lie in slots.

    running slot --SEAT--> a row of `table`: its blocks, the first HELD of which cover COMPUTED tokens
                                             and the first NAMED were offered to the prefix cache
    slot --KEY_START--> `arena`: a key for each block that its tokens fill, KEY_COUNT so far

A row holds all that is said of one slot, seat or block: `state.slots[slot, KNOWN]`. Few arrays, and not one
for each column, because every array makes each call between compiled functions longer, and compiling too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.scheduler.request import Limits

Ints = NDArray[np.int64]

# columns of State.slots
(
    KNOWN,  # tokens of prompt and output so far
    COMPUTED,  # tokens whose KV lies in blocks; a pass lets it catch up with KNOWN
    OUTPUT,  # tokens produced
    MAX_OUTPUT,
    GRANTED,  # rows in the pass being planned
    STATUS,
    HELD,  # blocks in its row of the table
    NAMED,
    KEY_COUNT,
    KEY_ROOM,
    DRAFTS,  # tokens to verify in its next pass, if there is room
    SEAT,  # its row of the table while it runs
    KEY_START,
    PREEMPTED,  # times that it lost its blocks
    GIVEN,  # tokens whose KV comes with it, where another system computed it
    PRIORITY,  # smaller is served first
    ARRIVAL,  # a number that grows with every request added
    RANK,  # in the queue, then by ARRIVAL; smaller is served first
    PLACE,  # in the queue's heap
    HEAP,  # not of this slot: the slot at this place of the heap
) = range(20)
VACANT, WAITING, RUNNING, LEAVING = range(4)  # STATUS; who is leaving is done, but its blocks are still read

# columns of State.seats: lists that are as long as there are seats at most
RUNS, VACANT_SEAT, PICKED, ROWS = range(4)  # slots in order of admission; a stack; the pass that was planned

# columns of State.blocks: sequences that hold it; its key, and the pass that gave it; place in line if free
OWNERS, KEY, KEYED, IN_LINE = range(4)
SPARE, LINE = range(2)  # rows of State.free: free blocks without a key, a stack; those with one, in line
# columns of State.buckets; the key stands there, too, as to look it up among the blocks takes long
HELD_BLOCK, ITS_KEY = range(2)
EMPTY = -1  # no block, no place

# State.counts; PASS, LEFT and N_LOST are of the pass being planned, RATIO and SHUT are for `sglang`:
# the share of outputs to come that it keeps blocks for, in 1e-9, and who ran when it last took no one in
N_RUNNING, N_WAITING, N_SEATS, N_FREE, N_PREEMPTIONS, N_QUERIED, N_HIT = range(7)
PASS, LEFT, N_LOST, RATIO, SHUT, N_DRAFTS, N_SPARE, LINE_FROM, LINE_TO = range(7, 16)
BUDGET, BLOCK_SIZE, PREFIX_CACHE, AGEING, ORDER, CONTEXT = range(6)  # State.settings
BY_ARRIVAL, BY_PRIORITY, BY_LENGTH = range(3)  # settings[ORDER]
SERVED, EMPTY_PROMPT, NO_OUTPUT, TOO_LONG, TOO_LARGE = range(5)  # why a request is refused


class State(NamedTuple):
    slots: Ints
    seats: Ints
    blocks: Ints
    table: Ints  # [seats, blocks of the longest sequence]
    buckets: Ints  # [places, 2]: a hash table of blocks by key
    arena: Ints  # keys
    counts: Ints
    settings: Ints
    free: Ints  # [2, twice the blocks]


def new_state(limits: Limits, slots: int, ageing: int) -> State:
    seats, blocks = limits.max_sequences, limits.blocks
    longest = min(blocks_for(limits.context_length, limits.block_size), blocks)
    state = State(
        slots=zeros(slots, 20),
        seats=zeros(seats, 4),
        blocks=zeros(blocks, 4),
        table=zeros(seats, longest),
        buckets=np.full((1 << (2 * blocks - 1).bit_length(), 2), EMPTY, np.int64),
        arena=zeros(64),
        counts=zeros(16),
        settings=zeros(6),
        free=zeros(2, 2 * blocks),
    )
    state.seats[:, VACANT_SEAT] = np.arange(seats)[::-1]
    state.blocks[:, IN_LINE] = EMPTY
    state.free[SPARE, :blocks] = np.arange(blocks)[::-1]  # block 0 is taken first
    state.counts[N_SEATS] = seats
    state.counts[N_FREE] = state.counts[N_SPARE] = blocks
    state.settings[:] = (
        *(limits.budget, limits.block_size, limits.prefix_cache, ageing, BY_ARRIVAL),
        limits.context_length,
    )
    return state


def with_more_slots(state: State) -> State:
    """The same books with room for twice as many requests."""
    return state._replace(slots=np.concatenate([state.slots, np.zeros_like(state.slots)]))


def zeros(*shape: int) -> Ints:
    return np.zeros(shape, np.int64)


def blocks_for(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)
