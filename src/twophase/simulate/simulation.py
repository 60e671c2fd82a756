"""One replica serves requests: arrays in, arrays out.

requests = requests_of(arrival_s, prompt_tokens, output_tokens)
done = simulate_replica(requests, Limits(blocks=27_000, context_length=8192), pass_times, "decode-first")
done.records.moments[:, FIRST_TOKEN_S] - arrival_s       # TTFT of each
"""

from dataclasses import dataclass

import numpy as np

from twophase.cost.pass_times import PassTimes
from twophase.scheduler.request import Limits
from twophase.scheduler.state import OUTPUT, PREEMPTED, RUNNING, STATUS, WAITING
from twophase.simulate.books import (
    BUSY_S,
    LOST_BLOCKS,
    NOW,
    OUTCOME,
    OUTSTANDING,
    PRODUCED,
    REQUEST,
    TRUNCATED,
    Passes,
    Records,
    Replica,
    Requests,
)
from twophase.simulate.checks import WHY, check_balance
from twophase.simulate.compiling import compiled
from twophase.simulate.replica import DONE, PASSES_FULL, SLOTS_FULL
from twophase.simulate.setting_up import joined, new_replica, with_more_room, written


@dataclass(frozen=True, slots=True)
class Simulation:
    """Seconds on the simulation's clock. What the columns are: twophase.simulate.books."""

    requests: Requests
    records: Records
    passes: Passes
    ended_s: float
    busy_s: float  # in passes


def simulate_replica(
    requests: Requests,
    limits: Limits,
    times: PassTimes,
    policy: str = "decode-first",
    *,
    ageing: int = 64,
    seed: int = 0,
    max_time_s: float = float("inf"),
    closed_form: bool = True,
    trace: bool = False,
) -> Simulation:
    """Who isn't done at `max_time_s` is TRUNCATED; who had not come is UNSEEN. `seed`: of accepted drafts.
    `closed_form`: runs of decode passes at once, else every pass by itself. `trace`: all spans are kept.

    RuntimeError where an invariant of every simulation doesn't hold.
    """
    replica = new_replica(
        limits, policy, requests, times, ageing=ageing, seed=seed, closed_form=closed_form, trace=trace
    )
    serve = compiled("serve")
    parts: list[Passes] = []
    row, code = serve(replica, 0, max_time_s)
    while code != DONE:
        if code == PASSES_FULL:
            parts.append(written(replica))
        elif code == SLOTS_FULL:
            replica = with_more_room(replica)
        else:
            raise RuntimeError(WHY[code])
        row, code = serve(replica, row, max_time_s)
    parts.append(written(replica))
    check_balance([replica])
    truncate(replica)
    clock = replica.clock
    return Simulation(requests, replica.records, joined(parts), float(clock[NOW]), float(clock[BUSY_S]))


def truncate(replica: Replica) -> None:
    """Whoever isn't done is cut off, with the tokens that it has."""
    state, counts = replica.state, replica.records.counts
    here = np.flatnonzero((state.slots[:, STATUS] == RUNNING) | (state.slots[:, STATUS] == WAITING))
    rows = replica.slots[here, REQUEST]
    rows, here = rows[counts[rows, OUTCOME] == OUTSTANDING], here[counts[rows, OUTCOME] == OUTSTANDING]
    counts[rows, OUTCOME] = TRUNCATED
    counts[rows, PRODUCED], counts[rows, LOST_BLOCKS] = (
        state.slots[here, OUTPUT],
        state.slots[here, PREEMPTED],
    )
