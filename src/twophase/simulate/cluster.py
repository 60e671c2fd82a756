"""Several replicas behind a router, compiled or not.

Where everyone arrives by the clock, replicas need only be abreast when someone is routed. Where ends of some
are arrivals of others (turns of a conversation; prompts whose KV is sent to a decode replica), passes are
taken in order of time, those of all replicas together.
"""

import numpy as np

from twophase.scheduler.state import HEAP, MAX_OUTPUT, N_RUNNING, N_WAITING, OUTPUT, RUNS
from twophase.simulate.arena import clock_at, counts_at, has_work_at, replica_at
from twophase.simulate.books import (
    DRAFT_TOKENS,
    ENDS_S,
    FINISHED,
    FINISHED_S,
    IN_FLIGHT,
    NOW,
    OUTCOME,
    REJECTED,
    REQUEST,
    SCHEDULED_S,
    SLOT,
    Replica,
)
from twophase.simulate.cluster_books import (
    ARRIVED_S,
    BANDWIDTH,
    DECODE,
    DECODE_TARGET,
    END_RANK,
    EVENT_KIND,
    EVENT_REQUEST,
    FIRST_RANK,
    FOLLOWER,
    HEAP_SIZE,
    HOME,
    KV_ARRIVES,
    LATENCY,
    LAYERS,
    NEXT_ROOT,
    OVERLAPS,
    PREFILL,
    SENT_S,
    TARGET,
    THINK,
    TIME,
    TURN,
    Cluster,
)
from twophase.simulate.events import pop, push
from twophase.simulate.in_step import advance_in_step
from twophase.simulate.one_pass import end_pass
from twophase.simulate.replica import (
    DONE,
    advance,
    let_go,
    submit,
)
from twophase.simulate.router import note_routed, route

FEW = 64  # of those who wait: more are not looked at one by one
ROUNDING = 1 - 1e-9


def advance_group(cluster: Cluster, first: int, until_s: float) -> tuple[int, int]:
    """A replica alone, or ranks in step from the first on."""
    if cluster.groups[first, END_RANK] - first > 1:
        return advance_in_step(cluster, first, until_s)
    return advance(replica_at(cluster, first), until_s), first


def submit_at(cluster: Cluster, i: int, request: int, moment: float) -> int:
    # it needs a pass at least
    cluster.soonest_s[i] = min(cluster.soonest_s[i], moment + ROUNDING * cluster.least_pass_s[i])
    return submit(replica_at(cluster, i), request, moment)


def ready_at(cluster: Cluster, i: int) -> float:
    """When its pass ends; infinity where none runs."""
    return float(clock_at(cluster, i)[ENDS_S] if counts_at(cluster, i)[IN_FLIGHT] > 0 else np.inf)


def waits(cluster: Cluster, first: int) -> bool:
    """No pass of the group runs, and someone has work."""
    work = False
    for i in range(first, cluster.groups[first, END_RANK]):
        if counts_at(cluster, i)[IN_FLIGHT] > 0:
            return False
        work = work or has_work_at(cluster, i)
    return work


def advance_all(cluster: Cluster, until_s: float) -> tuple[int, int]:
    for i in range(len(cluster.roles)):
        if cluster.groups[i, FIRST_RANK] == i:
            code, which = advance_group(cluster, i, until_s)
            if code != DONE:
                return code, which
    return DONE, -1


def next_end_s(replica: Replica, least_pass_s: float) -> float:
    """Before this none of its requests can be done: each token to come takes a pass."""
    state, passes = replica.state, 1 << 30
    if replica.requests.counts[0, DRAFT_TOKENS] > 0 or state.counts[N_WAITING] > FEW:
        passes = 1
    for i in range(state.counts[N_RUNNING]):
        row = state.slots[state.seats[i, RUNS]]
        passes = min(passes, row[MAX_OUTPUT] - row[OUTPUT])
    for i in range(min(state.counts[N_WAITING], FEW)):
        row = state.slots[state.slots[i, HEAP]]
        passes = min(passes, row[MAX_OUTPUT] - row[OUTPUT])
    return float(replica.clock[NOW] + ROUNDING * passes * least_pass_s)


