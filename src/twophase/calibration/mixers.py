"""What mixing tokens does, as a few numbers a row, a span, a token of context and a (query, key) pair.

One device's, of one layer. cost.attention counts the same exactly, span by span; here a span that picks
top_k tokens sees a window of them, and a chunk of attention (Llama 4) is a window, too.
"""

from dataclasses import dataclass
from math import ceil
from typing import Literal

from twophase.model.cache import (
    INDEX_KEY_BYTES,
    INDEX_SCALE_BYTES,
    mixer_caches,
    state_elements,
)
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

Kind = Literal["attention", "latent", "index", "recurrence"]


@dataclass(frozen=True, slots=True)
class Mix:
    kind: Kind
    window: int = 0  # tokens that a row sees, itself included; 0: all
    pair_flops: float = 0.0  # of a span of many rows, the least of a mixer's forms
    decode_pair_flops: float = 0.0  # of a span of few
    token_flops: float = 0.0  # of widening a cached token before a span of many rows reads it
    token_bytes: float = 0.0  # of the cache, read; a new row writes as many
    row_flops: float = 0.0
    span_bytes: float = 0.0  # a state, read and written
    io_bytes: float = 0.0  # of activations that a row of a recurrence reads and writes
    heads: int = 1  # of queries, on this device
    kv_heads: int = 1
    head_dim: int = 128


def mixes(mixer: Mixer, kv_bytes: float, tp: int) -> tuple[Mix, ...]:
    match mixer:
        case Attention():
            return _attention(mixer, kv_bytes, tp)
        case LatentAttention():
            return _latent(mixer, kv_bytes, tp)
        case CompressedAttention():
            return _compressed(mixer, kv_bytes, tp)
        case _:
            return (_recurrent(mixer, tp),)


def _attention(own: Attention, kv_bytes: float, tp: int) -> tuple[Mix, ...]:
    heads, kv_heads = ceil(own.heads / tp), ceil(own.kv_heads / tp)
    flops = 2.0 * heads * (own.head_dim + own.value_dim)
    entry = kv_heads * (own.head_dim + own.value_dim) * kv_bytes
    limits = [each for each in (own.window, own.chunk, own.top_k) if each]
    main = Mix(
        kind="attention",
        window=min(limits, default=0),
        pair_flops=flops,
        decode_pair_flops=flops,
        token_bytes=entry,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=own.head_dim,
    )
    return (main, *_index(own.indexer))


def _latent(own: LatentAttention, kv_bytes: float, tp: int) -> tuple[Mix, ...]:
    heads = ceil(own.heads / tp)
    entry = (own.kv_rank + own.rope_dim) * kv_bytes
    main = Mix(
        kind="latent",
        window=own.top_k or 0,
        pair_flops=2.0 * heads * (own.nope_dim + own.rope_dim + own.v_dim),
        decode_pair_flops=2.0 * heads * (2 * own.kv_rank + own.rope_dim),
        token_flops=2.0 * own.kv_rank * heads * (own.nope_dim + own.v_dim),
        token_bytes=entry,
        heads=heads,
        head_dim=own.kv_rank + own.rope_dim,
    )
    return (main, *_index(own.indexer))


def _compressed(own: CompressedAttention, kv_bytes: float, tp: int) -> tuple[Mix, ...]:
    """One entry stands for `ratio` tokens: a token costs its share of it."""
    heads = ceil(own.heads / tp)
    flops, entry = 4.0 * heads * own.head_dim, own.head_dim * kv_bytes
    near = Mix(
        kind="attention",
        window=own.window,
        pair_flops=flops,
        decode_pair_flops=flops,
        token_bytes=entry,
        heads=heads,
        head_dim=own.head_dim,
    )
    if not own.ratio:
        return (near,)
    far = Mix(
        kind="attention",
        window=(own.top_k or 0) * own.ratio,
        pair_flops=flops / own.ratio,
        decode_pair_flops=flops / own.ratio,
        token_bytes=entry / own.ratio,
        heads=heads,
        head_dim=own.head_dim,
    )
    return (near, far, *_index(own.indexer, own.ratio))


def _index(own: Indexer | None, ratio: int = 1) -> tuple[Mix, ...]:
    """Every cached key is scored, whole on each device."""
    if own is None:
        return ()
    flops, key = 2.0 * own.heads * own.dim / ratio, (own.dim * INDEX_KEY_BYTES + INDEX_SCALE_BYTES) / ratio
    return (
        Mix(
            kind="index",
            pair_flops=flops,
            decode_pair_flops=flops,
            token_bytes=key,
            heads=own.heads,
            head_dim=own.dim,
        ),
    )


def _recurrent(own: Recurrent, tp: int) -> Mix:
    """A delta rule reads its state twice; that is cost.attention's count, too."""
    state, convolved, kernel = state_elements(own)
    update = 6.0 if isinstance(own, GatedDelta | KimiDelta) else 4.0
    (held,) = mixer_caches(own, tp=tp)
    return Mix(
        kind="recurrence",
        row_flops=(update * state + 2.0 * convolved * kernel) / tp,
        span_bytes=2.0 * held.state_bytes,
        io_bytes=4.0 * convolved / tp,
    )
