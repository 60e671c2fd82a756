"""Replicas side by side in two flat arrays: compiled loops reach any of them by number.

A tuple of replicas would be another type for each number of them, and compiled anew.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_times import PassTimes
from twophase.scheduler.state import N_RUNNING, N_WAITING, State
from twophase.simulate.books import Floats, Ints, Passes, Records, Replica, Requests
from twophase.simulate.cluster_books import BEGIN, HEIGHT, WIDTH, Cluster


class Arena(NamedTuple):
    ints: Ints
    floats: Floats
    where: Ints


def packed(replicas: Sequence[Replica]) -> Arena:
    """A copy of all their arrays; one that several share stands there once."""
    kept: dict[str, list[Any]] = {"i": [], "f": []}
    sizes = {"i": 0, "f": 0}
    places: dict[tuple[int, int], int] = {}
    where = []
    for replica in replicas:
        rows = []
        for array in arrays_of(replica):
            kind = array.dtype.kind
            # an empty array has no address of its own
            key = (array.__array_interface__["data"][0], array.size) if array.size else (-len(places) - 1, 0)
            if key not in places:
                places[key] = sizes[kind]
                sizes[kind] += array.size
                kept[kind].append(array.ravel())
            rows.append((places[key], array.shape[0], array.shape[1] if array.ndim == 2 else 0))
        where.append(rows)
    return Arena(np.concatenate(kept["i"]), np.concatenate(kept["f"]), np.array(where, np.int64))


def arrays_of(replica: Replica) -> list[NDArray[Any]]:
    """In the order in which `replica_at` reads them."""
    found: list[NDArray[Any]] = []
    for field in replica:
        found += list(field) if isinstance(field, tuple) else [field]
    return found


def ints_at(cluster: Cluster, i: int, field: int) -> Ints:
    own = cluster.where[i, field]
    return cluster.ints[own[BEGIN] : own[BEGIN] + own[HEIGHT]]


def floats_at(cluster: Cluster, i: int, field: int) -> Floats:
    own = cluster.where[i, field]
    return cluster.floats[own[BEGIN] : own[BEGIN] + own[HEIGHT]]


def int_rows_at(cluster: Cluster, i: int, field: int) -> Ints:
    own = cluster.where[i, field]
    size = own[HEIGHT] * own[WIDTH]
    return cluster.ints[own[BEGIN] : own[BEGIN] + size].reshape((own[HEIGHT], own[WIDTH]))


def float_rows_at(cluster: Cluster, i: int, field: int) -> Floats:
    own = cluster.where[i, field]
    size = own[HEIGHT] * own[WIDTH]
    return cluster.floats[own[BEGIN] : own[BEGIN] + size].reshape((own[HEIGHT], own[WIDTH]))


# fields that are read alone; see `replica_at`
STATE_COUNTS, CLOCK, COUNTS = 6, 30, 31


def counts_at(cluster: Cluster, i: int) -> Ints:
    """Its Replica.counts: cheaper than all of it."""
    return ints_at(cluster, i, COUNTS)


def clock_at(cluster: Cluster, i: int) -> Floats:
    """Its Replica.clock."""
    return floats_at(cluster, i, CLOCK)


def has_work_at(cluster: Cluster, i: int) -> bool:
    """Someone runs or waits."""
    counts = ints_at(cluster, i, STATE_COUNTS)
    return bool(counts[N_RUNNING] + counts[N_WAITING] > 0)


def replica_at(cluster: Cluster, i: int) -> Replica:
    """Its arrays where they lie."""
    return Replica(
        State(
            int_rows_at(cluster, i, 0),
            int_rows_at(cluster, i, 1),
            int_rows_at(cluster, i, 2),
            int_rows_at(cluster, i, 3),
            int_rows_at(cluster, i, 4),
            ints_at(cluster, i, 5),
            ints_at(cluster, i, 6),
            ints_at(cluster, i, 7),
        ),
        Requests(
            floats_at(cluster, i, 8),
            int_rows_at(cluster, i, 9),
            floats_at(cluster, i, 10),
            ints_at(cluster, i, 11),
        ),
        Records(float_rows_at(cluster, i, 12), int_rows_at(cluster, i, 13)),
        PassTimes(
            floats_at(cluster, i, 14),
            floats_at(cluster, i, 15),
            floats_at(cluster, i, 16),
            float_rows_at(cluster, i, 17),
            floats_at(cluster, i, 18),
            floats_at(cluster, i, 19),
            floats_at(cluster, i, 20),
            floats_at(cluster, i, 21),
            floats_at(cluster, i, 22),
        ),
        Passes(
            float_rows_at(cluster, i, 23),
            int_rows_at(cluster, i, 24),
            float_rows_at(cluster, i, 25),
            int_rows_at(cluster, i, 26),
        ),
        int_rows_at(cluster, i, 27),
        floats_at(cluster, i, 28),
        int_rows_at(cluster, i, 29),
        floats_at(cluster, i, 30),
        ints_at(cluster, i, 31),
    )
