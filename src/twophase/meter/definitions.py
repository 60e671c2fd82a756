"""The same run by other meters' definitions, from the times of its events.

As implemented in vLLM 0.33 (bench serve), guidellm 0.8, aiperf 0.13 and SGLang 0.5.23 (bench_serving).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twophase.errors import InputError, nearest
from twophase.meter.distribution import Distribution, distribution
from twophase.meter.latency import is_token
from twophase.meter.records import Endpoint, EventKind, Reply

Times = Sequence[float]
SPOKEN: frozenset[EventKind] = frozenset({"content", "reasoning", "tool"})
SPOKEN_NO_TOOLS: frozenset[EventKind] = frozenset({"content", "reasoning"})
ANY_CHOICE: frozenset[EventKind] = frozenset({"role", "content", "reasoning", "tool", "empty", "finish"})


@dataclass(frozen=True, slots=True)
class Projected:
    """A metric as a tool names and computes it."""

    name: str
    formula: str
    seconds: Distribution | None


def project(replies: Sequence[Reply], tool: str, endpoint: Endpoint) -> tuple[Projected, ...]:
    """Of finished requests, by the definitions of `tool`; InputError where it is unknown."""
    if tool not in TOOLS:
        known = ", ".join(TOOLS)
        raise InputError(f"--definitions {tool}: it is one of {known}{nearest(tool, TOOLS)}")
    return TOOLS[tool]([each for each in replies if each.outcome == "finished"], endpoint)


def _vllm(replies: Sequence[Reply], endpoint: Endpoint) -> tuple[Projected, ...]:
    if endpoint == "completions":  # every chunk with a choice counts, an empty one too
        chunks = [_at(each, ANY_CHOICE) for each in replies]
        first = "first chunk with a choice, an empty one too"
    else:
        chunks = [[event.at_s for event in each.events if is_token(event)] for each in replies]
        first = "first chunk with content, reasoning or a tool call"
    return (
        _row("TTFT", f"{first} - request sent", replies, chunks, _first),
        _row("TPOT", "(E2EL - TTFT) / (output tokens - 1)", replies, chunks, _after_first),
        _pool("ITL", "gaps between chunks, pooled", chunks),
        _row("E2EL", "last such chunk - request sent", replies, chunks, _last),
    )


def _guidellm(replies: Sequence[Reply], endpoint: Endpoint) -> tuple[Projected, ...]:
    chunks = [_at(each, SPOKEN) for each in replies]
    weighted = [
        itl
        for each, own in zip(replies, chunks, strict=True)
        if (itl := _after_first(each, own)) is not None
        for _ in range(round(each.output_tokens) - 1)
    ]
    return (
        _row("TTFT", "first chunk with text - request headers written", replies, chunks, _first),
        _row("TPOT", "(last chunk - start) / output tokens: TTFT is in it", replies, chunks, _whole_share),
        Projected("ITL", "(last - first) / (output tokens - 1), weighted by tokens", distribution(weighted)),
        _row("request latency", "last chunk with text - start", replies, chunks, _last),
    )


def _aiperf(replies: Sequence[Reply], endpoint: Endpoint) -> tuple[Projected, ...]:
    chunks = [_at(each, SPOKEN) for each in replies]
    return (
        _row("TTFT", "first chunk with text - before the connection", replies, chunks, _first),
        _row("ITL", "(E2E - TTFT) / (output tokens - 1), per request", replies, chunks, _after_first),
        _pool("inter-chunk latency", "gaps between chunks, pooled", chunks),
        _row("request latency", "last chunk with content - start", replies, chunks, _last),
    )


def _sglang(replies: Sequence[Reply], endpoint: Endpoint) -> tuple[Projected, ...]:
    chunks = [_at(each, SPOKEN_NO_TOOLS) for each in replies]
    ends = [
        [*own[:1], each.closed_s if each.closed_s is not None else own[-1]] if own else own
        for each, own in zip(replies, chunks, strict=True)
    ]
    return (
        _row(
            "TTFT", "first chunk with content or reasoning - before the connection", replies, chunks, _first
        ),
        _row("TPOT", "(E2E - TTFT) / (output tokens - 1)", replies, ends, _after_first),
        _pool("ITL", "gaps between chunks, pooled", chunks),
        _row("E2E", "last line, usage and [DONE] too - start", replies, ends, _last),
    )


TOOLS: Mapping[str, Callable[[Sequence[Reply], Endpoint], tuple[Projected, ...]]] = {
    "vllm": _vllm,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
    "sglang": _sglang,
}


def _at(reply: Reply, kinds: frozenset[EventKind]) -> list[float]:
    return [event.at_s for event in reply.events if event.kind in kinds]


def _row(
    name: str,
    formula: str,
    replies: Sequence[Reply],
    chunks: Sequence[Times],
    time: Callable[[Reply, Times], float | None],
) -> Projected:
    return Projected(
        name, formula, distribution(time(reply, own) for reply, own in zip(replies, chunks, strict=True))
    )


def _pool(name: str, formula: str, chunks: Sequence[Times]) -> Projected:
    return Projected(name, formula, distribution(b - a for own in chunks for a, b in pairwise(own)))


def _first(reply: Reply, chunks: Times) -> float | None:
    return chunks[0] - reply.sent_s if chunks else None


def _last(reply: Reply, chunks: Times) -> float | None:
    return chunks[-1] - reply.sent_s if chunks else None


def _after_first(reply: Reply, chunks: Times) -> float | None:
    return (
        (chunks[-1] - chunks[0]) / (reply.output_tokens - 1) if chunks and reply.output_tokens > 1 else None
    )


def _whole_share(reply: Reply, chunks: Times) -> float | None:
    return (chunks[-1] - reply.sent_s) / reply.output_tokens if chunks and reply.output_tokens > 0 else None
