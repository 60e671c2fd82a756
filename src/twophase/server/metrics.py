"""The /metrics page: vLLM's names and buckets under our prefix, and what each phase did beside its floor."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from twophase.server.counters import Counters, Distribution
from twophase.server.phase_meter import WINDOW_S
from twophase.server.phases import Work

OWN_LABELS = ("model_name", "engine")
SHARED = (
    "In a pass with both phases FLOPs and KV bytes belong to the spans that cause them, weights' bytes to "
    "decode, which would read them anyway; seconds and floor are shared as the floors of both parts alone."
)
HISTOGRAMS = (
    ("time_to_first_token_seconds", "ttft_s", "From arrival to the first token, queueing included."),
    ("inter_token_latency_seconds", "gap_s", "From one delivery of tokens to the next of a sequence."),
    (
        "request_time_per_output_token_seconds",
        "tpot_s",
        "(last token - first token) / (tokens - those that came with the first), by request.",
    ),
    ("e2e_request_latency_seconds", "e2e_s", "From arrival to the last token."),
    ("request_queue_time_seconds", "queue_s", "From arrival to the first pass."),
    ("request_prefill_time_seconds", "prefill_s", "From the first pass to the first token."),
    ("request_decode_time_seconds", "decode_s", "From the first token to the last."),
    ("request_inference_time_seconds", "inference_s", "From the first pass to the last token."),
    ("iteration_tokens_total", "pass_tokens", "Rows of a pass, each where it was computed."),
    ("request_prompt_tokens", "request_prompt_tokens", "Prompt tokens of finished requests."),
    ("request_generation_tokens", "request_output_tokens", "Output tokens of finished requests."),
    ("request_params_max_tokens", "request_max_output", "Output tokens that requests allow."),
    ("request_params_n", "request_n", "Choices that requests ask for."),
)
COUNTS = (
    ("num_preemptions", "preemptions", "Times that a sequence lost its KV blocks to another."),
    ("prompt_tokens", "prompt_tokens", "Prompt tokens, cached ones too, from the request's first token on."),
    ("prompt_tokens_cached", "cached_tokens", "Of prompt_tokens, those found in the prefix cache."),
    ("generation_tokens", "output_tokens", "Output tokens."),
    ("prefix_cache_queries", "prefix_queries", "Tokens that the prefix cache was asked for."),
    ("prefix_cache_hits", "prefix_hits", "Tokens that it had."),
    ("spec_decode_num_drafts", "drafts", "Drafts that were verified."),
    ("spec_decode_num_draft_tokens", "draft_tokens", "Tokens of these drafts."),
    ("spec_decode_num_accepted_tokens", "accepted_tokens", "Of them, accepted."),
)
PHASES = (
    ("phase_tokens", "tokens", "Rows computed."),
    ("phase_seconds", "seconds", "Time spent."),
    ("phase_flops", "flops", "Floating-point operations of one device."),
    ("phase_bytes", "bytes", "Compulsory bytes of one device: weights once a pass, KV read and written."),
    ("phase_floor_seconds", "floor_s", "The least time that the hardware allows."),
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the page shows, at one moment."""

    running: int
    waiting: int
    kv_usage: float  # share of the pool's blocks
    counters: Counters
    phases: tuple[Work, Work]  # prefill, decode; since the start
    recent: tuple[Work, Work]  # over the last WINDOW_S
    lost_s: float = 0.0  # by which a simulated clock fell behind


@dataclass(frozen=True, slots=True)
class Page:
    """How the page names things."""

    model: str
    prefix: str  # before the colon
    config: Mapping[str, str]  # labels of cache_config_info

    def render(self, now: Snapshot) -> bytes:
        """Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(self._families(now)))
        return generate_latest(registry)

    def _families(self, now: Snapshot) -> Iterator[Metric]:
        yield self._gauge("num_requests_running", "Sequences that hold KV blocks.", {(): now.running})
        yield self._gauge("num_requests_waiting", "Sequences in the queue.", {(): now.waiting})
        yield self._gauge("kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.", {(): now.kv_usage})
        counters = now.counters
        for name, field, told in COUNTS:
            yield self._counter(name, told, {(): getattr(counters, field)})
        yield self._counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted draft tokens by their place in the draft.",
            {(str(place),): count for place, count in sorted(counters.accepted_at.copy().items())},
            ("position",),
        )
        computed = counters.prompt_tokens - counters.cached_tokens
        yield self._counter(
            "prompt_tokens_by_source",
            "Prompt tokens by where their KV came from.",
            {("local_compute",): computed, ("local_cache_hit",): counters.cached_tokens},
            ("source",),
        )
        yield self._counter(
            "request_success",
            "Requests by how they ended; stop and length are successes.",
            {(reason,): count for reason, count in counters.ended.copy().items()},
            ("finished_reason",),
        )
        yield self._counter(
            "admission_rejections",
            "Requests that were refused at once.",
            {(reason,): count for reason, count in counters.refused.copy().items()},
            ("reason",),
        )
        yield self._counter(
            "clock_lost_seconds",
            "Seconds by which a simulated clock fell behind for good; 0 where this machine keeps up.",
            {(): now.lost_s},
        )
        for name, field, told in HISTOGRAMS:
            yield self._histogram(name, told, getattr(counters, field))
        yield from self._phases(now)
        labels = tuple(self.config)
        yield self._gauge("cache_config_info", "The KV pool.", {tuple(self.config.values()): 1}, labels)

    def _phases(self, now: Snapshot) -> Iterator[Metric]:
        both: tuple[tuple[str, ...], ...] = (("prefill",), ("decode",))
        for name, field, told in PHASES:
            values = {phase: getattr(work, field) for phase, work in zip(both, now.phases, strict=True)}
            yield self._counter(name, f"{told} {SHARED}", values, ("phase",))
        for name, field, told in (
            ("phase_mfu", "compute_s", "Model FLOPs utilisation"),
            ("phase_mbu", "memory_s", "Memory bandwidth utilisation"),
        ):
            shares = {
                phase: getattr(work, field) / work.seconds if work.seconds else 0.0
                for phase, work in zip(both, now.recent, strict=True)
            }
            over = f"of the time this phase took in the last {WINDOW_S:g} s; 0 where it took none."
            yield self._gauge(name, f"{told} {over}", shares, ("phase",))

    def _counter(
        self, name: str, told: str, values: Mapping[tuple[str, ...], float], labels: tuple[str, ...] = ()
    ) -> Metric:
        family = CounterMetricFamily(f"{self.prefix}:{name}", told, labels=(*OWN_LABELS, *labels))
        for own, value in values.items():
            family.add_metric((self.model, "0", *own), value)
        return family

    def _gauge(
        self, name: str, told: str, values: Mapping[tuple[str, ...], float], labels: tuple[str, ...] = ()
    ) -> Metric:
        family = GaugeMetricFamily(f"{self.prefix}:{name}", told, labels=(*OWN_LABELS, *labels))
        for own, value in values.items():
            family.add_metric((self.model, "0", *own), value)
        return family

    def _histogram(self, name: str, told: str, found: Distribution) -> Metric:
        family = HistogramMetricFamily(f"{self.prefix}:{name}", told, labels=OWN_LABELS)
        buckets, below = [], 0
        for bound, count in zip([*map(float, found.bounds), float("inf")], found.counts, strict=True):
            below += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(below)))
        family.add_metric((self.model, "0"), buckets, found.sum)
        return family


class _Once:
    """A collector of families that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
