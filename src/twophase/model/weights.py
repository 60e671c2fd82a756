"""Every weight of a network, by name, shape and use. Whatever is counted, stored or dealt out starts here."""

from collections.abc import Iterator
from dataclasses import replace

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


def mixer_weights(mixer: Mixer, d: int) -> tuple[Weight, ...]:
    """d: d_model, what goes in and comes out."""
    return tuple(_mixer_weights(mixer, d))


def _mixer_weights(mixer: Mixer, d: int) -> Iterator[Weight]:
    match mixer:
        case Attention():
            yield from _attention(mixer, d)
        case LatentAttention():
            yield from _latent_attention(mixer, d)
        case CompressedAttention():
            yield from _compressed_attention(mixer, d)
        case GatedDelta():
            yield from _gated_delta(mixer, d)
        case KimiDelta():
            yield from _kimi_delta(mixer, d)
        case Mamba2():
            yield from _mamba2(mixer, d)
        case Mamba():
            yield from _mamba(mixer, d)
        case LightningAttention():
            yield from _lightning_attention(mixer, d)
        case ShortConvolution():
            yield from _short_convolution(mixer, d)


def _attention(own: Attention, d: int) -> Iterator[Weight]:
    heads, kv_heads, at = own.heads, own.kv_heads, "self_attn."
    queries, keys = heads * own.head_dim, kv_heads * own.head_dim
    values, out = kv_heads * own.value_dim, heads * own.value_dim
    gate = {"none": 0, "element": out, "head": heads}[own.gate]

    def projection(name: str, outputs: int, units: int) -> Iterator[Weight]:
        yield Weight(at + name, "attention", outputs, d, split="outputs", units=units)
        if own.qkv_bias:
            yield Weight(f"{at}{name}.bias", "attention", outputs, split="outputs", units=units)

    yield from projection("q_proj", queries, heads)
    if gate:
        yield Weight(at + "g_proj", "attention", gate, d, split="outputs", units=heads)
    if not own.borrows_kv:
        yield from projection("k_proj", keys, kv_heads)
        if not own.keys_are_values:
            yield from projection("v_proj", values, kv_heads)
    yield Weight(at + "o_proj", "attention", d, out, split="inputs", units=heads)
    if own.out_bias:
        yield Weight(at + "o_proj.bias", "attention", d)
    if own.qk_norm or own.qk_norm_wide:
        wide = own.qk_norm_wide
        yield Weight(at + "q_norm", "norms", queries if wide else own.head_dim)
        if not own.borrows_kv:
            yield Weight(at + "k_norm", "norms", keys if wide else own.head_dim)
    if own.sinks:
        yield Weight(at + "sinks", "attention", heads, split="outputs", units=heads)
    if own.indexer:
        yield from _indexer(own.indexer, d)


def _indexer(own: Indexer, d: int) -> Iterator[Weight]:
    at = "self_attn.indexer."
    yield Weight(at + "wq_b", "attention", own.heads * own.dim, own.query_rank or d)
    yield Weight(at + "wk", "attention", own.dim, d)
    yield Weight(at + "k_norm", "norms", 2 * own.dim)  # a layer norm, or an RMS norm of both
    if own.weighted:
        yield Weight(at + "weights_proj", "attention", own.heads, d)


