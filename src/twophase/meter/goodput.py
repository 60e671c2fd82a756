"""Goodput: the requests that meet every condition of a service-level objective, of all that were asked."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twophase.errors import InputError, nearest
from twophase.meter.latency import Since, e2e_s, gaps_s, ntpot_s, ttfa_s, ttft_s
from twophase.meter.records import Reply

LONGEST_S = 60.0  # of a limit without a unit: beyond, milliseconds were meant
UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
TIMES: Mapping[str, Callable[[Reply, Since], float | None]] = {
    "ttft": ttft_s,
    "ttfa": ttfa_s,
    "tpot": lambda reply, since: reply.tpot_s,
    "gap": lambda reply, since: max(gaps_s(reply), default=None),  # the longest stall
    "e2e": e2e_s,
    "ntpot": ntpot_s,
}


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition that each request meets or misses."""

    metric: str  # one of TIMES
    seconds: float


@dataclass(frozen=True, slots=True)
class Goodput:
    slo: tuple[Limit, ...]
    good: int
    requests: int  # all that were sent: errors, truncated, cancelled and empty ones miss
    share: float
    requests_per_s: float
    met: tuple[int, ...]  # requests that meet each limit
    without_tpot: int  # finished with a single token or none: they have no TPOT, and so miss its limit


def slo_of(text: str, option: str = "--slo") -> tuple[Limit, ...]:
    """ttft=500ms,tpot=30ms; a number without a unit is in seconds, where it may be."""
    limits: list[Limit] = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"([a-z0-9]+)\s*(?:=|<=|<|:)\s*([0-9]*\.?[0-9]+)\s*(us|µs|ms|s|)", part.lower())
        if found is None:
            raise InputError(f"{option} {text}: give limits as ttft=500ms,tpot=30ms; {part!r} is none")
        metric, number, unit = found.groups()
        if metric not in TIMES:
            hint = nearest(metric, TIMES) or f"; it is one of {', '.join(TIMES)}"
            raise InputError(f"{option} {text}: unknown time {metric!r}{hint}")
        if not float(number) > 0:
            raise InputError(f"{option} {text}: {part} must be greater than zero")
        if not unit and float(number) > LONGEST_S:
            raise InputError(
                f"{option} {text}: {metric}={number} would be {number} seconds: say {number}ms, or {number}s"
            )
        if metric in (each.metric for each in limits):
            raise InputError(f"{option} {text}: {metric} has two limits, give one of them")
        limits.append(Limit(metric, float(number) * UNITS[unit]))
    if not limits:
        raise InputError(f"{option} {text!r}: give limits as ttft=500ms,tpot=30ms")
    return tuple(limits)


def meets(reply: Reply, limit: Limit, since: Since) -> bool:
    if reply.outcome != "finished":
        return False
    seconds = TIMES[limit.metric](reply, since)
    return seconds is not None and seconds <= limit.seconds


def goodput(replies: Sequence[Reply], slo: Sequence[Limit], since: Since, finished_per_s: float) -> Goodput:
    """finished_per_s: the rate at which requests finish, of which the good ones are a share."""
    met = [[meets(reply, limit, since) for limit in slo] for reply in replies]
    good = sum(all(each) for each in met)
    finished = sum(reply.outcome == "finished" for reply in replies)
    return Goodput(
        slo=tuple(slo),
        good=good,
        requests=len(replies),
        share=good / len(replies) if replies else 0.0,
        requests_per_s=finished_per_s * good / finished if finished else 0.0,
        met=tuple(sum(each[i] for each in met) for i in range(len(slo))),
        without_tpot=sum(reply.outcome == "finished" and reply.tpot_s is None for reply in replies),
    )
