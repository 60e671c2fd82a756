"""What a KV pool of some bytes holds: ideal, in the engine's blocks, and as the engine's log says it."""

from collections.abc import Callable
from dataclasses import dataclass

from twophase.fit.pools import Layout
from twophase.model.cache import sequence_bytes

LONGEST = 2**31


@dataclass(frozen=True, slots=True)
class Capacity:
    """Three answers to "how many tokens", and how many sequences."""

    ideal_tokens: int  # of one sequence that is charged exactly what it keeps
    paged_tokens: int  # in blocks, of sequences of max_model_len
    logged_tokens: int  # what the engine prints: "GPU KV cache size: N tokens"
    blocks: int  # of the pool that holds every token
    block_tokens: int
    concurrency: float  # sequences of max_model_len, as the engine prints it
    longest: int  # the longest sequence that the pool holds


def capacity_of(layout: Layout, memory_bytes: float, max_model_len: int, log_divides: bool) -> Capacity:
    """`log_divides`: vLLM before 0.21, whose line gives each group an equal part of the blocks."""
    if not layout.kinds:  # a stage whose layers all read what others cache
        return Capacity(LONGEST, LONGEST, LONGEST, 0, 1, float(LONGEST), LONGEST)
    memory = max(memory_bytes, 0.0)
    held = concurrency(layout, memory, max_model_len)
    ideal = longest(lambda context: sequence_bytes(layout.kinds, context) <= memory)
    paged = int(held * max_model_len)
    if not layout.pools:
        every = longest(lambda context: concurrency(layout, memory, context) >= 1)
        return Capacity(ideal, paged, paged, ideal, 1, held, every)
    pool = layout.pools[0]
    blocks = pool.blocks(memory)
    block_tokens = min((group.block_tokens for group in pool.groups if group.block_tokens), default=0)
    if len(layout.pools) > 1 or (len(pool.groups) == 1 and pool.groups[0].block_tokens):
        logged = blocks * block_tokens
    elif log_divides:
        logged = blocks // len(pool.groups) * block_tokens
    else:
        logged = paged
    return Capacity(
        ideal_tokens=ideal,
        paged_tokens=paged,
        logged_tokens=logged,
        blocks=blocks,
        block_tokens=block_tokens,
        concurrency=held,
        longest=longest(lambda context: concurrency(layout, memory, context) >= 1),
    )


def concurrency(layout: Layout, memory_bytes: float, context: int) -> float:
    """Sequences of `context` tokens that are resident at once; the scarcest pool decides."""
    memory = max(memory_bytes, 0.0)
    if not layout.pools:
        needed = sequence_bytes(layout.kinds, context)
        return memory / needed if needed else float(LONGEST)
    return min(pool.blocks(memory) / pool.blocks_for(context) for pool in layout.pools)


def sequence_cost(layout: Layout, context: int) -> float:
    """Bytes of memory without which no sequence of `context` tokens is resident."""
    if not layout.pools:
        return sequence_bytes(layout.kinds, context)
    return max(pool.blocks_for(context) * pool.block_bytes / pool.portion for pool in layout.pools)


def longest(holds: Callable[[int], bool], high: int = LONGEST) -> int:
    """The longest context, of at most `high` tokens, for which it holds, by halving; 0 where none does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
