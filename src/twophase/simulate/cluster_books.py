"""What a loop over several replicas reads and writes: all their arrays in two, and what is on its way."""

from typing import NamedTuple

from twophase.simulate.books import Floats, Ints

# Cluster.where[replica, field]: begin, rows, columns (0: a flat array) in ints or floats
BEGIN, HEIGHT, WIDTH = range(3)

# routers
ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE, POWER_OF_TWO = range(4)
ROUTERS = {
    "round-robin": ROUND_ROBIN,
    "least-loaded": LEAST_LOADED,
    "prefix-aware": PREFIX_AWARE,
    "power-of-two": POWER_OF_TWO,
}

# Cluster.roles
BOTH, PREFILL, DECODE = range(3)

# places in Cluster.counts
(
    ROUTER,
    NEXT_TARGET,  # of round-robin, for those who arrive
    NEXT_DECODE,  # and for those whose prompt is computed
    CLUSTER_SEED,
    NEXT_ROOT,  # of Cluster.roots: the next that arrives by the clock
    HEAP_SIZE,
    N_EVENTS,  # so far: ties are taken in order
    OVERLAPS,  # 1: layers are sent as they are computed
) = range(8)
# places in Cluster.clock
TIME, BANDWIDTH, LATENCY, LAYERS, THINK = range(5)  # THINK: the least, from an answer to the next turn

# columns of Cluster.events
EVENT_ORDER, EVENT_KIND, EVENT_REQUEST = range(3)
TURN, KV_ARRIVES = range(2)  # EVENT_KIND

# columns of Cluster.routes: replicas, -1: none yet; the request that waits for this one's end
TARGET, DECODE_TARGET, FOLLOWER = range(3)
# columns of Cluster.transfers: seconds
SENT_S, ARRIVED_S = range(2)
# columns of Cluster.groups: of ranks that go in step, or of one replica that goes alone
# engines from FIRST_RANK to before END_RANK; place in dealt; of these, so many side by side whose experts are
# dealt out over them, 1: none are; the engine of the replica's first microbatch
FIRST_RANK, END_RANK, OWN_POOL, TOGETHER, HOME = range(5)
# columns of Cluster.steps: of the pass that a rank runs
(
    ALONE_S,  # seconds, without the others
    STEP_S,  # with them
    FIRST_GAP,  # of Passes.gaps that it wrote
    GROWS_S,  # what each of the passes like it takes more than the one before: seconds, FLOPs, bytes
    GROWS_FLOPS,
    GROWS_BYTES,
) = range(6)


class Cluster(NamedTuple):
    """Replicas lie in `ints` and `floats`, see twophase.simulate.arena; arrays that they share, once."""

    ints: Ints
    floats: Floats
    where: Ints  # [replicas, fields, 3]
    roles: Ints  # [replicas]
    groups: Ints  # [replicas, 5]
    dealt: Floats  # [pools, 4, rows + 1]: twophase.cost.dealt, where a pool's ranks go in step
    steps: Floats  # [replicas, 6]
    roots: Ints  # requests that follow no other, in order of arrival
    arrival_s: Floats  # of each request; of one that follows another, filled in when it is known
    think_s: Floats  # from the end of the one that it follows
    routes: Ints  # [requests, 3]
    prompt_tokens: Ints  # of each request
    kv_bytes: Floats  # to be sent
    transfers: Floats  # [requests, 2]
    link_free_s: Floats  # [replicas]: at its HOME, when its link has sent or received all
    least_pass_s: Floats  # [replicas]: no pass is faster
    soonest_s: Floats  # [replicas]: before this none of its requests is done
    heap: Floats  # [requests + 1]: moments of what is to come
    events: Ints  # [requests + 1, 3]
    counts: Ints
    clock: Floats
