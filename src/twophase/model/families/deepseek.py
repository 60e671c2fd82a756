"""DeepSeek and those built like it: latent attention, many small experts; V4 compresses its cache."""

import math
from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    SLIDING,
    decoder,
    layer_count,
    layer_kinds,
    mlp_of,
    per_layer,
    plain_layer,
    rope_of,
)
from twophase.model.keys import Keys
from twophase.model.mixers import CompressedAttention, Indexer, LatentAttention, Rope
from twophase.model.spec import FeedForward, Layer, ModelSpec, MoE, Part, Weight

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"
RATIOS = {SLIDING: 0, SPARSE: 4, HEAVY: 128}


def deepseek(keys: Keys, name: str) -> ModelSpec:
    """V2, V3, Kimi K2 and GLM-4.7-Flash: every token is attended to."""
    attention = latent_attention(keys, rope_of(keys))
    return _latent_model(keys, name, [attention] * layer_count(keys))


def deepseek_v32(keys: Keys, name: str) -> ModelSpec:
    """DeepSeek sparse attention: an indexer picks index_topk tokens; GLM-5.2's `shared` layers reuse them."""
    picking = latent_attention(
        keys, rope_of(keys), top_k=keys.count("index_topk"), indexer=_indexer(keys, keys.count("q_lora_rank"))
    )
    reusing = replace(picking, indexer=None)
    return _latent_model(keys, name, [reusing if kind == "shared" else picking for kind in _indexers(keys)])


