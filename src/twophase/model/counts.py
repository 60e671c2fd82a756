"""What follows from a description by counting: parameters, and bytes of KV cache."""

from collections import Counter
from dataclasses import dataclass

from twophase.model.spec import MLP, Attention, ModelSpec


@dataclass(frozen=True, slots=True)
class Parameters:
    embedding: int
    attention: int
    mlp: int
    norms: int
    head: int  # the output projection; counted once with the embedding where they are tied
    total: int


def attention_matmul_parameters(attention: Attention, d_model: int) -> int:
    queries, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
    return d_model * (2 * queries + 2 * keys)


def mlp_matmul_parameters(mlp: MLP, d_model: int) -> int:
    return 3 * d_model * mlp.d_ff


def matmul_parameters(spec: ModelSpec) -> int:
    """Weights that a pass multiplies by: blocks and output projection, not the embedding's gather."""
    blocks = sum(
        attention_matmul_parameters(layer.attention, spec.d_model)
        + mlp_matmul_parameters(layer.mlp, spec.d_model)
        for layer in spec.layers
    )
    return blocks + spec.vocab_size * spec.d_model


def parameters(spec: ModelSpec) -> Parameters:
    """Every parameter of the network, biases and norms included."""
    d = spec.d_model
    embedding = head = spec.vocab_size * d
    attention = mlp = 0
    norms = d
    for layer in spec.layers:
        own = layer.attention
        attention += attention_matmul_parameters(own, d)
        attention += (own.heads + 2 * own.kv_heads) * own.head_dim if own.qkv_bias else 0
        attention += d if own.out_bias else 0
        mlp += mlp_matmul_parameters(layer.mlp, d) + (2 * layer.mlp.d_ff + d if layer.mlp.bias else 0)
        norms += (4 if spec.sandwich_norms else 2) * d + (2 * own.head_dim if own.qk_norm else 0)
    total = embedding + attention + mlp + norms + (0 if spec.tied_embeddings else head)
    return Parameters(embedding, attention, mlp, norms, head, total)


def kv_bytes_per_token(spec: ModelSpec, bytes_per_element: float = 2.0) -> float:
    """Of all layers, while no window is reached."""
    kept = sum(2 * layer.attention.kv_heads * layer.attention.head_dim for layer in spec.layers)
    return kept * bytes_per_element


def kv_bytes(spec: ModelSpec, context: int, bytes_per_element: float = 2.0) -> float:
    """Of one sequence of `context` tokens; a sliding layer keeps its window's tokens at the most."""
    layers = Counter(layer.attention for layer in spec.layers)
    return sum(
        count * 2 * own.kv_heads * own.head_dim * min(context, own.window or context) * bytes_per_element
        for own, count in layers.items()
    )
