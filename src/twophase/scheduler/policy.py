"""Who is in the next pass. A policy is a function over the books, made of moves, that Numba can compile.

It grants rows to those who run and admits those who wait; `state.counts[LEFT]` says how many rows are left.
A policy of your own has the same form: `policy(state) -> None`.
"""

from collections.abc import Callable

from twophase.scheduler.moves import (
    admit,
    blocks_lacking,
    close_ranks,
    decodes,
    fits,
    grant,
    lacking,
    lacking_behind,
    look_up,
    make_room,
    order_by,
    prefills,
)
from twophase.scheduler.state import (
    BLOCK_SIZE,
    BY_ARRIVAL,
    BY_LENGTH,
    BY_PRIORITY,
    COMPUTED,
    DRAFTS,
    GRANTED,
    HEAP,
    HELD,
    KNOWN,
    LEFT,
    MAX_OUTPUT,
    N_FREE,
    N_LOST,
    N_RUNNING,
    N_SEATS,
    N_WAITING,
    OUTPUT,
    RANK,
    RUNNING,
    RUNS,
    STATUS,
    State,
)

Policy = Callable[[State], None]


def continue_decodes(state: State) -> None:
    """A row for everyone who decodes, in order of admission; blocks are made free where they lack."""
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        row = min(1, state.counts[LEFT])
        if row > 0 and decodes(state, slot) and make_room(state, slot, row):
            grant(state, slot, row)
    close_ranks(state)


def drafts_of(state: State, slot: int) -> int:
    """Drafts that are to be verified beside its row in this pass; the last token needs none."""
    request = state.slots[slot]
    if request[GRANTED] == 0 or not decodes(state, slot):
        return 0
    return int(min(request[DRAFTS], request[MAX_OUTPUT] - request[OUTPUT] - 1))


