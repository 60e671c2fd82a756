"""How an engine lays the KV cache of a model's layers out in memory: pools of blocks.

A block holds some tokens of some layers. vLLM has one pool: layers of one kind make groups of equally many
layers, every group takes blocks of one size from the pool, and recurrent states take whole blocks. SGLang and
TensorRT-LLM part the memory between kinds of layers beforehand.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from twophase.model.cache import LayerCache

Kinds = tuple[tuple[LayerCache, int], ...]

ALIGNMENT = 16  # vLLM raises a hybrid's block to a multiple of what its attention kernels read at once
SGLANG_SLIDING_SHARE = 0.8  # sliding tokens to full ones (--swa-full-tokens-ratio)
SGLANG_STATE_RATIO = 0.9  # bytes of states to bytes of KV cache (--mamba-full-memory-ratio)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers whose blocks are taken together. A sequence takes at most what its window's tokens need."""

    block_tokens: int
    window: int | None = None  # tokens kept at the most while a pass is under way; None: all
    more: int = 0  # blocks beside: a window that begins inside a block, or all of a state's

    def blocks_for(self, context: int) -> int:
        if not self.block_tokens:
            return self.more
        kept = context if self.window is None else min(context, self.window)
        return ceil(kept / self.block_tokens) + self.more


@dataclass(frozen=True, slots=True)
class Pool:
    """Blocks of one size that the groups share; `portion` of the memory is this pool's."""

    block_bytes: float
    groups: tuple[Group, ...]
    portion: float = 1.0

    def blocks(self, memory_bytes: float) -> int:
        return max(0, int(memory_bytes * self.portion / self.block_bytes))

    def blocks_for(self, context: int) -> int:
        """Of one sequence."""
        return sum(group.blocks_for(context) for group in self.groups)


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one device's layers. Without pools every sequence is charged exactly what it keeps."""

    kinds: Kinds
    pools: tuple[Pool, ...] = ()


@dataclass(frozen=True, slots=True)
class Paging:
    """What decides a layout beside the model."""

    block_tokens: int
    batched_tokens: int  # that one pass may add to a sequence before its window lets go
    groups_windows: bool = True  # vLLM from 0.10; before, sliding layers beside full ones keep every token
    state_blocks: int = 2  # of a sequence in each group of recurrent layers: 2 with prefix caching, else 1
    widest_group: float = 1.5  # groups take the most layers of a kind where those are less than so many least


def vllm_layout(kinds: Iterable[tuple[LayerCache, int]], paging: Paging) -> Layout:
    """One pool. Where every layer keeps every token a block is of all layers; else kinds are grouped."""
    own = tuple(kinds)
    growing = [(cache, count) for cache, count in own if cache.entry_bytes]
    states = [(cache, count) for cache, count in own if cache.state_bytes]
    windows = {cache.window for cache, _ in growing}
    uneven = len(windows) > 1 and paging.groups_windows
    if not states and not uneven:
        every = sum(cache.entry_bytes / cache.stride * count for cache, count in growing)
        window = next(iter(windows)) if len(windows) == 1 else None
        group = _group(growing[0][0], window, paging.block_tokens, paging)
        return Layout(own, (Pool(every * paging.block_tokens, (group,)),))
    tokens = paging.block_tokens
    if states and growing:
        widest = max(cache.entry_bytes / cache.stride for cache, _ in growing)
        largest = max(cache.state_bytes for cache, _ in states)
        tokens = max(tokens, ceil(largest / widest / ALIGNMENT) * ALIGNMENT)
    pages = [cache.entry_bytes / cache.stride * tokens for cache, _ in growing]
    page = max(pages) if pages else max(cache.state_bytes for cache, _ in states)
    counts = [count for _, count in (*growing, *states)]
    size = max(counts) if max(counts) < paging.widest_group * min(counts) else min(counts)
    groups: list[Group] = []
    for (cache, count), own_page in zip(growing, pages, strict=True):
        # a kind with smaller entries holds more tokens in a block of the same size
        held = tokens * int(page / own_page)
        groups += [_group(cache, cache.window, held, paging)] * ceil(count / size)
    for _, count in states:
        groups += [Group(0, more=paging.state_blocks)] * ceil(count / size)
    return Layout(own, (Pool(page * size, tuple(groups)),))


def _group(cache: LayerCache, window: int | None, tokens: int, paging: Paging) -> Group:
    if window is None:
        return Group(tokens)
    if cache.kind == "chunked":
        return Group(tokens, window + paging.batched_tokens)
    return Group(tokens, window - 1 + paging.batched_tokens, more=1)


def sglang_layout(kinds: Iterable[tuple[LayerCache, int]]) -> Layout:
    """A pool of single tokens for full layers, one for sliding layers, slots for recurrent states."""
    own = tuple(kinds)
    full = sum(cache.entry_bytes / cache.stride * count for cache, count in own if cache.window is None)
    sliding = sum(cache.entry_bytes / cache.stride * count for cache, count in own if cache.window)
    state = sum(cache.state_bytes * count for cache, count in own)
    window = max((cache.window for cache, _ in own if cache.window), default=None)
    keys = 1 / (1 + SGLANG_STATE_RATIO) if state and full + sliding else 1.0
    slid = (SGLANG_SLIDING_SHARE if full else 1.0) * sliding
    pools = []
    if full:
        pools.append(Pool(full, (Group(1),), keys * full / (full + slid)))
    if sliding:
        pools.append(Pool(sliding, (Group(1, window),), keys * slid / (full + slid)))
    if state:
        pools.append(Pool(state, (Group(0, more=1),), 1 - keys if pools else 1.0))
    return Layout(own, tuple(pools))


def trtllm_layout(kinds: Iterable[tuple[LayerCache, int]], block_tokens: int, max_model_len: int) -> Layout:
    """A pool for each window, memory parted as one sequence of full length needs it; states beside."""
    own = tuple(kinds)
    entries: dict[int | None, float] = defaultdict(float)
    for cache, count in own:
        if cache.entry_bytes:
            entries[cache.window] += cache.entry_bytes / cache.stride * count
    state = sum(cache.state_bytes * count for cache, count in own)
    made = [
        Pool(entry * block_tokens, (Group(block_tokens, window),))
        for window, entry in sorted(entries.items(), key=lambda item: item[0] or max_model_len + 1)[::-1]
    ]
    if state:
        made.append(Pool(state, (Group(0, more=1),)))
    needed = [pool.block_bytes * pool.blocks_for(max_model_len) for pool in made]
    return Layout(
        own,
        tuple(
            Pool(pool.block_bytes, pool.groups, part / sum(needed))
            for pool, part in zip(made, needed, strict=True)
        ),
    )
