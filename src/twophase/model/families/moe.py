"""Mixtures of experts behind ordinary attention: Mixtral, Qwen, Granite, GLM-4.5, Ernie, Hunyuan, DBRX ..."""

from dataclasses import replace

from twophase.model.families.common import (
    FULL,
    SLIDING,
    assuming,
    attention_of,
    decoder,
    flags_of,
    layer_count,
    layer_kinds,
    layers_named,
    mlp_of,
    overriding,
    per_layer,
    plain_layer,
    refuse,
    rope_of,
    window_of,
)
from twophase.model.families.deepseek import dense_first, mixture
from twophase.model.keys import Keys
from twophase.model.mixers import Attention
from twophase.model.spec import FeedForward, Layer, ModelSpec, MoE

# What families call the keys n_routed_experts and moe_intermediate_size.
LOCAL = {"n_routed_experts": "num_local_experts", "moe_intermediate_size": "intermediate_size"}
OLMOE = {"n_routed_experts": "num_experts", "moe_intermediate_size": "intermediate_size"}
ERNIE = {
    "n_routed_experts": "moe_num_experts",
    "num_experts_per_tok": "moe_k",
    "n_shared_experts": "moe_num_shared_experts",
}
EXAONE = {"n_routed_experts": "num_experts", "n_shared_experts": "num_shared_experts"}
DBRX = {
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "hidden_size": "d_model",
    "max_position_embeddings": "max_seq_len",
}
DBRX_EXPERTS = {
    "n_routed_experts": "moe_num_experts",
    "num_experts_per_tok": "moe_top_k",
    "moe_intermediate_size": "ffn_hidden_size",
}


def zipped(attention: list[Attention], blocks: list[FeedForward]) -> list[Layer]:
    return [plain_layer(own, block) for own, block in zip(attention, blocks, strict=True)]


def flagged(keys: Keys) -> Keys:
    """moe_layer_freq may be a list with 1 for each layer that has experts."""
    flags = flags_of(keys, "moe_layer_freq", layer_count(keys))
    if flags is None:
        return keys
    return assuming(keys, mlp_layer_types=["sparse" if flag else "dense" for flag in flags])


def mixtral(keys: Keys, name: str) -> ModelSpec:
    keys = replace(keys, names=LOCAL)
    attention = attention_of(keys, rope_of(keys, theta=1e6), window_of(keys, SLIDING))
    experts = replace(mixture(keys), renormalised=True)
    return decoder(keys, name, "mixtral", [plain_layer(attention, experts)] * layer_count(keys))


def phimoe(keys: Keys, name: str) -> ModelSpec:
    """Mixtral with layer norms, and biases on attention and head."""
    keys = replace(keys, names=LOCAL)
    bias = keys.switch("attention_bias")
    window = window_of(keys, SLIDING)
    attention = attention_of(keys, rope_of(keys, theta=1e6), window, qkv_bias=bias, out_bias=bias)
    layers = [plain_layer(attention, mixture(keys))] * layer_count(keys)
    return decoder(keys, name, "phimoe", layers, norm="layer", head_bias=keys.switch("lm_head_bias"))


def olmoe(keys: Keys, name: str) -> ModelSpec:
    keys, bias = replace(keys, names=OLMOE), keys.switch("attention_bias")
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias, qk_norm_wide=True)
    return decoder(keys, name, "olmoe", [plain_layer(attention, softmaxed(keys))] * layer_count(keys))


def granitemoe(keys: Keys, name: str) -> ModelSpec:
    """Scores and embeddings have scales of their own; Granite 3 beside the experts a shared MLP."""
    keys, bias = replace(keys, names=LOCAL), keys.switch("attention_bias")
    scale = keys.number("attention_multiplier", 1.0)
    attention = attention_of(keys, rope_of(keys), scale=scale, qkv_bias=bias, out_bias=bias)
    shared = keys.count("shared_intermediate_size", 0, least=0)
    experts = replace(mixture(keys), shared=mlp_of(keys, shared) if shared else None, renormalised=True)
    return decoder(
        keys,
        name,
        str(keys.get("model_type")),
        [plain_layer(attention, experts)] * layer_count(keys),
        embedding_scale=keys.number("embedding_multiplier", 1.0),
        residual_scale=keys.number("residual_multiplier", 1.0),
        logit_scale=1 / keys.number("logits_scaling", 1.0),
    )


