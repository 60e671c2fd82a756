"""Rates while a level's load stood at full height: neither its start nor its end thins them out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twophase.meter.records import Reply


@dataclass(frozen=True, slots=True)
class Rates:
    """Of finished requests, per second of a window."""

    requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float


def rates(replies: Iterable[Reply], window: tuple[float, float]) -> Rates:
    """Each token where it came; each request as the share of it that lies in the window."""
    begin_s, end_s = window
    length = max(end_s - begin_s, 1e-9)
    requests = output = prompt = 0.0
    for reply in replies:
        if reply.outcome != "finished" or reply.last_token_s is None:
            continue
        whole = max(reply.last_token_s - reply.sent_s, 1e-9)
        inside = max(min(reply.last_token_s, end_s) - max(reply.sent_s, begin_s), 0.0) / whole
        requests += inside
        prompt += inside * reply.prompt_tokens
        shown = sum(event.tokens for event in reply.events)
        within = sum(event.tokens for event in reply.events if begin_s <= event.at_s < end_s)
        output += reply.output_tokens * (within / shown if shown else inside)
    return Rates(requests / length, output / length, prompt / length)


def window_of(replies: Sequence[Reply], full_s: float | None, dry_s: float | None) -> tuple[float, float]:
    """From full height to the last send; the whole of it where that is shorter than half a request."""
    ended = [reply.last_token_s - reply.sent_s for reply in replies if reply.last_token_s is not None]
    longest = max(ended, default=0.0)
    if full_s is not None and dry_s is not None and dry_s - full_s > longest / 2:
        return full_s, dry_s
    begins = [reply.sent_s for reply in replies if reply.sent_s]
    ends = [reply.closed_s for reply in replies if reply.closed_s is not None]
    return min(begins, default=0.0), max(ends, default=0.0)
