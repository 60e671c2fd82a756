"""Ranks whose passes begin and end together, each with its own scheduler, queue and KV cache.

Data-parallel ones whose experts are dealt out over all of them: the experts' layers exchange the rows of all
ranks, so a pass lasts as long as the slowest needs, and who has nothing to run runs along (vLLM: "forward
passes must be aligned", with dummy passes, docs.vllm.ai/en/v0.12.0/serving/data_parallel_deployment).

Microbatches of pipeline stages: while one is in a stage, the others are in other stages, so that none comes
round again before the slowest has been through all of them. Where there are both, ranks meet within each
microbatch.
"""

from twophase.cost.dealt import EXCHANGES_S, EXPERTS_BYTES, EXPERTS_FLOPS, EXPERTS_S
from twophase.cost.pass_seconds import at_row, floor_seconds, like_decode
from twophase.simulate.arena import clock_at, counts_at, has_work_at, replica_at
from twophase.simulate.books import (
    BUSY_S,
    BYTES,
    CLOSED_FORM,
    DECODE_ROWS,
    DECODES,
    ENDS_S,
    FLOPS,
    GAP_S,
    GROWTH_S,
    IN_FLIGHT,
    N_GAPS,
    N_LEAVING,
    N_PASSES,
    N_ROWS,
    N_TOKENS,
    NOW,
    OWN_S,
    PASSES,
    PROMPT_ROWS,
    SECONDS,
    SPAN_CONTEXT,
    SPAN_ROWS,
    STEADY,
    TOTAL_BYTES,
    TOTAL_FLOPS,
    Replica,
)
from twophase.simulate.cluster_books import (
    ALONE_S,
    END_RANK,
    FIRST_GAP,
    FIRST_RANK,
    GROWS_BYTES,
    GROWS_FLOPS,
    GROWS_S,
    OWN_POOL,
    STEP_S,
    TOGETHER,
    Cluster,
)
from twophase.simulate.one_pass import end_pass, start_pass
from twophase.simulate.replica import BELOW_FLOOR, DONE, OVER_BUDGET, PASSES_FULL, STUCK, has_room, plan_pass
from twophase.simulate.run_ahead import all_decode, passes_alike, passes_until, run_ahead, total_seconds

FOREVER = float("inf")


def start_alone(cluster: Cluster, i: int, now: float) -> int:
    """A rank's next pass, if it has any, as if no other were there. One: whether those that follow are like
    it, all ranks say together."""
    replica = replica_at(cluster, i)
    counts, closed_form = replica.counts, replica.counts[CLOSED_FORM]
    replica.clock[NOW] = now
    if not has_work_at(cluster, i):
        return DONE
    spans = plan_pass(replica)
    if spans < 0:
        return OVER_BUDGET
    if spans == 0:
        return DONE
    cluster.steps[i, FIRST_GAP] = counts[N_GAPS]
    counts[CLOSED_FORM] = 0
    started = start_pass(replica, spans, now)
    counts[CLOSED_FORM] = closed_form
    return DONE if started else BELOW_FLOOR


def deals(cluster: Cluster, i: int) -> bool:
    """Whether its experts see other ranks' rows."""
    return bool(cluster.groups[i, TOGETHER] > 1)


def rows_of_pass(replica: Replica) -> int:
    if replica.counts[IN_FLIGHT] == 0:
        return 0
    row = replica.passes.counts[replica.counts[N_ROWS] - 1]
    return int(row[DECODE_ROWS] + row[PROMPT_ROWS])


def has_prompts(replica: Replica) -> bool:
    """A span of many rows is in its pass: no graph is replayed."""
    for k in range(replica.counts[IN_FLIGHT]):
        if not like_decode(replica.spans[SPAN_ROWS, k], replica.spans[SPAN_CONTEXT, k]):
            return True
    return False


