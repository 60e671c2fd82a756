"""What must be kept, by how many of the requests, and how far a simulated run keeps it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.errors import InputError
from twophase.simulate.books import FIRST_TOKEN_S, OUTCOME, REJECTED
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
    """How a run keeps an SLO. Quantiles are those of the attainment, unfinished requests as never done.

    Where it was cut off, too many had missed by then: the share is the most that was left, times the least.
    """

    share: float  # of all requests, that keep every limit
    ttft_s: float
    tpot_s: float
    e2e_s: float
    grows: bool = False  # the queue, without bound
    cut: bool = False

    def meets(self, slo: Slo, requests: int) -> bool:
        return (
            not self.grows
            and not self.cut
            and round((1 - self.share) * requests) <= slo.misses_allowed(requests)
        )

    def strain(self, slo: Slo) -> float:
        """The largest part of a limit that is used up: above 1 it is broken."""
        found = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return max((found[name] / limit for name, limit in slo.limits), default=0.0)

    def broken(self, slo: Slo) -> tuple[tuple[str, float, float], ...]:
        """(limit, seconds, limit's seconds) of those whose quantile is beyond."""
        found = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": self.e2e_s}
        return tuple((name, found[name], limit) for name, limit in slo.limits if found[name] > limit)


def kept_by(run: Run, slo: Slo) -> Kept:
    """Of a run to its end."""
    ttft, tpot, e2e = times_of(run, np.inf)
    good = keeps(ttft, tpot, e2e, slo) & np.isfinite(e2e)
    return Kept(
        share=float(good.mean()) if len(good) else 1.0,
        ttft_s=quantile(ttft, slo),
        tpot_s=quantile(tpot, slo),
        e2e_s=quantile(e2e, slo),
        grows=run.growth is not None,
    )


def lost_by(run: Run, slo: Slo, until_s: float) -> Kept | None:
    """Of a run that was cut off at a moment: what it lost for good, where that is more than may be missed."""
    ttft, tpot, e2e = times_of(run, until_s)
    missed = ~keeps(ttft, tpot, e2e, slo)
    if missed.sum() <= slo.misses_allowed(len(missed)):
        return None
    came = run.arrival_s <= until_s
    return Kept(
        share=float(1 - missed.mean()),
        ttft_s=quantile(ttft[came], slo),
        tpot_s=quantile(tpot[came], slo),
        e2e_s=quantile(e2e[came], slo),
        cut=True,
    )


def times_of(run: Run, until_s: float) -> tuple[Floats, Floats, Floats]:
    """TTFT, TPOT and E2E of each request; of one that isn't done, what it has waited at that moment."""
    done, first = run.finished, run.records.moments[:, FIRST_TOKEN_S]
    waited = np.maximum(until_s - np.where(np.isnan(run.arrival_s), until_s, run.arrival_s), 0.0)
    waited[run.records.counts[:, OUTCOME] == REJECTED] = np.inf
    ttft, e2e = waited.copy(), waited.copy()
    begun = ~np.isnan(first)
    ttft[begun] = first[begun] - run.arrival_s[begun]
    e2e[done] = run.e2e_s
    later = np.maximum(run.workload.output_tokens - 1, 0)
    tpot = np.zeros(len(later))
    known = begun & (later > 0)
    tpot[known] = (e2e[known] - ttft[known]) / later[known]
    tpot[np.isinf(ttft) & (later > 0)] = np.inf
    return ttft, tpot, e2e


def keeps(ttft: Floats, tpot: Floats, e2e: Floats, slo: Slo) -> NDArray[np.bool_]:
    return np.asarray((ttft <= slo.ttft_s) & (tpot <= slo.tpot_s) & (e2e <= slo.e2e_s))


def quantile(values: Floats, slo: Slo) -> float:
    """The least that all but the allowed misses keep."""
    if not len(values):
        return 0.0
    at = max(len(values) - 1 - slo.misses_allowed(len(values)), 0)
    return float(np.partition(values, at)[at])
