"""What a server answered or a file holds: samples, iteration statistics, or a line on what it is instead."""

import json
import re
from dataclasses import dataclass
from typing import Any

from twophase.counters.exposition import Page, parse
from twophase.counters.iterations import Iteration, iterations_of
from twophase.errors import COMPRESSED, UTF_16, InputError, not_text

LARGEST = 64 << 20  # bytes
SHOWN = 80  # bytes of what is no page
MOST_NAMED = 3  # damaged lines of a note
LLAMACPP = "llama-server --metrics"
FINAL_CHUNK = ("timings", "prompt_eval_duration", "metrics", "usage")


@dataclass(frozen=True, slots=True)
class Read:
    """Of one source: samples, or iterations where it is TensorRT-LLM's JSON."""

    source: str
    page: Page | None
    iterations: tuple[Iteration, ...] = ()
    notes: tuple[str, ...] = ()


def read_page(content: bytes, source: str) -> Read:
    """InputError with what the bytes are where they are no page of counters."""
    if len(content) > LARGEST:
        raise InputError(f"{source}: larger than {LARGEST >> 20} MiB, which no page of counters is")
    if content.startswith((*COMPRESSED, *UTF_16)):
        raise InputError(f"{source} {not_text(content)}")
    text = content.decode("utf-8-sig", "replace")
    start = text.lstrip()[:1]
    if not start:
        raise InputError(f"{source} is empty: give an engine's /metrics page")
    if start in "[{" + '"' and not re.match(r'\s*\{\s*"[^"]*"\s*[,}]', text):  # {"name"} is a sample, too
        return _json(text, source)
    if text.lstrip()[:200].lower().startswith(("<!doctype", "<html", "<?xml")):
        raise InputError(f"{source} is an HTML page, not counters: give the engine's /metrics")
    page = parse(text)
    return Read(source, page, notes=_checked(page, text, source))


def _checked(page: Page, text: str, source: str) -> tuple[str, ...]:
    bad = page.damaged
    if not page.samples or 2 * len(bad) >= len(page.samples):
        if bad:
            raise InputError(
                f"{source} is no page of counters: line {bad[0].line} of {len(bad)} that can't be read: "
                f"{bad[0].why}"
            )
        raise InputError(f"{source} holds no sample: {shown(text)}")
    notes = []
    if bad:
        named = "; ".join(f"line {each.line}, {each.why}" for each in bad[:MOST_NAMED])
        more = f" and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
        notes.append(f"{source}: left out {named}{more}")
    if not text.endswith("\n") and not text.rstrip().endswith("# EOF"):
        notes.append(f"{source} does not end in a line feed: it may be cut off")
    return tuple(notes)


def _json(text: str, source: str) -> Read:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{source} is neither counters nor whole JSON: {shown(text)}") from None
    if isinstance(found, list):
        return Read(source, None, iterations_of(found, source))
    if isinstance(found, str):
        raise InputError(
            f"{source} is a malformed exposition, text inside a JSON string (llama.cpp had that in build "
            f"7100): {shown(found)}"
        )
    raise InputError(f"{source}: {_object(found)}")


def _object(found: Any) -> str:
    error = found.get("error") if isinstance(found, dict) else None
    message = str(error.get("message", "")) if isinstance(error, dict) else str(error or "")
    if "--metrics" in message:
        return f"llama.cpp's counters are off: start it as `{LLAMACPP}`"
    if message:
        return f"the server says: {shown(message)}"
    if isinstance(found, dict) and any(each in found for each in FINAL_CHUNK):
        return "the answer to one request, not counters: give the engine's /metrics page"
    return f"JSON that no known engine writes: {shown(json.dumps(found))}"


def shown(text: str) -> str:
    start = " ".join(text[: 2 * SHOWN].split())
    return repr(start if len(start) <= SHOWN else f"{start[:SHOWN]}...")
