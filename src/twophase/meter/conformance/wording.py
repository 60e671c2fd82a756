"""The bytes that an OpenAI-compatible server writes, for either of its endpoints."""

import json
from dataclasses import dataclass
from typing import Any

from twophase.meter.records import Endpoint

WORDS = (" the", " of", " and", " to", " in", " that", " was", " his")
PROMPT_TOKENS = 7


def encode(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def word(number: int) -> str:
    return WORDS[number % len(WORDS)]


@dataclass(frozen=True, slots=True)
class Wording:
    """One endpoint's chunks as events. What is given as a delta is plain text to the other endpoint."""

    endpoint: Endpoint
    before: bytes = b"data: "
    after: bytes = b"\n\n"

    def event(self, body: object) -> bytes:
        return self.before + (body if isinstance(body, bytes) else encode(body)) + self.after

    def chunk(self, choices: object, **more: Any) -> bytes:
        kind = "chat.completion.chunk" if self.endpoint == "chat" else "text_completion"
        head = {"id": "c1", "object": kind, "created": 1, "model": "known", "choices": choices}
        return self.event(head | more)

    def delta(self, delta: object, text: str = "", finish: str | None = None, **more: Any) -> bytes:
        """A chat delta of any shape; `text` stands for it in a completion."""
        carried = {"delta": delta} if self.endpoint == "chat" else {"text": text}
        return self.chunk([{"index": 0, **carried, "finish_reason": finish}], **more)

    def text(self, text: str, finish: str | None = None, **more: Any) -> bytes:
        return self.delta({"content": text}, text, finish, **more)

    def finish(self, reason: str = "length", **more: Any) -> bytes:
        return self.delta({}, "", reason, **more)

    def usage(self, tokens: int, **more: Any) -> bytes:
        return self.chunk([], usage=usage(tokens) | more)

    def done(self) -> bytes:
        return self.event(b"[DONE]")


def usage(tokens: int) -> dict[str, Any]:
    total = PROMPT_TOKENS + tokens
    return {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": total}
