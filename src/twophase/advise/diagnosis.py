"""What a diagnosis holds: roofs, both phases' measured curves, one request, and the verdict on it.

Field names are the keys of `twophase diagnose --json`; they are an interface.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Bound = Literal["compute", "memory", "communication", "overhead"]
Phase = Literal["prefill", "decode"]
Kind = Literal["engine", "machine", "workload"]


@dataclass(frozen=True, slots=True)
class Roofs:
    """What the machine can do, measured: the best of the probes taken all through the run."""

    flops_per_s: float  # peak matmul rate in the engine's compute type
    read_bytes_per_s: float
    ridge_flop_per_byte: float
    flops_per_s_range: tuple[float, float]  # lowest and highest probe: how much the machine wandered
    read_bytes_per_s_range: tuple[float, float]
    compute: str  # the type and instructions that the matmul probe ran, e.g. "bf16 (AVX512-BF16)"
    threads: int
    cpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pass against the run's best roofs. Utilisations are shares of them, 0..1."""

    floor_s: float
    compute_s: float  # the floor's two sides
    memory_s: float
    flops: float
    bytes: float
    mfu: float
    mbu: float
    bound: Bound
    runs: int  # whose median was taken
    roof_share: float = 1.0  # what the machine reached beside this row, of its best of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillRow(Row):
    """A prompt prefilled in one pass, batch 1."""

    prompt_tokens: int
    ttft_s: float  # measured, median


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRow(Row):
    """One decode pass: `batch` sequences, each with `context` tokens in its KV cache."""

    batch: int
    context: int
    itl_s: float  # measured, median


@dataclass(frozen=True, slots=True)
class Bend:
    """ttft(n) = overhead + linear·n + quadratic·n², and where it bends upward: quadratic·n = linear / 10."""

    overhead_s: float
    linear_s_per_token: float
    quadratic_s_per_token2: float
    bend_prompt_tokens: float | None  # None: not within the measured lengths
    compute_bound_from_tokens: float  # prompt length from which the floor is arithmetic
    fitted_from_tokens: int = 1  # the shortest prompt in the fit


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """One reference request, batch 1, and which phase its time goes to."""

    prompt_tokens: int
    output_tokens: int
    prefill_s: float
    decode_s: float
    prefill_floor_s: float
    decode_floor_s: float
    dominant: Phase
    extrapolated: bool  # summed from the measured curves rather than run whole


@dataclass(frozen=True, slots=True)
class Advice:
    """One change, what it acts on, and the gain that arithmetic expects of it."""

    change: str  # "INT8 weights"
    phase: Phase
    gain: float | None  # the request's time before ÷ after (1.0: none); None where it depends on the workload
    why: str  # one line, with the arithmetic
    helps: bool
    kind: Kind = "engine"  # what changes: the software, the hardware, or what is asked of it
    throughput_gain: float | None = None  # requests/s after ÷ before, where it serves more, not faster
    lever: str = ""  # its key in the list that `advise` weighs, too
    price: Mapping[str, str] = field(default_factory=dict)  # quality, memory, money: what it costs, in words
    flags: Mapping[str, str] = field(default_factory=dict)  # by engine: what turns it on


@dataclass(frozen=True, slots=True)
class Verdict:
    dominant: Phase
    bound: Bound
    summary: str  # two or three plain sentences
    advice: tuple[Advice, ...]  # best first; those that would not help last


@dataclass(frozen=True, slots=True)
class Diagnosis:
    model: str
    weights: Literal["real", "random"]
    weight_format: str  # what is resident: bf16 | float32
    weight_bytes: int
    kv_bytes_per_token: int
    roofs: Roofs
    prefill: tuple[PrefillRow, ...]
    decode: tuple[DecodeRow, ...]
    ttft_fit: Bend
    request: RequestSplit
    verdict: Verdict
    seconds: float  # how long the diagnosis took
    notes: tuple[str, ...] = ()  # what a reader must know: random weights, a slow fallback, noise
