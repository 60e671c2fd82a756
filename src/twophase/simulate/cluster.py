"""Several replicas behind a router, compiled or not.

`serve_cluster`: everyone arrives by the clock, so replicas need only be abreast when someone is routed.
`serve_linked`: ends of some are arrivals of others (turns of a conversation; prompts whose KV is sent to a
decode replica), so passes are taken in order of time, those of all replicas together.
"""

import numpy as np

from twophase.scheduler.moves import begin_pass, fill_pass
from twophase.scheduler.state import LEFT, N_RUNNING, N_WAITING
from twophase.simulate.arena import replica_at
from twophase.simulate.books import (
    FINISHED,
    FINISHED_S,
    IN_FLIGHT,
    N_LEAVING,
    NOW,
    OUTCOME,
    POLICY,
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
    EVENT_KIND,
    EVENT_REQUEST,
    FOLLOWER,
    HEAP_SIZE,
    KV_ARRIVES,
    LATENCY,
    LAYERS,
    NEXT_ROOT,
    OVERLAPS,
    PREFILL,
    SENT_S,
    TARGET,
    TIME,
    TURN,
    Cluster,
)
from twophase.simulate.deciding import decide
from twophase.simulate.events import pop, push
from twophase.simulate.one_pass import start_pass
from twophase.simulate.replica import (
    BELOW_FLOOR,
    DONE,
    OVER_BUDGET,
    PASSES_FULL,
    STUCK,
    advance,
    has_room,
    let_go,
    ready_s,
    submit,
    wait_until,
)
from twophase.simulate.router import note_routed, route


def serve_cluster(cluster: Cluster, until_s: float) -> tuple[int, int]:
    """Everyone who arrives before `until_s` is served to the end, or to `until_s`.

    Returns (DONE, -1), or what is lacking and the replica that lacks it; then call again.
    """
    counts, replicas = cluster.counts, len(cluster.roles)
    while counts[NEXT_ROOT] < len(cluster.roots):
        request = cluster.roots[counts[NEXT_ROOT]]
        moment = cluster.arrival_s[request]
        if moment > until_s:
            break
        for i in range(replicas):
            code = advance(replica_at(cluster, i), moment)
            if code != DONE:
                return code, i
        target = route(cluster, request, False)
        code = submit(replica_at(cluster, target), request, moment)
        if code != DONE:
            return code, target
        cluster.routes[request, TARGET] = target
        note_routed(cluster, False)
        counts[NEXT_ROOT] += 1
    for i in range(replicas):
        code = advance(replica_at(cluster, i), until_s)
        if code != DONE:
            return code, i
    return DONE, -1


def has_work(replica: Replica) -> bool:
    return bool(replica.state.counts[N_RUNNING] + replica.state.counts[N_WAITING] > 0)


def begin(replica: Replica, moment: float, until_s: float) -> int:
    """The pass that an idle replica begins at `moment`, or a run of them that ends when someone may come."""
    if not has_room(replica):
        return PASSES_FULL
    wait_until(replica, moment)
    begin_pass(replica.state)
    decide(replica.state, replica.counts[POLICY])
    spans = fill_pass(replica.state)
    if replica.state.counts[LEFT] < 0:
        return OVER_BUDGET
    if spans == 0:
        return DONE if replica.counts[N_LEAVING] > 0 else STUCK
    return DONE if start_pass(replica, spans, until_s) else BELOW_FLOOR


def next_event_s(cluster: Cluster) -> float:
    """Of those that are known: who arrives by the clock, whose turn it is, whose KV comes."""
    moment = np.inf
    if cluster.counts[NEXT_ROOT] < len(cluster.roots):
        moment = cluster.arrival_s[cluster.roots[cluster.counts[NEXT_ROOT]]]
    if cluster.counts[HEAP_SIZE] > 0 and cluster.heap[0] < moment:
        moment = cluster.heap[0]
    return moment


def next_from_others_s(cluster: Cluster, i: int, moment: float, talks: bool) -> float:
    """Before this nothing comes to the replica from passes of others: where prompts are sent to it, from
    prefill replicas; where turns follow answers (`talks`), from any."""
    soonest = np.inf
    for j in range(len(cluster.roles)):
        if j != i and (talks or (cluster.roles[i] == DECODE and cluster.roles[j] == PREFILL)):
            other = replica_at(cluster, j)
            if other.counts[IN_FLIGHT] > 0:
                soonest = min(soonest, ready_s(other))
            elif has_work(other):
                soonest = moment  # it is about to begin
    return soonest


def begin_all(cluster: Cluster, talks: bool) -> tuple[int, int]:
    """Every idle replica with work begins a pass now."""
    moment = cluster.clock[TIME]
    known = next_event_s(cluster)
    for i in range(len(cluster.roles)):
        replica = replica_at(cluster, i)
        if replica.counts[IN_FLIGHT] == 0 and has_work(replica):
            until = min(known, next_from_others_s(cluster, i, moment, talks))
            code = begin(replica, moment, max(until, np.nextafter(moment, np.inf)))
            if code != DONE:
                return code, i
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
    begins = max(ready, cluster.link_free_s[source], cluster.link_free_s[target])
    ends = max(begins + seconds, computed_s + seconds / cluster.clock[LAYERS])
    cluster.link_free_s[source] = cluster.link_free_s[target] = ends
    cluster.routes[request, DECODE_TARGET] = target
    cluster.transfers[request, SENT_S] = begins
    cluster.transfers[request, ARRIVED_S] = ends + cluster.clock[LATENCY]
    push(cluster, ends + cluster.clock[LATENCY], KV_ARRIVES, request)


def end_passes(cluster: Cluster, moment: float) -> None:
    """Passes that end now: whoever is done sends its KV on, or lets its next turn come."""
    for i in range(len(cluster.roles)):
        replica = replica_at(cluster, i)
        flight = replica.counts[IN_FLIGHT]
        if flight == 0 or ready_s(replica) != moment:
            continue
        advance(replica, moment)  # ends it, and begins none
        for k in range(flight):
            request = replica.slots[replica.spans[SLOT, k], REQUEST]
            moments, outcome = replica.records.moments[request], replica.records.counts[request, OUTCOME]
            if outcome != FINISHED or moments[FINISHED_S] != replica.clock[NOW]:
                continue
            if cluster.roles[i] == PREFILL:
                send(cluster, request, i, moment)
            elif cluster.routes[request, FOLLOWER] >= 0:
                follower = cluster.routes[request, FOLLOWER]
                push(cluster, moment + cluster.think_s[follower], TURN, follower)


def arrive(cluster: Cluster, request: int, moment: float) -> tuple[int, int]:
    target = route(cluster, request, False)
    cluster.arrival_s[request] = moment
    code = submit(replica_at(cluster, target), request, moment)
    if code != DONE:
        return code, target
    cluster.routes[request, TARGET] = target
    note_routed(cluster, False)
    return DONE, -1


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
        code, which = submit(replica_at(cluster, target), request, moment), target
        if code == DONE:
            let_go(replica_at(cluster, cluster.routes[request, TARGET]), request, moment)
    if code == DONE:
        pop(cluster)
    return code, which


def soonest_end_s(cluster: Cluster) -> float:
    soonest = np.inf
    for i in range(len(cluster.roles)):
        replica = replica_at(cluster, i)
        if replica.counts[IN_FLIGHT] > 0:
            soonest = min(soonest, ready_s(replica))
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