def next_event_s(cluster: Cluster) -> float:
    """Of those that are known: who arrives by the clock, whose turn it is, whose KV comes."""
    moment = np.inf
    if cluster.counts[NEXT_ROOT] < len(cluster.roots):
        moment = cluster.arrival_s[cluster.roots[cluster.counts[NEXT_ROOT]]]
    if cluster.counts[HEAP_SIZE] > 0 and cluster.heap[0] < moment:
        moment = cluster.heap[0]
    return moment


def next_from_others_s(cluster: Cluster, i: int, moment: float, talks: bool) -> float:
    """Before this nothing comes to the replica from ends on others: where prompts are sent to it, from
    prefill replicas; where turns follow answers (`talks`), from any."""
    soonest = np.inf
    for j in range(len(cluster.roles)):
        sends = cluster.roles[i] == DECODE and cluster.roles[j] == PREFILL
        if j != i and (talks or sends) and (has_work_at(cluster, j) or counts_at(cluster, j)[IN_FLIGHT] > 0):
            later = cluster.clock[LATENCY] if sends else cluster.clock[THINK]
            soonest = min(soonest, max(cluster.soonest_s[j], moment) + later)
    return soonest


def undisturbed_s(cluster: Cluster, first: int, moment: float, talks: bool) -> float:
    """Before this nothing comes to the group from others' ends, nor does an end of its own matter."""
    soonest = np.inf
    for i in range(first, cluster.groups[first, END_RANK]):
        soonest = min(soonest, next_from_others_s(cluster, i, moment, talks))
        if (talks or cluster.roles[i] == PREFILL) and has_work_at(cluster, i):
            soonest = min(soonest, cluster.soonest_s[i])
    return soonest


def begin_all(cluster: Cluster, talks: bool) -> tuple[int, int]:
    """Every idle replica with work goes on until something may come to it, or an end of its own matters."""
    moment = cluster.clock[TIME]
    for i in range(len(cluster.roles)):
        if has_work_at(cluster, i) and waits(cluster, cluster.groups[i, FIRST_RANK]):
            clock_at(cluster, i)[NOW] = max(clock_at(cluster, i)[NOW], moment)
            cluster.soonest_s[i] = next_end_s(replica_at(cluster, i), cluster.least_pass_s[i])
    known = next_event_s(cluster)
    for i in range(len(cluster.roles)):
        if cluster.groups[i, FIRST_RANK] == i and waits(cluster, i):
            until = min(known, undisturbed_s(cluster, i, moment, talks))
            # a pass that ends just then stays in flight: it must be seen to end
            until = max(np.nextafter(until, -np.inf), np.nextafter(moment, np.inf))
            code, which = advance_group(cluster, i, until)
            if code != DONE:
                return code, which
    return DONE, -1


def send(cluster: Cluster, request: int, source: int, computed_s: float) -> None:
    """A prompt's KV goes to a decode replica: one transfer after the other on the links of both.

    Layer by layer: while the prompt is computed, all but the last layer's part. It is held here until it has
    arrived.
    """
    target = route(cluster, request, True)
    note_routed(cluster, True)
    ready = computed_s
    if cluster.counts[OVERLAPS] > 0:
        ready = replica_at(cluster, source).records.moments[request, SCHEDULED_S]
    seconds = cluster.kv_bytes[request] / cluster.clock[BANDWIDTH]
    sender, receiver = cluster.groups[source, HOME], cluster.groups[target, HOME]
    begins = max(ready, cluster.link_free_s[sender], cluster.link_free_s[receiver])
    ends = max(begins + seconds, computed_s + seconds / cluster.clock[LAYERS])
    cluster.link_free_s[sender] = cluster.link_free_s[receiver] = ends
    cluster.routes[request, DECODE_TARGET] = target
    cluster.transfers[request, SENT_S] = begins
    cluster.transfers[request, ARRIVED_S] = ends + cluster.clock[LATENCY]
    push(cluster, ends + cluster.clock[LATENCY], KV_ARRIVES, request)


def note_ends(cluster: Cluster, i: int, flight: int, moment: float) -> None:
    """`flight` spans were in the pass that ended."""
    replica = replica_at(cluster, i)
    for k in range(flight):
        request = replica.slots[replica.spans[SLOT, k], REQUEST]
        moments, outcome = replica.records.moments[request], replica.records.counts[request, OUTCOME]
        if outcome == FINISHED and moments[FINISHED_S] == moment:
            if cluster.roles[i] == PREFILL:
                send(cluster, request, i, moment)
            elif cluster.routes[request, FOLLOWER] >= 0:
                follower = cluster.routes[request, FOLLOWER]
                push(cluster, moment + cluster.think_s[follower], TURN, follower)


