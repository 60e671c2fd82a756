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
    preempt,
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
    N_DRAFTS,
    N_FREE,
    N_LOST,
    N_RUNNING,
    N_SEATS,
    N_WAITING,
    OUTPUT,
    RANK,
    RATIO,
    RUNNING,
    RUNS,
    SHUT,
    STATUS,
    State,
    blocks_for,
)

Policy = Callable[[State], None]


def drop_lost(state: State) -> None:
    """Whoever was preempted in this pass runs no more."""
    if state.counts[N_LOST] > 0:
        close_ranks(state)


def continue_decodes(state: State) -> int:
    """A row for everyone who decodes, in order of admission; blocks are made free where they lack.

    Returns the first place on the list of those who run where someone doesn't decode.
    """
    first_prompt = state.counts[N_RUNNING]
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if not decodes(state, slot):
            first_prompt = min(first_prompt, i)
        elif state.counts[LEFT] > 0 and make_room(state, slot, 1):
            grant(state, slot, 1)
    if state.counts[N_LOST] > 0:
        drop_lost(state)
        return 0
    return int(first_prompt)


def drafts_of(state: State, slot: int) -> int:
    """Drafts that are to be verified beside its row in this pass; the last token needs none."""
    request = state.slots[slot]
    if request[DRAFTS] == 0 or request[GRANTED] == 0 or not decodes(state, slot):
        return 0
    return int(min(request[DRAFTS], request[MAX_OUTPUT] - request[OUTPUT] - 1))


