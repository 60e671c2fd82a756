"""What one chunk of an OpenAI-style reply carries. Whatever it holds, nothing here raises."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twophase.meter.event_stream import ServerEvent
from twophase.meter.records import EventKind, TokenSource

TEXTS: tuple[tuple[EventKind, tuple[str, ...]], ...] = (
    ("reasoning", ("reasoning_content", "reasoning", "thinking")),
    ("content", ("content", "refusal")),
)
DEEPEST = 8  # parts within parts that are looked into
LONGEST_REASON = 300  # letters of a server's message
UNESCAPED = re.compile(rb'[^"\\\x00-\x1f]+')  # text whose letters are the bytes that stand in its JSON
TEXT = re.compile(rb'"(?:content|text|reasoning_content|reasoning)":\s?"(' + UNESCAPED.pattern + rb')"')
TOKEN_IDS: TokenSource = "token_ids"
LOGPROBS: TokenSource = "logprobs"
Json = Mapping[str, Any]


@dataclass(slots=True)
class Usage:
    """Counts as the server states them: of the request so far, or of all of it."""

    prompt: int = 0
    output: int = 0
    reasoning: int = 0
    cached: int | None = None


@dataclass(slots=True)
class Chunk:
    """One event of a reply, before it is known how many tokens each stands for."""

    at_s: float
    kind: EventKind
    text: str = ""  # generated, whatever it is
    blank: bool = False  # a text of no letters was in it
    named: int | None = None  # tokens that it lists one by one
    named_by: TokenSource = "events"
    usage: Usage | None = None
    finish: str = ""
    error: str = ""
    times: tuple[tuple[str, float], ...] = ()
    tokens: float = 0.0  # counted later


def read_chunks(events: Iterable[ServerEvent]) -> list[Chunk]:
    """What each event carries. Most differ from the one before in text alone: its frame is parsed once."""
    chunks = []
    before, behind, kind = b"", b"", None
    for event in events:
        data = event.data
        if kind is not None and data.startswith(before) and data.endswith(behind):
            text = data[len(before) : -len(behind)]
            if UNESCAPED.fullmatch(text) and event.event == b"message":
                try:
                    chunks.append(Chunk(event.at_s, kind, text.decode()))
                    continue
                except UnicodeDecodeError:  # read as any other, which repairs it
                    pass
        chunk = read_event(event)
        chunks.append(chunk)
        if chunk.kind in ("content", "reasoning") and (found := TEXT.search(data)) is not None:
            start, end = found.span(1)
            alone = chunk == Chunk(event.at_s, chunk.kind, found[1].decode(errors="replace"))
            before, behind, kind = data[:start], data[end:], chunk.kind if alone else None
    return chunks


def read_event(event: ServerEvent) -> Chunk:
    data = event.data.strip()
    if data == b"[DONE]":
        return Chunk(event.at_s, "done")
    body = parse(data)
    if event.event == b"error":
        return Chunk(event.at_s, "error", error=message_of(body) or shorten(data.decode(errors="replace")))
    return read_chunk(event.at_s, body) if isinstance(body, dict) else Chunk(event.at_s, "other")


def parse(data: bytes) -> Any:
    """The JSON value, or None where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_chunk(at_s: float, body: Json) -> Chunk:
    if body.get("error") or body.get("object") == "error" or body.get("type") == "error":
        return Chunk(at_s, "error", error=message_of(body) or "an error without a message")
    chunk = Chunk(at_s, "other", usage=usage_of(body), times=times_of(body))
    choices = body.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            read_choice(chunk, choice)
    if chunk.kind == "other":
        if chunk.finish:
            chunk.kind = "finish"
        elif chunk.usage is not None and not choices:
            chunk.kind = "usage"
    return chunk


