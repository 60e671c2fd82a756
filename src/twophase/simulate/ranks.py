"""Which engines are ranks that go in step, and what their experts take, for a Cluster. Python only, once."""

from collections.abc import Sequence

import numpy as np

from twophase.cost.dealt import Dealt
from twophase.simulate.books import Floats, Ints
from twophase.simulate.pools import Pool


def groups_of(pools: Sequence[Pool]) -> Ints:
    """Cluster.groups."""
    found: list[tuple[int, int, int, int, int]] = []
    for number, pool in enumerate(pools):
        together = pool.ranks // pool.own.plan.pp
        for _ in range(pool.count // pool.ranks):
            first = len(found)
            end = first + pool.ranks
            found += [(first, end, number, together, first + i % together) for i in range(pool.ranks)]
    return np.array(found, np.int64)


def dealt_of(pools: Sequence[Pool]) -> Floats:
    """Cluster.dealt, filled up with zeros."""
    made = np.zeros((len(pools), len(Dealt._fields), max(len(p.estimate.times.rows_s) for p in pools)))
    for number, pool in enumerate(pools):
        if pool.estimate.dealt is not None:
            own = np.array(pool.estimate.dealt)
            made[number, :, : own.shape[1]] = own
    return made


def least_pass_s(pool: Pool) -> float:
    times, dealt = pool.estimate.times, pool.estimate.dealt
    least = float(min(times.rows_s[1:].min(), times.decode_rows_s[1:].min()))
    if dealt is None:
        return least
    apart = [dealt.experts_s[1:], dealt.exchanges_s[1:]]  # at others' rows
    apart.append(times.rows_s[1:] - apart[0] - apart[1])
    return min(least, float(sum(each.min() for each in apart)))
