"""Requests and replicas before a simulation, and more room for them in it. Python only, never in a loop."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from twophase.cost.pass_times import PassTimes
from twophase.errors import InputError
from twophase.scheduler.request import Limits
from twophase.scheduler.scheduler import policy_named
from twophase.scheduler.state import new_state, with_more_slots
from twophase.simulate.books import (
    CLOSED_FORM,
    DRAFT_TOKENS,
    KEEPS_BLOCKS,
    KEYS,
    KEYS_FROM,
    KV_GIVEN,
    N_GAPS,
    N_ROWS,
    N_SPANS,
    N_VACANT,
    OUTPUT_TOKENS,
    POLICY,
    PRIORITY_CLASS,
    PROMPT,
    SEED,
    SPECULATES,
    VACANT_SLOT,
    Passes,
    Records,
    Replica,
    Requests,
)
from twophase.simulate.deciding import NUMBERS

ROWS, SLOTS = 1 << 14, 1 << 10


def requests_of(
    arrival_s: ArrayLike,
    prompt_tokens: ArrayLike,
    output_tokens: ArrayLike,
    *,
    priority: ArrayLike = 0,
    keys: ArrayLike = (),
    key_offsets: ArrayLike | None = None,
    drafts: ArrayLike = 0,
    acceptance: ArrayLike = 0.0,
    kv_given: ArrayLike = 0,
    keeps_blocks: ArrayLike = 0,
) -> Requests:
    """Arrays of one element a request, or one number for all. `keys[key_offsets[i] : key_offsets[i + 1]]`: a
    key for each full block of request i, those of its output last where they are known.

    InputError where arrivals are not in order of time, or something is no number or negative.
    """
    arrivals = np.array(arrival_s, np.float64).reshape(-1)
    if not np.all(np.isfinite(arrivals)) or np.any(arrivals < 0) or np.any(np.diff(arrivals) < 0):
        raise InputError("arrival times must be seconds from 0 on, in order")
    counts = np.zeros((len(arrivals), 8), np.int64)
    offsets = np.zeros(len(arrivals) + 1) if key_offsets is None else np.asarray(key_offsets, np.int64)
    columns = {
        PROMPT: prompt_tokens,
        OUTPUT_TOKENS: output_tokens,
        PRIORITY_CLASS: priority,
        KEYS_FROM: offsets[:-1],
        KEYS: np.diff(offsets),
        DRAFT_TOKENS: drafts,
        KV_GIVEN: kv_given,
        KEEPS_BLOCKS: keeps_blocks,
    }
    for column, values in columns.items():
        counts[:, column] = values
    rates = np.empty(len(arrivals))
    rates[:] = acceptance
    if np.any(rates < 0) or np.any(rates > 1):
        raise InputError("an acceptance rate of drafts must lie between 0 and 1")
    if np.any(counts[:, [DRAFT_TOKENS, KEYS, KV_GIVEN]] < 0):
        raise InputError("drafts, block keys and given tokens can't be negative")
    if np.any(counts[:, KV_GIVEN] >= np.maximum(counts[:, PROMPT], 1)):
        raise InputError("a prompt's last token must be computed: fewer tokens can be given than it has")
    arena = np.array(keys, np.int64).reshape(-1)
    return Requests(arrivals, counts, rates, arena if len(arena) else np.zeros(1, np.int64))


def records_of(requests: Requests) -> Records:
    count = len(requests.arrival_s)
    return Records(np.full((count, 3), np.nan), np.zeros((count, 7), np.int64))


def new_replica(
    limits: Limits,
    policy: str,
    requests: Requests,
    times: PassTimes,
    *,
    records: Records | None = None,
    ageing: int = 64,
    closed_form: bool = True,
    trace: bool = False,
    seed: int = 0,
    rows: int = ROWS,
    slots: int = SLOTS,
) -> Replica:
    """`records`: by default its own. `trace`: every span of every pass is written down. InputError where
    `policy` is none of ours, or PassTimes are not given up to the limits."""
    policy_named(policy)
    if len(times.rows_s) <= limits.budget:
        raise InputError(
            f"pass times go up to {len(times.rows_s) - 1} rows; passes have up to {limits.budget}"
        )
    seats = limits.max_sequences
    state = new_state(limits, slots, ageing)._replace(arena=requests.keys)
    counts, clock = np.zeros(15, np.int64), np.zeros(5)
    counts[[N_VACANT, POLICY, CLOSED_FORM, SEED]] = slots, NUMBERS[policy], closed_form, seed
    counts[SPECULATES] = bool(np.any(requests.counts[:, DRAFT_TOKENS] > 0))
    stack = np.zeros((slots, 2), np.int64)
    stack[:, VACANT_SLOT] = np.arange(slots)[::-1]
    return Replica(
        state=state,
        requests=requests,
        records=records_of(requests) if records is None else records,
        times=times,
        passes=new_passes(rows, seats, trace),
        slots=stack,
        last_s=np.zeros(slots),
        spans=np.zeros((4, seats), np.int64),
        clock=clock,
        counts=counts,
    )


def new_passes(rows: int, seats: int, trace: bool) -> Passes:
    return Passes(
        seconds=np.zeros((rows, 6)),
        counts=np.zeros((rows, 10), np.int64),
        gaps=np.zeros((rows + seats, 2)),
        spans=np.zeros((8 * (rows + seats) if trace else 0, 5), np.int64),
    )


def with_more_room(replica: Replica) -> Replica:
    """The same replica with twice as many slots for requests."""
    before = len(replica.slots)
    state = with_more_slots(replica.state)
    slots, last_s = np.zeros((2 * before, 2), np.int64), np.zeros(2 * before)
    slots[:before], last_s[:before] = replica.slots, replica.last_s
    vacant = replica.counts[N_VACANT]
    slots[vacant : vacant + before, VACANT_SLOT] = np.arange(2 * before - 1, before - 1, -1)
    replica.counts[N_VACANT] += before
    return replica._replace(state=state, slots=slots, last_s=last_s)


def written(replica: Replica) -> Passes:
    """A copy of all that was written of passes since the last call; there is room again."""
    counts, passes = replica.counts, replica.passes
    taken = Passes(
        passes.seconds[: counts[N_ROWS]].copy(),
        passes.counts[: counts[N_ROWS]].copy(),
        passes.gaps[: counts[N_GAPS]].copy(),
        passes.spans[: counts[N_SPANS]].copy(),
    )
    counts[[N_ROWS, N_GAPS, N_SPANS]] = 0
    return taken


def joined(parts: Sequence[Passes]) -> Passes:
    if len(parts) == 1:
        return parts[0]
    return Passes(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