def end_passes(cluster: Cluster, moment: float) -> None:
    """Passes that end now: whoever is done sends its KV on, or lets its next turn come."""
    for i in range(len(cluster.roles)):
        if ready_at(cluster, i) == moment:
            flight = counts_at(cluster, i)[IN_FLIGHT]
            end_pass(replica_at(cluster, i))
            note_ends(cluster, i, flight, moment)


def arrive(cluster: Cluster, request: int, moment: float) -> tuple[int, int]:
    target = route(cluster, request, False)
    cluster.arrival_s[request] = moment
    code = submit_at(cluster, target, request, moment)
    if code != DONE:
        return code, target
    cluster.routes[request, TARGET] = target
    note_routed(cluster, False)
    follower = cluster.routes[request, FOLLOWER]
    if follower >= 0 and replica_at(cluster, target).records.counts[request, OUTCOME] == REJECTED:
        push(cluster, moment + cluster.think_s[follower], TURN, follower)  # whoever waits is told at once
    return DONE, -1


def serve_cluster(cluster: Cluster, until_s: float) -> tuple[int, int]:
    """Everyone who arrives before `until_s` is served to the end, or to `until_s`."""
    counts = cluster.counts
    while counts[NEXT_ROOT] < len(cluster.roots):
        request = cluster.roots[counts[NEXT_ROOT]]
        moment = cluster.arrival_s[request]
        if moment > until_s:
            break
        code, which = advance_all(cluster, moment)
        if code == DONE:
            code, which = arrive(cluster, request, moment)
        if code != DONE:
            return code, which
        counts[NEXT_ROOT] += 1
    return advance_all(cluster, until_s)


def happen(cluster: Cluster) -> tuple[int, int]:
    """The next event. It is over only where this returns DONE."""
    counts = cluster.counts
    moment = next_event_s(cluster)
    if counts[HEAP_SIZE] == 0 or cluster.heap[0] != moment:
        code, which = arrive(cluster, cluster.roots[counts[NEXT_ROOT]], moment)
        if code == DONE:
            counts[NEXT_ROOT] += 1
        return code, which
    request = cluster.events[0, EVENT_REQUEST]
    if cluster.events[0, EVENT_KIND] == TURN:
        code, which = arrive(cluster, request, moment)
    else:
        target = cluster.routes[request, DECODE_TARGET]
        code, which = submit_at(cluster, target, request, moment), target
        if code == DONE:
            let_go(replica_at(cluster, cluster.routes[request, TARGET]), request, moment)
    if code == DONE:
        pop(cluster)
    return code, which


def soonest_end_s(cluster: Cluster) -> float:
    soonest = np.inf
    for i in range(len(cluster.roles)):
        soonest = min(soonest, ready_at(cluster, i))
    return soonest


def serve_linked(cluster: Cluster, until_s: float, talks: bool) -> tuple[int, int]:
    """The same where ends of some are arrivals of others. What ends at a moment is taken in first, then what
    arrives at it, then passes begin."""
    while True:
        moment = min(soonest_end_s(cluster), next_event_s(cluster))
        if moment != cluster.clock[TIME] or moment == np.inf:
            code, which = begin_all(cluster, talks)
            if code != DONE:
                return code, which
            moment = min(soonest_end_s(cluster), next_event_s(cluster))
        if moment == np.inf or moment > until_s:
            return DONE, -1
        cluster.clock[TIME] = moment
        end_passes(cluster, moment)
        while next_event_s(cluster) == moment:
            code, which = happen(cluster)
            if code != DONE:
                return code, which


def serve_together(cluster: Cluster, until_s: float, linked: bool, talks: bool) -> tuple[int, int]:
    """`linked`: prompts are sent from replica to replica; `talks`: turns follow answers.

    Returns (DONE, -1), or what is lacking and the replica that lacks it; then call again.
    """
    if linked or talks:
        return serve_linked(cluster, until_s, talks)
    return serve_cluster(cluster, until_s)