def qwen2_moe(keys: Keys, name: str) -> ModelSpec:
    """One shared expert behind a gate; where windows are on, every other of the first layers slides."""
    keys = replace(keys, names={"n_routed_experts": "num_experts"})
    first, slides = keys.count("max_window_layers", least=0), keys.switch("use_sliding_window")
    alternating = [SLIDING if slides and i < first and not i % 2 else FULL for i in range(layer_count(keys))]
    kinds = layer_kinds(keys, (SLIDING, FULL), alternating)
    rope, bias = rope_of(keys), keys.switch("qkv_bias")
    attention = {
        kind: attention_of(keys, rope, window_of(keys, kind) if slides else None, qkv_bias=bias)
        for kind in kinds
    }
    shared = mlp_of(keys, keys.count("shared_expert_intermediate_size"))
    blocks = qwen_blocks(keys, replace(softmaxed(keys), shared=shared, shared_gate=True))
    return decoder(keys, name, "qwen2_moe", zipped([attention[kind] for kind in kinds], blocks))


def qwen3_moe(keys: Keys, name: str) -> ModelSpec:
    """Norms of each head's query and key; a window, where it is on, in every layer. Qwen3-VL's too."""
    visual = keys.get("model_type") == "qwen3_vl_moe_text"
    if visual:  # its wrapper decides about the head, whatever the inner class assumes
        keys = assuming(keys, tie_word_embeddings=False)
    new = "num_local_experts" if "num_local_experts" in keys.config else "num_experts"
    keys = replace(keys, names={"n_routed_experts": new})
    bias = keys.switch("attention_bias")
    attention = attention_of(
        keys,
        rope_of(keys, theta=5e5 if visual else 1e4),
        window_of(keys, SLIDING if keys.switch("use_sliding_window") else FULL),
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    layers = zipped([attention] * layer_count(keys), qwen_blocks(keys, softmaxed(keys)))
    return decoder(keys, name, str(keys.get("model_type")), layers)


def softmaxed(keys: Keys) -> MoE:
    """Experts chosen by softmax, whose probabilities sum to one again where norm_topk_prob says so."""
    return replace(mixture(keys), renormalised=keys.switch("norm_topk_prob"))


def qwen_blocks(keys: Keys, sparse: MoE) -> list[FeedForward]:
    """Every decoder_sparse_step-th layer has experts, unless mlp_only_layers names it."""
    step, only = keys.count("decoder_sparse_step", 1), layers_named(keys, "mlp_only_layers") or []
    dense = mlp_of(keys)
    return [dense if i in only or (i + 1) % step else sparse for i in range(layer_count(keys))]


def glm4_moe(keys: Keys, name: str) -> ModelSpec:
    """GLM-4.5: dense layers first, half of each head rotated, biases on queries, keys and values alone."""
    keys = assuming(keys, partial_rotary_factor=0.5)
    attention = attention_of(
        keys, rope_of(keys), qkv_bias=keys.switch("attention_bias"), qk_norm=keys.switch("use_qk_norm")
    )
    layers = zipped([attention] * layer_count(keys), dense_first(keys, mlp_of(keys), mixture(keys)))
    return decoder(keys, name, "glm4_moe", layers)


def dots1(keys: Keys, name: str) -> ModelSpec:
    """Layers from max_window_layers on slide, unless layer_types says otherwise."""
    count, bias = layer_count(keys), keys.switch("attention_bias")
    first = keys.count("max_window_layers", count, least=0)
    kinds = layer_kinds(keys, (SLIDING, FULL), [SLIDING if i >= first else FULL for i in range(count)])
    rope = rope_of(keys)
    made = {
        kind: attention_of(keys, rope, window_of(keys, kind), qkv_bias=bias, out_bias=bias, qk_norm=True)
        for kind in kinds
    }
    keys = assuming(keys, first_k_dense_replace=0)
    layers = zipped([made[kind] for kind in kinds], dense_first(keys, mlp_of(keys), mixture(keys)))
    return decoder(keys, name, "dots1", layers)


def exaone_moe(keys: Keys, name: str) -> ModelSpec:
    """K-EXAONE: every fourth layer attends to all and has no rotation; no window, and all are rotated."""
    keys = replace(keys, names=EXAONE)
    every = keys.count("sliding_window_pattern") if keys.given("sliding_window") else 1
    pattern = [FULL if (i + 1) % every == 0 else SLIDING for i in range(layer_count(keys))]
    kinds = layer_kinds(keys, (SLIDING, FULL), pattern)
    rope, window = rope_of(keys), window_of(keys, SLIDING)
    made = {
        SLIDING: attention_of(keys, rope, window, qk_norm=True),
        FULL: attention_of(keys, None if window else rope, qk_norm=True),
    }
    layers = zipped([made[kind] for kind in kinds], dense_first(keys, mlp_of(keys), mixture(keys)))
    return decoder(keys, name, "exaone_moe", layers)


def ernie4_5_moe(keys: Keys, name: str) -> ModelSpec:
    """use_bias is for attention, dense and shared MLPs and the head, never for the experts."""
    keys, bias = replace(keys, names=ERNIE), keys.switch("use_bias")
    experts = mixture(keys)
    shared = replace(experts.shared, bias=bias) if experts.shared else None
    experts = replace(experts, shared=shared, router_bias=True)
    count = layer_count(keys)
    first, every = keys.count("moe_layer_start_index", 1, least=0), keys.count("moe_layer_interval", 1)
    last = keys.count("moe_layer_end_index", -1, least=-1)
    last = count - 1 if last == -1 else last
    dense = mlp_of(keys, bias=bias)
    blocks: list[FeedForward] = [
        experts if first <= i <= last and (i + 1) % every == 0 else dense for i in range(count)
    ]
    attention = attention_of(keys, rope_of(keys, theta=5e5), qkv_bias=bias, out_bias=bias)
    return decoder(keys, name, "ernie4_5_moe", zipped([attention] * count, blocks), head_bias=bias)


def hunyuan_v1_moe(keys: Keys, name: str) -> ModelSpec:
    """Experts and a shared MLP of the same width in every layer; moe_topk may differ from layer to layer."""
    refuse(keys, "use_cla")
    keys = replace(keys, names={**OLMOE, "num_experts_per_tok": "moe_topk"})
    count, bias = layer_count(keys), keys.switch("attention_bias")
    attention = attention_of(keys, rope_of(keys), qkv_bias=bias, out_bias=bias, qk_norm=True)
    varied = per_layer(keys, "moe_topk", count) if isinstance(keys.get("moe_topk"), list) else None
    top_k = varied or [keys.get("moe_topk")] * count
    blocks: list[FeedForward] = [
        replace(mixture(overriding(keys, moe_topk=each)), shared=mlp_of(keys)) for each in top_k
    ]
    return decoder(keys, name, "hunyuan_v1_moe", zipped([attention] * count, blocks))


def dbrx(keys: Keys, name: str) -> ModelSpec:
    """Its keys are its own, and those of attention and experts stand in objects of theirs."""
    keys = replace(keys, names=DBRX)
    own, experts = keys.inner("attn_config"), replace(keys.inner("ffn_config"), names=DBRX_EXPERTS)
    keys = overriding(keys, num_key_value_heads=own.count("kv_n_heads"))
    rope = rope_of(keys, theta=own.number("rope_theta", 1e4))
    activation = experts.inner("ffn_act_fn").get("name", "silu")
    experts = assuming(experts, hidden_act=activation)
    layer = plain_layer(attention_of(keys, rope), mixture(experts))
    layers = [layer] * layer_count(keys)
    return decoder(keys, name, "dbrx", layers, norm="layer-no-bias", norm_eps=1e-5)


READERS = {
    "mixtral": mixtral,
    "phimoe": phimoe,
    "olmoe": olmoe,
    "granitemoe": granitemoe,
    "granitemoeshared": granitemoe,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "qwen3_vl_moe_text": qwen3_moe,
    "glm4_moe": glm4_moe,
    "dots1": dots1,
    "exaone_moe": exaone_moe,
    "ernie4_5_moe": ernie4_5_moe,
    "hunyuan_v1_moe": hunyuan_v1_moe,
    "dbrx": dbrx,
}
