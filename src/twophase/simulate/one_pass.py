"""One pass: what it costs when it starts, and what it gave when it ends."""

from twophase.cost.pass_seconds import floor_seconds, pass_cost
from twophase.scheduler.moves import decodes, dismiss, name_filled, take_in
from twophase.scheduler.state import (
    BLOCK_SIZE,
    COMPUTED,
    DRAFTS,
    KEY_COUNT,
    KEY_ROOM,
    KNOWN,
    LEAVING,
    MAX_OUTPUT,
    N_DRAFTS,
    N_FREE,
    N_RUNNING,
    N_WAITING,
    OUTPUT,
    PICKED,
    PREEMPTED,
    ROWS,
    STATUS,
    State,
)
from twophase.simulate.books import (
    ACCEPTED,
    BUSY_S,
    BYTES,
    CACHED,
    CONTEXT_BEFORE,
    DECODE_CONTEXT,
    DECODE_ROWS,
    DECODES,
    DRAFT_TOKENS,
    DRAFTED,
    ENDED,
    ENDS_S,
    FINISHED,
    FINISHED_S,
    FIRST_TOKEN_S,
    FLOPS,
    GAP_S,
    GROWTH_S,
    IN_FLIGHT,
    KEEPS_BLOCKS,
    LOGIT_ROWS,
    LOST_BLOCKS,
    N_FINISHED,
    N_GAPS,
    N_LEAVING,
    N_OUTSTANDING,
    N_PASSES,
    N_ROWS,
    N_SPANS,
    N_TOKENS,
    N_VACANT,
    NEW,
    NOW,
    OUTCOME,
    OWN_S,
    PASS_NUMBER,
    PASSES,
    PRODUCED,
    PROMPT_ROWS,
    PROMPTS,
    REQUEST,
    REQUEST_ROW,
    RUNNING_REQUESTS,
    SCHEDULED_S,
    SECONDS,
    SEED,
    SEQUENCES,
    SLOT,
    SPAN_CONTEXT,
    SPAN_ROWS,
    SPECULATES,
    START_S,
    STEADY,
    TOTAL_BYTES,
    TOTAL_FLOPS,
    USED_BLOCKS,
    VACANT_SLOT,
    WAITING_REQUESTS,
    Replica,
)
from twophase.simulate.drafts import accepted
from twophase.simulate.run_ahead import all_decode, passes_alike, run_ahead, total_seconds

ROUNDING = 1.0 - 1e-9


def note_first(replica: Replica, slot: int, context: int) -> None:
    """In its first pass nothing but the prefix cache can have computed its context."""
    if replica.last_s[slot] == -1.0:
        request = replica.slots[slot, REQUEST]
        replica.records.moments[request, SCHEDULED_S] = replica.clock[NOW]
        replica.records.counts[request, CACHED] = context
        replica.last_s[slot] = -2.0


def note_gaps(replica: Replica, spans: int, ends: float) -> None:
    """Those whose next token this pass gives, and not the one just before it; equal gaps together."""
    gaps, first = replica.passes.gaps, replica.counts[N_GAPS]
    for i in range(spans):
        slot = replica.spans[SLOT, i]
        request = replica.state.slots[slot]
        gives = replica.spans[SPAN_CONTEXT, i] + replica.spans[SPAN_ROWS, i] >= request[KNOWN]
        if gives and request[OUTPUT] > 0 and replica.last_s[slot] != replica.clock[NOW]:
            gap, at = ends - replica.last_s[slot], replica.counts[N_GAPS]
            if at > first and gaps[at - 1, GAP_S] == gap:
                gaps[at - 1, SEQUENCES] += 1
            else:
                gaps[at, GAP_S], gaps[at, SEQUENCES] = gap, 1.0
                replica.counts[N_GAPS] += 1


