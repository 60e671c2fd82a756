"""What a lever changes: each figure before and after, how sure that is, and whether it helps an aim."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log, sqrt
from statistics import stdev
from typing import Literal

from twophase.advise.figures import Figures

Aim = Literal["ttft", "itl", "throughput", "cost", "goodput"]
AIMS: tuple[Aim, ...] = ("ttft", "itl", "throughput", "cost", "goodput")
STUDENT = 1.53  # four in five of Student's t with 4 degrees of freedom: of the five PARTS of figures
HELPS = 1.05  # a twentieth better at the least: less drowns in what is not modelled


@dataclass(frozen=True, slots=True)
class Effect:
    """gain: how much better, 2 is half the time, twice the rate, half the cost; below 1 it is worse."""

    before: float | None
    after: float | None
    gain: float | None  # None where one of both isn't known
    gain_range: tuple[float, float] | None  # four in five; None: passes at their floor, a growing queue


def effects(
    before: Figures, after: Figures, pass_interval: tuple[float, float], *, other_kernels: bool
) -> dict[Aim, Effect]:
    """An error of pass times that both sides share cancels; kernels of other kinds err on their own.

    To that comes the chance of the arrivals, and for rates the grain of one request.
    """
    low, high = pass_interval
    width = log(high / low) / 2 if low > 0 and isfinite(high) else inf
    kernels = width * sqrt(2) if other_kernels else 0.0
    grain = 1 / max(1, before.counted) + 1 / max(1, after.counted)

    def of(was: float | None, now: float | None, *, less: bool, chance: float = grain) -> Effect:
        if was is None or now is None or not (isfinite(was) and isfinite(now)):
            return Effect(was, now, None, None)
        gain = ratio(was, now) if less else ratio(now, was)
        spread = sqrt(kernels**2 + chance**2)
        sure = None if not isfinite(spread) or gain <= 0 else (gain * exp(-spread), gain * exp(spread))
        return Effect(was, now, gain, sure)

    cost_before, cost_after = before.usd_per_million_output_tokens, after.usd_per_million_output_tokens
    cost = of(before.usd_per_1000_requests, after.usd_per_1000_requests, less=True)
    if cost.gain is None:  # no price: the devices' time, which is the money where they are the same
        cost = of(before.device_s_per_request, after.device_s_per_request, less=True)
    ttft = of(before.ttft_s, after.ttft_s, less=True, chance=chance(before.ttft_parts, after.ttft_parts))
    if before.grows or after.grows:  # the longer the load lasts, the longer TTFT: parts of a run tell nothing
        ttft = replace(ttft, gain_range=None)
    return {
        "ttft": ttft,
        "itl": of(before.itl_s, after.itl_s, less=True, chance=chance(before.itl_parts, after.itl_parts)),
        "throughput": of(before.requests_per_s, after.requests_per_s, less=False),
        "cost": Effect(cost_before, cost_after, cost.gain, cost.gain_range),
        "goodput": of(before.most_good_per_s, after.most_good_per_s, less=False),
    }


def chance(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the width of four in five of the ratio's logarithm, from parts of one run that are alike."""
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if one > 0 and other > 0]
    if len(pairs) < 2:
        return 0.0
    return STUDENT * stdev(log(one / other) for one, other in pairs) / sqrt(len(pairs))


def ratio(one: float, other: float) -> float:
    return 1.0 if one == other else one / other if other else inf


def helps(found: dict[Aim, Effect], aim: Aim) -> bool:
    gain = found[aim].gain
    return gain is not None and gain >= HELPS
