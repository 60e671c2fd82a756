"""What no run of a candidate can beat, from the very pass times that its simulation uses.

A pass of r rows takes at least a + b·r, for each slope b that stays below the table; sums over passes follow.
With a limit on TPOT, decodes can't be batched without end: the passes that the good requests' gaps consist of
are together at most their limits, which by Cauchy and Schwarz needs (Σ √w)² / ((limit - a) · tokens) passes.
Everything is valid whichever requests are the ones that may miss.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.cost import pass_times as columns
from twophase.cost.pass_times import PassTimes
from twophase.plan.demand import Demand
from twophase.plan.slo import Slo
from twophase.scheduler.request import Limits
from twophase.simulate.workload_arrays import Role

Floats = NDArray[np.float64]
SLOPES = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.0])  # of the least seconds a row
ROUNDING = 1 - 1e-9
DEADLINES = 96  # that are looked at
LEAST_S = 1e-9


class Bound(NamedTuple):
    """A value below 1 of a share, or engines above what is bought, rules a candidate out."""

    ttft_share: float  # of requests that can keep it at best
    tpot_share: float
    both_share: float  # of all limits, e2e among them
    engines: float  # of the role, without which the good requests' work isn't done in time
    binding: str  # what asks for so many: work, batch, memory, tpot


class Tables(NamedTuple):
    """Of one layout and budget."""

    a: Floats  # [slopes] seconds of a pass
    b: Floats  # [slopes] and of each row in it
    least_s: float  # of any pass with a row
    logits_s: float  # of any pass with logits
    logit_s: float  # of each
    spans_s: float  # of each decode in a pass
    tokens_s: Floats  # [kinds]: of each token of its context
    reach: Floats  # [kinds]: tokens of context that it reads at most
    pass_s: float  # of any pass with decodes
    pairs_s: Floats  # [kinds] of each pair of a prompt
    windows: Floats  # [kinds]; infinite: none
    prompt_s: float  # of any pass with a prompt's beginning


def tables_of(times: PassTimes, budget: int, sequences: int) -> Tables:
    rows = np.arange(1.0, budget + 1)
    passes = np.minimum(times.rows_s, times.decode_rows_s)[1 : budget + 1]
    b = SLOPES * (passes / rows).min()
    a = np.maximum((passes - b[:, None] * rows).min(axis=1), 0.0)
    logits, at = times.logits_s[1 : sequences + 1], times.mixers
    windows = np.where(at[:, columns.WINDOW] > 0, at[:, columns.WINDOW], np.inf)
    few = at[:, columns.DECODE_TOKEN_S] / columns.FEW_ROWS  # a chunk of few rows reads its context once
    return Tables(
        a=a,
        b=b,
        least_s=float(passes.min()),
        logits_s=float(logits.min()),
        logit_s=float((logits / np.arange(1.0, len(logits) + 1)).min()),
        spans_s=float(at[:, columns.DECODE_SPAN_S].sum()),
        tokens_s=at[:, columns.DECODE_TOKEN_S],
        reach=windows - 1,
        pass_s=float(at[:, columns.DECODE_PASS_S].sum()),
        pairs_s=np.minimum(at[:, columns.PROMPT_PAIR_S], few),
        windows=windows,
        prompt_s=float((at[:, columns.PROMPT_PASS_S] + at[:, columns.PROMPT_SPAN_S]).sum()),
    )


def bound_of(at: Tables, limits: Limits, demand: Demand, slo: Slo, role: Role) -> Bound:
    ttft, tpot = prompt_floor_s(at, limits, demand), decode_floor_s(at, demand)
    decodes = np.maximum(demand.output - 1, 0.0)
    e2e = ttft + decodes * tpot
    if role == "decode":
        ttft, e2e = np.zeros_like(ttft), decodes * tpot
    elif role == "prefill":
        tpot, e2e = np.zeros_like(tpot), ttft
    kept_ttft, kept_tpot = ttft <= slo.ttft_s, (tpot <= slo.tpot_s) | (decodes == 0)
    engines, binding = engines_for(at, limits, demand, slo, role)
    return Bound(
        ttft_share=float(kept_ttft.mean()),
        tpot_share=float(kept_tpot.mean()),
        both_share=float((kept_ttft & kept_tpot & (e2e <= slo.e2e_s)).mean()),
        engines=ROUNDING * engines,
        binding=binding,
    )


def prompt_floor_s(at: Tables, limits: Limits, demand: Demand) -> Floats:
    """From its first pass to its first token: its chunks one after the other, alone in their passes."""
    chunks = np.ceil(demand.own / limits.budget)
    passes = np.max(at.a[:, None] * chunks + at.b[:, None] * demand.own, axis=0)
    return np.asarray(ROUNDING * (passes + at.logits_s + prompt_attention_s(at, demand)))


def prompt_attention_s(at: Tables, demand: Demand) -> Floats:
    """Pairs of the rows that no cache has; of what is cached only what layers without a window see."""
    rows, cached = demand.own[:, None], (demand.prompt - demand.own)[:, None]
    grown = np.minimum(rows, at.windows)
    pairs = grown * (grown + 1) / 2 + np.where(
        np.isinf(at.windows), rows * cached, (rows - grown) * np.where(np.isinf(at.windows), 0.0, at.windows)
    )
    beyond = np.maximum(pairs - (columns.FEW_ROWS + 1) * rows, 0.0)
    begins = (demand.prompt == demand.own) * at.prompt_s
    return np.asarray((beyond * at.pairs_s).sum(axis=1) + begins)


def decode_attention_s(at: Tables, context: Floats) -> Floats:
    return np.asarray(at.spans_s + (np.minimum(context[:, None], at.reach) * at.tokens_s).sum(axis=1))


def decode_floor_s(at: Tables, demand: Demand) -> Floats:
    """Between two of its tokens, alone in its passes, at its least context."""
    alone = at.least_s + at.logits_s + at.pass_s + decode_attention_s(at, demand.prompt)
    return np.asarray(ROUNDING * alone)


def engines_for(at: Tables, limits: Limits, demand: Demand, slo: Slo, role: Role) -> tuple[float, str]:
    """(engines of the role, what decides): by each deadline, the work of those who have it must be done."""
    decodes = np.maximum(demand.output - (role != "decode"), 0.0) * (role != "prefill")
    prompts = demand.own * (role != "decode")
    attention = decodes * decode_attention_s(at, demand.prompt)
    if role != "decode":
        attention = attention + prompt_attention_s(at, demand)
    rows, logits = decodes + prompts, decodes + (role != "decode")
    done = demand.prompt_deadline_s if role == "prefill" else demand.deadline_s
    order = np.argsort(done, kind="stable")
    looked = np.unique(np.linspace(0, len(order) - 1, DEADLINES).astype(int))
    until = done[order][looked]
    if not np.isfinite(until).any():
        return 0.0, "work"

    def by_then(values: Floats) -> Floats:
        """Of all whose deadline has come, without the largest of all, which may be those that miss."""
        return np.asarray(np.maximum(np.cumsum(values[order])[looked] - largest(values, demand.misses), 0.0))

    passes = {
        "work": by_then(rows) / limits.budget,
        "batch": by_then(decodes) / limits.max_sequences,
        "memory": by_then(decodes * (demand.own + decodes / 2)) / (limits.block_size * limits.blocks),
    }
    gaps = np.maximum(demand.output - 1, 0.0) * (role != "prefill")
    all_gaps = np.cumsum(gaps[order])[looked]
    most, decides = 0.0, "work"
    for a, b in zip(at.a, at.b, strict=True):
        counts = dict(passes)
        if slo.tpot_s < np.inf and all_gaps[-1] > 0:
            roots = by_then(gaps * np.sqrt(b + at.logit_s + decode_attention_s(at, demand.prompt)))
            room = (slo.tpot_s - a) * all_gaps
            counts["tpot"] = np.where(room > 0, roots**2 / np.where(room > 0, room, 1.0), 0.0)
        work = by_then(b * rows + at.logit_s * logits + attention)
        for name, count in counts.items():
            needed = (work + a * count) / np.maximum(until, LEAST_S)
            if needed.max() > most:
                most, decides = float(needed.max()), name
    return most, decides


def largest(values: Floats, count: int) -> float:
    """The sum of so many of the largest."""
    if count <= 0:
        return 0.0
    if count >= len(values):
        return float(values.sum())
    return float(np.partition(values, len(values) - count)[len(values) - count :].sum())
