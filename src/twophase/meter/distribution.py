"""Mean and percentiles of a sample."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twophase.non_negative import Floats

PERCENTILES = (50, 90, 95, 99)
BIN = 0.001  # of a value
LEAST = 1e-9  # below it all values share a bin


@dataclass(frozen=True, slots=True)
class Distribution:
    """Percentiles by linear interpolation between order statistics."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


def distribution(values: Iterable[float | None]) -> Distribution | None:
    """Of the values that are there; None where none is."""
    import numpy as np

    found = np.array([each for each in values if each is not None], np.float64)
    if not found.size:
        return None
    p50, p90, p95, p99 = np.percentile(found, PERCENTILES).tolist()
    return Distribution(found.size, float(found.mean()), p50, p90, p95, p99, float(found.max()))


def weighted(values: "Floats", often: "Floats") -> Distribution | None:
    """Of values that occur so often: what `distribution` gives of all of them one by one."""
    import numpy as np

    if not values.size:
        return None
    order = np.argsort(values, kind="stable")
    values, up_to = values[order], np.cumsum(often[order])
    count = round(float(up_to[-1]))
    places = np.array(PERCENTILES) / 100 * (count - 1)
    low, high = (
        values[np.searchsorted(up_to, each, side="right")] for each in (places // 1, -(-places // 1))
    )
    p50, p90, p95, p99 = (low + (high - low) * (places % 1)).tolist()
    mean = float(np.sum(values * often[order]) / up_to[-1])
    return Distribution(count, mean, p50, p90, p95, p99, float(values[-1]))


def binned(values: "Floats", often: "Floats") -> tuple[tuple[float, int], ...]:
    """(value, how often) of bins, each with the mean of what lies in it: a few thousand at most.

    `weighted` of them is off by no more than a bin's width, and its mean not at all.
    """
    import numpy as np

    bins = np.floor(np.log(np.maximum(values, LEAST)) / np.log1p(BIN))
    _, which = np.unique(bins, return_inverse=True)
    counts, sums = np.bincount(which, often), np.bincount(which, often * values)
    return tuple(zip((sums / counts).tolist(), np.rint(counts).astype(np.int64).tolist(), strict=True))


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Of (value, weight)."""
    known = list(pairs)
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole > 0 else None