def _latent_attention(own: LatentAttention, d: int) -> Iterator[Weight]:
    heads, at = own.heads, "self_attn."
    queries = heads * (own.nope_dim + own.rope_dim)
    if own.query_rank:
        yield Weight(at + "q_a_proj", "attention", own.query_rank, d)
        yield Weight(at + "q_a_layernorm", "norms", own.query_rank)
        yield Weight(at + "q_b_proj", "attention", queries, own.query_rank, split="outputs", units=heads)
    else:
        yield Weight(at + "q_proj", "attention", queries, d, split="outputs", units=heads)
    yield Weight(at + "kv_a_proj_with_mqa", "attention", own.kv_rank + own.rope_dim, d)
    yield Weight(at + "kv_a_layernorm", "norms", own.kv_rank)
    pairs = heads * (own.nope_dim + own.v_dim)
    yield Weight(at + "kv_b_proj", "attention", pairs, own.kv_rank, split="outputs", units=heads)
    yield Weight(at + "o_proj", "attention", d, heads * own.v_dim, split="inputs", units=heads)
    if own.gate != "none":
        gate = heads * own.v_dim if own.gate == "element" else heads
        yield Weight(at + "g_proj", "attention", gate, d, split="outputs", units=heads)
    if own.bias:
        yield Weight(at + "o_proj.bias", "attention", d)
        yield Weight(at + "a_proj.bias", "attention", own.kv_rank + own.rope_dim + (own.query_rank or 0))
    if own.indexer:
        yield from _indexer(own.indexer, d)


