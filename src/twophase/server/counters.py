"""What the engine's loop counts. Plain numbers: a scrape turns them into a page."""

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twophase.cost.pass_ import Pass
from twophase.server.phases import Price, Work, phases_of

TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
GAP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
PASS_TOKENS = (1, 8, *(1 << power for power in range(4, 15)))
REQUEST_TOKENS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
SEQUENCES = (1, 2, 5, 10, 20)

REASONS = ("stop", "length", "abort", "error")
PENDING = 32  # passes that are priced at once, for that is much cheaper than one by one
WINDOW_S = 10.0  # that utilisation is told of


@dataclass(slots=True)
class Distribution:
    """A histogram: `counts` has one more entry than `bounds`, for all beyond."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


@dataclass(slots=True)
class Counters:
    """Counts since the start; seconds are those of the server's clock. Written by the engine's thread."""

    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    output_tokens: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_at: Counter[int] = field(default_factory=Counter)  # by the draft token's place
    ended: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REASONS, 0)))
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    ttft_s: Distribution = field(default_factory=lambda: Distribution(TTFT_S))
    gap_s: Distribution = field(default_factory=lambda: Distribution(GAP_S))
    tpot_s: Distribution = field(default_factory=lambda: Distribution(GAP_S))
    e2e_s: Distribution = field(default_factory=lambda: Distribution(REQUEST_S))
    queue_s: Distribution = field(default_factory=lambda: Distribution(REQUEST_S))
    prefill_s: Distribution = field(default_factory=lambda: Distribution(REQUEST_S))
    decode_s: Distribution = field(default_factory=lambda: Distribution(REQUEST_S))
    inference_s: Distribution = field(default_factory=lambda: Distribution(REQUEST_S))
    pass_tokens: Distribution = field(default_factory=lambda: Distribution(PASS_TOKENS))
    request_prompt_tokens: Distribution = field(default_factory=lambda: Distribution(REQUEST_TOKENS))
    request_output_tokens: Distribution = field(default_factory=lambda: Distribution(REQUEST_TOKENS))
    request_max_output: Distribution = field(default_factory=lambda: Distribution(REQUEST_TOKENS))
    request_n: Distribution = field(default_factory=lambda: Distribution(SEQUENCES))

    def verified(self, drafted: int, accepted: int) -> None:
        """A sequence's draft of `drafted` tokens was looked at in a pass."""
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        self.accepted_at.update(range(accepted))


class PhaseMeter:
    """What each phase took and did. Passes are priced some at a time, or when someone asks."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._lock = threading.Lock()
        self._pending: list[tuple[Pass, float]] = []
        self._totals = Work(), Work()
        self._history: deque[tuple[float, tuple[Work, Work]]] = deque([(0.0, self._totals)])

    def passed(self, pass_: Pass, seconds: float, now: float) -> None:
        with self._lock:
            self._pending.append((pass_, seconds))
            if len(self._pending) >= PENDING or now - self._history[-1][0] > WINDOW_S / 4:
                self._settle(now)

    def read(self, now: float) -> tuple[tuple[Work, Work], tuple[Work, Work]]:
        """((prefill, decode) since the start, (prefill, decode) over the last WINDOW_S)."""
        with self._lock:
            self._settle(now)
            before = self._history[0][1]
            return self._totals, (
                _minus(self._totals[0], before[0]),
                _minus(self._totals[1], before[1]),
            )

    def _settle(self, now: float) -> None:
        if self._pending:
            passes, seconds = zip(*self._pending, strict=True)
            found = phases_of(passes, seconds, self._price)
            self._totals = _plus(self._totals[0], found[0]), _plus(self._totals[1], found[1])
            self._pending.clear()
        self._history.append((now, self._totals))
        while len(self._history) > 1 and self._history[1][0] <= now - WINDOW_S:
            self._history.popleft()


def _plus(one: Work, other: Work) -> Work:
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in Work.__slots__})


def _minus(one: Work, other: Work) -> Work:
    return replace(one, **{name: getattr(one, name) - getattr(other, name) for name in Work.__slots__})