def step_s(
    cluster: Cluster, i: int, mixed: bool, most: int, mean: int, received: int
) -> tuple[float, float, float]:
    """(seconds, FLOPs, bytes) of a rank's pass in step. Where no rank has prompts, all replay the graph of
    the one with most rows; else none replays any (vLLM's `_synchronize_dp_ranks`).

    Experts see the mean of the ranks' rows. Of what is gathered and scattered, the rank with fewest rows of
    its own receives most: all others', as if `received` were the rows of each.
    """
    replica, dealt = replica_at(cluster, i), cluster.dealt[cluster.groups[i, OWN_POOL]]
    times, own = replica.times, replica.passes.seconds[replica.counts[N_ROWS] - 1]
    rows, seconds = rows_of_pass(replica), own[SECONDS]
    if not deals(cluster, i):
        return seconds, own[FLOPS], own[BYTES]
    flops = own[FLOPS] + at_row(dealt[EXPERTS_FLOPS], mean) - at_row(dealt[EXPERTS_FLOPS], rows)
    bytes_ = own[BYTES] + at_row(dealt[EXPERTS_BYTES], mean) - at_row(dealt[EXPERTS_BYTES], rows)
    if not mixed:
        seconds += at_row(times.decode_rows_s, most) - at_row(times.decode_rows_s, rows)
    else:
        if not has_prompts(replica):
            seconds += at_row(times.rows_s, rows) - at_row(times.decode_rows_s, rows)
        seconds += at_row(dealt[EXPERTS_S], mean) - at_row(dealt[EXPERTS_S], rows)
        seconds += at_row(dealt[EXCHANGES_S], received) - at_row(dealt[EXCHANGES_S], rows)
        # where parts were the longer of arithmetic and traffic, their difference may be less than a part
        seconds = max(seconds, floor_seconds(times, flops, bytes_))
    return seconds, flops, bytes_


def passes_in_step(cluster: Cluster, first: int, end: int, slowest: int, until_s: float) -> int:
    """How many passes are like those just started: until someone on any rank ends or lacks a block, another
    rank becomes the slowest, or `until_s`."""
    most = 1 << 60
    for i in range(first, end):
        replica, steps = replica_at(cluster, i), cluster.steps[i]
        counts, spans = replica.counts, replica.counts[IN_FLIGHT]
        if spans == 0:
            if has_work_at(cluster, i):
                return 1
            continue
        row = replica.passes.counts[counts[N_ROWS] - 1]
        if len(replica.passes.spans) > 0 or not all_decode(replica, spans, row[DECODES], row[STEADY]):
            return 1
        alike, steps[GROWS_S], steps[GROWS_FLOPS], steps[GROWS_BYTES] = passes_alike(
            replica, spans, steps[STEP_S], FOREVER
        )
        most = min(most, alike)
    lasts, growth = cluster.steps[slowest, STEP_S], cluster.steps[slowest, GROWS_S]
    for i in range(first, end):
        steps = cluster.steps[i]
        if counts_at(cluster, i)[IN_FLIGHT] > 0 and steps[GROWS_S] > growth:
            until_slower = (lasts - steps[STEP_S]) / (steps[GROWS_S] - growth)
            if until_slower < most:
                most = min(most, int(until_slower) + 1)
    if most > 1:
        most = passes_until(clock_at(cluster, slowest)[NOW], lasts, growth, most, until_s)
    return most


def set_seconds(cluster: Cluster, i: int, lasts: float, growth: float, passes: int) -> None:
    """The rank's pass lasts so long, and so do those that follow it, each `growth` longer."""
    replica, steps = replica_at(cluster, i), cluster.steps[i]
    counts, clock, spans = replica.counts, replica.clock, replica.counts[IN_FLIGHT]
    number = counts[N_ROWS] - 1
    own, row = replica.passes.seconds[number], replica.passes.counts[number]
    for gap in range(int(steps[FIRST_GAP]), counts[N_GAPS]):
        replica.passes.gaps[gap, GAP_S] += lasts - steps[ALONE_S]
    own[SECONDS], own[OWN_S] = lasts, total_seconds(steps[STEP_S], steps[GROWS_S], passes)
    if passes > 1:
        run_ahead(replica, spans, passes)
        flops = total_seconds(own[FLOPS], steps[GROWS_FLOPS], passes)
        bytes_ = total_seconds(own[BYTES], steps[GROWS_BYTES], passes)
        clock[TOTAL_FLOPS] += flops - own[FLOPS]
        clock[TOTAL_BYTES] += bytes_ - own[BYTES]
        own[SECONDS], own[GROWTH_S] = total_seconds(lasts, growth, passes), growth
        own[FLOPS], own[BYTES], row[PASSES] = flops, bytes_, passes
        counts[N_TOKENS] += spans * (passes - 1)
        counts[N_PASSES] += passes - 1
    clock[BUSY_S] += own[SECONDS] - steps[ALONE_S]
    clock[ENDS_S] = clock[NOW] + own[SECONDS]


