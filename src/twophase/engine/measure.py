"""Both phases of the real engine, timed pass by pass, with the machine's roofs probed beside each."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twophase.cost.pass_ import Pass, Span
from twophase.engine.executor import Executor
from twophase.engine.kv import KVPool
from twophase.hardware.probe import matmul_rate, read_rate
from twophase.kernels.cache import BLOCK_SIZE
from twophase.records import RequestRecord
from twophase.scheduler.clock import RealClock
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler

PROMPT_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048)
CONTEXTS = (128, 512, 1024, 2048, 4096)
BATCHES = (1, 2, 4, 8, 16)
BATCH_CONTEXT = 512
MOST_RUNS = 9
PREFILL_SHARE, DECODE_SHARE = 0.5, 0.2  # of the budget; the reference request has the rest
PROBE_S = 0.05  # of reading or of multiplying, before and after every figure
Price = Callable[[Pass], tuple[float, float]]  # (FLOPs, compulsory bytes) of a pass


@dataclass(frozen=True, slots=True)
class Timed:
    """One shape of pass, run several times, and the best that probes reached just before and after."""

    pass_: Pass
    cost: tuple[float, float]  # (FLOPs, compulsory bytes)
    seconds: tuple[float, ...]
    flops_per_s: float
    read_bytes_per_s: float

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best_s(self) -> float:
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run of `budget_s` will time."""

    prompt_tokens: tuple[int, ...]
    contexts: tuple[int, ...]
    batches: tuple[int, ...]
    budget_s: float


@dataclass(slots=True)
class Bench:
    """An executor, its passes' price, and every roof probed so far."""

    executor: Executor
    price: Price
    flops_per_s: list[float]
    read_bytes_per_s: list[float]

    def probe_matmul(self) -> float:
        self.flops_per_s.append(matmul_rate(self.executor.network.compute, self.executor.threads, PROBE_S))
        return self.flops_per_s[-1]

    def probe_read(self) -> float:
        self.read_bytes_per_s.append(read_rate(self.executor.network.arena, self.executor.threads, PROBE_S))
        return self.read_bytes_per_s[-1]

    def probe(self) -> None:
        self.probe_matmul()
        self.probe_read()

    def floor_s(self, pass_: Pass) -> float:
        """By the best roofs so far."""
        flops, bytes_ = self.price(pass_)
        return max(flops / max(self.flops_per_s), bytes_ / max(self.read_bytes_per_s))


def new_bench(executor: Executor, price: Price) -> Bench:
    bench = Bench(executor, price, [], [])
    bench.probe()  # compiles the probes
    bench.flops_per_s.clear()
    bench.read_bytes_per_s.clear()
    for _ in range(3):
        bench.probe()
    return bench


