"""A policy of your own in the simulator: the engine's loop in plain Python, on the same clock. Slower."""

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.cost.pass_seconds import floor_seconds
from twophase.cost.pass_times import PassTimes
from twophase.cost.price import cost_of
from twophase.errors import InputError
from twophase.scheduler.clock import VirtualClock
from twophase.scheduler.drive import Progress, drive
from twophase.scheduler.log import Log
from twophase.scheduler.moves import refusal
from twophase.scheduler.policy import Policy
from twophase.scheduler.request import Limits, PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler
from twophase.simulate.books import (
    ACCEPTED,
    BYTES,
    CACHED,
    DECODE_CONTEXT,
    DECODE_ROWS,
    DECODES,
    DRAFT_TOKENS,
    DRAFTED,
    FINISHED,
    FINISHED_S,
    FIRST_TOKEN_S,
    FLOPS,
    KEEPS_BLOCKS,
    KEYS,
    KEYS_FROM,
    KV_GIVEN,
    LOST_BLOCKS,
    OUTCOME,
    OUTPUT_TOKENS,
    OWN_S,
    PASSES,
    PRIORITY_CLASS,
    PRODUCED,
    PROMPT,
    PROMPT_ROWS,
    PROMPTS,
    REFUSAL,
    REJECTED,
    RUNNING_REQUESTS,
    SCHEDULED_S,
    SECONDS,
    START_S,
    STEADY,
    USED_BLOCKS,
    WAITING_REQUESTS,
    Passes,
    Records,
    Requests,
)
from twophase.simulate.drafts import accepted
from twophase.simulate.one_pass import ROUNDING
from twophase.simulate.setting_up import records_of
from twophase.simulate.simulation import Simulation


def simulate_with(
    policy: str | Policy,
    requests: Requests,
    limits: Limits,
    times: PassTimes,
    *,
    ageing: int = 64,
    seed: int = 0,
) -> Simulation:
    """What simulate_replica gives, by any policy that the engine takes: `policy(state) -> None`. All spans
    are kept."""
    if np.any(requests.counts[:, [KV_GIVEN, KEEPS_BLOCKS]] > 0):
        raise InputError("a policy of your own runs on a replica that computes its prompts itself")
    scheduler = Scheduler(limits, policy, ageing=ageing)
    executor = Arithmetic(requests, limits.block_size, times, seed)
    log = Log(executor.price)
    arrivals = ((moment, executor.request(row)) for row, moment in enumerate(requests.arrival_s.tolist()))
    table = PassTable(executor)
    for progress in drive(arrivals, scheduler, executor, VirtualClock(), log):
        table.add(executor.last, progress)
    passes = table.passes()
    ends = passes.seconds[:, START_S] + passes.seconds[:, SECONDS]
    return Simulation(
        requests,
        records_from(log, requests, scheduler),
        passes,
        float(ends[-1]) if len(ends) else 0.0,
        float(passes.seconds[:, SECONDS].sum()),
    )


