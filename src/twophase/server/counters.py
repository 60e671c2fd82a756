"""What the engine's loop counts. Plain numbers: a scrape turns them into a page."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from twophase.records import RequestRecord

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
REFUSALS = ("queue_full", "never_fits")


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
    """Counts since the start; seconds are those of the server's clock.

    Written by the engine's thread, `refused` by the event loop's.
    """

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
    refused: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(REFUSALS, 0)))
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

    _before: tuple[int, int, int] = (0, 0, 0)

    def verified(self, drafted: int, accepted: int) -> None:
        """A sequence's draft of `drafted` tokens was looked at in a pass."""
        self.drafts += 1
        self.draft_tokens += drafted
        self.accepted_tokens += accepted
        self.accepted_at.update(range(accepted))

    def scheduled(self, preemptions: int, queries: int, hits: int) -> None:
        """What the scheduler counts itself."""
        self.preemptions = self._before[0] + preemptions
        self.prefix_queries = self._before[1] + queries
        self.prefix_hits = self._before[2] + hits

    def began_anew(self) -> None:
        """The scheduler counts from zero again."""
        self._before = self.preemptions, self.prefix_queries, self.prefix_hits

    def came(self, record: RequestRecord, tokens: int) -> None:
        """A pass gave output tokens, which are the record's last."""
        self.output_tokens += tokens
        times = record.token_s
        if tokens and len(times) > tokens:
            self.gap_s.observe(times[-1] - times[-1 - tokens])
        elif tokens:
            self.ttft_s.observe(times[0] - record.arrival_s)
            self.prompt_tokens += record.prompt_tokens
            self.cached_tokens += record.cached_tokens

    def completed(self, record: RequestRecord) -> None:
        self.request_prompt_tokens.observe(record.prompt_tokens)
        self.request_output_tokens.observe(len(record.token_s))
        first_pass, times = record.first_scheduled_s, record.token_s
        if first_pass is None or not times:
            return
        self.queue_s.observe(first_pass - record.arrival_s)
        self.prefill_s.observe(times[0] - first_pass)
        self.decode_s.observe(times[-1] - times[0])
        self.inference_s.observe(times[-1] - first_pass)
        self.e2e_s.observe(times[-1] - record.arrival_s)
        if later := sum(time > times[0] for time in times):
            self.tpot_s.observe((times[-1] - times[0]) / later)
