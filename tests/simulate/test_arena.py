"""Replicas in two flat arrays are the same replicas."""

import numpy as np
from pools_by_hand import pool, workload
from random_loads import load

from twophase.simulate.arena import arrays_of, packed, replica_at
from twophase.simulate.running import cluster_of
from twophase.simulate.setting_up import new_replica


def test_what_is_packed_is_found_again_and_shared_arrays_once() -> None:
    requests, limits, times = load(3, drafts=True, outputs_keyed=True)
    replicas = [new_replica(limits, "vllm", requests, times, seed=number) for number in range(3)]
    arena = packed(replicas)
    cluster = cluster_of([pool(count=3)], workload((0.0, 1, 1)), 3, "round-robin", None, 0)
    cluster = cluster._replace(ints=arena.ints, floats=arena.floats, where=arena.where)
    for number, replica in enumerate(replicas):
        for mine, found in zip(arrays_of(replica), arrays_of(replica_at(cluster, number)), strict=True):
            assert found.shape == mine.shape
            assert found.dtype == mine.dtype
            np.testing.assert_array_equal(found, mine)  # moments are nan, equal to nan
    one, other = (replica_at(cluster, number) for number in (0, 2))
    one.requests.keys[0] = 77
    one.clock[0] = 5.0
    assert other.requests.keys[0] == one.state.arena[0] == 77
    assert other.clock[0] == 0.0
    assert replica_at(cluster, 0).clock[0] == 5.0
