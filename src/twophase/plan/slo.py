"""What must be kept, by how many of the requests, and how far a simulated run keeps it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.simulate.books import FIRST_TOKEN_S, PRODUCED
from twophase.simulate.outcome import Run

Floats = NDArray[np.float64]
KNOWN = ("ttft", "tpot", "e2e")
ATTAINMENT = 0.9  # of the requests, as in DistServe (OSDI 2024)


@dataclass(frozen=True, slots=True)
class Slo:
    """Seconds; each request keeps all limits or misses. One of a single token has no TPOT to miss."""

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    e2e_s: float = math.inf
    attainment: float = ATTAINMENT

    @property
    def limits(self) -> tuple[tuple[str, float], ...]:
        """Those that are set."""
        every = (("ttft", self.ttft_s), ("tpot", self.tpot_s), ("e2e", self.e2e_s))
        return tuple((name, limit) for name, limit in every if limit < math.inf)

    def misses_allowed(self, requests: int) -> int:
        return int((1 - self.attainment) * requests + 1e-9)


def slo_from(limits: dict[str, float], attainment: float = ATTAINMENT) -> Slo:
    """InputError where a limit is none that a plan knows, or the share is none."""
    if not 0 < attainment <= 1:
        raise InputError(f"--attainment {attainment:g}: a share of the requests, above 0 and at most 1")
    unknown = [name for name in limits if name not in KNOWN]
    if unknown:
        raise InputError(f"--slo: a plan keeps {', '.join(KNOWN)}; {unknown[0]} is none of them")
    if not limits:
        raise InputError("--slo: give at least one limit, as ttft=500ms,tpot=30ms")
    return Slo(**{f"{name}_s": seconds for name, seconds in limits.items()}, attainment=attainment)


@dataclass(frozen=True, slots=True)
class Kept:
    """How a run keeps an SLO. Quantiles are those of the attainment, unfinished requests as never done."""

    share: float  # of all requests, that keep every limit
    ttft_s: float
    tpot_s: float
    e2e_s: float
    grows: bool  # the queue, without bound

    def meets(self, slo: Slo, requests: int) -> bool:
        return not self.grows and round((1 - self.share) * requests) <= slo.misses_allowed(requests)

    def strain(self, slo: Slo) -> float:
        """The largest part of a limit that is used up: above 1 it is broken."""
        found = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return max((found[name] / limit for name, limit in slo.limits), default=0.0)

    def broken(self, slo: Slo) -> tuple[tuple[str, float, float], ...]:
        """(limit, seconds, limit's seconds) of those whose quantile is beyond."""
        found = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return tuple((name, found[name], limit) for name, limit in slo.limits if found[name] > limit)


def kept_by(run: Run, slo: Slo) -> Kept:
    count, done = len(run.workload), run.finished
    ttft, tpot, e2e = (np.full(count, np.inf) for _ in range(3))
    arrival = run.arrival_s[done]
    ttft[done] = run.records.moments[done, FIRST_TOKEN_S] - arrival
    e2e[done] = run.e2e_s
    later = run.records.counts[done, PRODUCED] - 1
    tpot[done] = np.where(later > 0, (e2e[done] - ttft[done]) / np.maximum(later, 1), 0.0)
    good = (ttft <= slo.ttft_s) & (tpot <= slo.tpot_s) & (e2e <= slo.e2e_s)
    good &= np.isfinite(e2e)
    return Kept(
        share=float(good.mean()) if count else 1.0,
        ttft_s=quantile(ttft, slo),
        tpot_s=quantile(tpot, slo),
        e2e_s=quantile(e2e, slo),
        grows=run.growth is not None,
    )


def quantile(values: Floats, slo: Slo) -> float:
    """The least that all but the allowed misses keep."""
    if not len(values):
        return 0.0
    at = len(values) - 1 - slo.misses_allowed(len(values))
    return float(np.partition(values, max(at, 0))[max(at, 0)])