def draft_rows(state: State) -> int:
    """Rows kept back for drafts: half of what is left at most where someone wants it for a prompt."""
    wanted, prompts = 0, state.counts[N_WAITING] > 0
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        wanted += drafts_of(state, slot)
        prompts = prompts or prefills(state, slot)
    left = state.counts[LEFT]
    return int(min(wanted, left // 2 if prompts else left))


def continue_prefills(state: State, spared: int) -> None:
    """Prompts under way get all that they lack, but leave `spared` rows; the last of them may be cut."""
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        rows = min(lacking(state, slot), state.counts[LEFT] - spared)
        if rows > 0 and prefills(state, slot) and make_room(state, slot, rows):
            grant(state, slot, rows)
    close_ranks(state)


def unfinished(state: State) -> int:
    """Blocks that prompts under way will need beside those that they hold."""
    blocks = 0
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        rest = lacking(state, slot) - state.slots[slot, GRANTED]
        if state.slots[slot, STATUS] == RUNNING and rest > 0:
            blocks += blocks_lacking(state, slot, rest)
    return blocks


def verify_drafts(state: State, spared: int) -> None:
    """Rows for drafts: as many as were spared and the free blocks allow, and nobody has to go for them."""
    free = state.counts[N_FREE] - unfinished(state)
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        room = (state.slots[slot, HELD] + free) * state.settings[BLOCK_SIZE] - state.slots[slot, KNOWN]
        rows = min(drafts_of(state, slot), spared, room)
        if rows > 0:
            free -= blocks_lacking(state, slot, rows)
            spared -= rows
            grant(state, slot, rows)


def may_admit(state: State) -> bool:
    """Someone waits, there is a seat, and nobody had to go in this pass."""
    counts = state.counts
    return bool(counts[N_WAITING] > 0 and counts[N_SEATS] > 0 and counts[N_LOST] == 0)


def admit_waiting(state: State, whole: bool, reserved: int) -> None:
    """The queue fills what is left of the budget, nobody past its head, and nobody where someone had to go.

    All of a request must fit in the free blocks but `reserved` ones, not its first chunk alone. `whole`: a
    prompt is cut only where nobody else is in the pass.
    """
    counts, alone = state.counts, True
    while counts[LEFT] > 0 and may_admit(state):
        slot = state.slots[0, HEAP]
        hits = look_up(state, slot)
        rest = lacking_behind(state, slot, hits)
        if (whole and not alone and rest > counts[LEFT]) or not fits(
            state, hits, state.slots[slot, KNOWN], reserved
        ):
            break
        admit(state, slot, hits)
        grant(state, slot, min(rest, counts[LEFT]))
        alone = False


def continue_running(state: State) -> None:
    continue_decodes(state)
    spared = draft_rows(state)
    continue_prefills(state, spared)
    verify_drafts(state, spared)


def decode_first(state: State) -> None:
    """Decodes, then the prompt under way, then the queue in order of arrival; the newest gives way.

    A prompt is cut only by the end of the budget, or by rows spared for drafts; whoever is admitted behind it
    takes no block that it will need. The rules are those of vLLM V1 (v1/core/sched/scheduler.py in 0.33)
    with its defaults.
    """
    order_by(state, BY_ARRIVAL)
    continue_running(state)
    admit_waiting(state, False, unfinished(state))


def priority(state: State) -> None:
    """The same in order of priority, then of arrival; the newest of the lowest priority gives way."""
    order_by(state, BY_PRIORITY)
    continue_running(state)
    admit_waiting(state, False, unfinished(state))


def prefill_first(state: State) -> None:
    """Whole prompts, and no decode beside them, while anyone waits who fits; else everyone decodes."""
    order_by(state, BY_ARRIVAL)
    free_rows = state.counts[LEFT]
    continue_prefills(state, 0)
    if state.counts[LEFT] == free_rows:  # nobody joins a prompt that was too long for one pass
        admit_waiting(state, True, 0)
    if state.counts[LEFT] == free_rows:
        continue_decodes(state)
        verify_drafts(state, draft_rows(state))


def fill_batch(state: State) -> None:
    reserved = 0
    while may_admit(state):
        slot = state.slots[0, HEAP]
        request = state.slots[slot]
        # Who isn't in this pass must not share what it fills: if the pass fails, the blocks stay empty.
        hits = look_up(state, slot) if state.counts[LEFT] > 0 else 0
        longest = request[KNOWN] + request[MAX_OUTPUT] - request[OUTPUT] - 1
        if not fits(state, hits, longest, reserved):
            break
        admit(state, slot, hits)
        grant(state, slot, min(lacking(state, slot), state.counts[LEFT]))
        reserved += blocks_lacking(state, slot, longest - request[COMPUTED] - request[GRANTED])


def static(state: State) -> None:
    """A batch is filled when nobody runs, with blocks for all that it may produce, and runs to its end."""
    order_by(state, BY_ARRIVAL)
    if state.counts[N_RUNNING] == 0:
        fill_batch(state)
    under_way = False
    for i in range(state.counts[N_RUNNING]):
        under_way = under_way or not decodes(state, state.seats[i, RUNS])
    if under_way:
        continue_prefills(state, 0)
    else:
        continue_decodes(state)
        verify_drafts(state, draft_rows(state))


def rank_of(state: State, slot: int) -> int:
    """The rank that a prompt under way would have in a queue by length."""
    return int(state.slots[slot, RANK] - state.slots[slot, COMPUTED])


def shortest_under_way(state: State) -> int:
    """The prompt under way that comes next, or -1."""
    shortest = -1
    for i in range(state.counts[N_RUNNING]):
        slot = int(state.seats[i, RUNS])
        if prefills(state, slot) and (shortest < 0 or rank_of(state, slot) < rank_of(state, shortest)):
            shortest = slot
    return shortest


def shortest_first(state: State) -> None:
    """Decodes, then prompts, begun or not, in order of what they lack; each pass of waiting makes it less.

    Whoever was preempted comes before all others. The first who waits and doesn't fit holds up the rest.
    """
    order_by(state, BY_LENGTH)
    continue_decodes(state)
    spared = draft_rows(state)
    door_is_open = True
    while state.counts[LEFT] > spared:
        slot = shortest_under_way(state)
        if door_is_open and may_admit(state):
            head = state.slots[0, HEAP]
            if slot < 0 or state.slots[head, RANK] < rank_of(state, slot):
                hits = look_up(state, head)
                door_is_open = fits(state, hits, state.slots[head, KNOWN], unfinished(state))
                if door_is_open:
                    admit(state, head, hits)
                    slot = head
        if slot < 0:
            break
        rows = min(lacking(state, slot), state.counts[LEFT] - spared)
        if make_room(state, slot, rows):
            grant(state, slot, rows)
    close_ranks(state)
    verify_drafts(state, spared)


POLICIES: dict[str, Policy] = {
    "decode-first": decode_first,
    "prefill-first": prefill_first,
    "static": static,
    "priority": priority,
    "shortest-first": shortest_first,
}