class Arithmetic:
    """An executor whose passes take what PassTimes say, and that knows when each request will end."""

    def __init__(self, requests: Requests, block_size: int, times: PassTimes, seed: int) -> None:
        self._requests, self._block_size, self._times, self._seed = requests, block_size, times, seed
        self.produced = [0] * len(requests.arrival_s)
        self.last = Pass(())

    def request(self, row: int) -> Request:
        own = self._requests.counts[row].tolist()
        keys = self._keys(row, 0, own[PROMPT] // self._block_size)
        return Request(row, own[PROMPT], own[OUTPUT_TOKENS], own[PRIORITY_CLASS], keys)

    def _keys(self, row: int, first: int, end: int) -> list[int]:
        start, count = self._requests.counts[row, [KEYS_FROM, KEYS]].tolist()
        found: list[int] = self._requests.keys[start + min(first, count) : start + min(end, count)].tolist()
        return found

    def price(self, pass_: Pass) -> tuple[float, float]:
        return cost_of(self._times, pass_)[1:]

    def decodes(self, span: Span) -> bool:
        return self.produced[span.sequence] > 0 and span.new == span.logit_rows

    def run(self, pass_: Pass) -> PassOutcome:
        self.last = pass_
        seconds, flops, bytes_ = cost_of(self._times, pass_)
        if seconds < ROUNDING * floor_seconds(self._times, flops, bytes_):
            raise RuntimeError("a pass is faster than its floor: the pass times are wrong")
        tokens, drafts, keys = {}, {}, {}
        for span in pass_.spans:
            if span.logit_rows:
                row = span.sequence
                own = self._requests.counts[row]
                known = span.context + span.new - span.logit_rows + 1
                rate = float(self._requests.acceptance[row])
                kept = 1 + accepted(self._seed, row, known, span.logit_rows - 1, rate)
                tokens[row], drafts[row] = [0] * kept, int(own[DRAFT_TOKENS])
                size = self._block_size
                keys[row] = self._keys(row, known // size, (known + kept) // size)
        return PassOutcome(tokens, (), seconds, drafts, keys)


class PassTable:
    """Rows of Passes as drive yields them."""

    def __init__(self, executor: Arithmetic) -> None:
        self._executor = executor
        self._seconds: list[list[float]] = []
        self._counts: list[list[int]] = []
        self._gaps: list[tuple[float, float]] = []
        self._spans: list[tuple[int, int, int, int, int]] = []
        self._last_s: dict[int, float] = {}

    def add(self, pass_: Pass, progress: Progress) -> None:
        record, number = progress.record, len(self._counts)
        decodes = [span for span in pass_.spans if self._executor.decodes(span)]
        prompts = [span for span in pass_.spans if not self._executor.decodes(span)]
        ends = record.started_s + record.seconds
        later = [self._last_s[s.sequence] for s in pass_.spans if s.logit_rows and s.sequence in self._last_s]
        held_up = [last for last in later if last != record.started_s]
        self._gaps += [(ends - last, 1.0) for last in held_up]
        seconds = [0.0] * 6
        seconds[START_S] = record.started_s
        seconds[SECONDS] = seconds[OWN_S] = record.seconds
        seconds[FLOPS], seconds[BYTES] = record.flops, record.bytes
        counts = [0] * 10
        counts[PASSES], counts[DECODES] = 1, len(decodes)
        counts[DECODE_ROWS] = sum(span.new for span in decodes)
        counts[DECODE_CONTEXT] = sum(span.context for span in decodes)
        counts[PROMPTS], counts[PROMPT_ROWS] = len(prompts), sum(span.new for span in prompts)
        counts[USED_BLOCKS], counts[WAITING_REQUESTS] = record.used_blocks, record.waiting
        counts[RUNNING_REQUESTS], counts[STEADY] = record.running, len(later) - len(held_up)
        self._seconds.append(seconds)
        self._counts.append(counts)
        self._spans += [(number, s.sequence, s.new, s.context, s.logit_rows) for s in pass_.spans]
        for row, kept in progress.tokens.items():
            self._executor.produced[row] += len(kept)
            self._last_s[row] = ends

    def passes(self) -> Passes:
        return Passes(
            np.array(self._seconds, np.float64).reshape(-1, 6),
            np.array(self._counts, np.int64).reshape(-1, 10),
            np.array(self._gaps, np.float64).reshape(-1, 2),
            np.array(self._spans, np.int64).reshape(-1, 5),
        )


def records_from(log: Log, requests: Requests, scheduler: Scheduler) -> Records:
    records = records_of(requests)
    for own in log.requests:
        counts, moments = records.counts[own.request], records.moments[own.request]
        if own.outcome == "rejected":
            asked = requests.counts[own.request]
            counts[OUTCOME] = REJECTED
            counts[REFUSAL] = refusal(scheduler.state, asked[PROMPT], asked[OUTPUT_TOKENS])
            continue
        counts[OUTCOME], counts[PRODUCED], counts[CACHED] = FINISHED, len(own.token_s), own.cached_tokens
        counts[LOST_BLOCKS], counts[DRAFTED] = own.preemptions, own.drafted_tokens
        counts[ACCEPTED] = own.accepted_tokens
        moments[SCHEDULED_S] = np.nan if own.first_scheduled_s is None else own.first_scheduled_s
        moments[FIRST_TOKEN_S], moments[FINISHED_S] = own.token_s[0], own.token_s[-1]
    return records
