"""The moves that keep the books balanced: policies are made of them.

Plain loops over arrays, so that Numba can compile them as they stand. Within one plan, whoever is preempted
is so before anyone is admitted: those admitted may share blocks that the pass itself fills.
"""

from twophase.scheduler.pool import drop, find, forget_key, give_key, hold, take
from twophase.scheduler.queue import push, remove
from twophase.scheduler.state import (
    AGEING,
    ARRIVAL,
    BLOCK_SIZE,
    BUDGET,
    BY_LENGTH,
    BY_PRIORITY,
    COMPUTED,
    CONTEXT,
    DRAFTS,
    EMPTY_PROMPT,
    GIVEN,
    GRANTED,
    HEAP,
    HELD,
    KEY_COUNT,
    KEY_ROOM,
    KEY_START,
    KEYED,
    KNOWN,
    LEFT,
    N_DRAFTS,
    N_FREE,
    N_HIT,
    N_LOST,
    N_PREEMPTIONS,
    N_QUERIED,
    N_RUNNING,
    N_SEATS,
    N_WAITING,
    NAMED,
    NO_OUTPUT,
    ORDER,
    OUTPUT,
    OWNERS,
    PASS,
    PICKED,
    PREEMPTED,
    PREFIX_CACHE,
    PRIORITY,
    RANK,
    ROWS,
    RUNNING,
    RUNS,
    SEAT,
    SERVED,
    STATUS,
    TOO_LARGE,
    TOO_LONG,
    VACANT,
    VACANT_SEAT,
    WAITING,
    Ints,
    State,
    blocks_for,
)


def refusal(state: State, prompt: int, output: int) -> int:
    """Why a request can never be served, or SERVED."""
    if prompt < 1:
        return EMPTY_PROMPT
    if output < 1:
        return NO_OUTPUT
    if prompt + output > state.settings[CONTEXT]:
        return TOO_LONG
    # the last token's KV is never needed
    if blocks_for(prompt + output - 1, state.settings[BLOCK_SIZE]) > len(state.blocks):
        return TOO_LARGE
    return SERVED


def enqueue(state: State, slot: int) -> None:
    """The request waits, at the rank that the order of the queue gives it."""
    request, order, rank = state.slots[slot], state.settings[ORDER], 0
    if order == BY_PRIORITY:
        rank = request[PRIORITY]
    elif order == BY_LENGTH and request[PREEMPTED] == 0:  # whoever had begun comes before all others
        # Waiting makes all prompts shorter at one pace: their order is that of length plus time of arrival,
        # which is the first pass that may take it: this one, where it waited before the order was changed.
        first = state.counts[PASS] + (request[STATUS] != WAITING)
        rank = request[KNOWN] + state.settings[AGEING] * first
    request[RANK] = rank
    request[STATUS] = WAITING
    push(state, slot)


def order_by(state: State, order: int) -> None:
    """Keep the queue in this order from now on."""
    if state.settings[ORDER] != order:
        state.settings[ORDER] = order
        waiting = state.counts[N_WAITING]
        state.counts[N_WAITING] = 0
        for i in range(waiting):
            enqueue(state, state.slots[i, HEAP])


def begin_pass(state: State) -> None:
    state.counts[PASS] += 1
    state.counts[LEFT] = state.settings[BUDGET]
    state.counts[N_LOST] = 0


def lacking(state: State, slot: int) -> int:
    """Known tokens whose KV is still to be computed."""
    return int(state.slots[slot, KNOWN] - state.slots[slot, COMPUTED])


def decodes(state: State, slot: int) -> bool:
    """It runs, and only its newest output token is to be computed."""
    request = state.slots[slot]
    return bool(
        request[STATUS] == RUNNING and request[OUTPUT] > 0 and request[KNOWN] - request[COMPUTED] == 1
    )


def prefills(state: State, slot: int) -> bool:
    """It runs, its prompt is under way, and it has no rows of it in this pass yet."""
    request = state.slots[slot]
    return bool(request[STATUS] == RUNNING and request[GRANTED] == 0 and not decodes(state, slot))


def blocks_lacking(state: State, slot: int, rows: int) -> int:
    """Blocks that so many rows more would need."""
    request = state.slots[slot]
    end = request[COMPUTED] + request[GRANTED] + rows
    if end <= request[HELD] * state.settings[BLOCK_SIZE]:  # mostly so, and to divide takes long
        return 0
    return int(max(0, blocks_for(end, state.settings[BLOCK_SIZE]) - request[HELD]))


