"""The weights of layers that attend: projections, norms, indexers. d: d_model, what goes in and comes out."""

from collections.abc import Iterator

from twophase.model.mixers import Attention, CompressedAttention, Indexer, LatentAttention
from twophase.model.spec import Weight


def attention(own: Attention, d: int) -> Iterator[Weight]:
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


def latent_attention(own: LatentAttention, d: int) -> Iterator[Weight]:
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


def compressed_attention(own: CompressedAttention, d: int) -> Iterator[Weight]:
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
