"""How wrong the meter may be: bounds that follow from how late its own loop ran."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from twophase.meter.distribution import Distribution, distribution
from twophase.meter.latency import Since, gaps_s, ttft_s, visible_tokens
from twophase.meter.records import Lag, Reply

LAG_SHARE = 0.05  # of the median TTFT: a loop later than this at its p99 distorts what is measured
BUSY = 0.9  # of a core: beyond it the client queues


@dataclass(frozen=True, slots=True)
class OwnError:
    """Each bound in seconds, at most so much above the truth: the loop reads late, never early."""

    ttft: Distribution | None  # bound on the mean and on each percentile
    tpot: Distribution | None
    gap: Distribution | None
    e2e: Distribution | None
    lag: Lag
    limited: str  # why the client was the bottleneck; empty where it was not


def own_error(replies: Sequence[Reply], since: Since, lag: Lag) -> OwnError:
    """Of finished requests.

    What was read up to `read_lag_s` late lies within [measured - lag, measured], so the true percentile lies
    between those of both ends. From `due`, what the client itself sent late is in the bound, too.
    """
    if not lag.samples:  # a simulation: nobody read
        return OwnError(None, None, None, None, lag, "")
    known = any(reply.read_lag_s for reply in replies)
    lags = [reply.read_lag_s if known else lag.max_s for reply in replies]
    ttft, ttft_least, e2e, e2e_least = [], [], [], []
    tpot, tpot_least, gap, gap_least = [], [], [], []
    for reply, late in zip(replies, lags, strict=True):
        sent_late = max(0.0, reply.sent_s - reply.due_s) if since == "due" else 0.0
        first = ttft_s(reply, since)
        if first is not None and reply.last_token_s is not None and reply.first_token_s is not None:
            ttft.append(first)
            ttft_least.append(first - late - sent_late)
            whole = first + reply.last_token_s - reply.first_token_s
            e2e.append(whole)
            e2e_least.append(whole - late - sent_late)
        each = reply.tpot_s
        if each is not None:
            later = visible_tokens(reply) - reply.first_tokens
            tpot.append(each)
            tpot_least.append(each - late / later)
        own = gaps_s(reply)
        gap += own
        gap_least += [seconds - late for seconds in own]
    headline = distribution(ttft)
    return OwnError(
        ttft=between(headline, distribution(ttft_least)),
        tpot=between(distribution(tpot), distribution(tpot_least)),
        gap=between(distribution(gap), distribution(gap_least)),
        e2e=between(distribution(e2e), distribution(e2e_least)),
        lag=lag,
        limited=limited_by(lag, headline.p50 if headline else None),
    )


def between(most: Distribution | None, least: Distribution | None) -> Distribution | None:
    if most is None or least is None:
        return None
    names = [each.name for each in fields(Distribution) if each.name != "count"]
    return Distribution(most.count, **{name: getattr(most, name) - getattr(least, name) for name in names})


def limited_by(lag: Lag, ttft_p50_s: float | None) -> str:
    """Why figures tell of the client rather than the server; empty where they do not."""
    if lag.cpu_share > BUSY:
        return f"its busiest process used {lag.cpu_share:.0%} of a core"
    if ttft_p50_s and lag.p99_s > LAG_SHARE * ttft_p50_s:
        return (
            f"its event loop ran {lag.p99_s * 1e3:.1f} ms late at p99, "
            f"{lag.p99_s / ttft_p50_s:.0%} of the median TTFT"
        )
    return ""
