"""From pools and a workload to a run: replicas are made, compiled loops run, what they wrote is gathered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twophase.hardware.accelerator import Link
from twophase.model.cache import caches, sequence_bytes
from twophase.scheduler.policy import Policy
from twophase.simulate.arena import Arena, packed, replica_at
from twophase.simulate.books import (
    BYTES,
    FLOPS,
    N_FINISHED,
    NOW,
    SCHEDULED_S,
    Floats,
    Passes,
    Records,
    Replica,
)
from twophase.simulate.checks import WHY, check_balance
from twophase.simulate.cluster_books import (
    BANDWIDTH,
    BOTH,
    CLUSTER_SEED,
    DECODE,
    LATENCY,
    LAYERS,
    OVERLAPS,
    PREFILL,
    ROUTER,
    ROUTERS,
    THINK,
    TIME,
    Cluster,
)
from twophase.simulate.driven import simulate_with
from twophase.simulate.linking import compiled
from twophase.simulate.merging import merged
from twophase.simulate.outcome import Run, Served, growth_of, served_of
from twophase.simulate.pools import Pool
from twophase.simulate.ranks import dealt_of, groups_of, least_pass_s
from twophase.simulate.replica import DONE, PASSES_FULL, SLOTS_FULL
from twophase.simulate.setting_up import joined, new_replica, records_of, with_more_room, written
from twophase.simulate.simulation import truncate
from twophase.simulate.workload_arrays import rows_of
from twophase.workload.workload import Workload

Show = Callable[[float, int, int], None]  # simulated seconds, requests done, of so many
ROLES = {"both": BOTH, "prefill": PREFILL, "decode": DECODE}


@dataclass(frozen=True, slots=True)
class Wire:
    """Over which the KV cache of a prompt goes, of each replica."""

    link: Link
    overlap: bool


def run_pools(
    pools: Sequence[Pool],
    workload: Workload,
    *,
    router: str = "round-robin",
    wire: Wire | None = None,
    drafts: int = 0,
    acceptance: float = 0.0,
    seed: int = 0,
    max_time_s: float = float("inf"),
    show: Show | None = None,
) -> Run:
    replicas, owners = replicas_of(pools, workload, drafts, acceptance, seed)
    loop = Loop(replicas, show, len(workload))
    arrival_s = replicas[0].requests.arrival_s
    if len(replicas) == 1 and workload.follows is None:
        loop.alone(max_time_s)
        routes, transfers = np.zeros(len(workload), np.int64), None
    else:
        cluster = cluster_of(pools, workload, len(replicas), router, wire, seed)
        loop.together(cluster, max_time_s, wire is not None, workload.follows is not None)
        arrival_s, routes = cluster.arrival_s, cluster.routes[:, 0]
        transfers = None if wire is None else cluster.transfers
    roles: dict[str, list[Replica]] = {}
    for pool, replica in zip(owners, loop.replicas, strict=True):
        roles.setdefault(pool.role, []).append(replica)
    for mine in roles.values():
        check_balance(mine)
        for replica in mine:
            truncate(replica)
    every = merged([mine[0].records for mine in roles.values()], wire is not None)
    served = tuple(
        served_of(pool, replica, passes)
        for pool, replica, passes in zip(owners, loop.replicas, loop.passes(), strict=True)
    )
    return Run(
        workload=workload,
        arrival_s=arrival_s,
        records=every,
        routes=routes,
        transfers=transfers,
        replicas=served,
        ended_s=max(float(each.clock[NOW]) for each in loop.replicas),
        growth=growth_of(arrival_s, every.moments[:, SCHEDULED_S], max_time_s),
        notes=workload.notes,
    )


def run_own(
    pool: Pool,
    workload: Workload,
    policy: Policy,
    *,
    drafts: int = 0,
    acceptance: float = 0.0,
    seed: int = 0,
) -> Run:
    """One replica by a policy of the user's own, in plain Python."""
    requests = rows_of(
        workload,
        pool.limits.block_size,
        prefix_cache=pool.limits.prefix_cache,
        drafts=drafts,
        acceptance=acceptance,
    )
    done = simulate_with(policy, requests, pool.limits, pool.estimate.times, seed=seed)
    flops, bytes_ = (float(done.passes.seconds[:, column].sum()) for column in (FLOPS, BYTES))
    return Run(
        workload=workload,
        arrival_s=requests.arrival_s,
        records=done.records,
        routes=np.zeros(len(workload), np.int64),
        transfers=None,
        replicas=(Served(pool, done.passes, done.busy_s, flops, bytes_),),
        ended_s=done.ended_s,
        growth=growth_of(requests.arrival_s, done.records.moments[:, SCHEDULED_S], float("inf")),
        notes=workload.notes,
    )


