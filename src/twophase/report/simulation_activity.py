"""What the replicas did with their time: phases, use of the roofs and of the KV cache, what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.simulate.books import (
    DECODES,
    LOST_BLOCKS,
    OWN_S,
    PASSES,
    PROMPTS,
    RUNNING_REQUESTS,
    SECONDS,
    START_S,
    USED_BLOCKS,
    WAITING_REQUESTS,
)
from twophase.simulate.outcome import Run, Served

Floats = NDArray[np.float64]
PHASES = ("prefill", "mixed", "decode")
SAMPLES = 240


@dataclass(frozen=True, slots=True)
class Work:
    """Of some replicas. Shares of one; means over the time in which their passes ran."""

    busy_share: float  # of the replicas' time, from the first arrival to the end
    mfu: float
    mbu: float
    batch_mean: float
    batch_peak: int
    waiting_mean: float
    waiting_peak: int
    kv_use_mean: float
    kv_use_peak: float


@dataclass(frozen=True, slots=True)
class Activity:
    """Of all replicas."""

    passes: int
    phase_shares: dict[str, float]  # of busy time
    work: Work
    pools: tuple[Work, ...]  # of each of the run's pools, in their order
    preemptions: int
    prefix_queried_tokens: int  # prompts, at their first admission
    prefix_hit_tokens: int
    usd_per_million_output_tokens: float | None
    usd_per_million_tokens: float | None  # prompt and output


def activity_of(run: Run) -> Activity:
    seconds = np.concatenate([each.passes.seconds[:, OWN_S] for each in run.replicas])
    counts = np.concatenate([each.passes.counts for each in run.replicas])
    begin = float(np.nanmin(run.arrival_s, initial=np.inf))
    lasted = max(run.ended_s - begin, 0.0) if np.isfinite(begin) else 0.0
    return Activity(
        passes=int(counts[:, PASSES].sum()),
        phase_shares=phase_shares(seconds, counts),
        work=work_of(run.replicas, lasted),
        pools=tuple(
            work_of([each for each in run.replicas if each.pool is pool], lasted) for pool in run.pools
        ),
        preemptions=int(run.records.counts[:, LOST_BLOCKS].sum()),
        prefix_queried_tokens=queried(run),
        prefix_hit_tokens=run.cached_tokens,
        usd_per_million_output_tokens=cost(run, lasted, int(run.output_tokens.sum())),
        usd_per_million_tokens=cost(
            run,
            lasted,
            int(run.output_tokens.sum() + run.workload.prompt_tokens[run.finished].sum()),
        ),
    )


def work_of(replicas: Sequence[Served], lasted_s: float) -> Work:
    seconds = np.concatenate([each.passes.seconds[:, SECONDS] for each in replicas])
    counts = np.concatenate([each.passes.counts for each in replicas])
    use = np.concatenate([kv_use(each) for each in replicas])
    busy = float(seconds.sum())
    peaks = [(each.busy_s, each.pool.estimate.times.roofs) for each in replicas]
    most_flops, most_bytes = (sum(float(own[roof]) * time for time, own in peaks) for roof in (0, 1))

    def mean(values: NDArray[np.int64] | Floats) -> float:
        return float(np.sum(values * seconds) / busy) if busy else 0.0

    return Work(
        busy_share=busy / (lasted_s * len(replicas)) if lasted_s else 0.0,
        mfu=sum(each.flops for each in replicas) / most_flops if most_flops else 0.0,
        mbu=sum(each.bytes for each in replicas) / most_bytes if most_bytes else 0.0,
        batch_mean=mean(counts[:, RUNNING_REQUESTS]),
        batch_peak=int(counts[:, RUNNING_REQUESTS].max(initial=0)),
        waiting_mean=mean(counts[:, WAITING_REQUESTS]),
        waiting_peak=int(counts[:, WAITING_REQUESTS].max(initial=0)),
        kv_use_mean=mean(use),
        kv_use_peak=float(use.max(initial=0)),
    )


def kv_use(own: Served) -> Floats:
    return own.passes.counts[:, USED_BLOCKS] / own.pool.limits.blocks


def phase_shares(seconds: Floats, counts: NDArray[np.int64]) -> dict[str, float]:
    busy = float(seconds.sum()) or 1.0
    prompts, decodes = counts[:, PROMPTS] > 0, counts[:, DECODES] > 0
    kinds = (prompts & ~decodes, prompts & decodes, ~prompts)
    return {name: float(seconds[kind].sum()) / busy for name, kind in zip(PHASES, kinds, strict=True)}


def queried(run: Run) -> int:
    """Prompt tokens of requests that were admitted where there is a prefix cache."""
    if not run.replicas[0].pool.limits.prefix_cache or run.workload.content is None:
        return 0
    seen = ~np.isnan(run.records.moments[:, 0])
    return int(run.workload.prompt_tokens[seen].sum())


def cost(run: Run, lasted_s: float, tokens: int) -> float | None:
    """USD for a million tokens, all devices paid for from the first arrival to the end."""
    prices = [each.accelerator.price_per_hour for each in run.pools]
    if not tokens or any(each is None for each in prices):
        return None
    an_hour = sum((price or 0.0) * pool.devices for price, pool in zip(prices, run.pools, strict=True))
    return an_hour * lasted_s / 3600 / (tokens / 1e6)


@dataclass(frozen=True, slots=True)
class OverTime:
    """Sampled evenly over the run, all replicas together."""

    at_s: Floats
    running: Floats
    waiting: Floats
    kv_use: Floats  # of all pools


def over_time(run: Run) -> OverTime:
    at = np.linspace(0.0, run.ended_s, SAMPLES)
    running, waiting, used = np.zeros(SAMPLES), np.zeros(SAMPLES), np.zeros(SAMPLES)
    for each in run.replicas:
        starts = each.passes.seconds[:, START_S]
        if not len(starts):
            continue
        last = np.searchsorted(starts, at, side="right") - 1
        row = np.maximum(last, 0)
        inside = (last >= 0) & (at < starts[row] + each.passes.seconds[row, SECONDS])
        counts = each.passes.counts[row]
        running += np.where(inside, counts[:, RUNNING_REQUESTS], 0)
        waiting += np.where(inside, counts[:, WAITING_REQUESTS], 0)
        used += np.where(inside, counts[:, USED_BLOCKS], 0)
    blocks = sum(each.pool.limits.blocks for each in run.replicas)
    return OverTime(at, running, waiting, used / blocks)
