"""How a server wants to be asked: the endpoint, and which optional parameters it takes."""

import json
import re
from dataclasses import dataclass, replace

from twophase.meter.records import Endpoint

PATHS: dict[Endpoint, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
OPTIONAL = ("stream_options", "ignore_eos", "min_tokens", "temperature")
LIMITS = ("max_tokens", "max_completion_tokens")

Message = tuple[str, str]  # role and text


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a request of ours says beside its prompt."""

    model: str
    endpoint: Endpoint = "chat"
    limit: str = "max_tokens"
    optional: tuple[str, ...] = OPTIONAL
    extra: tuple[tuple[str, str], ...] = ()  # the user's own fields, their values as JSON

    @property
    def path(self) -> str:
        return PATHS[self.endpoint]

    def body(self, messages: tuple[Message, ...], max_tokens: int, stream: bool = True) -> bytes:
        """A request's body: always a stream, and as many tokens as were asked for where the server can."""
        values: dict[str, object] = {
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
            "min_tokens": max_tokens,
            "temperature": 0,
        }
        fields: dict[str, object] = {"model": self.model}
        if self.endpoint == "chat":
            fields["messages"] = [{"role": role, "content": text} for role, text in messages]
        else:
            fields["prompt"] = " ".join(text for _, text in messages)
        fields[self.limit] = max_tokens
        fields["stream"] = stream
        fields |= {name: values[name] for name in self.optional if stream or name != "stream_options"}
        fields |= {name: json.loads(value) for name, value in self.extra}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def without_named(dialect: Dialect, says: str) -> Dialect | None:
    """The dialect less what a server's 400 or 422 names; None where it names none of ours."""
    if dialect.limit == LIMITS[0] and re.search(rf"\b{LIMITS[1]}\b", says):
        return replace(dialect, limit=LIMITS[1])
    named = [name for name in dialect.optional if re.search(rf"\b{name}\b", says)]
    if not named:
        return None
    return replace(dialect, optional=tuple(name for name in dialect.optional if name not in named))


def notes_of(dialect: Dialect) -> list[str]:
    """What a reader must know of parameters that the server does not take."""
    meaning = {
        "stream_options": "token counts come from its events, not from its usage",
        "ignore_eos": "outputs may end before the length asked for",
        "min_tokens": "outputs may end before the length asked for",
        "temperature": "it samples as it pleases",
    }
    refused = [name for name in OPTIONAL if name not in dialect.optional]
    notes = [f"the server refuses {name}, which was dropped: {meaning[name]}" for name in refused]
    if dialect.limit != LIMITS[0]:
        notes.append(f"the server wants {dialect.limit} instead of {LIMITS[0]}")
    return notes
