"""The one outcome of a request, and one line on why where it did not simply finish."""

from collections.abc import Sequence

from twophase.meter.chunks import Chunk, message_of, parse, shorten
from twophase.meter.records import Exchange
from twophase.records import Outcome

Verdict = tuple[Outcome, str]

FAILED_FINISHES = ("abort", "aborted", "error", "cancelled")
NOT_STREAMED = "not streamed: TTFT and TPOT need a stream"
CUT = "the stream ended without a finish reason and without [DONE]"


def outcome_of(exchange: Exchange, chunks: Sequence[Chunk], whole: bytes, streamed: bool) -> Verdict:
    """`whole` is the body; `streamed` tells whether it is a stream of events or came at once."""
    if exchange.status == 0:
        outcome: Outcome = "cancelled" if exchange.closing == "cancelled" else "failed"
        return outcome, shorten(exchange.error) or exchange.closing
    if not 200 <= exchange.status < 300:
        return refusal(exchange, whole)
    finish = last_finish(chunks)
    wrong = next((chunk.error for chunk in chunks if chunk.kind == "error"), "")
    if wrong or finish in FAILED_FINISHES:
        return "failed", wrong or f"the server finished it with {finish!r}"
    generated = any(chunk.tokens for chunk in chunks)
    if finish or any(chunk.kind == "done" for chunk in chunks):
        return finished(streamed) if generated else ("empty", "the server finished without a token")
    if exchange.closing == "complete":
        return whole_but_unfinished(exchange, chunks, whole, streamed)
    return cut_short(exchange, generated)


def finished(streamed: bool) -> Verdict:
    return "finished", "" if streamed else NOT_STREAMED


def last_finish(chunks: Sequence[Chunk]) -> str:
    return next((chunk.finish for chunk in reversed(chunks) if chunk.finish), "")


def refusal(exchange: Exchange, whole: bytes) -> Verdict:
    """Any status but success; too many requests (429) and overload (503) are rejections, not failures."""
    status = exchange.status
    place = dict(exchange.headers).get("location", "")
    if 300 <= status < 400 and place:
        return "failed", shorten(f"HTTP {status}: moved to {place}; give that URL")
    message = message_of(parse(whole)) or shown(whole)
    said = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if exchange.retry_after:
        said += f"; retry after {exchange.retry_after}"
    return ("rejected" if status in (429, 503) else "failed"), shorten(said)


def whole_but_unfinished(
    exchange: Exchange, chunks: Sequence[Chunk], whole: bytes, streamed: bool
) -> Verdict:
    """A body that came to its end and does not say that the generation did."""
    if not streamed:
        if any(chunk.tokens for chunk in chunks):
            return finished(streamed)
        return "failed", f"HTTP {exchange.status} with JSON that is no completion: {shown(whole)}"
    if chunks:
        return "truncated", CUT
    if whole and "event-stream" not in exchange.content_type:
        return "failed", f"the reply is neither an event stream nor JSON: {shown(whole)}"
    return "empty", "the reply holds no event"


def cut_short(exchange: Exchange, generated: bool) -> Verdict:
    """A body that did not come to its end."""
    error = shorten(exchange.error) or CUT
    if exchange.closing == "cancelled":
        return "cancelled", error
    if exchange.closing in ("timeout", "malformed") and not generated:
        return "failed", error
    return "truncated", error


def shown(body: bytes) -> str:
    return shorten(body[:120].decode(errors="replace"))
