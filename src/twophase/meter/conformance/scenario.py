"""What a scenario is: bytes at their times, and what a meter must make of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from twophase.meter.conformance.wording import Wording
from twophase.records import Outcome

Step = tuple[float, bytes]  # seconds after the request was read, and what is written then, in one go
Ending = Literal["complete", "reset"]

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Truth:
    """Right answers. Times and counts are held only against a request that finished."""

    outcomes: tuple[Outcome, ...] = ("finished",)  # the right one, then those that at least don't pretend
    ttft_s: float = 0.1
    tpot_s: float = 0.02
    output_tokens: tuple[int, ...] = (16,)


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    about: str
    steps: Callable[[Wording], list[Step]]
    truth: Truth = Truth()
    ending: Ending = "complete"
    status: int = 200
    content_type: str = EVENT_STREAM  # JSON is sent at once, with its length, everything else in chunks
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What a meter says of one scenario."""

    outcome: str
    ttft_s: float | None
    tpot_s: float | None
    output_tokens: float | None