def minicpm3(keys: Keys, name: str) -> ModelSpec:
    """Dense, with latent attention."""
    heads, d_model = keys.count("num_attention_heads"), keys.count("hidden_size")
    attention = latent_attention(keys, rope_of(keys), v_dim=keys.count("v_head_dim", d_model // heads))
    layer = plain_layer(attention, mlp_of(keys, bias=keys.switch("mlp_bias")))
    layers = [layer] * layer_count(keys)
    return decoder(keys, name, "minicpm3", layers, embedding_scale=keys.number("scale_emb", 1.0))


def longcat_flash(keys: Keys, name: str) -> ModelSpec:
    """Each of num_layers is two: both have attention and a dense MLP, the first has experts beside its MLP.

    Some experts give back their input and have no weights: top_k is how many of the others a token meets.
    """
    attention = latent_attention(keys, rope_of(keys))
    dense = mlp_of(keys, keys.count("ffn_hidden_size"))
    expert = mlp_of(keys, keys.count("expert_ffn_hidden_size"))
    experts, empty = keys.count("n_routed_experts"), keys.count("zero_expert_num", 0, least=0)
    top_k = max(1, round(keys.count("moe_topk") * experts / (experts + empty)))
    router = (Weight("mlp.router.zero_experts", "mlp", empty, keys.count("hidden_size")),) * (empty > 0)
    first = Layer((attention,), MoE(experts, top_k, expert, shared=dense), extra=router)
    pairs = [first, plain_layer(attention, dense)] * keys.count("num_layers")
    return decoder(keys, name, "longcat_flash", pairs)


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


def latent_attention(
    keys: Keys,
    rope: Rope | None,
    v_dim: int | None = None,
    top_k: int | None = None,
    indexer: Indexer | None = None,
) -> LatentAttention:
    """v_dim: where it is not the key v_head_dim; a q_lora_rank of null projects queries directly."""
    nope, rotated = keys.count("qk_nope_head_dim"), keys.count("qk_rope_head_dim")
    return LatentAttention(
        heads=keys.count("num_attention_heads"),
        query_rank=None if keys.given("q_lora_rank") is None else keys.count("q_lora_rank"),
        kv_rank=keys.count("kv_lora_rank"),
        nope_dim=nope,
        rope_dim=rotated,
        v_dim=v_dim or keys.count("v_head_dim"),
        scale=_scale(keys, nope + rotated),
        rope=rope,
        bias=keys.switch("attention_bias"),
        top_k=top_k,
        indexer=indexer,
    )


def mixture(keys: Keys) -> MoE:
    """n_routed_experts small ones, of which num_experts_per_tok are used, and n_shared_experts always."""
    experts, top_k = keys.count("n_routed_experts"), keys.count("num_experts_per_tok")
    if top_k > experts:
        raise InputError(f"{keys.where}: num_experts_per_tok is {top_k}, n_routed_experts only {experts}")
    expert = mlp_of(keys, keys.count("moe_intermediate_size"))
    shared = keys.count("n_shared_experts", 0, least=0)
    return MoE(experts, top_k, expert, replace(expert, d_ff=expert.d_ff * shared) if shared else None)


def dense_first(keys: Keys, dense: FeedForward, sparse: FeedForward) -> list[FeedForward]:
    """Layer by layer: mlp_layer_types, or first_k_dense_replace dense ones, then every moe_layer_freq-th."""
    count = layer_count(keys)
    kinds = per_layer(keys, "mlp_layer_types", count)
    if kinds is None:
        first, every = keys.count("first_k_dense_replace", 1, least=0), keys.count("moe_layer_freq", 1)
        kinds = ["sparse" if i >= first and i % every == 0 else "dense" for i in range(count)]
    if any(kind not in ("dense", "sparse") for kind in kinds):
        raise InputError(f"{keys.where}: mlp_layer_types must name each layer dense or sparse")
    return [sparse if kind == "sparse" else dense for kind in kinds]


def _latent_model(keys: Keys, name: str, attention: list[LatentAttention]) -> ModelSpec:
    blocks = dense_first(keys, mlp_of(keys), mixture(keys))
    layers = [plain_layer(each, block) for each, block in zip(attention, blocks, strict=True)]
    return decoder(keys, name, str(keys.get("model_type")), layers)


def _scale(keys: Keys, head_dim: int) -> float:
    """YaRN's temperature (mscale_all_dim) goes into the scores, once for queries and once for keys."""
    scaling = keys.inner("rope_scaling" if keys.get("rope_parameters") is None else "rope_parameters")
    if not scaling.get("mscale_all_dim") or scaling.get("rope_type", scaling.get("type")) == "default":
        return 1 / math.sqrt(head_dim)
    factor, share = scaling.number("factor"), scaling.number("mscale_all_dim")
    temperature = 0.1 * share * math.log(factor) + 1.0 if factor > 1 else 1.0
    return temperature * temperature / math.sqrt(head_dim)


def _indexer(keys: Keys, query_rank: int) -> Indexer:
    return Indexer(keys.count("index_n_heads"), keys.count("index_head_dim"), query_rank)


def _indexers(keys: Keys) -> list[str]:
    """full or shared, layer by layer: a list, a pattern of F and S, or every index_topk_freq-th is full."""
    count = layer_count(keys)
    kinds = per_layer(keys, "indexer_types", count)
    pattern = keys.get("index_topk_pattern")
    if kinds is None and pattern is not None:
        if not isinstance(pattern, str | list):
            raise InputError(f"{keys.where}: index_topk_pattern must be a string of F and S")
        kinds = ["full" if each == "F" else "shared" if each == "S" else each for each in pattern][:count]
    if kinds is None:
        every = keys.count("index_topk_freq", 1)
        offset = keys.count("index_skip_topk_offset", 2, least=0)
        kinds = ["shared" if max(i - offset + 1, 0) % every else "full" for i in range(count)]
    if len(kinds) < count or kinds[0] != "full" or any(kind not in ("full", "shared") for kind in kinds):
        raise InputError(
            f"{keys.where}: indexer_types must name {count} layers full or shared, the first full"
        )
    return kinds


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
    top_k, indexer = keys.count("index_topk"), _indexer(keys, query_rank)
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


READERS = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
    "glm4_moe_lite": deepseek,
    "deepseek_v32": deepseek_v32,
    "glm_moe_dsa": deepseek_v32,
    "deepseek_v4": deepseek_v4,
    "deepseek_ref": deepseek_v4,
    "longcat_flash": longcat_flash,
    "minicpm3": minicpm3,
}
