"""From measured rows to what levers reason about: each phase of the request, measured and at the roof."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from twophase.advise.diagnosis import Bend, DecodeRow, PrefillRow, RequestSplit


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """One phase of the request in seconds: as measured, and the floor's two sides.

    weight_share is the part of memory_s that weights take; the KV cache takes the rest.
    """

    measured_s: float
    compute_s: float
    memory_s: float
    weight_share: float
    roof_share: float = 1.0  # of the machine's best speed, what it had while this was measured

    @property
    def weight_s(self) -> float:
        return self.memory_s * self.weight_share

    @property
    def kv_s(self) -> float:
        return self.memory_s * (1 - self.weight_share)

    @property
    def floor_s(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def mfu(self) -> float:
        return share(self.compute_s, self.measured_s)

    @property
    def mbu(self) -> float:
        return share(self.memory_s, self.measured_s)

    def saved_s(self, *, compute_s: float | None = None, memory_s: float | None = None) -> float:
        """What a new floor takes off the old one. The gap between floor and measured stays as it is."""
        compute = self.compute_s if compute_s is None else compute_s
        memory = self.memory_s if memory_s is None else memory_s
        return max(0.0, self.floor_s - max(compute, memory))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reference request and the measured rows around it."""

    prompt_tokens: int
    output_tokens: int
    prefill: PhaseCost
    decode: PhaseCost
    fit: Bend
    decode_rows: tuple[DecodeRow, ...]
    pass_weight_bytes: float  # read by one pass
    pass_kv_bytes: float  # read and written by one decode pass at the request's middle context

    @property
    def total_s(self) -> float:
        return self.prefill.measured_s + self.decode.measured_s

    @property
    def middle_context(self) -> float:
        return self.prompt_tokens + self.output_tokens / 2


def gather(
    *,
    prefill: Sequence[PrefillRow],
    decode: Sequence[DecodeRow],
    fit: Bend,
    request: RequestSplit,
    weight_bytes: float,
    kv_bytes_per_token: float,
) -> Evidence:
    """Split both phases of the request into arithmetic, weights and KV. Needs a decode row of batch 1."""
    weights = weights_a_pass(decode, weight_bytes, kv_bytes_per_token)
    context = request.prompt_tokens + request.output_tokens / 2
    singles = context_series(decode)
    compute, memory, read = (
        line(context, [row.context for row in singles], [getattr(row, name) for row in singles])
        for name in ("compute_s", "memory_s", "bytes")
    )
    return Evidence(
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        prefill=prefill_cost(prefill, request, weights),
        decode=replace(
            phase_cost(request.decode_s, request.decode_floor_s, (compute, memory), min(1.0, weights / read)),
            roof_share=median(row.roof_share for row in singles),
        ),
        fit=fit,
        decode_rows=tuple(decode),
        pass_weight_bytes=weights,
        pass_kv_bytes=max(0.0, read - weights),
    )


def prefill_cost(rows: Sequence[PrefillRow], request: RequestSplit, weights: float) -> PhaseCost:
    ordered = {row.prompt_tokens: row for row in sorted(rows, key=lambda row: row.prompt_tokens)}
    compute, memory, moved = (
        np.exp(line(np.log(request.prompt_tokens), np.log(list(ordered)), np.log(values)))
        for values in (
            [getattr(row, name) for row in ordered.values()] for name in ("compute_s", "memory_s", "bytes")
        )
    )
    sides = (float(compute), float(memory))
    cost = phase_cost(request.prefill_s, request.prefill_floor_s, sides, min(1.0, weights / float(moved)))
    return replace(cost, roof_share=median(row.roof_share for row in list(ordered.values())[-3:]))


def phase_cost(
    measured_s: float, floor_s: float, pass_sides: tuple[float, float], weight_share: float
) -> PhaseCost:
    """A typical pass's (compute_s, memory_s), scaled so that its floor is the whole phase's."""
    scale = floor_s / max(pass_sides)
    compute, memory = (side * scale for side in pass_sides)
    return PhaseCost(measured_s, compute, memory, weight_share)


def weights_a_pass(rows: Sequence[DecodeRow], weight_bytes: float, kv_bytes_per_token: float) -> float:
    """Weight bytes that one pass reads: what a row's bytes hold beyond its KV cache.

    Resident weights may be more (an untied embedding is gathered from, not read). A sliding window makes a
    row's KV smaller than context · kv_bytes_per_token, so each row gives a lower limit: the highest counts.
    """
    beyond = (row.bytes - row.batch * (row.context + 1) * kv_bytes_per_token for row in rows)
    return min(weight_bytes, max(0.0, *beyond))


def batch_series(rows: Sequence[DecodeRow]) -> list[DecodeRow]:
    """The longest series of batches from one up measured at one context; the longer context wins a tie."""
    series: dict[int, dict[int, DecodeRow]] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        series.setdefault(row.context, {})[row.batch] = row
    context = max((c for c in series if 1 in series[c]), key=lambda c: (len(series[c]), c))
    return list(series[context].values())


def context_series(rows: Sequence[DecodeRow]) -> list[DecodeRow]:
    """The rows of batch 1, one for each context, rising."""
    return list(
        {row.context: row for row in sorted(rows, key=lambda r: r.context) if row.batch == 1}.values()
    )


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def line(at: float, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Straight between points with rising x, and straight on beyond them; one point is a constant."""
    if len(x) == 1:
        return float(y[0])
    i = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    return float(y[i - 1] + (y[i] - y[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]))
