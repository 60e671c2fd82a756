"""Which replica a request goes to. Plain functions over a cluster's arrays, that Numba can compile."""

from twophase.scheduler.state import BLOCK_SIZE
from twophase.simulate.arena import counts_at, replica_at
from twophase.simulate.books import N_OUTSTANDING
from twophase.simulate.cluster_books import (
    CLUSTER_SEED,
    DECODE,
    END_RANK,
    HOME,
    LEAST_LOADED,
    NEXT_DECODE,
    NEXT_TARGET,
    POWER_OF_TWO,
    PREFIX_AWARE,
    ROUTER,
    TOGETHER,
    Cluster,
)
from twophase.simulate.drafts import chance
from twophase.simulate.replica import cached_blocks

# SGLang's router (cache-aware): loads that differ by more than both are balanced first, and a prompt goes
# where its prefix is only if so much of it is there
BALANCE_REQUESTS, BALANCE_FACTOR = 32, 1.1
LEAST_MATCH = 0.5
FEW_MORE = 4  # assumed: by so many requests microbatches may differ, where a prefix asks for it


def takes(cluster: Cluster, i: int, decoding: bool) -> bool:
    """Whether this is a replica to which a request that arrives, or one whose prompt is computed, may go."""
    return bool(cluster.groups[i, HOME] == i and (cluster.roles[i] == DECODE) == decoding)


def load(cluster: Cluster, home: int) -> int:
    """Requests that were sent to the replica and are not done."""
    requests, end = 0, cluster.groups[home, END_RANK]
    for i in range(home, end, cluster.groups[home, TOGETHER]):
        requests += counts_at(cluster, i)[N_OUTSTANDING]
    return int(requests)


def turn(cluster: Cluster, decoding: bool, number: int) -> int:
    """The replica of this number among those that take it, from the beginning again after the last."""
    takers = 0
    for i in range(len(cluster.roles)):
        takers += takes(cluster, i, decoding)
    rest = number % takers
    for i in range(len(cluster.roles)):
        if takes(cluster, i, decoding):
            if rest == 0:
                return i
            rest -= 1
    return -1


def least_loaded(cluster: Cluster, decoding: bool) -> int:
    """The first of those with the fewest requests outstanding."""
    least, best = 1 << 60, -1
    for i in range(len(cluster.roles)):
        if takes(cluster, i, decoding):
            mine = load(cluster, i)
            if mine < least:
                least, best = mine, i
    return best


def cached_tokens(cluster: Cluster, i: int, request: int) -> int:
    """Of its prompt, in that engine's prefix cache."""
    replica = replica_at(cluster, i)
    return int(cached_blocks(replica, request) * replica.state.settings[BLOCK_SIZE])


def most_cached(cluster: Cluster, home: int, request: int) -> tuple[int, int]:
    """(the replica's engine where most of the prompt is cached, tokens); the first where nothing is."""
    best, found, end = home, 0, cluster.groups[home, END_RANK]
    for i in range(home, end, cluster.groups[home, TOGETHER]):
        tokens = cached_tokens(cluster, i, request)
        if tokens > found:
            best, found = i, tokens
    return best, found


def by_prefix(cluster: Cluster, request: int, decoding: bool) -> int:
    """Where most of its prompt is cached; the least loaded where little is, or loads are far apart."""
    least, most, best, found = 1 << 60, 0, -1, 0
    for i in range(len(cluster.roles)):
        if takes(cluster, i, decoding):
            mine = load(cluster, i)
            least, most = min(least, mine), max(most, mine)
            _, tokens = most_cached(cluster, i, request)
            if tokens > found:
                best, found = i, tokens
    apart = most - least > BALANCE_REQUESTS and most > BALANCE_FACTOR * least
    if best < 0 or apart or found < LEAST_MATCH * cluster.prompt_tokens[request]:
        return least_loaded(cluster, decoding)
    return best


def of_two(cluster: Cluster, request: int, decoding: bool) -> int:
    """The less loaded of two that are drawn (Mitzenmacher 2001)."""
    seed = cluster.counts[CLUSTER_SEED]
    one = turn(cluster, decoding, int(chance(seed, request, 0) * (1 << 30)))
    other = turn(cluster, decoding, int(chance(seed, request, 1) * (1 << 30)))
    return other if load(cluster, other) < load(cluster, one) else one


def routed(cluster: Cluster, request: int, decoding: bool) -> int:
    """The replica."""
    router = cluster.counts[ROUTER]
    if router == LEAST_LOADED:
        return least_loaded(cluster, decoding)
    if router == PREFIX_AWARE:
        return by_prefix(cluster, request, decoding)
    if router == POWER_OF_TWO:
        return of_two(cluster, request, decoding)
    return turn(cluster, decoding, cluster.counts[NEXT_DECODE if decoding else NEXT_TARGET])


def microbatch(cluster: Cluster, home: int, request: int) -> int:
    """The replica's engine that takes it: engines have one prefix cache for all microbatches, so where its
    prefix is, unless that one has far more to do than another."""
    end, together = cluster.groups[home, END_RANK], cluster.groups[home, TOGETHER]
    if home + together >= end:
        return home
    idle, least = home, 1 << 60
    for i in range(home, end, together):
        mine = counts_at(cluster, i)[N_OUTSTANDING]
        if mine < least:
            idle, least = i, mine
    best, found = most_cached(cluster, home, request)
    near = counts_at(cluster, best)[N_OUTSTANDING] <= BALANCE_FACTOR * least + FEW_MORE
    return best if near and found >= LEAST_MATCH * cluster.prompt_tokens[request] else idle


def route(cluster: Cluster, request: int, decoding: bool) -> int:
    """The engine for a request that arrives now, or (`decoding`) whose prompt has just been computed."""
    return microbatch(cluster, routed(cluster, request, decoding), request)


def note_routed(cluster: Cluster, decoding: bool) -> None:
    """It was taken in: round-robin goes on."""
    cluster.counts[NEXT_DECODE if decoding else NEXT_TARGET] += 1
