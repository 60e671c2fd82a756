"""Prompts continued on the real engine, pass by pass."""

from collections.abc import Iterator, Sequence

from twophase.cost.price import price_of
from twophase.engine.kv import KVFormat
from twophase.engine.open import OpenModel, require_window
from twophase.engine.sampling import GREEDY, Sampling
from twophase.scheduler.clock import RealClock
from twophase.scheduler.drive import Progress, drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import Limits, Request
from twophase.scheduler.scheduler import Scheduler


def generate(
    model: OpenModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    threads: int,
    sampling: Sampling = GREEDY,
    kv: KVFormat | None = None,
) -> Iterator[Progress]:
    """Serve all prompts at once, one yield a pass; sequences are numbered as the prompts are.

    InputError where a prompt with its output exceeds the context window, or memory is short.
    """
    prompt_tokens = max(map(len, prompts))
    require_window(model.spec, prompt_tokens, max_tokens)
    longest = prompt_tokens + max_tokens
    executor = model.executor(positions=longest, sequences=len(prompts), threads=threads, kv=kv)
    executor.warm_up(sampling)
    limits = Limits(blocks=executor.pool.blocks, context_length=longest, max_sequences=len(prompts))
    scheduler = Scheduler(limits)
    for sequence, ids in enumerate(prompts):
        executor.begin(sequence, ids, sampling)
    log, clock = Log(price_of(model.deployment(kv))), RealClock()
    requests = (
        Request(sequence, len(ids), max_tokens, block_keys=executor.prompt_keys(sequence))
        for sequence, ids in enumerate(prompts)
    )
    yield from drive(((0.0, request) for request in requests), scheduler, executor, clock, log)
