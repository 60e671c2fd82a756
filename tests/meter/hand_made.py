"""Exchanges made by hand: chunks at times in milliseconds after the request was sent."""

import json
from typing import Any

from twophase.meter.reading import read_reply
from twophase.meter.records import Call, Closing, Endpoint, Exchange, Reply

SENT_S = 50.0
CALL = Call(3, b"{}", max_tokens=16, prompt_tokens=9, point="p")


def chat(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "choices": [choice]} | more)


def chosen(finish: str | None = None, usage: Any = None, **choice: Any) -> bytes:
    """A chunk whose choice has more in it than a delta."""
    body = {"choices": [{"index": 0, "finish_reason": finish, **choice}]}
    return event(body if usage is None else body | {"usage": usage})


def text(text: str, finish: str | None = None, **more: Any) -> bytes:
    return chat({"content": text}, finish, **more)


def counted(tokens: int, prompt: int = 7, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens} | more


def usage(tokens: int, **more: Any) -> bytes:
    return event({"choices": [], "usage": counted(tokens, **more)})


def event(body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
FINISH = chat({}, "stop")


def at(*reads: tuple[float, bytes]) -> list[tuple[float, bytes]]:
    return [(SENT_S + ms / 1e3, piece) for ms, piece in reads]


def reply(
    *reads: tuple[float, bytes],
    status: int = 200,
    content_type: str = "text/event-stream",
    closing: Closing = "complete",
    error: str = "",
    endpoint: Endpoint = "chat",
    **more: Any,
) -> Reply:
    stamped = at(*reads)
    exchange = Exchange(
        CALL,
        due_s=SENT_S - 0.001,
        began_s=SENT_S,
        sent_s=SENT_S,
        status=status,
        content_type=content_type,
        reads=stamped,
        closed_s=stamped[-1][0] if stamped else SENT_S,
        closing=closing,
        error=error,
        **more,
    )
    return read_reply(exchange, endpoint)


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1e3, 3)


def ttft(reply: Reply) -> float | None:
    return ms(reply.ttft_s)


def tpot(reply: Reply) -> float | None:
    return ms(reply.tpot_s)
