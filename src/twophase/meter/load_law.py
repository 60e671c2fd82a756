"""TPOT against the sequences that decode together, over a sweep's levels: TPOT = a + b·decoding.

a is what every pass costs, b what each sequence adds: its context, which a sweep does not change, and its
share of the prefills that come between. `twophase diagnose URL` tells these apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twophase.meter.least_squares import Estimate, solve
from twophase.meter.ttft_curve import NOISY

FEWEST = 3  # levels


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Means of one level."""

    decoding: float  # sequences at once
    tpot_s: float
    context: float  # tokens in the cache of each


@dataclass(frozen=True, slots=True)
class LoadLaw:
    pass_s: Estimate
    sequence_s: Estimate  # for each sequence, at this context
    context_tokens: float
    levels: int
    noise: float  # standard deviation of a level about the law, as a share of it
    worst: float
    poor: tuple[str, ...]


def fit_load(points: Sequence[LoadPoint]) -> LoadLaw | None:
    """None with fewer than three levels, or with none that differs from another."""
    decoding = np.array([each.decoding for each in points], np.float64)
    if len(points) < FEWEST or decoding.max() <= 1.05 * decoding.min():
        return None
    seconds = np.array([each.tpot_s for each in points], np.float64)
    found = solve(np.stack([np.ones_like(decoding), decoding], axis=1), seconds)
    worst = float(np.abs(found.relative).max())
    noisy = f"levels lie {found.noise:.0%} off the law (standard deviation)"
    return LoadLaw(
        pass_s=found.estimate(0),
        sequence_s=found.estimate(1),
        context_tokens=sum(each.context for each in points) / len(points),
        levels=len(points),
        noise=found.noise,
        worst=worst,
        poor=(noisy,) if found.noise > NOISY else (),
    )
