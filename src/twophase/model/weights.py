"""Every weight of a network, by name, shape and use. Whatever is counted, stored or dealt out starts here."""

from collections.abc import Iterator
from dataclasses import replace

from twophase.model import attention_weights, recurrent_weights
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
from twophase.model.spec import MLP, NORMS, FeedForward, Layer, ModelSpec, NormKind, Part, Weight

NORM_VECTORS: dict[NormKind, int] = {"rms": 1, "layer": 2, "layer-no-bias": 1, "none": 0}


def outer_weights(spec: ModelSpec) -> tuple[Weight, ...]:
    """What stands outside the layers; the head is there once more where it is tied to the embedding."""
    d, vocabulary, width = spec.d_model, spec.vocab_size, spec.embedding_dim or spec.d_model
    return (
        Weight("embed_tokens", "embedding", vocabulary, width, table=True, split="outputs"),
        *spec.extra,
        Weight("norm", "norms", d * NORM_VECTORS[spec.norm] * spec.final_norm),
        Weight("lm_head", "head", vocabulary, width, split="outputs"),
        *(Weight("lm_head.bias", "head", vocabulary, split="outputs"),) * spec.head_bias,
    )


def layer_weights(layer: Layer, d_model: int, norm: NormKind) -> tuple[Weight, ...]:
    vectors = d_model * NORMS[layer.norms] * NORM_VECTORS[norm]
    return (
        *(weight for mixer in layer.mixers for weight in mixer_weights(mixer, d_model)),
        *(feed_forward_weights(layer.feed_forward, d_model) if layer.feed_forward else ()),
        *(Weight("norms", "norms", vectors),) * (vectors > 0),
        *layer.extra,
    )


def feed_forward_weights(own: FeedForward, d: int) -> tuple[Weight, ...]:
    if isinstance(own, MLP):
        return tuple(_mlp("mlp", "mlp", own, d))
    width = own.latent or d
    router = [Weight("mlp.gate", "mlp", own.experts, d)]
    if own.router_bias:
        router.append(Weight("mlp.gate.bias", "mlp", own.experts))
    if own.latent:
        router += [
            Weight("mlp.fc1_latent_proj", "mlp", own.latent, d),
            Weight("mlp.fc2_latent_proj", "mlp", d, own.latent),
        ]
    experts = [
        replace(weight, copies=own.experts, used=own.top_k)
        for weight in _mlp("mlp.experts.0", "experts", own.expert, width)
    ]
    shared = list(_mlp("mlp.shared_experts", "mlp", own.shared, d)) if own.shared else []
    if own.shared_gate:
        shared.append(Weight("mlp.shared_expert_gate", "mlp", 1, d))
    return (*router, *experts, *shared)


def _mlp(at: str, part: Part, own: MLP, d: int) -> Iterator[Weight]:
    if own.gated:
        yield Weight(f"{at}.gate_proj", part, own.d_ff, d, split="outputs")
    yield Weight(f"{at}.up_proj", part, own.d_ff, d, split="outputs")
    yield Weight(f"{at}.down_proj", part, d, own.d_ff, split="inputs")
    if own.bias:
        yield Weight(f"{at}.up_proj.bias", part, own.d_ff * (2 if own.gated else 1), split="outputs")
        yield Weight(f"{at}.down_proj.bias", part, d)


def mixer_weights(mixer: Mixer, d: int) -> Iterator[Weight]:
    match mixer:
        case Attention():
            yield from attention_weights.attention(mixer, d)
        case LatentAttention():
            yield from attention_weights.latent_attention(mixer, d)
        case CompressedAttention():
            yield from attention_weights.compressed_attention(mixer, d)
        case GatedDelta():
            yield from recurrent_weights.gated_delta(mixer, d)
        case KimiDelta():
            yield from recurrent_weights.kimi_delta(mixer, d)
        case Mamba2():
            yield from recurrent_weights.mamba2(mixer, d)
        case Mamba():
            yield from recurrent_weights.mamba(mixer, d)
        case LightningAttention():
            yield from recurrent_weights.lightning_attention(mixer, d)
        case ShortConvolution():
            yield from recurrent_weights.short_convolution(mixer, d)
