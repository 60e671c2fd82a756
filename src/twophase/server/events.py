"""What passes between the engine's thread and the event loop."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twophase.engine.sampling import Sampling, TokenLogprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRequest:
    """One sequence to be generated."""

    prompt_ids: Sequence[int]
    sampling: Sampling
    max_output: int
    stops: tuple[str, ...] = ()
    include_stop: bool = False  # in the text
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What a pass gave to one sequence of a request."""

    choice: int  # which of the request's sequences
    ids: Sequence[int]
    text: str
    logprobs: Sequence[TokenLogprobs]
    finish: str | None = None  # stop or length, with its last
    stop: str | int | None = None  # the stop string or id that ended it
    cached_tokens: int = 0  # of the prompt, found in the prefix cache


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that ends without an answer."""

    status: int
    message: str
    code: str | None = None


Event = Delta | Failed


class EventQueue:
    """Where a request's events come out, on the event loop. A slow reader makes nobody wait."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._filled = asyncio.Event()
        self._closed = False

    async def take(self) -> list[Event]:
        """All that has come since the last call, at least one; none where it was closed."""
        await self._filled.wait()
        events = list(self._events)
        self._events.clear()
        if not self._closed:
            self._filled.clear()
        return events

    def put(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._filled.set()

    def close(self) -> None:
        """Nobody reads any more: whoever waits goes on."""
        self._closed = True
        self._events.clear()
        self._filled.set()


def deliver(batches: Mapping[EventQueue, Sequence[Event]]) -> None:
    """On the event loop: one call for all that a pass gave."""
    for outlet, events in batches.items():
        outlet.put(events)
