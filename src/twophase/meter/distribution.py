"""Mean and percentiles of a sample."""

from collections.abc import Iterable
from dataclasses import dataclass

PERCENTILES = (50, 90, 95, 99)


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


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float | None:
    """Of (value, weight)."""
    known = list(pairs)
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole > 0 else None
