"""From the bytes of an exchange to a request measured: its outcome, its times, its tokens."""

from collections.abc import Sequence
from typing import Any

from twophase.meter.chunks import Chunk, parse, read_chunk, read_chunks, read_event
from twophase.meter.compression import decoded
from twophase.meter.counting import Count, count_tokens, last_usage
from twophase.meter.event_stream import read_events
from twophase.meter.outcome import last_finish, outcome_of
from twophase.meter.records import Endpoint, Exchange, Reply, StreamEvent

Reads = Sequence[tuple[float, bytes]]

ONE_INSTANT_S = 1e-3  # at most: a burst that the network cut in two is still one
ONE_INSTANT = 0.05  # of a mean token's time, at most


def read_reply(exchange: Exchange, endpoint: Endpoint) -> Reply:
    """Never raises for what a server sent, be it of the other endpoint than the one asked."""
    reads, unreadable = decoded(exchange)
    whole = b"".join(piece for _, piece in reads).strip()
    streamed = whole[:1] not in (b"{", b"[")
    chunks = stream_chunks(reads) if streamed else json_chunks(reads, whole)
    count = count_tokens(chunks)
    outcome, reason = outcome_of(exchange, chunks, whole, streamed)
    if unreadable and 200 <= exchange.status < 300:
        outcome, reason = "failed", unreadable
    tokens = [chunk for chunk in chunks if chunk.tokens]
    first_s = tokens[0].at_s if tokens and streamed else None
    usage = last_usage(chunks)
    answers = (chunk.at_s for chunk in tokens if chunk.kind in ("content", "tool"))
    return Reply(
        number=exchange.call.number,
        point=exchange.call.point,
        outcome=outcome,
        reason=reason,
        status=exchange.status,
        due_s=exchange.due_s,
        sent_s=exchange.sent_s,
        first_event_s=chunks[0].at_s if chunks and streamed else None,
        first_token_s=first_s,
        first_answer_s=next(answers, None) if streamed else None,
        last_token_s=tokens[-1].at_s if tokens else None,
        closed_s=exchange.closed_s,
        prompt_tokens=usage.prompt or exchange.call.prompt_tokens,
        cached_tokens=usage.cached,
        output_tokens=count.total,
        first_tokens=first_tokens(tokens, count) if streamed else 0.0,
        hidden_tokens=count.hidden,
        token_source=count.source,
        finish_reason=last_finish(chunks),
        events=tuple(StreamEvent(chunk.at_s, chunk.kind, chunk.tokens) for chunk in chunks),
        asked_tokens=exchange.call.max_tokens,
        server_times=tuple(dict(pair for chunk in chunks for pair in chunk.times).items()),
    )


def stream_chunks(reads: Reads) -> list[Chunk]:
    events, rest = read_events(reads)
    chunks = read_chunks(events)
    if rest is not None:  # without its blank line: taken where it is whole
        last = read_event(rest)
        chunks += [last] if last.kind != "other" or last.finish else []
    end = after_end(chunks)
    return chunks[:end] + [chunk for chunk in chunks[end:] if chunk.kind in ("usage", "error")]


def after_end(chunks: Sequence[Chunk]) -> int:
    """Where the stream said that it is over: what follows is no token."""
    return next((at + 1 for at, chunk in enumerate(chunks) if chunk.kind == "done"), len(chunks))


def json_chunks(reads: Reads, whole: bytes) -> list[Chunk]:
    """A body that came at once, as the one chunk that it is."""
    body: Any = parse(whole)
    return [read_chunk(reads[-1][0], body)] if isinstance(body, dict) else []


def first_tokens(tokens: Sequence[Chunk], count: Count) -> float:
    """Tokens in the same read as the first, or so soon after it that no pass fits between them."""
    if not tokens:
        return 0.0
    first_s, last_s = tokens[0].at_s, tokens[-1].at_s
    visible = count.total - count.hidden
    window_s = min(ONE_INSTANT_S, ONE_INSTANT * (last_s - first_s) / visible) if visible else 0.0
    return sum(chunk.tokens for chunk in tokens if chunk.at_s - first_s <= window_s)
