"""One measured row, whoever wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TIMES = ("ttft_s", "tpot_s", "e2e_s")
RATES = (
    "output_tokens_per_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "input_tokens_per_s",
    "total_tokens_per_s",
    "total_tokens_per_s_per_gpu",
    "requests_per_s",
)


@dataclass(frozen=True, slots=True)
class Point:
    """What a row says; None where it says nothing. Times in seconds, rates of the whole system a second.

    A pair of prefill and decode pools (`disaggregated`) has no tp, pp, dp or ep of its own: the columns of
    each pool stay in `unknown`.
    """

    row: str  # where it stands: an id, "line 12", "benchmark 3"
    model: str | None = None
    gpu: str | None = None
    gpus: int | None = None  # only as stated, never computed from tp
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    weights: str | None = None  # bf16, fp8, int4, nvfp4 ...; fp4 where the row does not say which
    kv: str | None = None
    engine: str | None = None
    concurrency: float | None = None  # clients of the whole system, or its batch; None where unlimited
    batch_is_resident: bool = False  # all of `concurrency` is in every decode pass
    input_tokens: float | None = None  # of one request, mean
    output_tokens: float | None = None
    cached_tokens: float | None = None  # of input_tokens, found in a prefix cache
    ttft_s: float | None = None
    tpot_s: float | None = None  # TPOT, or ITL where a row has no TPOT
    e2e_s: float | None = None
    output_tokens_per_s: float | None = None
    output_tokens_per_s_per_gpu: float | None = None
    output_tokens_per_s_per_user: float | None = None
    input_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None  # input and output together
    total_tokens_per_s_per_gpu: float | None = None
    requests_per_s: float | None = None
    statistic: str = ""  # of the times: mean, median, mixed; "" where not stated
    notes: str = ""
    disaggregated: bool = False
    unknown: Mapping[str, str] = field(default_factory=dict)  # columns that no field has

    @property
    def measured(self) -> bool:
        """Whether there is a time or a rate to check."""
        return any(getattr(self, name) is not None for name in (*TIMES, *RATES))
