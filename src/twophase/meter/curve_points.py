"""Points of a server's curves, from the replies that were timed."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from twophase.meter.itl_law import ItlPoint
from twophase.meter.latency import token_events
from twophase.meter.records import Reply

Timed = tuple[tuple[int, int], ItlPoint]  # the batch and context asked for, and what came of them


@dataclass(frozen=True, slots=True)
class TtftPoint:
    """Median over the repeats of a length, by the server's count of its tokens."""

    prompt_tokens: int
    ttft_s: float
    low_s: float
    high_s: float
    runs: int


def ttft_points(replies: Sequence[Reply]) -> tuple[TtftPoint, ...]:
    groups: dict[str, list[Reply]] = {}
    for each in replies:
        if each.outcome == "finished" and each.ttft_s is not None:
            groups.setdefault(each.point, []).append(each)
    made = []
    for own in groups.values():
        times = sorted(each.ttft_s for each in own if each.ttft_s is not None)
        tokens = round(statistics.median(each.prompt_tokens for each in own))
        made.append(TtftPoint(tokens, statistics.median(times), times[0], times[-1], len(times)))
    return tuple(sorted(made, key=lambda each: each.prompt_tokens))


def cached_share(replies: Sequence[Reply]) -> float | None:
    told = [each for each in replies if each.cached_tokens is not None and each.outcome == "finished"]
    prompts = sum(each.prompt_tokens for each in told)
    return sum(each.cached_tokens or 0 for each in told) / prompts if prompts else None


def typical(replies: Sequence[Reply]) -> list[tuple[float, float]]:
    """(tokens, seconds) of each reply, less those far off their length's median: pauses of the machine.

    A repeat is far off where it takes half as long again as the median of its length, with three or more.
    """
    groups: dict[str, list[Reply]] = {}
    for each in replies:
        if each.outcome == "finished" and each.ttft_s is not None:
            groups.setdefault(each.point, []).append(each)
    points = []
    for own in groups.values():
        median = statistics.median(each.ttft_s or 0.0 for each in own)
        for each in own:
            ttft_s = each.ttft_s or 0.0
            if len(own) < 3 or ttft_s <= 1.5 * median:
                points.append((float(each.prompt_tokens), ttft_s))
    return points


def merged(points: Sequence[Timed]) -> tuple[ItlPoint, ...]:
    """Medians over the repeats of a batch and context."""
    groups: dict[tuple[int, int], list[ItlPoint]] = {}
    for asked, point in points:
        groups.setdefault(asked, []).append(point)
    return tuple(
        ItlPoint(
            batch,
            statistics.fmean(each.context for each in own),
            statistics.median(each.itl_s for each in own),
            sum(each.tokens for each in own),
        )
        for (batch, _), own in groups.items()
    )


def itl_point(replies: Sequence[Reply], batch: int) -> ItlPoint | None:
    """From the time in which all sequences decode: after the last one's first token, before any's last."""
    own = [each for each in replies if each.outcome == "finished" and each.first_token_s is not None]
    if len(own) < batch:
        return None
    start = max(each.first_token_s or 0.0 for each in own)
    end = min(each.last_token_s or 0.0 for each in own)
    rates, contexts, counted = [], [], 0.0
    for each in own:
        events = token_events(each)
        inside = [event for event in events if start <= event.at_s <= end]
        if len(inside) < 3:
            return None
        instant = inside[0].at_s
        later = sum(event.tokens for event in inside if event.at_s > instant)
        if later <= 0:
            return None
        rates.append((inside[-1].at_s - instant) / later)
        before = sum(event.tokens for event in events if event.at_s <= instant)
        contexts.append(each.prompt_tokens + before + later / 2)
        counted += later
    return ItlPoint(batch, statistics.fmean(contexts), statistics.median(rates), round(counted))
