"""Replicas side by side in two flat arrays: compiled loops reach any of them by number.

A tuple of replicas would be another type for each number of them, and compiled anew.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from twophase.cost.pass_times import PassTimes
from twophase.scheduler.state import N_RUNNING, N_WAITING, State
from twophase.simulate.books import Floats, Ints, Passes, Records, Replica, Requests
from twophase.simulate.cluster_books import BEGIN, HEIGHT, WIDTH, Cluster

T = TypeVar("T", np.int64, np.float64)


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


def flat(values: NDArray[T], place: Ints) -> NDArray[T]:
    """The array of one dimension that lies there."""
    return values[place[BEGIN] : place[BEGIN] + place[HEIGHT]]


def grid(values: NDArray[T], place: Ints) -> NDArray[T]:
    """Of two."""
    size = place[HEIGHT] * place[WIDTH]
    return values[place[BEGIN] : place[BEGIN] + size].reshape((place[HEIGHT], place[WIDTH]))


# fields that are read alone; see `replica_at`
STATE_COUNTS, CLOCK, COUNTS = 6, 31, 32


def counts_at(cluster: Cluster, i: int) -> Ints:
    """Its Replica.counts: cheaper than all of it."""
    return flat(cluster.ints, cluster.where[i, COUNTS])


def clock_at(cluster: Cluster, i: int) -> Floats:
    """Its Replica.clock."""
    return flat(cluster.floats, cluster.where[i, CLOCK])


def has_work_at(cluster: Cluster, i: int) -> bool:
    """Someone runs or waits."""
    counts = flat(cluster.ints, cluster.where[i, STATE_COUNTS])
    return bool(counts[N_RUNNING] + counts[N_WAITING] > 0)


def replica_at(cluster: Cluster, i: int) -> Replica:
    """Its arrays where they lie."""
    ints, floats, at = cluster.ints, cluster.floats, cluster.where[i]
    return Replica(
        State(
            grid(ints, at[0]),
            grid(ints, at[1]),
            grid(ints, at[2]),
            grid(ints, at[3]),
            grid(ints, at[4]),
            flat(ints, at[5]),
            flat(ints, at[6]),
            flat(ints, at[7]),
            grid(ints, at[8]),
        ),
        Requests(
            flat(floats, at[9]),
            grid(ints, at[10]),
            flat(floats, at[11]),
            flat(ints, at[12]),
        ),
        Records(grid(floats, at[13]), grid(ints, at[14])),
        PassTimes(
            flat(floats, at[15]),
            flat(floats, at[16]),
            flat(floats, at[17]),
            grid(floats, at[18]),
            flat(floats, at[19]),
            flat(floats, at[20]),
            flat(floats, at[21]),
            flat(floats, at[22]),
            flat(floats, at[23]),
        ),
        Passes(
            grid(floats, at[24]),
            grid(ints, at[25]),
            grid(floats, at[26]),
            grid(ints, at[27]),
        ),
        grid(ints, at[28]),
        flat(floats, at[29]),
        grid(ints, at[30]),
        flat(floats, at[31]),
        flat(ints, at[32]),
    )