def run_along(cluster: Cluster, i: int, mean: int, seconds: float, passes: int) -> None:
    """An engine without work of its own: its experts take their share of the others' rows, its stages pass on
    the others' microbatches."""
    clock, dealt = clock_at(cluster, i), cluster.dealt[cluster.groups[i, OWN_POOL]]
    clock[BUSY_S] += seconds
    clock[TOTAL_FLOPS] += passes * at_row(dealt[EXPERTS_FLOPS], mean)
    clock[TOTAL_BYTES] += passes * at_row(dealt[EXPERTS_BYTES], mean)


def mean_rows(cluster: Cluster, i: int) -> int:
    """Of the ranks over which its experts are dealt out."""
    together, total = cluster.groups[i, TOGETHER], 0
    first = i - (i - cluster.groups[i, FIRST_RANK]) % together
    for rank in range(first, first + together):
        total += rows_of_pass(replica_at(cluster, rank))
    return int(-(-total // together))


def meet(cluster: Cluster, first: int, end: int, slowest: int) -> int:
    """What the passes of ranks that see one another's rows take. Returns the slowest so far, or -1."""
    total, most, least, mixed = 0, 0, 1 << 60, False
    for i in range(first, end):
        replica = replica_at(cluster, i)
        rows = rows_of_pass(replica)
        total, most, least = total + rows, max(most, rows), min(least, rows)
        mixed = mixed or has_prompts(replica)
    mean, received = -(-total // (end - first)), total
    if end - first > 1:
        received = -(-(total - least) // (end - first - 1))
    for i in range(first, end):
        replica = replica_at(cluster, i)
        if replica.counts[IN_FLIGHT] > 0:
            own, clock, steps = (
                replica.passes.seconds[replica.counts[N_ROWS] - 1],
                replica.clock,
                cluster.steps[i],
            )
            seconds, flops, bytes_ = step_s(cluster, i, mixed, most, mean, received)
            clock[TOTAL_FLOPS] += flops - own[FLOPS]
            clock[TOTAL_BYTES] += bytes_ - own[BYTES]
            steps[ALONE_S], steps[STEP_S] = own[SECONDS], seconds
            own[FLOPS], own[BYTES] = flops, bytes_
            if slowest < 0 or seconds > cluster.steps[slowest, STEP_S]:
                slowest = i
    return slowest


def bring_in_step(cluster: Cluster, first: int, end: int, until_s: float) -> None:
    """All passes that were just started last as long as the slowest, which is another one in company."""
    together, slowest = cluster.groups[first, TOGETHER], -1
    for rank in range(first, end, together):
        slowest = meet(cluster, rank, rank + together, slowest)
    passes = passes_in_step(cluster, first, end, slowest, until_s)
    lasts, growth = cluster.steps[slowest, STEP_S], 0.0
    if passes > 1:
        growth = cluster.steps[slowest, GROWS_S]
    for i in range(first, end):
        if counts_at(cluster, i)[IN_FLIGHT] > 0:
            set_seconds(cluster, i, lasts, growth, passes)
        else:
            seconds = total_seconds(lasts, growth, passes)
            run_along(cluster, i, mean_rows(cluster, i), seconds, passes)


def advance_in_step(cluster: Cluster, first: int, until_s: float) -> tuple[int, int]:
    """As `replica.advance`, all ranks of the group that begins with `first`."""
    end = cluster.groups[first, END_RANK]
    while True:
        now, flying, works, leaving = 0.0, False, False, False
        for i in range(first, end):
            if counts_at(cluster, i)[IN_FLIGHT] > 0:
                if clock_at(cluster, i)[ENDS_S] > until_s:
                    return DONE, -1
                end_pass(replica_at(cluster, i))
            now = max(now, clock_at(cluster, i)[NOW])
            works = works or has_work_at(cluster, i)
            leaving = leaving or counts_at(cluster, i)[N_LEAVING] > 0
        if now >= until_s or not works:
            return DONE, -1
        for i in range(first, end):
            if not has_room(replica_at(cluster, i)):
                return PASSES_FULL, i
        for i in range(first, end):
            code = start_alone(cluster, i, now)
            if code != DONE:
                return code, i
            flying = flying or counts_at(cluster, i)[IN_FLIGHT] > 0
        if not flying:
            return (DONE if leaving else STUCK), first
        bring_in_step(cluster, first, end, until_s)
