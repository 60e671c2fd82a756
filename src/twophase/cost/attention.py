"""What mixing tokens costs beside its projections: pairs of query and key, KV cache and state, span by span.

Counted exactly, each cached entry read once a pass; of those that are picked, what one row picks at the
least, itself among them. Where a mixer can be computed in several ways, the one with the fewest FLOPs counts.
A recurrence counts as its step by step form.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twophase.model.cache import INDEX_KEY_BYTES, INDEX_SCALE_BYTES, mixer_caches, state_elements
from twophase.model.mixers import (
    Attention,
    CompressedAttention,
    GatedDelta,
    Indexer,
    KimiDelta,
    LatentAttention,
    Mixer,
    Recurrent,
)

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mixing:
    """Of one layer and one device, one element a span."""

    flops: NDArray[np.floating[Any]]
    read_bytes: NDArray[np.floating[Any]]
    written_bytes: NDArray[np.floating[Any]]

    def __add__(self, other: "Mixing") -> "Mixing":
        return Mixing(
            self.flops + other.flops,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


def visible_pairs(new: Ints, context: Ints, window: int | None) -> Ints:
    """(query, key) pairs of each span: a row sees itself and all before it, `window` tokens at the most."""
    if window is None:
        return np.asarray(new * context + new * (new + 1) // 2)
    first = np.minimum(context + 1, window)  # keys that the first row sees
    growing = np.minimum(new, window - first)  # rows, after which every row sees the whole window
    before = growing * first + growing * (growing - 1) // 2
    return np.asarray(before + (new - growing) * window)


def chunked_pairs(new: Ints, context: Ints, chunk: int) -> Ints:
    """Pairs where a row sees itself and what stands before it in its own chunk of tokens."""

    def up_to(rows: Ints) -> Ints:
        whole, rest = np.divmod(rows, chunk)
        return np.asarray(whole * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2)

    return np.asarray(up_to(context + new) - up_to(context))


def compressed_pairs(new: Ints, context: Ints, ratio: int, top_k: int | None) -> Ints:
    """Pairs of a row with the entries that stand for `ratio` tokens each, complete at that row."""

    def up_to(rows: Ints) -> Ints:
        capped = rows if top_k is None else np.minimum(rows, top_k * ratio)
        whole, rest = np.divmod(capped, ratio)
        within = ratio * whole * (whole - 1) // 2 + whole * (rest + 1)
        return np.asarray(within + (rows - capped) * (top_k or 0))

    return np.asarray(up_to(context + new) - up_to(context))


def mixing(mixer: Mixer, new: Ints, context: Ints, kv_bytes: float = 2.0, tp: int = 1) -> Mixing:
    """new and context: rows and cached tokens of each span; kv_bytes: an element's of the cache."""
    match mixer:
        case Attention():
            return _attention(mixer, new, context, kv_bytes, tp)
        case LatentAttention():
            return _latent(mixer, new, context, kv_bytes, tp)
        case CompressedAttention():
            return _compressed(mixer, new, context, kv_bytes, tp)
        case _:
            return _recurrent(mixer, new, context, tp)


def _attention(own: Attention, new: Ints, context: Ints, kv_bytes: float, tp: int) -> Mixing:
    window = own.window
    if own.chunk:
        pairs, kept = chunked_pairs(new, context, own.chunk), context % own.chunk
        stored = np.minimum(new, (context + new) % own.chunk)  # who comes next sees its own chunk only
    else:
        pairs = visible_pairs(new, context, window)
        # who comes next sees window - 1 tokens before itself: no more need be kept
        kept = context if window is None else np.minimum(context, window - 1)
        stored = new if window is None else np.minimum(new, window - 1)
    index = _index(own.indexer, new, context, visible_pairs(new, context, None))
    if own.top_k:
        pairs, kept = visible_pairs(new, context, own.top_k), np.minimum(kept, own.top_k - 1)
    entry = sum(cache.entry_bytes for cache in mixer_caches(own, kv_bytes, tp) if cache.kind != "index")
    flops = 2.0 * ceil(own.heads / tp) * (own.head_dim + own.value_dim) * pairs
    return Mixing(flops, kept * entry, stored * entry) + index


def _latent(own: LatentAttention, new: Ints, context: Ints, kv_bytes: float, tp: int) -> Mixing:
    """Decompressed, a span also widens the cached vectors of its context; absorbed, it multiplies by them."""
    heads = ceil(own.heads / tp)
    seen = visible_pairs(new, context, own.top_k)
    kept = context if own.top_k is None else np.minimum(context, own.top_k - 1)
    decompressed = 2.0 * heads * (own.nope_dim + own.rope_dim + own.v_dim) * seen
    decompressed += 2.0 * own.kv_rank * heads * (own.nope_dim + own.v_dim) * kept
    absorbed = 2.0 * heads * (2 * own.kv_rank + own.rope_dim) * seen
    entry = (own.kv_rank + own.rope_dim) * kv_bytes
    index = _index(own.indexer, new, context, visible_pairs(new, context, None))
    return Mixing(np.minimum(decompressed, absorbed), kept * entry, new * entry) + index


def _compressed(own: CompressedAttention, new: Ints, context: Ints, kv_bytes: float, tp: int) -> Mixing:
    entry = own.head_dim * kv_bytes
    pairs = visible_pairs(new, context, own.window)
    read = np.minimum(context, own.window - 1) * entry
    written = np.minimum(new, own.window - 1) * entry
    index = _index(None, new, context, pairs)
    if own.ratio:
        pairs = pairs + compressed_pairs(new, context, own.ratio, own.top_k)
        entries, made = context // own.ratio, (context + new) // own.ratio - context // own.ratio
        first = (context + 1) // own.ratio  # what the first row sees, one of them perhaps its own
        picked = entries if own.top_k is None else np.minimum(first, own.top_k) - (first - entries)
        read = read + picked * entry
        written = written + made * entry
        scored = compressed_pairs(new, context, own.ratio, None)
        index = _index(own.indexer, made, entries, scored)
    flops = 4.0 * ceil(own.heads / tp) * own.head_dim * pairs
    return Mixing(flops, read, written) + index


def _index(own: Indexer | None, new: Ints, context: Ints, pairs: Ints) -> Mixing:
    """Every key is scored, whole on each device, before the best are picked."""
    if own is None:
        nothing = np.zeros(np.broadcast(new, context).shape)
        return Mixing(nothing, nothing, nothing)
    key = own.dim * INDEX_KEY_BYTES + INDEX_SCALE_BYTES
    return Mixing(2.0 * own.heads * own.dim * pairs, context * float(key), new * float(key))


def _recurrent(own: Recurrent, new: Ints, context: Ints, tp: int) -> Mixing:
    """The state is read where there is one, and written once a pass."""
    state, convolved, kernel = state_elements(own)
    flops = (_update_flops(own) * state + 2.0 * convolved * kernel) / tp
    (held,) = mixer_caches(own, tp=tp)
    return Mixing(flops * new, (context > 0) * held.state_bytes, (new > 0) * held.state_bytes)


def _update_flops(own: Recurrent) -> float:
    """FLOPs a row and an element of the state: it is read out, and added to; a delta rule reads it twice."""
    return 6.0 if isinstance(own, GatedDelta | KimiDelta) else 4.0
