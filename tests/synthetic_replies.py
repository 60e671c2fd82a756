"""Replies and runs whose every figure is put in by the test."""

from collections.abc import Sequence
from typing import Any

from twophase.meter.records import Lag, LoadRun, Reply, StreamEvent, Target

QUIET = Lag(samples=1000, mean_s=2e-5, p99_s=1e-4, max_s=3e-4, cpu_share=0.1, dispatch_p99_s=1e-4)
TARGET = Target(url="http://127.0.0.1:1", model="fake-model", endpoint="chat")


def reply(
    number: int = 0,
    *,
    sent: float = 1.0,
    due: float | None = None,
    ttft: float = 0.1,
    itl: float = 0.02,
    tokens: int = 16,
    group: int = 1,
    **changed: Any,
) -> Reply:
    """`tokens` in events of `group`: the first `ttft` after it was sent, then group·itl apart."""
    times = [sent + ttft + i * itl * group for i in range(tokens // group)]
    ends = times[-1] if times else sent + ttft
    made: dict[str, Any] = {
        "number": number,
        "point": "",
        "outcome": "finished",
        "reason": "",
        "status": 200,
        "due_s": sent if due is None else due,
        "sent_s": sent,
        "first_event_s": times[0] if times else None,
        "first_token_s": times[0] if times else None,
        "first_answer_s": times[0] if times else None,
        "last_token_s": times[-1] if times else None,
        "closed_s": ends,
        "prompt_tokens": 7,
        "cached_tokens": None,
        "output_tokens": float(tokens),
        "first_tokens": float(group),
        "hidden_tokens": 0.0,
        "token_source": "events",
        "finish_reason": "length",
        "events": tuple(StreamEvent(at, "content", float(group)) for at in times),
    }
    return Reply(**(made | changed))


def failed(number: int = 0, *, sent: float = 1.0, outcome: str = "failed", **changed: Any) -> Reply:
    """A request that came to nothing after 50 ms."""
    made: dict[str, Any] = {
        "outcome": outcome,
        "reason": "out of memory",
        "status": 500,
        "closed_s": sent + 0.05,
        "output_tokens": 0.0,
    }
    return reply(number, sent=sent, tokens=0, **(made | changed))


def run_of(replies: Sequence[Reply], **changed: Any) -> LoadRun:
    made: dict[str, Any] = {
        "target": TARGET,
        "began_at": "2026-01-02T03:04:05Z",
        "began_s": 0.0,
        "ended_s": 100.0,
        "partial": "",
        "replies": tuple(replies),
        "lag": QUIET,
    }
    return LoadRun(**(made | changed))
