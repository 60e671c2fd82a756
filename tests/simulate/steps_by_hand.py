"""Data-parallel ranks in step, pass by pass: the engine's scheduler for each, and a clock that all share."""

import heapq
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from random_loads import pass_times

from twophase.cost import pass_times as columns
from twophase.cost.dealt import Dealt
from twophase.cost.pass_ import Pass
from twophase.cost.pass_times import PassTimes
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.workload.workload import Workload


@dataclass
class Stepped:
    first_s: NDArray[np.float64]
    ends_s: NDArray[np.float64]
    steps: list[tuple[float, float]] = field(default_factory=list)  # start, seconds


def times_in_step(rows: int, sequences: int) -> tuple[PassTimes, Dealt]:
    """As random_loads.pass_times, all of it rising with the rows; experts by a table with a bend."""
    each = np.arange(rows + 1.0)
    times = pass_times(rows, sequences, full=21)
    times.mixers[:, columns.DECODE_SPAN_S] = 0.035  # as 50 tokens of context
    dealt = Dealt(0.5 + np.maximum(0.1, 0.02 * each), 0.03 * each, 60 * each, np.minimum(600.0, 20 * each))
    rows_s = 1.5 + 0.01 * each + dealt.experts_s + dealt.exchanges_s
    return times._replace(rows_s=rows_s, decode_rows_s=0.9 * rows_s), dealt


def attention_s(times: PassTimes, spans: tuple[tuple[int, int], ...]) -> float:
    """By the meaning of PassTimes.mixers' columns, without windows."""
    (own,) = times.mixers
    prompts = [(new, context) for new, context in spans if new > 16 or context == 0]
    decodes = [(new, context) for new, context in spans if not (new > 16 or context == 0)]
    read = sum(context for _, context in decodes)
    seconds = 0.0
    if prompts:
        pairs = sum(new * context + new * (new + 1) / 2 for new, context in prompts)
        seconds += own[columns.PROMPT_PASS_S] + len(prompts) * own[columns.PROMPT_SPAN_S]
        waves = sum(new for new, _ in prompts) / own[columns.PROMPT_FULL_ROWS]
        started = max(1.0, waves + own[columns.PROMPT_STEP] * (-(-waves // 1) - waves))
        seconds += pairs * own[columns.PROMPT_PAIR_S] * started / waves
        seconds += sum(context for _, context in prompts) * own[columns.PROMPT_TOKEN_S]
        seconds += read * own[columns.MIXED_TOKEN_S]
    if decodes:
        seconds += own[columns.DECODE_PASS_S] + len(decodes) * own[columns.DECODE_SPAN_S]
        seconds += read * own[columns.DECODE_TOKEN_S]
    return float(seconds)


def alone_s(one: Pass, times: PassTimes) -> float:
    """A pass that sees nothing of others."""
    prompts = any(new > 16 or context == 0 for new, context in one.shape)
    table = times.rows_s if prompts else times.decode_rows_s
    logits = sum(span.logit_rows for span in one.spans)
    return float(table[one.rows] + times.logits_s[logits] + attention_s(times, one.shape))


def lasts_s(passes: list[Pass | None], times: PassTimes, dealt: Dealt | None) -> float:
    """A step of all ranks, or of a pipeline's microbatches where nothing is dealt out."""
    if dealt is None:
        return max(alone_s(each, times) for each in passes if each is not None)
    rows = [0 if each is None else each.rows for each in passes]
    shapes = [() if each is None else each.shape for each in passes]
    mixed = any(new > 16 or context == 0 for shape in shapes for new, context in shape)
    mean = -(-sum(rows) // len(rows))
    received = -(-(sum(rows) - min(rows)) // (len(rows) - 1))
    found = []
    for one, own, shape in zip(passes, rows, shapes, strict=True):
        if one is None:
            continue
        if mixed:
            seconds = times.rows_s[own] - dealt.experts_s[own] - dealt.exchanges_s[own]
            seconds += dealt.experts_s[mean] + dealt.exchanges_s[received]
        else:
            seconds = times.decode_rows_s[max(rows)]
        logits = sum(span.logit_rows for span in one.spans)
        found.append(float(seconds + times.logits_s[logits] + attention_s(times, shape)))
    return max(found)


def in_step(
    load: Workload, limits: Limits, times: PassTimes, dealt: Dealt | None, ranks: int, policy: str
) -> Stepped:
    """One group. Who arrives goes to the next rank in turn; where nothing is dealt out, to the microbatch
    with the fewest requests. Turns follow the answer before them."""
    count = len(load)
    schedulers = [Scheduler(limits, policy) for _ in range(ranks)]
    done = Stepped(np.full(count, np.nan), np.full(count, np.nan))
    follows = np.full(count, -1) if load.follows is None else load.follows
    follower = {int(before): row for row, before in enumerate(follows) if before >= 0}
    coming = [(float(load.arrival_s[row]), row) for row in range(count) if follows[row] < 0]
    heapq.heapify(coming)
    produced, came, now = [0] * count, 0, 0.0
    seen: dict[int, int] = {}  # who came while a pass ran: to which microbatch

    def fewest() -> int:
        sent = list(seen.values())
        return min(range(ranks), key=lambda rank: len(schedulers[rank]) + sent.count(rank))

    while coming or any(len(each) for each in schedulers):
        if not any(len(each) for each in schedulers):
            now = max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            moment, row = heapq.heappop(coming)
            asked = Request(row, int(load.prompt_tokens[row]), int(load.output_tokens[row]))
            target = came % ranks if dealt is not None else seen.pop(row) if row in seen else fewest()
            refused = schedulers[target].add(asked) is not None
            came += 1
            if refused and row in follower:
                heapq.heappush(coming, (moment + float(load.arrival_s[follower[row]]), follower[row]))
        passes = [each.schedule() for each in schedulers]
        if all(each is None for each in passes):
            continue
        seconds = lasts_s(passes, times, dealt)
        done.steps.append((now, seconds))
        now += seconds
        for moment, row in sorted(coming):
            if moment < now and dealt is None:
                seen[row] = fewest()
        for scheduler, one in zip(schedulers, passes, strict=True):
            if one is None:
                continue
            given = {span.sequence: [0] for span in one.spans if span.logit_rows}
            for row in given:
                produced[row] += 1
                if produced[row] == 1:
                    done.first_s[row] = now
            for row in scheduler.commit(one, PassOutcome(given, (), seconds)):
                done.ends_s[row] = now
                if row in follower:
                    later = follower[row]
                    heapq.heappush(coming, (now + float(load.arrival_s[later]), later))
    return done