def name_blocks(state: State, slot: int, end: int) -> None:
    """Blocks that the tokens before `end` fill are found by their keys from now on."""
    request = state.slots[slot]
    named = request[NAMED]
    while named < request[KEY_COUNT] and (named + 1) * state.settings[BLOCK_SIZE] <= end:
        give_key(state, state.table[request[SEAT], named], state.arena[request[KEY_START] + named])
        named += 1
    request[NAMED] = named


def grant(state: State, slot: int, rows: int) -> None:
    """So many rows more in this pass; their blocks must be free."""
    request = state.slots[slot]
    blocks = blocks_lacking(state, slot, rows)
    if blocks > 0:
        take(state, state.table[request[SEAT]], request[HELD], blocks)
        request[HELD] += blocks
    request[GRANTED] += rows
    state.counts[LEFT] -= rows
    # All rows of a pass write their KV before any attention reads: who comes later in it may read it.
    name_blocks(state, slot, request[COMPUTED] + request[GRANTED])


def release(state: State, slot: int) -> None:
    """Give up blocks and seat of a running request."""
    counts, request = state.counts, state.slots[slot]
    drop(state, state.table[request[SEAT]], request[HELD])
    counts[N_DRAFTS] -= request[DRAFTS]
    request[HELD] = request[COMPUTED] = request[NAMED] = request[GRANTED] = request[DRAFTS] = 0
    state.seats[counts[N_SEATS], VACANT_SEAT] = request[SEAT]
    counts[N_SEATS] += 1


