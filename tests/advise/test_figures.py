"""Rates and percentiles of small runs, by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.advise.figures import closed_rates, last_that, rates, weighted_quantile
from twophase.advise.load import Asked
from twophase.simulate.books import FINISHED, OUTCOME, PRODUCED


def run_of(arrival_s: list[float], finished_s: list[float], tokens: int) -> Any:
    counts = np.zeros((len(arrival_s), 7), np.int64)
    counts[:, OUTCOME], counts[:, PRODUCED] = FINISHED, tokens
    moments = np.column_stack([arrival_s, arrival_s, finished_s])
    return SimpleNamespace(
        arrival_s=np.array(arrival_s),
        records=SimpleNamespace(counts=counts, moments=moments),
        ended_s=max(finished_s),
    )


def test_clients_that_wait_by_littles_law() -> None:
    """Three clients whose requests take 2 s each: 1.5 a second, 15 tokens."""
    run = run_of([0, 0, 0, 2, 2, 2], [2, 2, 2, 4, 4, 4], 10)
    found = closed_rates(run, Asked(run, slice(0, 6)), 3)
    assert (found.requests, found.tokens, found.seen) == (1.5, 15.0, 6)


def test_a_crowd_is_counted_in_its_middle() -> None:
    """Eight that end a second apart, the first after a slow start: one a second between its quarters."""
    run = run_of([0] * 8, [10, 11, 12, 13, 14, 15, 16, 30], 5)
    found = rates(run)
    assert (found.requests, found.tokens, found.seen) == (1.0, 5.0, 4)


def test_waves_are_counted_whole() -> None:
    """Four waves of four, 10 s each: 0.4 requests a second."""
    ends = [10.0 * wave for wave in (1, 2, 3, 4) for _ in range(4)]
    assert rates(run_of([0] * 16, ends, 1)).requests == pytest.approx(0.4)


def test_all_in_one_pass() -> None:
    assert rates(run_of([0] * 4, [2.0] * 4, 3)).tokens == pytest.approx(6.0)


def test_a_quantile_of_counted_values() -> None:
    """98 gaps of 1, one of 5, one of 9: the 99th of a hundred."""
    assert weighted_quantile(np.array([9.0, 1.0, 5.0]), np.array([1.0, 98.0, 1.0])) == 5.0
    assert weighted_quantile(np.array([]), np.array([])) == 0.0


@given(st.integers(1, 200), st.data())
def test_the_last_that_holds(count: int, data: st.DataObject) -> None:
    """Wherever it is looked for; near it few are tried."""
    last = data.draw(st.integers(0, count))
    near = data.draw(st.none() | st.integers(-5, 2 * count))
    tried: list[int] = []

    def holds(at: int) -> bool:
        tried.append(at)
        return at <= last

    assert last_that(holds, count, near) == last
    assert len(set(tried)) == len(tried)
    assert all(1 <= each <= count for each in tried)
    assert len(tried) <= (8 if near is None else 16)  # 2^8 > 200, and twice as many steps to come near
    if near == last:
        assert len(tried) <= 2
