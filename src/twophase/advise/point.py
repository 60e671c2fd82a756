"""Where a simulated deployment stands: what each phase takes of its time, and what binds a pass of each."""

from dataclasses import dataclass

import numpy as np

from twophase.advise.diagnosis import Bound, Phase
from twophase.advise.verdict import bound_of
from twophase.cost import pass_times as columns
from twophase.cost.pass_seconds import pair_factor
from twophase.cost.pass_times import PassTimes
from twophase.simulate.books import (
    DECODE_CONTEXT,
    DECODE_ROWS,
    DECODES,
    OWN_S,
    PASSES,
    PROMPTS,
    RUNNING_REQUESTS,
    Passes,
)
from twophase.simulate.outcome import Run

ALL = 1 << 60


@dataclass(frozen=True, slots=True)
class Work:
    """One pass, or the passes of one prompt. The roofs are of the devices of one of its stages."""

    seconds: float
    compute_s: float  # its FLOPs at the peak
    weight_s: float  # weights read, at the bandwidth
    kv_s: float
    attention: float  # share of the FLOPs

    @property
    def memory_s(self) -> float:
        return self.weight_s + self.kv_s

    @property
    def bound(self) -> Bound:
        return bound_of(measured_s=self.seconds, compute_s=self.compute_s, memory_s=self.memory_s)

    @property
    def weight_share(self) -> float:
        """Of the bytes."""
        return self.weight_s / self.memory_s if self.memory_s else 0.0


@dataclass(frozen=True, slots=True)
class Point:
    prefill: Work  # a prompt of the mean length, alone
    decode: Work  # a pass of the mean batch at the mean context
    prefill_share: float  # of the time in which passes ran
    batch: float  # sequences of a decode pass
    most_at_once: int
    context: float
    prompt_tokens: float
    output_tokens: float

    @property
    def dominant(self) -> Phase:
        return "prefill" if self.prefill_share >= 0.5 else "decode"

    def share(self, phase: Phase) -> float:
        return self.prefill_share if phase == "prefill" else 1 - self.prefill_share

    def work(self, phase: Phase) -> Work:
        return self.prefill if phase == "prefill" else self.decode


def point_of(run: Run, prompt_tokens: float, output_tokens: float, budget: int) -> Point:
    """Lengths are means; cached tokens of prompts are no work."""
    prefill_s = decode_s = sequences = passes = 0.0
    most = 0
    for each in run.replicas:
        seconds, decoding, counts = phase_seconds(each.pool.estimate.times, each.passes)
        prefill_s += float(seconds.sum() - decoding.sum())
        decode_s += float(decoding.sum())
        some = counts[:, DECODES] > 0
        sequences += float((counts[some, DECODES] * decoding[some]).sum())
        passes += float(decoding[some].sum())
        most = max(most, int(counts[:, RUNNING_REQUESTS].max(initial=0)))
    batch = max(1.0, sequences / passes) if passes else 1.0
    context = prompt_tokens + output_tokens / 2
    first, last = run.replicas[0].pool.estimate.times, run.replicas[-1].pool.estimate.times
    busy = prefill_s + decode_s
    return Point(
        prefill=prompt_work(first, prompt_tokens, budget),
        decode=decode_work(last, batch, context),
        prefill_share=prefill_s / busy if busy else 0.0,
        batch=batch,
        most_at_once=most,
        context=context,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )


def phase_seconds(times: PassTimes, passes: Passes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(seconds, those of decodes, counts) by row: a mixed pass's decodes take what they would take alone."""
    seconds, counts = passes.seconds[:, OWN_S], passes.counts
    mixed = (counts[:, PROMPTS] > 0) & (counts[:, DECODES] > 0)
    rows = np.minimum(counts[:, DECODE_ROWS], len(times.decode_rows_s) - 1)
    heads = np.minimum(counts[:, DECODE_ROWS], len(times.logits_s) - 1)
    alone = times.decode_rows_s[rows] + times.logits_s[heads]
    context = counts[:, DECODE_CONTEXT]
    for own in times.mixers:
        alone = alone + own[columns.DECODE_PASS_S] + counts[:, DECODES] * own[columns.DECODE_SPAN_S]
        window = own[columns.WINDOW]
        seen = np.minimum(context, window * counts[:, DECODES]) if window else context
        alone = alone + seen * own[columns.DECODE_TOKEN_S]
    alone = np.minimum(alone * np.maximum(counts[:, PASSES], 1), seconds)
    return seconds, np.where(mixed, alone, np.where(counts[:, DECODES] > 0, seconds, 0.0)), counts


def prompt_work(times: PassTimes, tokens: float, budget: int) -> Work:
    length = max(1, round(tokens))
    chunk = min(length, budget, len(times.rows_s) - 1)
    passes = -(-length // chunk)
    rows = -(-length // passes)
    seconds = passes * float(times.rows_s[rows]) + float(times.logits_s[1])
    flops = length * float(times.rows_flops[rows]) / rows + float(times.logits_flops[1])
    kv_bytes = attention = 0.0
    for own in times.mixers:
        window = int(own[columns.WINDOW]) or ALL
        growing = min(length, window)
        pairs = growing * (growing + 1) / 2 + max(0, length - growing) * window
        again = sum(min(rows * number, window) for number in range(passes))
        seconds += passes * float(own[columns.PROMPT_PASS_S] + own[columns.PROMPT_SPAN_S])
        pair_s = own[columns.PROMPT_PAIR_S] * pair_factor(
            own[columns.PROMPT_FULL_ROWS], own[columns.PROMPT_STEP], rows
        )
        seconds += pairs * float(pair_s) + again * float(own[columns.PROMPT_TOKEN_S])
        attention += pairs * float(own[columns.PAIR_FLOPS])
        kv_bytes += (again + min(length, window)) * float(own[columns.TOKEN_BYTES])
    flops += attention
    peak, bandwidth = map(float, times.roofs)
    weights = passes * float(times.rows_bytes[rows]) + float(times.logits_bytes[1])
    return Work(seconds, flops / peak, weights / bandwidth, kv_bytes / bandwidth, attention / flops)


def decode_work(times: PassTimes, batch: float, context: float) -> Work:
    rows = min(max(1, round(batch)), len(times.decode_rows_s) - 1)
    heads = min(rows, len(times.logits_s) - 1)
    seconds = float(times.decode_rows_s[rows] + times.logits_s[heads])
    flops = float(times.rows_flops[rows] + times.logits_flops[heads])
    kv_bytes = attention = 0.0
    for own in times.mixers:
        seen = rows * min(context, own[columns.WINDOW] or ALL)
        seconds += float(own[columns.DECODE_PASS_S] + rows * own[columns.DECODE_SPAN_S])
        seconds += float(seen * own[columns.DECODE_TOKEN_S])
        attention += float(seen * own[columns.PAIR_FLOPS])
        kv_bytes += float((seen + rows) * own[columns.TOKEN_BYTES])
    flops += attention
    peak, bandwidth = map(float, times.roofs)
    weights = float(times.rows_bytes[rows] + times.logits_bytes[heads])
    return Work(seconds, flops / peak, weights / bandwidth, kv_bytes / bandwidth, attention / flops)


def full_service_s(times: PassTimes, prompt: float, output: float, budget: int, clients: float) -> float:
    """Of a request beside so many others, each of whose prompts is computed meanwhile."""
    a_pass = decode_work(times, clients, prompt + output / 2).seconds
    return output * a_pass + clients * prompt_work(times, prompt, budget).seconds


def around(
    times: PassTimes, prompt: float, output: float, budget: int, seats: int, rate: float
) -> tuple[float, float]:
    """(requests in flight, seconds that one is served) at so many a second, about: a fixed point."""
    alone = prompt_work(times, prompt, budget).seconds
    batch = 1.0
    for _ in range(8):
        a_pass = decode_work(times, batch, prompt + output / 2).seconds
        service = alone + output * (a_pass + min(batch / output, rate * a_pass) * alone)
        batch = min(max(1.0, rate * service), float(seats))
    return batch, service
