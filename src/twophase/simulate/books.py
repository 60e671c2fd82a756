"""What a simulation reads and writes: a few arrays by request, by pass and of one replica.

All are arrays that compiled loops fill; whoever wants gaps, percentiles or shares of phases makes them of
these at the end. A request is a row of Requests and of Records, and lies in a slot of the scheduler while it
is outstanding.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_times import PassTimes
from twophase.scheduler.state import State

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# columns of Requests.counts
(
    PROMPT,  # tokens
    OUTPUT_TOKENS,  # that it will produce
    PRIORITY_CLASS,  # smaller is served first
    KEYS_FROM,  # its block keys in Requests.keys
    KEYS,
    DRAFT_TOKENS,  # verified in each of its decode passes; 0: no speculation
    KV_GIVEN,  # tokens whose KV another replica computed and sent
    KEEPS_BLOCKS,  # 1: its blocks are held when it ends, until `let_go`
) = range(8)


class Requests(NamedTuple):
    """One row a request, in order of arrival. Several replicas may read the same."""

    arrival_s: Floats
    counts: Ints  # [requests, 8]
    acceptance: Floats  # chance that a draft is accepted, where those before it were
    keys: Ints  # of all requests' blocks; of outputs, too, where they are known


# columns of Records.moments: seconds, NaN where it didn't come to that
SCHEDULED_S, FIRST_TOKEN_S, FINISHED_S = range(3)
# columns of Records.counts
OUTCOME, REFUSAL, CACHED, LOST_BLOCKS, PRODUCED, DRAFTED, ACCEPTED = range(7)
# OUTCOME
UNSEEN, OUTSTANDING, FINISHED, REJECTED, TRUNCATED = range(5)


class Records(NamedTuple):
    """What became of each request. Several replicas may write the same, each its own rows."""

    moments: Floats  # [requests, 3]
    counts: Ints  # [requests, 7]


# columns of Passes.seconds; OWN_S: of SECONDS, without waiting for others in step
START_S, SECONDS, GROWTH_S, FLOPS, BYTES, OWN_S = range(6)
# columns of Passes.counts
(
    PASSES,  # alike, one after the other; each takes GROWTH_S longer than the one before it
    DECODES,  # spans of a sequence's newest token, and drafts behind it
    DECODE_ROWS,
    PROMPTS,  # spans of all else
    PROMPT_ROWS,
    DECODE_CONTEXT,  # tokens in the caches of those that decode, in the first of the passes
    USED_BLOCKS,  # while the first of them runs, and so the next four
    WAITING_REQUESTS,
    RUNNING_REQUESTS,
    STEADY,  # sequences to which the first pass gives a token, as did the one just before it
) = range(10)
# columns of Passes.gaps
GAP_S, SEQUENCES = range(2)
# columns of Passes.spans
PASS_NUMBER, REQUEST_ROW, NEW, CONTEXT_BEFORE, LOGIT_ROWS = range(5)


class Passes(NamedTuple):
    """One row for each pass, or for a run of decode passes with the same members.

    Gaps between tokens: in the first pass of a row, STEADY of its length; in each later one, DECODES of its
    length; and those of sequences that others had held up, in `gaps`.
    """

    seconds: Floats  # [rows, 6]
    counts: Ints  # [rows, 10]
    gaps: Floats  # [rows, 2]
    spans: Ints  # [rows, 5]: every span of every pass, where it has room for any


# columns of Replica.clock
NOW, ENDS_S, BUSY_S, TOTAL_FLOPS, TOTAL_BYTES = range(5)
# places in Replica.counts
(
    IN_FLIGHT,  # spans of the pass that runs; 0: none does
    N_SUBMITTED,
    N_VACANT,
    N_LEAVING,
    N_OUTSTANDING,
    N_TOKENS,  # produced
    N_PASSES,
    N_ROWS,  # of Passes in use
    N_GAPS,
    N_SPANS,
    POLICY,  # a place in POLICIES
    CLOSED_FORM,  # 1: runs of decode passes are advanced at once
    SEED,
    N_FINISHED,
    SPECULATES,  # 1: some request has drafts
) = range(15)
# rows of Replica.spans
SLOT, SPAN_ROWS, SPAN_CONTEXT, ENDED = range(4)
# columns of Replica.slots
REQUEST, VACANT_SLOT = range(2)


class Replica(NamedTuple):
    """One engine: its scheduler, the pass that runs, its clock, and what it writes."""

    state: State
    requests: Requests
    records: Records
    times: PassTimes
    passes: Passes
    slots: Ints  # [slots, 2]: the request that lies there; a stack of vacant ones
    last_s: Floats  # by slot: when its newest token came
    spans: Ints  # [4, seats]: the pass that runs
    clock: Floats
    counts: Ints