def replicas_of(
    pools: Sequence[Pool], workload: Workload, drafts: int, acceptance: float, seed: int
) -> tuple[list[Replica], list[Pool]]:
    """Replicas, and the pool of each. Those of one role write into the same records."""
    replicas: list[Replica] = []
    owners: list[Pool] = []
    records: dict[str, Records] = {}
    for pool in pools:
        requests = rows_of(
            workload,
            pool.limits.block_size,
            pool.role,
            prefix_cache=pool.limits.prefix_cache,
            drafts=drafts,
            acceptance=acceptance,
        )
        records.setdefault(pool.role, records_of(requests))
        for _ in range(pool.count):
            made = new_replica(
                pool.limits,
                pool.policy,
                requests,
                pool.estimate.times,
                records=records[pool.role],
                seed=seed,
            )
            replicas.append(made)
            owners.append(pool)
    return replicas, owners


def cluster_of(
    pools: Sequence[Pool], workload: Workload, replicas: int, router: str, wire: Wire | None, seed: int
) -> Cluster:
    """Without its arena yet."""
    count = len(workload)
    follows = np.full(count, -1) if workload.follows is None else workload.follows
    routes = np.full((count, 3), -1, np.int64)
    later = np.flatnonzero(follows >= 0)
    routes[follows[later], 2] = later
    roots = np.flatnonzero(follows < 0)
    clock, counts = np.zeros(5), np.zeros(8, np.int64)
    clock[TIME] = -1.0
    clock[THINK] = workload.arrival_s[later].min(initial=np.inf)
    counts[[ROUTER, CLUSTER_SEED]] = ROUTERS[router], seed
    kv_bytes = np.zeros(count)
    if wire is not None:
        clock[[BANDWIDTH, LATENCY]] = wire.link.bandwidth, wire.link.latency_s
        clock[LAYERS] = len(pools[0].own.spec.layers) if wire.overlap else 1
        counts[OVERLAPS] = wire.overlap
        kv_bytes = prompt_bytes(pools[0], workload)
    return Cluster(
        ints=np.zeros(0, np.int64),
        floats=np.zeros(0),
        where=np.zeros((0, 0, 3), np.int64),
        roles=np.array([ROLES[pool.role] for pool in pools for _ in range(pool.count)], np.int64),
        groups=groups_of(pools),
        dealt=dealt_of(pools),
        steps=np.zeros((replicas, 6)),
        roots=roots[np.argsort(workload.arrival_s[roots], kind="stable")],
        arrival_s=np.where(follows < 0, workload.arrival_s, np.nan),
        think_s=np.array(workload.arrival_s),
        routes=routes,
        prompt_tokens=workload.prompt_tokens,
        kv_bytes=kv_bytes,
        transfers=np.full((count, 2), np.nan),
        link_free_s=np.zeros(replicas),
        soonest_s=np.full(replicas, -np.inf),
        least_pass_s=np.array([least_pass_s(pool) for pool in pools for _ in range(pool.count)]),
        heap=np.zeros(count + 1),
        events=np.zeros((count + 1, 3), np.int64),
        counts=counts,
        clock=clock,
    )


def prompt_bytes(pool: Pool, workload: Workload) -> Floats:
    """KV cache of each prompt, all devices' together: windows and states as large as they have become."""
    kinds = tuple(caches(pool.own.spec, pool.own.kv_bytes).items())
    lengths, which = np.unique(workload.prompt_tokens, return_inverse=True)
    return np.array([sequence_bytes(kinds, length) for length in lengths.tolist()], np.float64)[which]


class Loop:
    """Calls the compiled loops until they are through, and makes room for what they write."""

    def __init__(self, replicas: list[Replica], show: Show | None, requests: int) -> None:
        self.replicas = replicas
        self.parts: list[list[Passes]] = [[] for _ in replicas]
        self.show, self.requests = show, requests

    def alone(self, until_s: float) -> None:
        serve, row = compiled("serve"), 0
        while True:
            row, code = serve(self.replicas[0], row, until_s)
            if code == DONE:
                return
            self.make_room(code, 0)

    def together(self, cluster: Cluster, until_s: float, linked: bool, talks: bool) -> None:
        serve = compiled("serve_together")
        cluster = self.placed(cluster)
        while True:
            code, which = serve(cluster, until_s, linked, talks)
            if code == DONE:
                return
            if self.make_room(code, which):
                cluster = self.placed(cluster)

    def placed(self, cluster: Cluster) -> Cluster:
        """With all replicas in its arena, and our own seen there."""
        arena: Arena = packed(self.replicas)
        cluster = cluster._replace(ints=arena.ints, floats=arena.floats, where=arena.where)
        self.replicas = [replica_at(cluster, i) for i in range(len(self.replicas))]
        return cluster

    def make_room(self, code: int, which: int) -> bool:
        """Whether an array was replaced by a larger one. RuntimeError where it is no lack of room."""
        replica = self.replicas[which]
        if code == PASSES_FULL:
            self.parts[which].append(written(replica))
            if self.show is not None:
                done = sum(int(each.counts[N_FINISHED]) for each in self.replicas)
                self.show(float(replica.clock[NOW]), done, self.requests)
            return False
        if code == SLOTS_FULL:
            self.replicas[which] = with_more_room(replica)
            return True
        raise RuntimeError(WHY[code])

    def passes(self) -> list[Passes]:
        return [
            joined([*parts, written(replica)])
            for parts, replica in zip(self.parts, self.replicas, strict=True)
        ]
