"""Which models the engine runs: families that were held against transformers, and traits with kernels."""

from collections.abc import Iterator

from twophase.errors import InputError
from twophase.kernels.rows import ACTIVATIONS
from twophase.model.mixers import Attention, Mixer
from twophase.model.spec import FeedForward, ModelSpec, MoE

# A description holds what counting needs. That nothing else changes a result was seen for these.
FAMILIES = (
    *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "gpt2"),
    *("granite", "olmo2", "olmo3", "starcoder2", "stablelm", "smollm3", "seed_oss", "arcee", "helium"),
    "ernie4_5",
    *("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "granitemoe", "granitemoeshared"),
)
ROPES = ("default", "linear", "llama3", "longrope")


def require_runnable(spec: ModelSpec) -> None:
    """InputError where the engine has no kernel for what the model does, and names it."""
    for unknown in _unknown(spec):
        raise InputError(f"the engine does not run {spec.name}'s {unknown}")
    if spec.family not in FAMILIES:
        raise InputError(
            f"the engine does not run {spec.name}: {spec.family} was not held against its own library, as "
            f"{', '.join(FAMILIES[:-1])} and {FAMILIES[-1]} were"
        )


def _unknown(spec: ModelSpec) -> Iterator[str]:
    if spec.norm == "none":
        yield "norms without weights"
    if spec.embedding_dim:
        yield f"embedding of {spec.embedding_dim} dimensions in a model of {spec.d_model}"
    for weight in spec.extra:
        if weight.name != "embed_positions":
            yield f"weights beside the layers ({weight.name})"
    for layer in dict.fromkeys(spec.layers):
        if len(layer.mixers) != 1:
            yield "layers of one block, or of mixers side by side"
        yield from _unknown_mixing(layer.mixers[0], spec)
        yield from _unknown_feed_forward(layer.feed_forward)
        if layer.norms not in ("before", "after", "around"):
            yield f"norms of a layer ({layer.norms})"
        for weight in layer.extra:
            yield f"weights beside attention and MLP ({weight.name})"


def _unknown_mixing(own: Mixer, spec: ModelSpec) -> Iterator[str]:
    """Any trait beyond those that are given here again has no kernel."""
    if not isinstance(own, Attention):
        yield f"way of mixing tokens ({type(own).__name__})"
    elif own.rope and own.rope.scaling not in ROPES:
        yield f"positions ({own.rope.scaling})"
    elif own.qk_norm_wide and spec.norm != "rms":
        yield "layer norms of queries and keys"
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
        qk_norm_wide=own.qk_norm_wide,
        softcap=own.softcap,
    ):
        yield "kind of attention"


def _unknown_feed_forward(own: FeedForward | None) -> Iterator[str]:
    if own is None:
        yield "layers without a feed-forward block"
    elif isinstance(own, MoE):
        yield from _unknown_mixture(own)
    elif own.activation not in ACTIVATIONS:
        yield f"activation {own.activation}"


def _unknown_mixture(own: MoE) -> Iterator[str]:
    if own.router_bias or own.latent or own.expert.bias:
        yield "mixture of experts with biases, or in a width of its own"
    yield from _unknown_feed_forward(own.expert)
    yield from _unknown_feed_forward(own.shared or own.expert)