def plan(bench: Bench, budget_s: float, longest: int, middle: int) -> Plan:
    """Sizes that fit the time: half of it for prompts, a fifth for decode.

    `longest`: the context window; `middle`: the context at which the reference request is half through.
    """

    def prompt_s(tokens: int) -> float:
        return 1.5 * bench.floor_s(Pass((Span(0, tokens, 0),)))

    prompts = [tokens for tokens in PROMPT_TOKENS if tokens < longest] or [max(1, longest // 2)]
    while len(prompts) > 3 and sum(map(prompt_s, prompts)) > budget_s * PREFILL_SHARE:
        prompts.pop()
    contexts = {tokens for tokens in CONTEXTS if tokens < min(longest, 2 * middle)} | {middle}
    return Plan(tuple(prompts), tuple(sorted(contexts)), BATCHES, budget_s)


def positions_needed(sizes: Plan, request_tokens: int) -> tuple[int, int]:
    """(longest sequence, sequences of that length) whose KV holds every pass of a plan and the request."""
    longest = max(*sizes.prompt_tokens, *sizes.contexts, request_tokens) + 1
    batch = max(sizes.batches) * (_batch_context(sizes) + BLOCK_SIZE)
    return longest, -(-batch // longest)


def time_prefills(bench: Bench, sizes: Plan) -> Iterator[Timed]:
    """TTFT of each prompt length through the scheduler, several times where the time allows."""
    left = sizes.budget_s * PREFILL_SHARE
    for tokens in reversed(sizes.prompt_tokens):  # the longest first: what is left goes to more runs
        flops, reads = [bench.probe_matmul()], [bench.probe_read()]
        seconds: list[float] = []
        share = left / 2 if tokens > sizes.prompt_tokens[0] else left
        while len(seconds) < MOST_RUNS and (not seconds or sum(seconds) + seconds[-1] < share):
            record = serve(bench, [random_ids(bench.executor, tokens)], 1)[0]
            seconds.append(record.token_s[0] - record.arrival_s)
        left -= sum(seconds)
        flops.append(bench.probe_matmul())
        reads.append(bench.probe_read())
        pass_ = Pass((Span(0, tokens, 0),))
        yield Timed(pass_, bench.price(pass_), tuple(seconds), max(flops), max(reads))


def time_decodes(bench: Bench, sizes: Plan) -> Iterator[Timed]:
    """ITL against context at batch 1, then against batch. The KV cache holds random values: only its size
    costs time."""
    fill(bench.executor.pool)
    shapes = [(1, context) for context in sizes.contexts]
    context = _batch_context(sizes)
    shapes += [(batch, context) for batch in sizes.batches if (batch, context) not in shapes]
    left = sizes.budget_s * DECODE_SHARE
    for done, (batch, tokens) in enumerate(shapes):
        share = left / (len(shapes) - done)
        pass_ = _decode_pass(bench.executor, batch, tokens)
        flops, reads = [bench.probe_matmul()], [bench.probe_read()]
        seconds: list[float] = []
        started = time.perf_counter()
        while len(seconds) < MOST_RUNS and (len(seconds) < 3 or time.perf_counter() - started < share):
            seconds.append(bench.executor.run(pass_).seconds)
            _rewind(bench.executor, pass_)
            reads.append(bench.probe_read())
        left -= time.perf_counter() - started
        for sequence in range(batch):
            bench.executor.end(sequence)
        yield Timed(pass_, bench.price(pass_), tuple(seconds), max(flops), max(reads))


def serve(bench: Bench, prompts: Sequence[Sequence[int]], output_tokens: int) -> list[RequestRecord]:
    """Serve requests that arrive together, to their end; their records."""
    executor = bench.executor
    longest = max(map(len, prompts)) + output_tokens
    limits = Limits(blocks=executor.pool.blocks, context_length=longest, max_sequences=len(prompts))
    scheduler = Scheduler(limits)
    log = Log(bench.price)
    for sequence, ids in enumerate(prompts):
        executor.begin(sequence, ids)
    requests = [Request(sequence, len(ids), output_tokens) for sequence, ids in enumerate(prompts)]
    clock = RealClock()
    now = clock.now()
    for _ in drive([(now, request) for request in requests], scheduler, executor, clock, log):
        pass
    for sequence in range(len(prompts)):
        executor.end(sequence)
    return log.requests


def random_ids(executor: Executor, count: int) -> list[int]:
    ids = np.random.default_rng(count).integers(0, executor.network.spec.vocab_size, count)
    return [int(token) for token in ids]


def fill(pool: KVPool) -> None:
    """Small random values everywhere, so that every block is memory of its own."""
    some = np.random.default_rng(0).normal(0, 0.1, 1 << 16).astype(np.float32)
    for layer in pool.layers:
        for array in layer.arrays:
            values = some.astype(array.dtype)
            if array.dtype == np.uint16:
                values = (some.view(np.uint32) >> 16).astype(np.uint16)
            elif array.dtype == np.int8:
                values = (100 * some).astype(np.int8)
            for start in range(0, array.size, values.size):
                array[start : start + values.size] = values[: array.size - start]


def _batch_context(sizes: Plan) -> int:
    return min(BATCH_CONTEXT, max(sizes.contexts))


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_SIZE)


def _decode_pass(executor: Executor, batch: int, context: int) -> Pass:
    """Every sequence begun, `context` tokens of it taken as computed, in blocks scattered over the pool."""
    each = _blocks(context + 1)
    blocks = np.random.default_rng(0).permutation(executor.pool.blocks)[: batch * each].reshape(batch, each)
    for sequence in range(batch):
        executor.begin(sequence, random_ids(executor, context + 1))
    return Pass(tuple(Span(i, 1, context, tuple(blocks[i].tolist())) for i in range(batch)))


def _rewind(executor: Executor, pass_: Pass) -> None:
    """Take back what a pass sampled, so that it can run again at the same context."""
    for span in pass_.spans:
        ids = executor.end(span.sequence)
        executor.begin(span.sequence, ids[: span.context + 1])
