"""Who is sent where, on runs small enough to know it."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools_by_hand import pool, workload

from twophase.errors import InputError
from twophase.simulate import linking
from twophase.simulate.books import CACHED
from twophase.simulate.events import pop, push
from twophase.simulate.outcome import Run
from twophase.simulate.run import simulate
from twophase.simulate.running import cluster_of, run_pools
from twophase.workload.workload import Blocks, Workload


@pytest.fixture(autouse=True)
def as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "can_compile", lambda: False)


def routed(load: Workload, router: str, replicas: int = 3, seed: int = 0) -> Run:
    return run_pools([pool(count=replicas)], load, router=router, seed=seed)


def test_round_robin_goes_round() -> None:
    load = workload(*[(float(at), 10, 5) for at in range(7)])
    assert routed(load, "round-robin").routes.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_the_least_loaded_is_the_one_with_the_fewest_requests_under_way() -> None:
    # the first two keep their replicas busy; the third is done before the fourth comes
    load = workload((0.0, 10, 90), (0.0, 10, 90), (0.0, 10, 2), (3.0, 10, 2), (3.0, 10, 2), (3.0, 10, 2))
    assert routed(load, "least-loaded").routes.tolist() == [0, 1, 2, 2, 0, 1]


def test_a_prompt_goes_where_its_prefix_is_unless_loads_are_far_apart() -> None:
    ids = Blocks(np.array([1, 2, 3, 4, 1, 2, 9, 9, 9, 1, 2]), np.array([0, 2, 4, 6, 9, 11]), 64)
    load = Workload(
        np.array([0.0, 0.0, 5.0, 5.0, 10.0]), np.array([128, 128, 128, 192, 128]), np.full(5, 3), ids
    )
    run = routed(load, "prefix-aware", 2)
    assert run.routes.tolist() == [0, 1, 0, 1, 0]
    # all but the last block, whose last token must be computed
    assert run.records.counts[:, CACHED].tolist() == [0, 0, 112, 0, 112]
    many = Workload(
        np.concatenate([[0.0], np.full(50, 5.0)]),
        np.full(51, 128),
        np.full(51, 20),
        Blocks(np.tile([1, 2], 51), np.arange(52) * 2, 64),
    )
    counts = np.bincount(routed(many, "prefix-aware", 2).routes)
    assert counts[1] > 0  # beyond 32 requests more than the other, balance goes first


def test_two_choices_are_better_than_one_and_repeat_with_their_seed() -> None:
    load = workload(*[(0.01 * at, 10, 60) for at in range(120)])
    one, again, other = (routed(load, "power-of-two", 4, seed).routes for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    counts = np.bincount(one, minlength=4)
    assert counts.max() - counts.min() <= 8  # drawn singly they would differ by about 15


def test_an_unknown_router_is_named() -> None:
    with pytest.raises(InputError, match="did you mean round-robin"):
        simulate("llama-3.1-8b", "h100-sxm", workload((0.0, 1, 1)), router="roundrobin")


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_events_come_in_order_of_time_then_of_adding(steps: list[tuple[int, bool]]) -> None:
    cluster = cluster_of([pool()], workload(*[(0.0, 1, 1)] * 61), 1, "round-robin", None, 0)
    known: list[tuple[int, int]] = []
    for number, (moment, take) in enumerate(steps):
        push(cluster, float(moment), 0, number)
        heapq.heappush(known, (moment, number))
        if take:
            assert (cluster.heap[0], cluster.events[0, 2]) == heapq.heappop(known)
            pop(cluster)
    while known:
        assert (cluster.heap[0], cluster.events[0, 2]) == heapq.heappop(known)
        pop(cluster)
    assert cluster.counts[5] == 0