def note_spans(replica: Replica, spans: int, passes: int) -> None:
    """Every span of these passes, where someone wants to read them."""
    noted = replica.passes.spans
    if len(noted) > 0:
        for number in range(passes):
            for i in range(spans):
                row = noted[replica.counts[N_SPANS]]
                request = replica.state.slots[replica.spans[SLOT, i]]
                row[PASS_NUMBER] = replica.counts[N_PASSES] + number
                row[REQUEST_ROW] = replica.slots[replica.spans[SLOT, i], REQUEST]
                row[NEW] = replica.spans[SPAN_ROWS, i]
                row[CONTEXT_BEFORE] = replica.spans[SPAN_CONTEXT, i] + number
                row[LOGIT_ROWS] = max(0, row[CONTEXT_BEFORE] + row[NEW] - request[KNOWN] - number + 1)
                replica.counts[N_SPANS] += 1


def start_pass(replica: Replica, spans: int, until_s: float) -> bool:
    """The pass that was just planned begins now. False where it would be faster than its floor."""
    state, span, counts, clock = replica.state, replica.spans, replica.counts, replica.clock
    row = replica.passes.counts[counts[N_ROWS]]
    logits, later, steady, tokens, decoding, decode_rows, rows = 0, 0, 0, 0, 0, 0, 0
    for i in range(spans):
        slot, new = state.seats[i, PICKED], state.seats[i, ROWS]
        request = state.slots[slot]
        context = request[COMPUTED]
        span[SLOT, i], span[SPAN_ROWS, i], span[SPAN_CONTEXT, i] = slot, new, context
        wanted = max(0, context + new - request[KNOWN] + 1)
        logits += wanted
        if wanted > 0 and request[OUTPUT] > 0:  # there is a token before the one that comes
            later += 1
            steady += replica.last_s[slot] == clock[NOW]
        rows += new
        if decodes(state, slot):
            decoding += 1
            decode_rows += new
            tokens += context
        else:
            note_first(replica, slot, context)
    row[DECODES], row[DECODE_ROWS], row[DECODE_CONTEXT], row[STEADY] = decoding, decode_rows, tokens, steady
    row[PROMPTS], row[PROMPT_ROWS] = spans - decoding, rows - decode_rows
    seconds, flops, bytes_ = pass_cost(
        replica.times, span[SPAN_ROWS][:spans], span[SPAN_CONTEXT][:spans], logits
    )
    if seconds < ROUNDING * floor_seconds(replica.times, flops, bytes_):
        return False
    row[PASSES] = 1
    row[USED_BLOCKS] = len(state.blocks) - state.counts[N_FREE]
    row[WAITING_REQUESTS], row[RUNNING_REQUESTS] = state.counts[N_WAITING], state.counts[N_RUNNING]
    if steady < later:
        note_gaps(replica, spans, clock[NOW] + seconds)
    own = replica.passes.seconds[counts[N_ROWS]]
    own[START_S], own[GROWTH_S] = clock[NOW], 0.0
    if all_decode(replica, spans, decoding, steady):
        passes, growth_s, more_flops, more_bytes = passes_alike(replica, spans, seconds, until_s)
        if len(replica.passes.spans) > 0:
            passes = min(passes, (len(replica.passes.spans) - counts[N_SPANS]) // spans)
        if passes > 1:
            note_spans(replica, spans, passes)
            run_ahead(replica, spans, passes)
            row[PASSES], own[GROWTH_S] = passes, growth_s
            seconds = total_seconds(seconds, growth_s, passes)
            flops = total_seconds(flops, more_flops, passes)
            bytes_ = total_seconds(bytes_, more_bytes, passes)
            counts[N_TOKENS] += spans * (passes - 1)
            if seconds < ROUNDING * floor_seconds(replica.times, flops, bytes_):
                return False
        else:
            note_spans(replica, spans, 1)
    else:
        note_spans(replica, spans, 1)
    own[SECONDS] = own[OWN_S] = seconds
    own[FLOPS], own[BYTES] = flops, bytes_
    clock[BUSY_S] += seconds
    clock[TOTAL_FLOPS] += flops
    clock[TOTAL_BYTES] += bytes_
    clock[ENDS_S] = clock[NOW] + seconds
    counts[IN_FLIGHT] = spans
    counts[N_PASSES] += row[PASSES]
    counts[N_ROWS] += 1
    return True


def next_drafts(replica: Replica, slot: int) -> int:
    """Drafts that it will verify in its next pass."""
    return int(replica.requests.counts[replica.slots[slot, REQUEST], DRAFT_TOKENS])


def note_drafts(replica: Replica, slot: int, drafts: int) -> int:
    """The drafts that its span verified. Returns those that are accepted."""
    if drafts <= 0:
        return 0
    request = replica.slots[slot, REQUEST]
    known, rate = replica.state.slots[slot, KNOWN], replica.requests.acceptance[request]
    right = accepted(replica.counts[SEED], request, known, drafts, rate)
    replica.records.counts[request, DRAFTED] += drafts
    replica.records.counts[request, ACCEPTED] += right
    return right


def note_keys(state: State, slot: int, kept: int) -> None:
    """Keys of the blocks that its new tokens fill, where they are known."""
    request = state.slots[slot]
    size, known = state.settings[BLOCK_SIZE], request[KNOWN] + kept
    while request[KEY_COUNT] < request[KEY_ROOM] and (request[KEY_COUNT] + 1) * size <= known:
        request[KEY_COUNT] += 1


def hold_back(replica: Replica, slot: int) -> None:
    """It runs no more, and keeps its blocks and its seat."""
    request = replica.state.slots[slot]
    replica.state.counts[N_DRAFTS] -= request[DRAFTS]
    request[DRAFTS] = 0
    request[STATUS] = LEAVING


def end_requests(replica: Replica, done: int) -> None:
    """The slots in the first places of ENDED have all their tokens."""
    state, counts = replica.state, replica.counts
    ended = replica.spans[ENDED]
    going = 0
    for i in range(done):
        slot = ended[i]
        request = replica.slots[slot, REQUEST]
        replica.records.moments[request, FINISHED_S] = replica.clock[NOW]
        own = replica.records.counts[request]
        own[OUTCOME], own[PRODUCED] = FINISHED, state.slots[slot, OUTPUT]
        own[LOST_BLOCKS] = state.slots[slot, PREEMPTED]
        counts[N_OUTSTANDING] -= 1
        counts[N_FINISHED] += 1
        if replica.requests.counts[request, KEEPS_BLOCKS] > 0:
            counts[N_LEAVING] += 1
            hold_back(replica, slot)
        else:
            ended[going] = slot
            going += 1
            replica.slots[counts[N_VACANT], VACANT_SLOT] = slot
            counts[N_VACANT] += 1
    dismiss(state, ended[:going])


def end_pass(replica: Replica) -> None:
    """What the pass gave is taken in; who is done is gone."""
    state, span, counts, clock = replica.state, replica.spans, replica.counts, replica.clock
    spans, done, tokens = counts[IN_FLIGHT], 0, 0
    counts[IN_FLIGHT] = 0
    now = clock[NOW] = clock[ENDS_S]
    for i in range(spans):
        slot = span[SLOT, i]
        request = state.slots[slot]
        end, kept, drafts = span[SPAN_CONTEXT, i] + span[SPAN_ROWS, i], 0, 0
        if end >= request[KNOWN]:
            kept = 1
            if counts[SPECULATES] > 0:
                drafts = next_drafts(replica, slot)
                kept += note_drafts(replica, slot, end - request[KNOWN])
            if request[KEY_COUNT] < request[KEY_ROOM]:
                note_keys(state, slot, kept)
            if request[OUTPUT] == 0:
                row = replica.slots[slot, REQUEST]
                replica.records.moments[row, FIRST_TOKEN_S] = now
            replica.last_s[slot] = now
            if request[OUTPUT] + kept >= request[MAX_OUTPUT]:
                span[ENDED, done] = slot
                done += 1
        tokens += kept
        take_in(state, slot, end, kept, drafts)
    name_filled(state, span[SLOT][:spans])
    counts[N_TOKENS] += tokens
    if done > 0:
        end_requests(replica, done)
