"""DeepSeek V4: a window of keys beside compressed ones, and a residual of several streams."""

from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import SLIDING, decoder, layer_count, layer_kinds, per_layer
from twophase.model.families.deepseek import indexer_of, mixture
from twophase.model.keys import Keys
from twophase.model.mixers import CompressedAttention
from twophase.model.spec import Layer, ModelSpec, Part, Weight

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
RATIOS = {SLIDING: 0, SPARSE: 4, HEAVY: 128}


def deepseek_v4(keys: Keys, name: str) -> ModelSpec:
    """Windows of entries, and compressed ones; the residual is hc_mult streams, mixed around each block."""
    d_model, streams = keys.count("hidden_size"), keys.count("hc_mult")
    shared_bias, experts = keys.switch("mlp_bias"), mixture(keys)
    if experts.shared:
        experts = replace(experts, shared=replace(experts.shared, bias=shared_bias))
    extra = (
        *_hyper_connection("attn_hc", "attention", streams, d_model),
        *_hyper_connection("ffn_hc", "mlp", streams, d_model),
    )
    layers = [Layer((each,), experts, extra=extra) for each in _compressed(keys)]
    head = (
        Weight("hc_head.hc_fn", "mlp", streams, streams * d_model),
        Weight("hc_head.hc_base", "mlp", streams + 1),
    )
    return decoder(keys, name, "deepseek_v4", layers, extra=head)


def _compressed(keys: Keys) -> list[CompressedAttention]:
    """V4's attention layer by layer; no layer_types: as compress_ratios say, 0, 4 or 128 to an entry."""
    head_dim, query_rank = keys.count("head_dim"), keys.count("q_lora_rank")
    share = keys.number("partial_rotary_factor", 64 / 512)
    rates = keys.inner("compress_rates")
    window = CompressedAttention(
        heads=keys.count("num_attention_heads"),
        head_dim=head_dim,
        query_rank=query_rank,
        out_groups=keys.count("o_groups"),
        out_rank=keys.count("o_lora_rank"),
        window=keys.count("sliding_window"),
        ratio=0,
        rope_dim=keys.count("qk_rope_head_dim", int(head_dim * share)),
    )
    top_k, indexer = keys.count("index_topk"), indexer_of(keys, query_rank)
    kinds = {
        SLIDING: window,
        SPARSE: replace(window, ratio=rates.count(SPARSE, RATIOS[SPARSE]), top_k=top_k, indexer=indexer),
        HEAVY: replace(window, ratio=rates.count(HEAVY, RATIOS[HEAVY])),
    }
    return [kinds[kind] for kind in layer_kinds(keys, tuple(RATIOS), _kinds_by_ratio(keys))]


def _kinds_by_ratio(keys: Keys) -> list[str]:
    count = layer_count(keys)
    ratios = per_layer(keys, "compress_ratios", count)
    if ratios is None:
        return [SPARSE if i >= 2 and i % 2 else HEAVY for i in range(count)]
    known = list(RATIOS.values())
    if any(ratio not in known for ratio in ratios):
        raise InputError(f"{keys.where}: compress_ratios may hold {', '.join(map(str, known))}")
    kinds = dict(zip(known, RATIOS, strict=True))
    return [kinds[ratio] for ratio in ratios]


def _hyper_connection(at: str, part: Part, streams: int, d_model: int) -> tuple[Weight, Weight]:
    """How a block's input is drawn from the residual streams, its output dealt out, and they are mixed."""
    mixed = (2 + streams) * streams
    return Weight(f"{at}.fn", part, mixed, streams * d_model), Weight(f"{at}.base", part, mixed + 3)


READERS = {"deepseek_v4": deepseek_v4, "deepseek_ref": deepseek_v4}
