"""What is told of one model over a window."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from twophase.counters.histogram import Quantile


@dataclass(frozen=True, slots=True)
class Times:
    """Of one kind, in seconds, or in tokens."""

    count: float
    mean: float
    quantiles: tuple[tuple[float, Quantile], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """None: the engine does not tell. Tokens and requests are those of the window; a share is of one.

    prefill_gpu_s and decode_gpu_s are the engine's own, never estimates.
    """

    engine: str
    title: str
    model: str
    window_s: float | None
    covered_s: float | None  # of the window, what the figures tell of
    requests: float | None = None  # finished
    aborted: float | None = None
    failed: float | None = None
    prompt_tokens: float | None = None  # as received, cached and transferred ones too
    computed_prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    external_prompt_tokens: float | None = None  # of the cached, those that another instance computed
    generation_tokens: float | None = None
    first_tokens: float | None = None  # requests that got their first token
    cached_share: float | None = None
    prefill_decode_token_ratio_billed: float | None = None
    prefill_decode_token_ratio_computed: float | None = None
    prompt_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    ttft_mean_s: float | None = None
    queue_share_of_ttft: float | None = None
    prefill_share_of_ttft: float | None = None
    tpot_mean_s: float | None = None
    mean_running_decode: float | None = None  # sequences in decode, over the whole window
    mean_decode_batch: float | None = None  # sequences of a decode step
    decode_steps: float | None = None
    running: float | None = None
    waiting: float | None = None
    mean_queue: float | None = None  # requests that wait, over the window
    context_tokens_mean: float | None = None  # of a decoding sequence
    kv_usage: float | None = None
    kv_tokens: float | None = None
    preemptions: float | None = None
    wasted_tokens: float | None = None
    acceptance: float | None = None
    tokens_per_step: float | None = None  # of a sequence, with speculation
    prefill_gpu_s: float | None = None
    decode_gpu_s: float | None = None
    gpu_busy: float | None = None
    prefill_share_of_busy: float | None = None
    prefill_floor_s: float | None = None
    decode_floor_s: float | None = None
    flops: float | None = None  # of one device, as the engine estimates them
    intensity_flop_per_byte: float | None = None
    times: Mapping[str, Times] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
