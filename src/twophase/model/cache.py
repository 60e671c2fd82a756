"""What a model remembers of a sequence: KV cache that grows with its tokens, and state that does not.

Conventions: a sliding layer keeps its window's tokens at the most; multi-head latent attention keeps the
compressed vector (DeepSeek-V2), not heads; a recurrence keeps its state in float32 and its convolution's last
inputs in the activations' 16 bits, as vLLM and transformers do.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from twophase.model.mixers import (
    Attention,
    CompressedAttention,
    GatedDelta,
    Indexer,
    KimiDelta,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixer,
    Recurrent,
    ShortConvolution,
)
from twophase.model.spec import ModelSpec

STATE_BYTES, CONVOLUTION_BYTES = 4, 2
INDEX_KEY_BYTES = 1  # of an indexer's cached key: FP8, with a 32-bit scale a key (vLLM, SGLang)
INDEX_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one mixer of one layer keeps of a sequence, on one device, in bytes."""

    entry_bytes: float = 0.0  # for each token that is kept; 0: no cache that grows
    window: int | None = None  # tokens kept at the most; None: all
    stride: int = 1  # one entry stands for so many tokens (compressed attention)
    state_bytes: float = 0.0  # whatever the length
    kind: str = "full"  # full, sliding, chunked, latent, index, compressed, state

    def bytes_at(self, context: int) -> float:
        kept = context if self.window is None else min(context, self.window)
        return self.state_bytes + self.entry_bytes * (kept // self.stride)


def caches(spec: ModelSpec, kv_bytes: float = 2.0, tp: int = 1) -> Counter[LayerCache]:
    """Kinds of cache, and how many layers have each; kv_bytes: an element's; tp: devices that share heads."""
    found: Counter[LayerCache] = Counter()
    for layer, count in Counter(spec.layers).items():
        for mixer in layer.mixers:
            for cache in mixer_caches(mixer, kv_bytes, tp):
                found[cache] += count
    return found


def mixer_caches(mixer: Mixer, kv_bytes: float = 2.0, tp: int = 1) -> tuple[LayerCache, ...]:
    """A device holds at least one key-value head; what is shared by all heads is whole on each."""
    match mixer:
        case Attention(borrows_kv=True):
            return ()
        case Attention():
            entry = ceil(mixer.kv_heads / tp) * (mixer.head_dim + mixer.value_dim) * kv_bytes
            kind = "sliding" if mixer.window else "chunked" if mixer.chunk else "full"
            own = LayerCache(entry, mixer.window or mixer.chunk, kind=kind)
            return (own, *_index(mixer.indexer))
        case LatentAttention():
            entry = (mixer.kv_rank + mixer.rope_dim) * kv_bytes
            return (LayerCache(entry, kind="latent"), *_index(mixer.indexer))
        case CompressedAttention():
            entry = mixer.head_dim * kv_bytes
            raw = LayerCache(entry, mixer.window, kind="sliding")
            packed = (LayerCache(entry, stride=mixer.ratio, kind="compressed"),) if mixer.ratio else ()
            return (raw, *packed, *_index(mixer.indexer, mixer.ratio))
        case _:
            return (LayerCache(state_bytes=_state_bytes(mixer, tp), kind="state"),)


def _index(indexer: Indexer | None, stride: int = 1) -> tuple[LayerCache, ...]:
    if indexer is None:
        return ()
    entry = indexer.dim * INDEX_KEY_BYTES + INDEX_SCALE_BYTES
    return (LayerCache(entry, stride=stride, kind="index"),)


def _state_bytes(mixer: Recurrent, tp: int) -> float:
    state, convolved, kernel = state_elements(mixer)
    return (state * STATE_BYTES + convolved * (kernel - 1) * CONVOLUTION_BYTES) / tp


def state_elements(mixer: Recurrent) -> tuple[int, int, int]:
    """(elements of the recurrent state, width that is convolved, the convolution's taps)."""
    match mixer:
        case GatedDelta(key_heads, value_heads, key_dim, value_dim, kernel):
            return (
                value_heads * key_dim * value_dim,
                2 * key_heads * key_dim + value_heads * value_dim,
                kernel,
            )
        case KimiDelta(heads, key_dim, value_dim, kernel):
            return heads * key_dim * value_dim, heads * (2 * key_dim + value_dim), kernel
        case Mamba2(heads, head_dim, groups, state_dim, kernel):
            return heads * head_dim * state_dim, heads * head_dim + 2 * groups * state_dim, kernel
        case Mamba(inner, state_dim, _, kernel):
            return inner * state_dim, inner, kernel
        case LightningAttention(heads, head_dim):
            return heads * head_dim * head_dim, 0, 1
        case ShortConvolution(width, kernel):
            return 0, width, kernel


def kv_bytes_per_token(spec: ModelSpec, bytes_per_element: float = 2.0) -> float:
    """Of all layers, while no window is reached."""
    return sum(
        cache.entry_bytes / cache.stride * count for cache, count in caches(spec, bytes_per_element).items()
    )


def kv_bytes_per_token_unbounded(spec: ModelSpec, bytes_per_element: float = 2.0) -> float:
    """Of the layers that keep every token: what goes on growing."""
    return sum(
        cache.entry_bytes / cache.stride * count
        for cache, count in caches(spec, bytes_per_element).items()
        if cache.window is None
    )


def state_bytes(spec: ModelSpec) -> float:
    """Of one sequence: what recurrent layers keep, whatever its length."""
    return sum(cache.state_bytes * count for cache, count in caches(spec).items())


def kv_bytes(spec: ModelSpec, context: int, bytes_per_element: float = 2.0, tp: int = 1) -> float:
    """KV cache and state of one sequence of `context` tokens, on one of `tp` devices."""
    return sequence_bytes(caches(spec, bytes_per_element, tp).items(), context)


def sequence_bytes(kinds: Iterable[tuple[LayerCache, int]], context: int) -> float:
    return sum(cache.bytes_at(context) * count for cache, count in kinds)
