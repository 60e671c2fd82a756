"""The times of one request, each by one formula that a report prints once."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from twophase.meter.records import EventKind, Reply, StreamEvent

Since = Literal["sent", "due"]  # a latency starts when the request was sent, or when it should have been

# An event of these kinds carries output: a role, a finish reason, usage and comments do not.
TOKEN_KINDS: frozenset[EventKind] = frozenset({"content", "reasoning", "tool", "empty"})

FORMULAS = (
    ("ttft", "first token's arrival - start; a token is content, reasoning, tool arguments, or empty text"),
    ("tpot", "(last token's arrival - first's) / (visible tokens - tokens of the first read), per request"),
    (
        "gap",
        "one token event's arrival - the one before, all requests' pooled; 0 where both came in one read",
    ),
    ("e2e", "last token's arrival - start"),
    ("ntpot", "e2e / output tokens, per request"),
    ("tokens per event", "visible output tokens / token events, per request"),
    ("queue share", "the server's own queue time / ttft, per request"),
    ("start", "the request's last byte given to the kernel (sent); in open loops its planned instant (due)"),
    ("throughput", "of finished requests: tokens that came while the load stood at full height / that time"),
    (
        "goodput",
        "requests that meet all of the SLO / all requests; failed, cut, cancelled and empty ones miss",
    ),
    ("percentiles", "linear interpolation between order statistics; mean and percentiles over requests"),
)


def start_s(reply: Reply, since: Since) -> float:
    return reply.sent_s if since == "sent" else reply.due_s


def ttft_s(reply: Reply, since: Since = "sent") -> float | None:
    return None if reply.first_token_s is None else reply.first_token_s - start_s(reply, since)


def ttfa_s(reply: Reply, since: Since = "sent") -> float | None:
    """To the first token of the answer: after reasoning."""
    return None if reply.first_answer_s is None else reply.first_answer_s - start_s(reply, since)


def e2e_s(reply: Reply, since: Since = "sent") -> float | None:
    return None if reply.last_token_s is None else reply.last_token_s - start_s(reply, since)


def ntpot_s(reply: Reply, since: Since = "sent") -> float | None:
    """End-to-end time for each output token, hidden ones too: first token and queue are in it."""
    whole = e2e_s(reply, since)
    return None if whole is None or reply.output_tokens <= 0 else whole / reply.output_tokens


def role_lead_s(reply: Reply) -> float | None:
    """How long before its first token a server had acknowledged the request with an event."""
    if reply.first_token_s is None or reply.first_event_s is None:
        return None
    return reply.first_token_s - reply.first_event_s


def token_events(reply: Reply) -> list[StreamEvent]:
    """Events that carry output. An empty delta that stands for no token is none."""
    return [each for each in reply.events if is_token(each)]


def is_token(event: StreamEvent) -> bool:
    return event.kind in TOKEN_KINDS and (event.tokens > 0 or event.kind != "empty")


def gaps_s(reply: Reply) -> list[float]:
    return [after.at_s - before.at_s for before, after in pairwise(token_events(reply))]


def visible_tokens(reply: Reply) -> float:
    return reply.output_tokens - reply.hidden_tokens


def tokens_per_event(reply: Reply) -> float | None:
    events = len(token_events(reply))
    return visible_tokens(reply) / events if events else None


def events_per_read(reply: Reply) -> float | None:
    """Above one where a server, or a proxy, hands several events over at once."""
    events = token_events(reply)
    return len(events) / len({each.at_s for each in events}) if events else None


def queue_s(reply: Reply) -> float | None:
    """What the server itself says that the request waited."""
    return next((seconds for name, seconds in reply.server_times if "queue" in name), None)


def queue_share(reply: Reply) -> float | None:
    waited, first = queue_s(reply), reply.ttft_s
    return None if waited is None or not first else waited / first


def in_flight(replies: Iterable[Reply]) -> list[tuple[float, float]]:
    """(sent, ended) of each request that was sent: ended where the last byte came or hope was given up."""
    return [(each.sent_s, max(each.sent_s, ended_s(each))) for each in replies if each.sent_s > 0]


def ended_s(reply: Reply) -> float:
    known = (reply.closed_s, reply.last_token_s, reply.first_event_s)
    return next((each for each in known if each is not None), reply.sent_s)
