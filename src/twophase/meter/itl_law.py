"""ITL against batch and context: ITL = a + b·batch + c·batch·context, on relative error.

a is what every pass costs, the weights' bytes above all; b what each sequence adds; c what each token of its
context adds, its keys and values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twophase.meter.least_squares import Estimate, resampled, solve
from twophase.meter.ttft_curve import NOISY, RESAMPLES, ratio, turning
from twophase.non_negative import Floats, non_negative

FEWEST = 4  # points


@dataclass(frozen=True, slots=True)
class ItlPoint:
    """Median seconds from token to token while `batch` sequences decode together."""

    batch: int
    context: float  # mean tokens in the cache of each
    itl_s: float
    tokens: int  # whose times it rests on


@dataclass(frozen=True, slots=True)
class ItlLaw:
    pass_s: Estimate
    sequence_s: Estimate  # for each sequence
    context_s_per_token: Estimate  # for each token of each sequence's context
    doubling_batch: Estimate | None  # at no context: where sequences cost as much as the pass itself
    points: int
    noise: float  # standard deviation of a point about the law, as a share of it
    worst: float
    poor: tuple[str, ...]

    @property
    def coefficients(self) -> tuple[float, float, float]:
        return self.pass_s.value, self.sequence_s.value, self.context_s_per_token.value


def itl_at(law: ItlLaw, batch: float, context: float) -> float:
    a, b, c = law.coefficients
    return a + b * batch + c * batch * context


def fit_itl(points: Sequence[ItlPoint], seed: int = 0) -> ItlLaw:
    """ValueError with fewer than four points."""
    if len(points) < FEWEST:
        raise ValueError(f"the law of ITL needs {FEWEST} points, not {len(points)}")
    batch = np.array([each.batch for each in points], np.float64)
    context = np.array([each.context for each in points], np.float64)
    seconds = np.array([each.itl_s for each in points], np.float64)
    columns = terms(batch, context)
    found = solve(columns, seconds)
    curve = np.asarray(columns @ found.coefficients)
    drawn = resampled(curve, found.noise, found.freedom, RESAMPLES, seed)
    scale = columns.max(axis=0)
    samples = non_negative(columns / scale / curve[:, None], drawn / curve) / scale
    a, b, c = (found.estimate(i) for i in range(3))
    return ItlLaw(
        pass_s=a,
        sequence_s=b,
        context_s_per_token=c,
        doubling_batch=turning(ratio(a.value, b.value), ratio(samples[:, 0], samples[:, 1])),
        points=len(points),
        noise=found.noise,
        worst=float(np.abs(found.relative).max()),
        poor=_poor(points, found.noise, float(np.abs(found.relative).max())),
    )


def terms(batch: Floats, context: Floats) -> Floats:
    return np.stack([np.ones_like(batch), batch, batch * context], axis=1)


def _poor(points: Sequence[ItlPoint], noise: float, worst: float) -> tuple[str, ...]:
    reasons = []
    if noise > NOISY:
        reasons.append(f"points lie {noise:.0%} off the law (standard deviation)")
    if worst > max(3 * NOISY, 4 * noise):
        reasons.append(f"the furthest lies {worst:.0%} off")
    batches, contexts = {each.batch for each in points}, [each.context for each in points]
    if len(batches) < 2:
        reasons.append("one batch alone does not tell what a sequence costs")
    if max(contexts) < 2 * min(contexts):
        reasons.append("contexts are too alike to tell what their tokens cost")
    return tuple(reasons)
