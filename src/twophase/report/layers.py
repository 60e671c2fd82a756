"""A network's layers in words: what each kind does, and the order in which they stand."""

from collections import Counter
from itertools import groupby

from twophase.model.mixers import (
    Attention,
    CompressedAttention,
    GatedDelta,
    KimiDelta,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixer,
    ShortConvolution,
)
from twophase.model.spec import MLP, FeedForward, Layer


def pattern(layers: tuple[Layer, ...]) -> list[str]:
    """A line for each run of like layers; a run of layers that repeats is said once."""
    period = _period(layers)
    runs = [(len(list(run)), layer) for layer, run in groupby(layers[:period])]
    repeats = len(layers) // period
    if repeats > 1 and len(runs) > 1:
        inner = [f"  {count} × {describe(layer)}" for count, layer in runs]
        return [f"{repeats} times", *inner]
    if len(runs) <= 8:
        return [f"{count if repeats == 1 else len(layers)} × {describe(layer)}" for count, layer in runs]
    return [f"{count} × {describe(layer)}" for layer, count in Counter(layers).items()]


def _period(layers: tuple[Layer, ...]) -> int:
    """The shortest run of layers of which the network is a repetition; all of them where it is none."""
    number = {layer: i for i, layer in enumerate(dict.fromkeys(layers))}
    order = [number[layer] for layer in layers]
    for size in range(1, len(order) // 2 + 1):
        if len(order) % size == 0 and order == order[:size] * (len(order) // size):
            return size
    return len(order)


def describe(layer: Layer) -> str:
    parts = [" beside ".join(map(mixer_words, layer.mixers))] if layer.mixers else []
    parts += [feed_forward_words(layer.feed_forward)] if layer.feed_forward else []
    return "; ".join(parts) or "nothing"


def mixer_words(mixer: Mixer) -> str:
    match mixer:
        case Attention():
            words = _attention_words(mixer)
        case LatentAttention(heads=heads, kv_rank=rank, rope_dim=rope):
            words = f"latent attention, {heads} heads, cache {rank} + {rope} a token"
            words += _sparse(mixer.top_k, mixer.indexer is None)
        case CompressedAttention(heads=heads, window=window, ratio=ratio, top_k=top_k):
            words = f"compressed attention, {heads} heads, window {window:,}"
            words += f", {ratio} tokens an entry beyond" if ratio else ""
            words += f", of which the best {top_k:,}" if top_k else ""
        case GatedDelta(value_heads=heads, key_dim=key, value_dim=value):
            words = f"gated delta rule, {heads} heads of {key} × {value} state"
        case KimiDelta(heads=heads, key_dim=key, value_dim=value):
            words = f"Kimi delta attention, {heads} heads of {key} × {value} state"
        case Mamba2(heads=heads, head_dim=dim, state_dim=state):
            words = f"Mamba-2, {heads} heads of {dim} × {state} state"
        case Mamba(inner=inner, state_dim=state):
            words = f"Mamba, {inner:,} × {state} state"
        case LightningAttention(heads=heads, head_dim=dim):
            words = f"lightning attention, {heads} heads of {dim} × {dim} state"
        case ShortConvolution(kernel=kernel):
            words = f"short convolution of {kernel} tokens"
    return words


def _attention_words(own: Attention) -> str:
    shared = "" if own.kv_heads == own.heads else f" over {own.kv_heads}"
    wide = f"{own.head_dim}" if own.value_dim == own.head_dim else f"{own.head_dim} (values {own.value_dim})"
    reach = f", window {own.window:,}" if own.window else f", chunks of {own.chunk:,}" if own.chunk else ""
    borrowed = ", keys and values of an earlier layer" if own.borrows_kv else ""
    sparse = _sparse(own.top_k, own.indexer is None)
    return f"attention, {own.heads} heads{shared} of {wide}{reach}{borrowed}{sparse}"


def _sparse(top_k: int | None, reused: bool) -> str:
    if not top_k:
        return ""
    return f", the best {top_k:,} tokens" + (" of an earlier layer's pick" if reused else "")


def feed_forward_words(own: FeedForward) -> str:
    if isinstance(own, MLP):
        return f"MLP {own.d_ff:,}"
    shared = f" and {own.shared.d_ff:,} shared" if own.shared else ""
    latent = f" in a width of {own.latent:,}" if own.latent else ""
    return f"{own.top_k} of {own.experts} experts of {own.expert.d_ff:,}{latent}{shared}"