def read_choice(chunk: Chunk, choice: Json) -> None:
    finish = choice.get("finish_reason")
    if isinstance(finish, str) and finish not in ("", "null"):
        chunk.finish = shorten(finish)
    name_tokens(chunk, choice)
    if chunk.usage is None:
        chunk.usage = usage_of(choice)
    delta = choice.get("delta") or choice.get("message")
    if not isinstance(delta, dict):
        text = choice.get("text")
        delta = {"content": text} if isinstance(text, str) else {}
    kind: EventKind = "other"
    texts = []
    called = [*listed(delta, "tool_calls"), delta.get("function_call")]
    for call in called:
        if isinstance(call, dict):
            kind = "tool"
            function = call.get("function", call)
            if isinstance(function, dict):
                texts += [text_of(function.get("name")), text_of(function.get("arguments"))]
    for its_kind, names in TEXTS:
        for name in names:
            value = delta.get(name)
            if text := text_of(value):
                texts.append(text)
                kind = its_kind
                break  # some servers say the same under two names
            chunk.blank = chunk.blank or value == ""
    if kind == "other":
        if delta.get("role") and not chunk.finish:
            kind = "role"
        elif chunk.blank and not chunk.finish:
            kind = "empty"
    if kind != "other" and chunk.kind in ("other", "role", "empty"):
        chunk.kind = kind
    chunk.text += "".join(texts)


def name_tokens(chunk: Chunk, choice: Json) -> None:
    """Count the tokens that a choice lists by their ids, or by their log probabilities."""
    listing, by = choice.get("token_ids"), TOKEN_IDS
    if not isinstance(listing, list):
        probabilities = choice.get("logprobs")
        if not isinstance(probabilities, dict):
            return
        by = LOGPROBS
        names = ("content", "refusal", "tokens", "token_logprobs")
        listing = next(
            (probabilities[name] for name in names if isinstance(probabilities.get(name), list)), None
        )
        if listing is None:
            return
    chunk.named = (chunk.named or 0) + len(listing)
    chunk.named_by = by


def listed(body: Json, name: str) -> list[Any]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def text_of(value: Any, depth: int = DEEPEST) -> str:
    """The text in a string, or in a list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth:
        return "".join(text_of(part, depth - 1) for part in value)
    if isinstance(value, dict) and depth:
        return text_of(value.get("text") or value.get("thinking") or value.get("summary"), depth - 1)
    return ""


def usage_of(body: Json) -> Usage | None:
    usage = body.get("usage")
    if not isinstance(usage, dict):
        own = body.get("x_groq")
        usage = own.get("usage") if isinstance(own, dict) else None
    if not isinstance(usage, dict):
        return None
    prompt = count(usage, "prompt_tokens", "input_tokens")
    output = count(usage, "completion_tokens", "output_tokens")
    inputs = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    outputs = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    cached = count(inputs, "cached_tokens") if isinstance(inputs, dict) else None
    if cached is None:
        cached = count(usage, "prompt_cache_hit_tokens", "cached_tokens")
    if cached is None and isinstance(timings := body.get("timings"), dict):
        cached = count(timings, "cache_n")
    reasoning = count(outputs, "reasoning_tokens") if isinstance(outputs, dict) else None
    if reasoning is None:
        reasoning = count(usage, "reasoning_tokens")
    return Usage(prompt or 0, output or 0, reasoning or 0, cached)


def count(body: Json, *names: str) -> int | None:
    for name in names:
        value = body.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return int(value)
    return None


def times_of(body: Json) -> tuple[tuple[str, float], ...]:
    """What the server timed itself, in seconds: vLLM's metrics, llama.cpp's timings, times beside a usage."""
    if not ("metrics" in body or "timings" in body or body.get("usage")):
        return ()
    found = []
    for place in ("metrics", "timings", "usage"):
        part = body.get(place)
        for name, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
                continue
            if name.endswith("_ms"):
                found.append((f"{name[:-3]}_s", value / 1e3))
            elif name.endswith("_time"):
                found.append((f"{name}_s", float(value)))
    return tuple(found)


def message_of(body: Any, depth: int = DEEPEST) -> str:
    """The message in any of the shapes in which servers wrap an error, with its code in front."""
    if isinstance(body, str):
        return shorten(body)
    if not depth or not isinstance(body, list | dict):
        return ""
    if isinstance(body, list):
        return shorten("; ".join(filter(None, (message_of(part, depth - 1) for part in body))))
    code = body.get("code") or body.get("error_type")
    for name in ("error", "message", "msg", "detail", "error_message"):
        if text := message_of(body.get(name), depth - 1):
            told = isinstance(code, str | int) and str(code) not in text
            return shorten(f"{text} ({code})" if told else text)
    return ""


def shorten(text: str) -> str:
    """One line of it, without what a terminal might act upon and no file can hold."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]} ..."
