"""What the headers of most architectures share, as keys of config.json."""

from collections.abc import Sequence
from typing import Any

from twophase.errors import InputError
from twophase.model.gguf_keys import MOST_LAYERS, Header
from twophase.model.gguf_rope import rope_parameters

EPS = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
UNROTATED = {"rope_type": "default"}  # where nothing is rotated, whatever a header says of it
SLIDING, FULL = "sliding_attention", "full_attention"
Config = dict[str, Any]


def common(
    header: Header,
    *,
    kv_heads: int | None = None,
    d_ff: int | None = None,
    head_dim: int | None = None,
    rope: Config | None = None,
) -> Config:
    """Under the names that families' readers ask for; arguments: what an architecture says in its own way."""
    d_model, heads = header.count("embedding_length"), header.count("attention.head_count")
    kv_heads = kv_heads or header.count("attention.head_count_kv", heads)
    if heads % kv_heads:
        raise InputError(
            f"{header.file.path}: {heads} attention heads can't share {kv_heads} key-value heads evenly"
        )
    head_dim = head_dim or _head_dim(header, d_model // heads)
    eps = header.number(EPS[1] if header.has(EPS[1]) and not header.has(EPS[0]) else EPS[0])
    return {
        "vocab_size": vocabulary(header),
        "tie_word_embeddings": "output.weight" not in header.file.tensors,
        "hidden_size": d_model,
        "num_hidden_layers": layer_count(header),
        "num_nextn_predict_layers": header.count("nextn_predict_layers", 0, least=0),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": d_ff or feed_forward_width(header),
        "max_position_embeddings": header.count("context_length"),
        "rms_norm_eps": eps,
        "layer_norm_eps": eps,
        "norm_eps": eps,
        "attention_bias": header.stores("attn_q.bias") or header.stores("attn_qkv.bias"),
        "sliding_window": header.optional("attention.sliding_window"),
        "rope_parameters": rope or rope_parameters(header, head_dim),
    }


def _head_dim(header: Header, otherwise: int) -> int:
    keys = header.count("attention.key_length", otherwise)
    if (values := header.count("attention.value_length", keys)) != keys:
        raise InputError(
            f"{header.name('attention.value_length')} is {values}, key_length {keys}; they must be equal"
        )
    return keys


def layer_count(header: Header) -> int:
    """Without the draft layers (multi-token prediction), which block_count includes."""
    blocks = header.count("block_count", most=MOST_LAYERS)
    drafts = header.count("nextn_predict_layers", 0, least=0, most=MOST_LAYERS)
    if drafts >= blocks:
        raise InputError(f"{header.name('nextn_predict_layers')} is {drafts} of only {blocks} blocks")
    return blocks - drafts


def vocabulary(header: Header) -> int:
    """Rows of the embedding, which a padded vocabulary has more of than there are tokens."""
    tensor = header.file.tensors.get("token_embd.weight")
    if tensor is None or len(tensor.shape) != 2:
        raise InputError(f"{header.file.path} has no matrix token_embd.weight")
    return tensor.shape[0]


def feed_forward_width(header: Header) -> int:
    """Of the dense blocks; files of mixtures without any may leave it out."""
    if header.count("expert_count", 0, least=0) and not header.optional("feed_forward_length"):
        return expert_width(header)
    return header.count("feed_forward_length")


def expert_width(header: Header) -> int:
    """Of a routed expert: its key, which older files lack, or its matrices' rows."""
    fused = header.rows("ffn_gate_up_exps.weight")
    stored = header.rows("ffn_up_exps.weight") or (fused // 2 if fused else None)
    return header.count("expert_feed_forward_length", stored)


def shared_width(header: Header) -> int:
    """Of all shared experts together."""
    return header.count("expert_shared_feed_forward_length", header.rows("ffn_up_shexp.weight"))


def experts(header: Header) -> Config:
    """Keys of the routed experts, as most readers name them; n_shared_experts are of the same width."""
    return {
        "n_routed_experts": header.count("expert_count"),
        "num_experts_per_tok": header.count("expert_used_count"),
        "moe_intermediate_size": expert_width(header),
        "n_shared_experts": _shared_count(header),
        "first_k_dense_replace": header.count("leading_dense_block_count", 0, least=0),
    }


def _shared_count(header: Header) -> int:
    """Of the tensors where the key is missing."""
    stored = header.rows("ffn_up_shexp.weight")
    return header.count("expert_shared_count", stored // expert_width(header) if stored else 0, least=0)


def kinds(header: Header, period: int) -> list[str]:
    """Sliding or full, layer by layer: as the header lists them, or each `period`-th layer is full."""
    layers, key = layer_count(header), "attention.sliding_window_pattern"
    listed = header.flags(key, layers)
    if listed is None:
        every = header.count(key, period)
        listed = [(i + 1) % every != 0 for i in range(layers)]
    return [SLIDING if slides else FULL for slides in listed]


def one_of(header: Header, key: str, values: Sequence[int]) -> int:
    """The number of the layers that have one (the others hold 0). InputError where there are two."""
    found = set(values) - {0}
    if len(found) != 1:
        raise InputError(
            f"{header.name(key)} must hold one number, and 0 in layers without: it has {len(found)}"
        )
    return found.pop()
