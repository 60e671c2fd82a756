"""The text that a reply carried: the next turn of a conversation contains it."""

from collections.abc import Mapping
from typing import Any

from twophase.meter.chunks import parse
from twophase.meter.compression import decoded
from twophase.meter.event_stream import read_events
from twophase.meter.records import Exchange


def answer_of(done: Exchange) -> str:
    """Content only: chat templates leave reasoning of earlier turns out."""
    reads, _ = decoded(done)
    if "event-stream" not in done.content_type:
        return "".join(spoken(parse(b"".join(data for _, data in reads))))
    events, last = read_events(reads)
    bodies = [parse(event.data) for event in [*events, *([last] if last else [])]]
    return "".join(text for body in bodies for text in spoken(body))


def spoken(body: Any) -> list[str]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    found = []
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, Mapping):
            continue
        delta = choice.get("delta") or choice.get("message")
        text = delta.get("content") if isinstance(delta, Mapping) else choice.get("text")
        if isinstance(text, str):
            found.append(text)
    return found