def preempt(state: State, slot: int) -> None:
    """Take blocks and seat from a running request; it waits again, no token forgotten."""
    request = state.slots[slot]
    state.counts[LEFT] += request[GRANTED]
    for i in range(request[COMPUTED] // state.settings[BLOCK_SIZE], request[NAMED]):
        block = state.table[request[SEAT], i]
        if state.blocks[block, KEYED] > 0:  # the rows that were to fill it are not in the pass any more
            forget_key(state, block)
    release(state, slot)
    request[GIVEN] = 0
    request[PREEMPTED] += 1
    state.counts[N_PREEMPTIONS] += 1
    state.counts[N_LOST] += 1
    enqueue(state, slot)


def victim(state: State) -> int:
    """The newest running request, of the lowest priority where the queue is in order of priority."""
    worst, by_priority = -1, state.settings[ORDER] == BY_PRIORITY
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if state.slots[slot, STATUS] == RUNNING:
            below = worst < 0 or state.slots[slot, ARRIVAL] > state.slots[worst, ARRIVAL]
            if worst >= 0 and by_priority and state.slots[slot, PRIORITY] != state.slots[worst, PRIORITY]:
                below = state.slots[slot, PRIORITY] > state.slots[worst, PRIORITY]
            if below:
                worst = slot
    return int(worst)


def make_room(state: State, slot: int, rows: int) -> bool:
    """Preempt until there are blocks for `rows` rows more. False where the request itself had to go.

    Whoever was preempted stays on the list of those who run until `close_ranks`.
    """
    while blocks_lacking(state, slot, rows) > state.counts[N_FREE]:
        worst = victim(state)
        preempt(state, worst)
        if worst == slot:
            return False
    return True


def close_ranks(state: State) -> None:
    """Whoever doesn't run any more is taken from the list of those who do."""
    kept = 0
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if state.slots[slot, STATUS] == RUNNING:
            state.seats[kept, RUNS] = slot
            kept += 1
    state.counts[N_RUNNING] = kept


def lacking_behind(state: State, slot: int, hits: int) -> int:
    """Known tokens that a waiting request would compute behind the blocks that were just looked up."""
    request = state.slots[slot]
    return int(request[KNOWN] - max(hits * state.settings[BLOCK_SIZE], request[GIVEN]))


def look_up(state: State, slot: int) -> int:
    """Blocks that a waiting request would find in the prefix cache; they are noted at the next free seat.

    At least one token is left to be computed. There must be a free seat.
    """
    request = state.slots[slot]
    if state.settings[PREFIX_CACHE] == 0:
        return 0
    seat = state.seats[state.counts[N_SEATS] - 1, VACANT_SEAT]
    most = min(request[KEY_COUNT], (request[KNOWN] - 1) // state.settings[BLOCK_SIZE])
    hits = 0
    while hits < most:
        block = find(state, state.arena[request[KEY_START] + hits])
        if block < 0:
            break
        state.table[seat, hits] = block
        hits += 1
    return hits


def fits(state: State, hits: int, tokens: int, reserved: int) -> bool:
    """Whether `tokens` fit in the free blocks beside `reserved` ones; `hits` of theirs were just found."""
    seat = state.seats[state.counts[N_SEATS] - 1, VACANT_SEAT]
    need = blocks_for(tokens, state.settings[BLOCK_SIZE]) - hits + reserved
    for i in range(hits):
        if state.blocks[state.table[seat, i], OWNERS] == 0:
            need += 1
    return bool(need <= state.counts[N_FREE])


def admit(state: State, slot: int, hits: int) -> None:
    """Move a waiting request to the next free seat, with the blocks that were just looked up."""
    counts, request = state.counts, state.slots[slot]
    remove(state, slot)
    counts[N_SEATS] -= 1
    request[SEAT] = state.seats[counts[N_SEATS], VACANT_SEAT]
    for i in range(hits):
        hold(state, state.table[request[SEAT], i])
    request[HELD] = request[NAMED] = hits
    request[COMPUTED] = max(hits * state.settings[BLOCK_SIZE], request[GIVEN])
    request[STATUS] = RUNNING
    state.seats[counts[N_RUNNING], RUNS] = slot
    counts[N_RUNNING] += 1
    if request[PREEMPTED] == 0 and state.settings[PREFIX_CACHE] > 0:
        counts[N_QUERIED] += request[KNOWN]
        counts[N_HIT] += request[COMPUTED]


def pick(state: State, slot: int, spans: int) -> int:
    """Its rows are the next span of the pass. Returns the spans so far."""
    state.seats[spans, PICKED] = slot
    state.seats[spans, ROWS] = state.slots[slot, GRANTED]
    state.slots[slot, GRANTED] = 0
    return spans + 1


def fill_pass(state: State) -> int:
    """Write down what was granted, slots and rows, decodes first. Returns the spans."""
    spans, first_other = 0, state.counts[N_RUNNING]
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if state.slots[slot, GRANTED] > 0:
            if decodes(state, slot):
                spans = pick(state, slot, spans)
            else:
                first_other = min(first_other, i)
    for i in range(first_other, state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if state.slots[slot, GRANTED] > 0:
            spans = pick(state, slot, spans)
    return spans


def take_in(state: State, slot: int, end: int, kept: int, drafts: int) -> None:
    """A pass computed its tokens before `end` and kept `kept` new ones; `drafts` are verified next.

    The newest token's KV is never there yet, nor that of drafts that were not accepted.
    """
    request = state.slots[slot]
    request[KNOWN] += kept
    request[OUTPUT] += kept
    request[COMPUTED] = min(end, request[KNOWN] - 1)
    if request[DRAFTS] != drafts:
        state.counts[N_DRAFTS] += drafts - request[DRAFTS]
        request[DRAFTS] = drafts


def name_filled(state: State, slots: Ints) -> None:
    """Of each, the blocks that its computed tokens fill are found by their keys from now on."""
    for i in range(len(slots)):
        request = state.slots[slots[i]]
        if request[NAMED] < request[KEY_COUNT]:
            name_blocks(state, slots[i], request[COMPUTED])


def advance(state: State, slots: Ints, ends: Ints, kept: Ints, drafts: Ints) -> None:
    """What a pass gave is taken in, one entry a span."""
    for i in range(len(slots)):
        take_in(state, slots[i], ends[i], kept[i], drafts[i])
    name_filled(state, slots)


def dismiss(state: State, slots: Ints) -> None:
    """These requests are over, whether they waited or ran."""
    for i in range(len(slots)):
        request = state.slots[slots[i]]
        if request[STATUS] == RUNNING:
            release(state, slots[i])
        else:
            remove(state, slots[i])
        request[STATUS] = VACANT
        request[KEY_START] = request[KEY_COUNT] = request[KEY_ROOM] = 0
    close_ranks(state)
