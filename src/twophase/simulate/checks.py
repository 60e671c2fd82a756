"""What must hold after a simulation, whatever was simulated. Cheap enough to be looked at always."""

from collections.abc import Sequence

import numpy as np

from twophase.cost.pass_seconds import floor_seconds
from twophase.scheduler.state import LEAVING, N_FREE, OUTPUT, OWNERS, STATUS, VACANT
from twophase.simulate.books import (
    BUSY_S,
    FINISHED,
    N_OUTSTANDING,
    N_TOKENS,
    OUTCOME,
    OUTPUT_TOKENS,
    OUTSTANDING,
    PRODUCED,
    TOTAL_BYTES,
    TOTAL_FLOPS,
    Replica,
)
from twophase.simulate.replica import BELOW_FLOOR, OVER_BUDGET, STUCK

ROUNDING = 1.0 - 1e-6

WHY = {
    STUCK: "the policy leaves requests waiting for ever",
    BELOW_FLOOR: "a pass is faster than its floor: the pass times are wrong",
    OVER_BUDGET: "the policy grants more rows than a pass may have",
}


def check_balance(replicas: Sequence[Replica]) -> None:
    """RuntimeError that names the first invariant that does not hold. `replicas`: all that write to the same
    records."""
    tokens = 0
    for replica in replicas:
        state, clock = replica.state, replica.clock
        held = int(np.count_nonzero(state.blocks[:-1, OWNERS]))
        require(held + state.counts[N_FREE] == len(state.blocks), "free blocks and held ones are all blocks")
        floor = floor_seconds(replica.times, clock[TOTAL_FLOPS], clock[TOTAL_BYTES])
        require(clock[BUSY_S] >= ROUNDING * floor, "busy time is at least work by peak")
        here = (state.slots[:, STATUS] != VACANT) & (state.slots[:, STATUS] != LEAVING)
        require(
            np.count_nonzero(here) == replica.counts[N_OUTSTANDING], "who isn't done is in the books once"
        )
        tokens += int(replica.counts[N_TOKENS]) - int(state.slots[here, OUTPUT].sum())
    counts, asked = replicas[0].records.counts, replicas[0].requests.counts
    done = counts[:, OUTCOME] == FINISHED
    finished = int(counts[done, PRODUCED].sum())
    require(bool(np.all(counts[done, PRODUCED] == asked[done, OUTPUT_TOKENS])), "who is done has all tokens")
    require(tokens == finished, "every token is produced once")
    still_here = sum(int(replica.counts[N_OUTSTANDING]) for replica in replicas)
    require(int((counts[:, OUTCOME] == OUTSTANDING).sum()) == still_here, "every request has one outcome")


def require(holds: bool, invariant: str) -> None:
    if not holds:
        raise RuntimeError(f"the simulation's books don't balance: not so that {invariant}")
