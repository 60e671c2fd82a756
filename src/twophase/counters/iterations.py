"""TensorRT-LLM's /metrics: a JSON list of what single iterations did, which polling drains."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from twophase.errors import InputError

OFF = (
    "set enable_iter_perf_stats: true for iterations, or return_perf_metrics: true for counters at "
    "/prometheus/metrics, in trtllm-serve's YAML"
)


@dataclass(frozen=True, slots=True)
class Iteration:
    number: int
    seconds: float
    prompt_tokens: int  # computed
    prefills: int  # requests in their context phase
    decodes: int
    tokens_per_decode: float
    running: int
    waiting: int
    kv_usage: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """Seconds of each phase. An iteration with both is prefill's but for what decodes alone would take."""

    prefill_s: float
    decode_s: float
    mixed_s: float  # of iterations with both


def iterations_of(found: Sequence[Any], source: str) -> tuple[Iteration, ...]:
    """By number; InputError where the list holds something else."""
    read = {}
    for at, each in enumerate(found):
        try:
            own = _iteration(each, at)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            raise InputError(f"{source}: entry {at} of the list is no iteration of TensorRT-LLM") from None
        read[own.number] = own
    return tuple(read[number] for number in sorted(read))


def _iteration(own: Any, at: int) -> Iteration:
    batch, cache = own["inflightBatchingStats"], own.get("kvCacheStats") or {}
    blocks = float(cache.get("maxNumBlocks") or 0)
    made = Iteration(
        number=int(own.get("iter", at)),
        seconds=float(own["iterLatencyMS"]) / 1000,
        prompt_tokens=int(batch.get("numCtxTokens", 0)),
        prefills=int(batch.get("numContextRequests", 0)),
        decodes=int(batch.get("numGenRequests", 0)),
        tokens_per_decode=float(batch.get("avgNumDecodedTokensPerIter") or 1.0),
        running=int(own.get("numActiveRequests", 0)),
        waiting=int(own.get("numQueuedRequests", 0)),
        kv_usage=float(cache.get("usedNumBlocks", 0)) / blocks if blocks else None,
    )
    if not 0 <= made.seconds < float("inf") or min(made.prompt_tokens, made.decodes) < 0:
        raise ValueError("no such iteration")
    return made


def split(own: Sequence[Iteration]) -> Split:
    """What decodes would take in a mixed iteration: the median of iterations that only decode."""
    alone = [each.seconds for each in own if each.decodes and not each.prompt_tokens]
    usual = median(alone) if alone else 0.0
    prefill = decode = mixed = 0.0
    for each in own:
        if not each.prompt_tokens:
            decode += each.seconds if each.decodes else 0.0
        elif not each.decodes:
            prefill += each.seconds
        else:
            part = min(usual, each.seconds)
            prefill, decode, mixed = prefill + each.seconds - part, decode + part, mixed + each.seconds
    return Split(prefill, decode, mixed)


def later_than(first: Sequence[Iteration], second: Sequence[Iteration]) -> tuple[Iteration, ...]:
    """Of the second poll, what the first did not have yet. A number that fell: the server began anew."""
    last = max((each.number for each in first), default=-1)
    if second and second[-1].number < last:
        return tuple(second)
    return tuple(each for each in second if each.number > last)
