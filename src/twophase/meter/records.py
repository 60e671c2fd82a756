"""What the meter sends, what comes back, and what that means: plain data between its modules.

Every time is in seconds of `time.monotonic()`, which all processes of a machine share; a run keeps one
wall-clock stamp. uvloop's `loop.time()` is the same clock cut to whole milliseconds: never stamp with it.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from twophase.records import Outcome

Endpoint = Literal["chat", "completions"]
Closing = Literal["complete", "eof", "reset", "timeout", "cancelled", "refused", "malformed"]
EventKind = Literal[
    "role", "content", "reasoning", "tool", "empty", "finish", "usage", "error", "done", "other"
]
TokenSource = Literal["token_ids", "logprobs", "continuous_usage", "usage_share", "events"]


@dataclass(frozen=True, slots=True)
class Target:
    """A server, as the user named it, and what was found out about it."""

    url: str  # http(s)://host[:port][/prefix], without /v1 and what follows
    model: str
    endpoint: Endpoint
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    verify_tls: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """One request, encoded before the clock starts."""

    number: int
    body: bytes
    max_tokens: int
    prompt_tokens: int  # asked for; what the server counted stands in the reply
    point: str = ""  # of a sweep or a curve: all calls of one level share it
    scheduled_s: float | None = None  # after the start; None: as soon as a slot is free
    turn_of: int | None = None  # the call whose answer it continues


@dataclass(slots=True)
class Exchange:
    """Bytes of one request on the wire, stamped as the loop read them; parsing comes later."""

    call: Call
    due_s: float  # when it should have gone out
    began_s: float  # when a connection was taken
    connected: bool = False  # whether that took a new connection
    sent_s: float = 0.0  # last byte of the request given to the kernel
    head_s: float | None = None  # response head
    status: int = 0
    content_type: str = ""
    retry_after: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # all of the response's, names in lower case
    reads: list[tuple[float, bytes]] = field(default_factory=list)  # body bytes, transfer coding removed
    closed_s: float | None = None
    closing: Closing = "complete"
    error: str = ""


class StreamEvent(NamedTuple):
    """One event of a stream, or of what came at once. A tuple is made thrice as fast as a frozen class."""

    at_s: float
    kind: EventKind
    tokens: float  # best knowledge; 0 where it carries none


@dataclass(frozen=True, slots=True)
class Reply:
    """One request measured. Latencies count from `sent_s`; from `due_s` beside them in open loops."""

    number: int
    point: str
    outcome: Outcome
    reason: str  # why, where the outcome is not "finished": one line
    status: int
    due_s: float
    sent_s: float
    first_event_s: float | None  # any event
    first_token_s: float | None  # content, reasoning, tool arguments, or an empty token
    first_answer_s: float | None  # content or tool arguments: after reasoning
    last_token_s: float | None
    closed_s: float | None
    prompt_tokens: int  # the server's count, else what was asked for
    cached_tokens: int | None  # of the prompt; None: the server does not say
    output_tokens: float
    first_tokens: float  # that came in the same read as the first
    hidden_tokens: float  # counted by the server, never sent
    token_source: TokenSource
    finish_reason: str
    events: tuple[StreamEvent, ...]
    read_lag_s: float = 0.0  # how late the loop may have read its bytes, at most
    server_times: tuple[tuple[str, float], ...] = ()  # what the server itself reported, in seconds
    asked_tokens: int = 0  # of output; 0: not known

    @property
    def short(self) -> bool:
        """Whether it finished with fewer tokens than asked for, as far as the server's counts tell."""
        reached = self.token_source == "events" and self.finish_reason == "length"  # events may hold several
        return self.outcome == "finished" and self.output_tokens < self.asked_tokens and not reached

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_token_s is None else self.first_token_s - self.sent_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first read: None where no token came later."""
        if self.first_token_s is None or self.last_token_s is None:
            return None
        later = self.output_tokens - self.hidden_tokens - self.first_tokens
        return (self.last_token_s - self.first_token_s) / later if later > 0 else None


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the meter's own event loop ran during a run, in seconds."""

    samples: int
    mean_s: float
    p99_s: float
    max_s: float
    cpu_share: float  # of one core, of the busiest worker
    dispatch_p99_s: float  # due to sent


@dataclass(frozen=True, slots=True)
class LoadRun:
    """All that a run measured: complete, or as far as it came."""

    target: Target
    began_at: str  # wall clock, ISO 8601
    began_s: float
    ended_s: float
    partial: str  # why it ended before its plan; empty where it did not
    replies: tuple[Reply, ...] = field(repr=False)  # millions of events
    lag: Lag
    notes: tuple[str, ...] = ()  # parameters that the server refused, and what else a reader must know
    facts: tuple[tuple[str, str], ...] = ()  # found out about the server: its kind, versions, limits
    open_loop: bool = False  # calls had times of their own: the headline counts from `due_s`
    first_cohort: tuple[int, ...] = ()  # numbers of the calls that filled a closed loop: no steady state yet
    steady: tuple[tuple[str, float, float], ...] = ()  # (point, from, to) while its load stood at full height
    # (seconds, how often) of all requests' gaps together, where no single tokens are kept: a simulated run's
    gaps: tuple[tuple[float, int], ...] = field(default=(), repr=False)