def draft_rows(state: State) -> int:
    """Rows kept back for drafts: half of what is left at most where someone wants it for a prompt."""
    if state.counts[N_DRAFTS] == 0:
        return 0
    wanted, prompts = 0, state.counts[N_WAITING] > 0
    for i in range(state.counts[N_RUNNING]):
        wanted += drafts_of(state, state.seats[i, RUNS])
        prompts = prompts or prefills(state, state.seats[i, RUNS])
    left = state.counts[LEFT]
    return int(min(wanted, left // 2 if prompts else left))


def continue_prefills(state: State, spared: int, first: int) -> None:
    """Prompts under way, from this place on, get what they lack, but `spared` rows; the last may be cut."""
    for i in range(first, state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        if prefills(state, slot):
            rows = min(lacking(state, slot), state.counts[LEFT] - spared)
            if rows > 0 and make_room(state, slot, rows):
                grant(state, slot, rows)
    drop_lost(state)


def unfinished(state: State, first: int) -> int:
    """Blocks that prompts under way, from this place on, will need beside those that they hold."""
    blocks = 0
    for i in range(first, state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        rest = lacking(state, slot) - state.slots[slot, GRANTED]
        if state.slots[slot, STATUS] == RUNNING and rest > 0:
            blocks += blocks_lacking(state, slot, rest)
    return blocks


def verify_drafts(state: State, spared: int) -> None:
    """Rows for drafts: as many as were spared and the free blocks allow, and nobody has to go for them."""
    if spared <= 0:
        return
    free = state.counts[N_FREE] - unfinished(state, 0)
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


def continue_running(state: State) -> int:
    """Returns the first place of those who run where a prompt may be under way."""
    first_prompt = continue_decodes(state)
    spared = draft_rows(state)
    continue_prefills(state, spared, first_prompt)
    verify_drafts(state, spared)
    return 0 if state.counts[N_LOST] > 0 else first_prompt


def decode_first(state: State) -> None:
    """Decodes, then the prompt under way, then the queue in order of arrival; the newest gives way.

    A prompt is cut only by the end of the budget, or by rows spared for drafts; whoever is admitted behind it
    takes no block that it will need. The rules are those of vLLM V1 (v1/core/sched/scheduler.py in 0.33)
    with its defaults.
    """
    order_by(state, BY_ARRIVAL)
    first_prompt = continue_running(state)
    if may_admit(state):
        admit_waiting(state, False, unfinished(state, first_prompt))


def priority(state: State) -> None:
    """The same in order of priority, then of arrival; the newest of the lowest priority gives way."""
    order_by(state, BY_PRIORITY)
    first_prompt = continue_running(state)
    if may_admit(state):
        admit_waiting(state, False, unfinished(state, first_prompt))


def prefill_first(state: State) -> None:
    """Whole prompts, and no decode beside them, while anyone waits who fits; else everyone decodes."""
    order_by(state, BY_ARRIVAL)
    free_rows = state.counts[LEFT]
    continue_prefills(state, 0, 0)
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
        continue_prefills(state, 0, 0)
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
                door_is_open = fits(state, hits, state.slots[head, KNOWN], unfinished(state, 0))
                if door_is_open:
                    admit(state, head, hits)
                    slot = head
        if slot < 0:
            break
        rows = min(lacking(state, slot), state.counts[LEFT] - spared)
        if make_room(state, slot, rows):
            grant(state, slot, rows)
    drop_lost(state)
    verify_drafts(state, spared)


def vllm(state: State) -> None:
    """vLLM V1 as it stands (v1/core/sched/scheduler.py in 0.33): one list of those who run, each gets what it
    lacks and rows for its drafts, for which the newest give way, too; then the queue, behind its head nobody,
    and nobody where someone had to go. No block is kept for the rest of a prompt under way.
    """
    order_by(state, BY_ARRIVAL)
    for i in range(state.counts[N_RUNNING]):
        slot = state.seats[i, RUNS]
        request = state.slots[slot]
        if request[STATUS] == RUNNING:
            rows = lacking(state, slot)
            if decodes(state, slot):
                rows += min(request[DRAFTS], request[MAX_OUTPUT] - request[OUTPUT] - 1)
            rows = min(rows, state.counts[LEFT])
            if rows > 0 and make_room(state, slot, rows):
                grant(state, slot, rows)
    drop_lost(state)
    admit_waiting(state, False, 0)


FULL_RATIO = 1_000_000_000
FIRST_RATIO = 700_000_000  # SGLANG_INIT_NEW_TOKEN_RATIO
LEAST_RATIO = 98_000_000  # 0.14 of it, reached after 600 decode passes
RATIO_STEP = (FIRST_RATIO - LEAST_RATIO) // 600
LONGEST_CLIPPED = 4096  # output tokens that are kept in mind at most (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)


def promised(state: State, slot: int) -> int:
    """Output tokens still to come, as far as they are kept in mind."""
    request = state.slots[slot]
    return int(min(request[MAX_OUTPUT] - request[OUTPUT], LONGEST_CLIPPED))


def reserve_of_running(state: State) -> int:
    """Blocks kept free for those who run: for all of a prompt under way, for a share of what is to come."""
    tokens = 0
    for i in range(state.counts[N_RUNNING]):
        tokens += promised(state, state.seats[i, RUNS])
    share = tokens * state.counts[RATIO] // FULL_RATIO
    return unfinished(state, 0) + blocks_for(share, state.settings[BLOCK_SIZE])


def admit_beside_reserve(state: State) -> None:
    """Prompts that fit with all that they will produce beside the reserve; one of them may be cut."""
    counts = state.counts
    if counts[N_RUNNING] < counts[SHUT]:
        counts[SHUT] = 0
    if counts[SHUT] > 0:  # nobody has left since it was full
        return
    reserve, cut = reserve_of_running(state), False
    while counts[LEFT] > 0 and counts[N_WAITING] > 0 and not cut:
        slot = state.slots[0, HEAP]
        if counts[N_SEATS] == 0:
            counts[SHUT] = counts[N_RUNNING]
            return
        hits, more = look_up(state, slot), promised(state, slot)
        alone = counts[N_RUNNING] == 0
        # what one alone may produce is checked when it comes
        if not fits(state, hits, state.slots[slot, KNOWN] + (0 if alone else more), reserve):
            counts[SHUT] = counts[N_RUNNING]
            return
        rest = lacking_behind(state, slot, hits)
        admit(state, slot, hits)
        cut = rest > counts[LEFT]
        grant(state, slot, min(rest, counts[LEFT]))
        reserve += blocks_for(more, state.settings[BLOCK_SIZE])


def fewest_tokens(state: State) -> int:
    """Who gives way: the one with the fewest output tokens, of these the one with the longest prompt."""
    worst = -1
    for i in range(state.counts[N_RUNNING]):
        slot = int(state.seats[i, RUNS])
        own = state.slots[slot]
        if own[STATUS] == RUNNING:
            last = state.slots[worst]
            fewer = worst < 0 or own[OUTPUT] < last[OUTPUT]
            longer = worst >= 0 and own[OUTPUT] == last[OUTPUT] and own[KNOWN] >= last[KNOWN]
            if fewer or longer:
                worst = slot
    return worst


def retract(state: State) -> None:
    """Until everyone who is left has a block for a decode; then more is kept in mind of what is to come."""
    lost, done, all_of_it = state.counts[N_LOST], 0, 0
    while True:
        need, running = 0, 0
        for i in range(state.counts[N_RUNNING]):
            slot = state.seats[i, RUNS]
            if state.slots[slot, STATUS] == RUNNING:
                need += blocks_lacking(state, slot, 1)
                running += 1
        if need <= state.counts[N_FREE] or running < 2:
            break
        preempt(state, fewest_tokens(state))
    drop_lost(state)
    if state.counts[N_LOST] > lost:
        for i in range(state.counts[N_RUNNING]):
            request = state.slots[state.seats[i, RUNS]]
            done += request[OUTPUT]
            all_of_it += request[MAX_OUTPUT]
        ahead = FULL_RATIO * (done + 20 * state.counts[N_RUNNING])
        state.counts[RATIO] = min(FULL_RATIO, ahead // (all_of_it + 1))
        state.counts[SHUT] = 0


def let_ratio_fall(state: State, passes: int) -> None:
    """With each decode pass in which nobody had to go, less is kept in mind of what is to come."""
    if state.counts[RATIO] > LEAST_RATIO:
        state.counts[RATIO] = max(LEAST_RATIO, state.counts[RATIO] - passes * RATIO_STEP)


def sglang(state: State) -> None:
    """SGLang (0.5: managers/scheduler.py, schedule_policy.py): prompts alone, else everyone decodes. Who is
    admitted must fit with its output beside a share of the others'; that share falls, and rises again where
    someone had to go. Blocks where it has pages, and order of arrival for whoever had to go."""
    order_by(state, BY_ARRIVAL)
    counts = state.counts
    if counts[RATIO] == 0 or counts[N_RUNNING] == 0:
        counts[RATIO] = FIRST_RATIO
    free_rows = counts[LEFT]
    continue_prefills(state, 0, 0)
    admit_beside_reserve(state)
    if counts[LEFT] == free_rows:
        retract(state)
        continue_decodes(state)
        if counts[N_LOST] == 0:
            let_ratio_fall(state, 1)
        verify_drafts(state, draft_rows(state))


POLICIES: dict[str, Policy] = {
    "decode-first": decode_first,
    "prefill-first": prefill_first,
    "static": static,
    "priority": priority,
    "shortest-first": shortest_first,
    "vllm": vllm,
    "sglang": sglang,
}
