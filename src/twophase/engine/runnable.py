"""Which models the engine has kernels for."""

from collections.abc import Iterator

from twophase.errors import InputError
from twophase.model.mixers import Attention, Mixer
from twophase.model.spec import MLP, FeedForward, ModelSpec

ACTIVATIONS = ("silu", "gelu_tanh")
ROPES = ("default", "linear", "llama3")


def require_runnable(spec: ModelSpec) -> None:
    """InputError where the engine has no kernel for what the model does, and names it."""
    for unknown in _unknown(spec):
        raise InputError(
            f"the engine does not run {spec.name}'s {unknown}; it runs grouped-query attention with rotary "
            f"embeddings and gated MLPs ({' or '.join(ACTIVATIONS)}) behind RMS norms"
        )


def _unknown(spec: ModelSpec) -> Iterator[str]:
    if (spec.norm, spec.logit_softcap, spec.head_bias, spec.extra) != ("rms", None, False, ()):
        yield "norms, capped logits or weights beside the layers"
    for layer in dict.fromkeys(spec.layers):
        if len(layer.mixers) != 1:
            yield "layers of one block, or of mixers side by side"
        yield from _unknown_mixing(layer.mixers[0])
        yield from _unknown_feed_forward(layer.feed_forward)
        if layer.norms not in ("before", "around") or layer.extra:
            yield "norms and weights of a layer"


def _unknown_mixing(own: Mixer) -> Iterator[str]:
    """Any trait beyond those that are given here again has no kernel."""
    if not isinstance(own, Attention):
        yield f"way of mixing tokens ({type(own).__name__})"
    elif own.rope is None or own.rope.scaling not in ROPES or own.rope.share != 1:
        yield f"positions ({own.rope.scaling if own.rope else 'not rotary'})"
    elif own != Attention(
        heads=own.heads,
        kv_heads=own.kv_heads,
        head_dim=own.head_dim,
        scale=own.scale,
        rope=own.rope,
        window=own.window,
        qkv_bias=own.qkv_bias,
        out_bias=own.out_bias,
        qk_norm=own.qk_norm,
    ):
        yield "kind of attention"


def _unknown_feed_forward(own: FeedForward | None) -> Iterator[str]:
    if not isinstance(own, MLP):
        yield "mixture of experts" if own else "layers without a feed-forward block"
    elif own.activation not in ACTIVATIONS or not own.gated:
        yield f"activation {own.activation}" + ("" if own.gated else " without a gate")
