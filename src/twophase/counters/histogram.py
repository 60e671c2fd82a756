"""Quantiles of histograms: a bucket is all that is known, so each comes with its bucket's bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

Bucket = tuple[float, float]  # (upper bound, observations up to it)


@dataclass(frozen=True, slots=True)
class Quantile:
    """`value` is interpolated inside its bucket; the truth lies above `low` and up to `high` (None: beyond
    the last bound).
    """

    value: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Of a window. Without buckets only the mean is known."""

    count: float
    sum: float
    buckets: tuple[Bucket, ...]  # cumulative, by bound, the last inf; () where there are none

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count > 0 else None


def quantile(own: Histogram, share: float) -> Quantile | None:
    """None where nothing was observed, or the buckets contradict themselves."""
    if not own.buckets or own.buckets[-1][1] <= 0 or not in_order(own.buckets):
        return None
    rank = share * own.buckets[-1][1]
    low, below = min(0.0, own.buckets[0][0]), 0.0
    for bound, count in own.buckets:
        if count >= rank and count > below:
            if bound == inf:
                return Quantile(low, low, None)
            return Quantile(low + (bound - low) * (rank - below) / (count - below), low, bound)
        low, below = bound, count
    return None


def in_order(buckets: Sequence[Bucket]) -> bool:
    counts = [0.0, *(count for _, count in buckets)]
    return all(one <= other for one, other in pairwise(counts))


def implausible(own: Histogram, least: float) -> str | None:
    """Why its buckets can't be believed; `least`: below it no observation can really lie.

    vLLM 0.5.1 put every observation into the first bucket, 1 ms, whatever it was.
    """
    if not own.buckets or own.buckets[-1][1] <= 0:
        return None
    if not in_order(own.buckets):
        return "its buckets fall where they must rise"
    total = own.buckets[-1][1]
    first, within = own.buckets[0]
    if within == total and first <= least:
        return f"every observation lies in its first bucket, up to {first:g}"
    floor, ceiling, low, below = 0.0, 0.0, min(0.0, first), 0.0
    for bound, count in own.buckets:
        floor += low * (count - below)
        ceiling += bound * (count - below) if count > below else 0.0
        low, below = bound, count
    if own.count > 0 and not floor * 0.999 <= own.sum * total / own.count <= ceiling * 1.001:
        return "its sum lies outside of what its buckets allow"
    return None


def merged(parts: Sequence[Sequence[Bucket]]) -> tuple[Bucket, ...]:
    """The sum of several histograms' buckets, over the bounds that all of them have."""
    if not parts:
        return ()
    bounds = set.intersection(*({bound for bound, _ in each} for each in parts))
    if inf not in bounds:
        return ()
    tables = [dict(each) for each in parts]
    return tuple((bound, sum(each[bound] for each in tables)) for bound in sorted(bounds))
