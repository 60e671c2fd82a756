"""One engine on a clock made of arithmetic, as far as someone wants it to go.

    replica = new_replica(limits, "decode-first", requests, times)       # Python: once
    code = advance(replica, moment); code = submit(replica, request, moment)   # compiled or not: any number

`advance` first, up to the moment at which something comes from outside, then `submit` (or `let_go`) at that
moment: what comes while a pass runs is seen at its end. Both return DONE, or what they lack; see `with_room`.
Plain loops over arrays, so that Numba can compile them as they stand; a loop over several replicas that is to
be compiled goes through twophase.simulate.compiling.
"""

from twophase.scheduler.moves import begin_pass, enqueue, fill_pass, refusal, release
from twophase.scheduler.pool import find
from twophase.scheduler.state import (
    ARRIVAL,
    BLOCK_SIZE,
    COMPUTED,
    DRAFTS,
    GIVEN,
    KEY_COUNT,
    KEY_ROOM,
    KEY_START,
    KNOWN,
    LEAVING,
    LEFT,
    MAX_OUTPUT,
    N_RUNNING,
    N_WAITING,
    OUTPUT,
    PREEMPTED,
    PREFIX_CACHE,
    PRIORITY,
    SERVED,
    STATUS,
    VACANT,
)
from twophase.simulate.books import (
    ENDS_S,
    IN_FLIGHT,
    KEYS,
    KEYS_FROM,
    KV_GIVEN,
    N_GAPS,
    N_LEAVING,
    N_OUTSTANDING,
    N_ROWS,
    N_SPANS,
    N_SUBMITTED,
    N_VACANT,
    NOW,
    OUTCOME,
    OUTPUT_TOKENS,
    OUTSTANDING,
    POLICY,
    PRIORITY_CLASS,
    PROMPT,
    REFUSAL,
    REJECTED,
    REQUEST,
    VACANT_SLOT,
    Replica,
)
from twophase.simulate.deciding import decide
from twophase.simulate.one_pass import end_pass, start_pass

# what advance and submit return
DONE, PASSES_FULL, SLOTS_FULL, STUCK, BELOW_FLOOR, OVER_BUDGET = range(6)


def has_room(replica: Replica) -> bool:
    """For what one pass, or a run of them, may write."""
    seats, passes, counts = len(replica.state.seats), replica.passes, replica.counts
    return bool(
        counts[N_ROWS] < len(passes.counts)
        and counts[N_GAPS] + seats <= len(passes.gaps)
        and (len(passes.spans) == 0 or counts[N_SPANS] + seats <= len(passes.spans))
    )


def plan_pass(replica: Replica) -> int:
    """Who is in the next pass: its spans, -1 where the policy gave more rows than there are."""
    state = replica.state
    begin_pass(state)
    decide(state, replica.counts[POLICY])
    spans = fill_pass(state)
    return -1 if state.counts[LEFT] < 0 else spans


def advance(replica: Replica, until_s: float) -> int:
    """Passes that begin before `until_s`, those in flight then excepted. The clock stands at `until_s` or
    earlier (nobody is to run), or a pass is in flight.

    PASSES_FULL: empty or enlarge `replica.passes` (`with_room`), and call again. STUCK: the policy leaves
    requests waiting for ever. BELOW_FLOOR, OVER_BUDGET: an error (`why`).
    """
    state, counts, clock = replica.state, replica.counts, replica.clock
    while True:
        if counts[IN_FLIGHT] > 0:
            if clock[ENDS_S] > until_s:
                return DONE
            end_pass(replica)
        if clock[NOW] >= until_s or state.counts[N_RUNNING] + state.counts[N_WAITING] == 0:
            return DONE
        if not has_room(replica):
            return PASSES_FULL
        spans = plan_pass(replica)
        if spans < 0:
            return OVER_BUDGET
        if spans == 0:
            return DONE if counts[N_LEAVING] > 0 else STUCK
        if not start_pass(replica, spans, until_s):
            return BELOW_FLOOR


def wait_until(replica: Replica, moment: float) -> None:
    """Whoever has nothing to run waits."""
    if replica.counts[IN_FLIGHT] == 0 and replica.clock[NOW] < moment:
        replica.clock[NOW] = moment


def submit(replica: Replica, request: int, moment: float) -> int:
    """The request (a row of `requests`) arrives here at `moment`, up to which the replica was advanced.

    DONE, also where it can never be served: its record says so. SLOTS_FULL: enlarge (`with_room`), and again.
    """
    state, counts, own = replica.state, replica.counts, replica.requests.counts[request]
    record = replica.records.counts[request]
    refused = refusal(state, own[PROMPT], own[OUTPUT_TOKENS])
    if refused != SERVED:
        record[OUTCOME], record[REFUSAL] = REJECTED, refused
        return DONE
    if counts[N_VACANT] == 0:
        return SLOTS_FULL
    wait_until(replica, moment)
    counts[N_VACANT] -= 1
    slot = replica.slots[counts[N_VACANT], VACANT_SLOT]
    replica.slots[slot, REQUEST] = request
    replica.last_s[slot] = -1.0
    row = state.slots[slot]
    row[KNOWN], row[MAX_OUTPUT], row[PRIORITY] = own[PROMPT], own[OUTPUT_TOKENS], own[PRIORITY_CLASS]
    row[COMPUTED] = row[OUTPUT] = row[DRAFTS] = row[PREEMPTED] = 0
    row[ARRIVAL], row[GIVEN] = counts[N_SUBMITTED], own[KV_GIVEN]
    row[KEY_START], row[KEY_ROOM] = own[KEYS_FROM], own[KEYS] * state.settings[PREFIX_CACHE]
    row[KEY_COUNT] = min(row[KEY_ROOM], own[PROMPT] // state.settings[BLOCK_SIZE])
    counts[N_SUBMITTED] += 1
    counts[N_OUTSTANDING] += 1
    record[OUTCOME] = OUTSTANDING
    enqueue(state, slot)
    return DONE


def let_go(replica: Replica, request: int, moment: float) -> None:
    """The blocks of a request that ended here, and keeps them, are free from `moment` on."""
    state, counts = replica.state, replica.counts
    for slot in range(len(replica.slots)):
        if state.slots[slot, STATUS] == LEAVING and replica.slots[slot, REQUEST] == request:
            wait_until(replica, moment)
            release(state, slot)
            state.slots[slot, STATUS] = VACANT
            replica.slots[counts[N_VACANT], VACANT_SLOT] = slot
            counts[N_VACANT] += 1
            counts[N_LEAVING] -= 1
            return


def cached_blocks(replica: Replica, request: int) -> int:
    """Blocks of the request's prompt that the prefix cache holds now."""
    state, own = replica.state, replica.requests.counts[request]
    most = min(own[KEYS], (own[PROMPT] - 1) // state.settings[BLOCK_SIZE]) * state.settings[PREFIX_CACHE]
    hits = 0
    while hits < most and find(state, replica.requests.keys[own[KEYS_FROM] + hits]) >= 0:
        hits += 1
    return int(hits)
