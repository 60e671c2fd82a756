"""DeepSeek V2 and V3 and those built like them: latent attention, and many small experts."""

import math
from dataclasses import replace

from twophase.errors import InputError
from twophase.model.families.common import (
    decoder,
    layer_count,
    mlp_of,
    per_layer,
    plain_layer,
    rope_of,
)
from twophase.model.keys import Keys
from twophase.model.mixers import Indexer, LatentAttention, Rope
from twophase.model.spec import FeedForward, Layer, ModelSpec, MoE, Weight


def deepseek(keys: Keys, name: str) -> ModelSpec:
    """V2, V3, Kimi K2 and GLM-4.7-Flash: every token is attended to."""
    attention = latent_attention(keys, rope_of(keys))
    return _latent_model(keys, name, [attention] * layer_count(keys))


def deepseek_v32(keys: Keys, name: str) -> ModelSpec:
    """DeepSeek sparse attention: an indexer picks index_topk tokens; GLM-5.2's `shared` layers reuse them."""
    picking = latent_attention(
        keys,
        rope_of(keys),
        top_k=keys.count("index_topk"),
        indexer=indexer_of(keys, keys.count("q_lora_rank")),
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


def indexer_of(keys: Keys, query_rank: int) -> Indexer:
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


READERS = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
    "glm4_moe_lite": deepseek,
    "deepseek_v32": deepseek_v32,
    "glm_moe_dsa": deepseek_v32,
    "longcat_flash": longcat_flash,
    "minicpm3": minicpm3,
}
