"""How many tokens each event of a reply stands for, from the best that its server tells.

In this order: tokens listed by id or log probability; a usage that counts along; the final usage, shared
out by text; one an event where the server counts nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from twophase.meter.chunks import Chunk, Usage
from twophase.meter.records import TokenSource

PIECE = re.compile(r"\s?\w+|\s?[^\w\s]+|\s+")
GENERATED = ("content", "reasoning", "tool", "empty")
HIDING = 1.2  # tokens per event above which reasoning tokens that nobody saw were held back
END_TOKEN_GAP = 1.5  # of the longest gap between tokens: a finish that comes later is no token's time


@dataclass(frozen=True, slots=True)
class Count:
    total: float  # hidden ones included
    hidden: float
    source: TokenSource


def count_tokens(chunks: Sequence[Chunk]) -> Count:
    """Sets every chunk's `tokens`; the total is the server's own wherever it gives one."""
    mark_repeated_roles(chunks)
    total, reasoning = final_count(chunks)
    for attempt in (count_named, count_along, share_out):
        if (count := attempt(chunks, total, reasoning)) is not None:
            return count
    generated = [chunk for chunk in chunks if chunk.kind in GENERATED]
    for chunk in generated:
        chunk.tokens = 1.0
    return Count(len(generated), 0.0, "events")


def mark_repeated_roles(chunks: Sequence[Chunk]) -> None:
    """Where every chunk names its role, one without text is an empty token once others have come."""
    begun = False
    for chunk in chunks:
        if chunk.kind == "role" and chunk.blank and begun:
            chunk.kind = "empty"
        begun = begun or chunk.kind in GENERATED


def final_count(chunks: Sequence[Chunk]) -> tuple[int, int]:
    """Output and reasoning tokens that the server counted at the end; zero where it did not."""
    last = max((at for at, chunk in enumerate(chunks) if chunk.kind in GENERATED), default=0)
    usages = [chunk.usage for chunk in chunks[last:] if chunk.usage is not None and chunk.usage.output]
    return (usages[-1].output, usages[-1].reasoning) if usages else (0, 0)


def last_usage(chunks: Sequence[Chunk]) -> Usage:
    """The last counts given, of any kind."""
    merged = Usage()
    for chunk in chunks:
        if (usage := chunk.usage) is not None:
            cached = merged.cached if usage.cached is None else usage.cached
            merged = Usage(usage.prompt or merged.prompt, usage.output, usage.reasoning, cached)
    return merged


def count_named(chunks: Sequence[Chunk], total: int, reasoning: int) -> Count | None:
    texts = [chunk for chunk in chunks if chunk.kind in GENERATED and chunk.kind != "empty"]
    named = sum(chunk.named or 0 for chunk in chunks)
    if not named or any(chunk.named is None for chunk in texts):
        return None
    for chunk in chunks:
        chunk.tokens = float(chunk.named or 0)
    source = next(chunk.named_by for chunk in chunks if chunk.named)
    if total == named + 1:
        named += take_end_token(chunks)
    promote(chunks)
    return Count(max(total, named), max(0, total - named), source)


def count_along(chunks: Sequence[Chunk], total: int, reasoning: int) -> Count | None:
    generated = [chunk for chunk in chunks if chunk.kind in GENERATED]
    so_far = [chunk.usage.output for chunk in generated if chunk.usage is not None]
    if len(so_far) < len(generated) or not so_far or so_far != sorted(so_far):
        return None
    if len({each for each in so_far if each}) < min(2, len(so_far)):
        return None
    counted = 0
    for chunk in chunks:
        if chunk.usage is not None and chunk.kind not in ("role", "usage"):
            chunk.tokens = float(max(0, chunk.usage.output - counted))
            counted = max(counted, chunk.usage.output)
    promote(chunks)
    total = max(total, counted)
    generated[-1].tokens += total - counted
    hidden = 0
    if not any(chunk.kind == "reasoning" for chunk in chunks):
        first = next(chunk for chunk in chunks if chunk.tokens)
        hidden = min(reasoning, max(0, int(first.tokens) - 1))
        first.tokens -= hidden
    return Count(total, hidden, "continuous_usage")


def share_out(chunks: Sequence[Chunk], total: int, reasoning: int) -> Count | None:
    if not total:
        return None
    drop_surplus(chunks, total)
    generated = [chunk for chunk in chunks if chunk.kind in GENERATED and chunk.tokens == 0.0]
    if not generated:
        return Count(total, total, "usage_share")
    hidden = 0
    if total > HIDING * len(generated) and not any(chunk.kind == "reasoning" for chunk in chunks):
        hidden = min(reasoning, total - len(generated))
    for chunk in generated:
        chunk.tokens = 1.0
    if total - hidden == len(generated) + 1:
        hidden += 1 - take_end_token(chunks) if ended_itself(chunks) else 0
    visible = total - hidden - sum(chunk.tokens for chunk in chunks)
    if visible:
        texts = [chunk for chunk in generated if chunk.text] or generated
        weights = [weight_of(chunk.text) for chunk in texts]
        each = (len(texts) + visible) / sum(weights)
        for chunk, weight in zip(texts, weights, strict=True):
            chunk.tokens = each * weight
    return Count(total, hidden, "usage_share")


def weight_of(text: str) -> float:
    """About as many as its tokens: a word or a sign is one, a long one as many as its eights of bytes."""
    return sum(max(1.0, len(piece.encode(errors="replace")) / 8) for piece in PIECE.findall(text)) or 1.0


def drop_surplus(chunks: Sequence[Chunk], total: int) -> None:
    """Events without text that the server's count has no token for: those before the first text go first."""
    generated = [chunk for chunk in chunks if chunk.kind in GENERATED]
    surplus = len(generated) - total
    if surplus <= 0:
        return
    begun = next((at for at, chunk in enumerate(generated) if chunk.kind != "empty"), len(generated))
    for chunk in [*generated[:begun], *reversed(generated[begun:])]:
        if surplus and chunk.kind == "empty":
            chunk.kind = "other"
            surplus -= 1


def ended_itself(chunks: Sequence[Chunk]) -> bool:
    return any(chunk.finish == "stop" for chunk in chunks)


def take_end_token(chunks: Sequence[Chunk]) -> int:
    """1 where the finish came when the end-of-text token was made: it then is that token."""
    times = [chunk.at_s for chunk in chunks if chunk.tokens]
    finish = next((chunk for chunk in chunks if chunk.kind == "finish" and not chunk.tokens), None)
    if finish is None or finish.finish != "stop" or len(times) < 2:
        return 0
    longest = max(after - before for before, after in pairwise(times))
    if not 0 < finish.at_s - times[-1] <= END_TOKEN_GAP * longest:
        return 0
    finish.tokens = 1.0
    return 1


def promote(chunks: Sequence[Chunk]) -> None:
    """What the server counts a token for is a token, whatever it looked like."""
    for chunk in chunks:
        if chunk.tokens and chunk.kind in ("role", "other"):
            chunk.kind = "empty"
