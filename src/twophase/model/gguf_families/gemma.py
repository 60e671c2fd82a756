"""Gemma 2, 3, 3n and 4: their GGUF keys as config.json's."""

from twophase.errors import InputError
from twophase.model.gguf_families.common import (
    FULL,
    SLIDING,
    Config,
    common,
    expert_width,
    kinds,
    layer_count,
)
from twophase.model.gguf_keys import Header
from twophase.model.gguf_rope import proportional_rope

LOCAL_THETA = 10_000.0  # of sliding layers, where the header names none


def gemma2(header: Header) -> Config:
    config = common(header)
    return {
        **config,
        **_softcaps(header),
        "model_type": "gemma2",
        "layer_types": kinds(header, 2),
        "query_pre_attn_scalar": _scalar(config, 46),
    }


def gemma3(header: Header) -> Config:
    """Five sliding layers to a full one, whose rope alone is scaled."""
    config = common(header)
    return {
        **config,
        **_softcaps(header),
        "model_type": "gemma3_text",
        "sliding_window": header.count("attention.sliding_window"),
        "layer_types": kinds(header, 6),
        "query_pre_attn_scalar": _scalar(config, 62),
        "rope_parameters": {FULL: config["rope_parameters"], SLIDING: _local_rope(header)},
    }


def gemma3n(header: Header) -> Config:
    """Widths of MLPs layer by layer."""
    widths = header.each("feed_forward_length", layer_count(header))
    config = common(header, d_ff=max(widths))
    return {
        **config,
        **_softcaps(header),
        **_layer_inputs(header),
        "model_type": "gemma3n_text",
        "intermediate_size": widths,
        "layer_types": kinds(header, 5),
        "rope_parameters": {FULL: config["rope_parameters"], SLIDING: _local_rope(header)},
        "altup_num_inputs": header.count("altup.num_inputs"),
        "laurel_rank": header.rows("laurel_l.weight"),
    }


def gemma4(header: Header) -> Config:
    """Full layers have heads of their own width and number; experts may stand beside each MLP."""
    layers, listed = layer_count(header), kinds(header, 6)
    wide = header.count("attention.key_length")
    kv_heads = header.each("attention.head_count_kv", layers)
    width, double = _widths(header, layers)
    config = common(
        header,
        kv_heads=next((kv_heads[i] for i in range(layers) if listed[i] == SLIDING), kv_heads[0]),
        d_ff=width,
        head_dim=header.count("attention.key_length_swa", wide),
        rope={FULL: proportional_rope(header, wide), SLIDING: _local_rope(header)},
    )
    full = {
        str(i): {"head_dim": wide, "num_key_value_heads": kv_heads[i]}
        for i in range(layers)
        if listed[i] == FULL
    }
    keyed, valued = (header.blocks.get(f"attn_{each}.weight", {}) for each in "kv")
    mixture = {
        "enable_moe_block": True,
        "num_experts": header.optional("expert_count"),
        "top_k_experts": header.optional("expert_used_count"),
        "moe_intermediate_size": expert_width(header) if header.optional("expert_count") else None,
    }
    return {
        **config,
        **_softcaps(header),
        **_layer_inputs(header),
        **(mixture if header.optional("expert_count") else {}),
        "model_type": "gemma4_text",
        "layer_types": listed,
        "per_layer_config": full,
        "attention_k_eq_v": bool(set(keyed) - set(valued)),
        "use_double_wide_mlp": double,
    }


def _widths(header: Header, layers: int) -> tuple[int, bool]:
    """(of an MLP, whether those of layers that borrow keys and values are twice as wide)."""
    widths = header.each("feed_forward_length", layers)
    first = layers - header.count("attention.shared_kv_layers", 0, least=0, most=layers - 1)
    own, borrowing = widths[0], widths[-1]
    double = first < layers and borrowing == 2 * own
    if widths != [own] * first + [2 * own if double else own] * (layers - first):
        raise InputError(
            f"{header.name('feed_forward_length')} must be one width, or twice as wide in the layers that "
            "borrow keys and values"
        )
    return own, double


def _local_rope(header: Header) -> Config:
    return {"rope_type": "default", "rope_theta": header.number("rope.freq_base_swa", LOCAL_THETA)}


def _scalar(config: Config, layers: int) -> int:
    """The 27B models of Gemma 2 (46 layers) and 3 (62) scale by another width, which no key holds."""
    if config["num_hidden_layers"] == layers:
        return int(config["hidden_size"]) // int(config["num_attention_heads"])
    return int(config["head_dim"])


def _softcaps(header: Header) -> Config:
    keys = ("attn_logit_softcapping", "final_logit_softcapping")
    return {key: header.number(key) if header.has(key) else None for key in keys}


def _layer_inputs(header: Header) -> Config:
    """The embeddings for each layer, and how many of the last layers borrow keys and values."""
    table = header.file.tensors.get("per_layer_token_embd.weight")
    return {
        "hidden_size_per_layer_input": header.count("embedding_length_per_layer_input", 0, least=0),
        "vocab_size_per_layer_input": table.shape[0] if table and table.shape else None,
        "num_kv_shared_layers": header.count("attention.shared_kv_layers", 0, least=0),
    }


TRANSLATORS = {"gemma2": gemma2, "gemma3": gemma3, "gemma3n": gemma3n, "gemma4": gemma4}