def _compressed_attention(own: CompressedAttention, d: int) -> Iterator[Weight]:
    heads, at = own.heads, "self_attn."
    out = own.out_groups * own.out_rank
    yield Weight(at + "q_a_proj", "attention", own.query_rank, d)
    yield Weight(at + "q_a_norm", "norms", own.query_rank)
    queries = heads * own.head_dim
    yield Weight(at + "q_b_proj", "attention", queries, own.query_rank, split="outputs", units=heads)
    yield Weight(at + "kv_proj", "attention", own.head_dim, d)
    yield Weight(at + "kv_norm", "norms", own.head_dim)
    yield Weight(at + "o_a_proj", "attention", out, queries // own.out_groups, split="outputs", units=heads)
    yield Weight(at + "o_b_proj", "attention", d, out, split="inputs", units=heads)
    yield Weight(at + "sinks", "attention", heads)
    if own.ratio:
        yield from _compressor(at + "compressor.", own.head_dim, own, d)
    if own.indexer:
        yield from _compressor(at + "compressor.indexer.", own.indexer.dim, own, d)
        wide = own.indexer.heads * own.indexer.dim
        yield Weight(at + "compressor.indexer.q_b_proj", "attention", wide, own.query_rank)
        yield Weight(at + "compressor.indexer.scorer.weights_proj", "attention", own.indexer.heads, d)


def _compressor(at: str, dim: int, own: CompressedAttention, d: int) -> Iterator[Weight]:
    """Windows of an indexed layer overlap: they are projected twice as wide."""
    wide = 2 * dim if own.indexer else dim
    yield Weight(at + "kv_proj", "attention", wide, d)
    yield Weight(at + "gate_proj", "attention", wide, d)
    yield Weight(at + "position_bias", "attention", own.ratio * wide)
    yield Weight(at + "kv_norm", "norms", dim)


def _gated_delta(own: GatedDelta, d: int) -> Iterator[Weight]:
    keys, values, heads = own.key_heads * own.key_dim, own.value_heads * own.value_dim, own.value_heads
    at, units = "linear_attn.", own.key_heads
    if own.fused:
        yield _dealt(at + "in_proj_qkvz", 2 * keys + 2 * values, d, units)
        yield _dealt(at + "in_proj_ba", 2 * heads, d, units)
    else:
        yield _dealt(at + "in_proj_qkv", 2 * keys + values, d, units)
        yield _dealt(at + "in_proj_z", values, d, units)
        yield _dealt(at + "in_proj_b", heads, d, units)
        yield _dealt(at + "in_proj_a", heads, d, units)
    yield _dealt(at + "conv1d", (2 * keys + values) * own.kernel, 0, units)
    yield _dealt(at + "dt_bias", heads, 0, units)
    yield _dealt(at + "A_log", heads, 0, units)
    yield Weight(at + "norm", "norms", own.value_dim)
    yield Weight(at + "out_proj", "recurrent", d, values, split="inputs", units=units)


def _dealt(name: str, outputs: int, inputs: int, units: int) -> Weight:
    """A weight of a recurrence whose outputs are dealt out by heads."""
    return Weight(name, "recurrent", outputs, inputs, split="outputs", units=units)


def _kimi_delta(own: KimiDelta, d: int) -> Iterator[Weight]:
    keys, values, heads, at = own.heads * own.key_dim, own.heads * own.value_dim, own.heads, "self_attn."
    for name, width in (("q", keys), ("k", keys), ("v", values)):
        yield _dealt(f"{at}{name}_proj", width, d, heads)
        yield _dealt(f"{at}{name}_conv1d", width * own.kernel, 0, heads)
    yield Weight(at + "f_a_proj", "recurrent", own.key_dim, d)
    yield _dealt(at + "f_b_proj", keys, own.key_dim, heads)
    if own.full_gate:
        yield _dealt(at + "g_proj", values, d, heads)
    else:
        yield Weight(at + "g_a_proj", "recurrent", own.key_dim, d)
        yield _dealt(at + "g_b_proj", values, own.key_dim, heads)
    yield _dealt(at + "b_proj", heads, d, heads)
    yield _dealt(at + "A_log", heads, 0, heads)
    yield _dealt(at + "dt_bias", keys, 0, heads)
    yield Weight(at + "o_norm", "norms", own.value_dim)
    yield Weight(at + "o_proj", "recurrent", d, values, split="inputs", units=heads)


def _mamba2(own: Mamba2, d: int) -> Iterator[Weight]:
    inner, at, heads = own.heads * own.head_dim, "mixer.", own.heads
    mixed = inner + 2 * own.groups * own.state_dim  # what the convolution sees
    yield _dealt(at + "in_proj", inner + mixed + heads, d, heads)
    yield _dealt(at + "conv1d", mixed * (own.kernel + own.conv_bias), 0, heads)
    yield _dealt(at + "dt_bias", heads, 0, heads)
    yield _dealt(at + "A_log", heads, 0, heads)
    yield _dealt(at + "D", heads, 0, heads)
    if own.norm:
        yield Weight(at + "norm", "norms", inner)
    yield Weight(at + "out_proj", "recurrent", d, inner, split="inputs", units=heads)
    if own.bias:
        yield Weight(at + "bias", "recurrent", inner + mixed + heads + d)


def _mamba(own: Mamba, d: int) -> Iterator[Weight]:
    inner, at = own.inner, "mamba."
    low = own.dt_rank + 2 * own.state_dim
    yield _dealt(at + "in_proj", 2 * inner, d, inner)
    yield _dealt(at + "conv1d", inner * (own.kernel + own.conv_bias), 0, inner)
    yield Weight(at + "x_proj", "recurrent", low, inner, split="inputs")
    yield _dealt(at + "dt_proj", inner, own.dt_rank, inner)
    yield _dealt(at + "dt_proj.bias", inner, 0, inner)
    yield _dealt(at + "A_log", inner * own.state_dim, 0, inner)
    yield _dealt(at + "D", inner, 0, inner)
    if own.norms:
        yield Weight(at + "layernorms", "norms", low)
    yield Weight(at + "out_proj", "recurrent", d, inner, split="inputs")
    if own.bias:
        yield Weight(at + "bias", "recurrent", 2 * inner + d)


def _lightning_attention(own: LightningAttention, d: int) -> Iterator[Weight]:
    width, at = own.heads * own.head_dim, "self_attn."
    yield _dealt(at + "qkv_proj", 3 * width, d, own.heads)
    yield _dealt(at + "output_gate", width, d, own.heads)
    yield Weight(at + "norm", "norms", width)
    yield Weight(at + "out_proj", "recurrent", d, width, split="inputs", units=own.heads)


def _short_convolution(own: ShortConvolution, d: int) -> Iterator[Weight]:
    at, width = "conv.", own.width
    yield _dealt(at + "in_proj", 3 * width, d, width)
    yield _dealt(at + "conv", width * (own.kernel + own.bias), 0, width)
    yield Weight(at + "out_proj", "recurrent", d, width, split="inputs")
    if own.bias:
        yield Weight(at + "bias", "recurrent", 3 * width + d)
