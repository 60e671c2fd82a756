"""What a run leaves behind: a record of each pass and request, the same from engine, simulator and meter."""

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["finished", "cancelled", "rejected", "failed", "truncated", "empty"]


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One forward pass. Times in seconds on the run's own clock."""

    shape: tuple[tuple[int, int], ...]  # (new, context) of each span
    flops: float
    bytes: float  # compulsory bytes read and written
    started_s: float
    seconds: float
    logit_rows: tuple[int, ...] = ()  # of each span
    waiting: int = 0  # requests that were not in the engine's cache while it ran
    running: int = 0  # requests that were
    used_blocks: int = 0  # KV blocks that they held


@dataclass(slots=True)
class RequestRecord:
    """One request from arrival to its single outcome. Times in seconds on the run's own clock."""

    request: int
    arrival_s: float
    prompt_tokens: int
    cached_tokens: int = 0  # of the prompt, found in the prefix cache
    first_scheduled_s: float | None = None
    token_s: list[float] = field(default_factory=list)  # every output token's time
    outcome: Outcome | None = None
    reason: str = ""  # why, where the outcome is not "finished"
    preemptions: int = 0  # times that it lost its KV blocks
    drafted_tokens: int = 0  # verified in its passes
    accepted_tokens: int = 0  # of those, kept

    @property
    def ttft_s(self) -> float | None:
        return self.token_s[0] - self.arrival_s if self.token_s else None
