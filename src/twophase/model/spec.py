"""The description of a decoder-only transformer: all that counting it and running it need."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding; `scaling` stretches it beyond the length it was trained on."""

    theta: float
    scaling: Literal["default", "linear", "llama3"] = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    original_context: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention: `heads` query heads share `kv_heads` key and value heads."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float  # what Q·K is multiplied by, 1/sqrt(head_dim) unless the model says otherwise
    rope: Rope
    window: int | None = None  # a row sees itself and the window - 1 tokens before it; None: all
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False  # RMS norm over each head's query and key


Activation = Literal["silu", "gelu_tanh", "gelu"]


@dataclass(frozen=True, slots=True)
class MLP:
    """A gated feed-forward block: down(activation(gate(x)) * up(x))."""

    d_ff: int
    activation: Activation
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Layer:
    attention: Attention
    mlp: MLP


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A network, layer by layer. Shapes and rules only: no weights, no storage format, no hardware."""

    name: str
    family: str  # as Hugging Face's model_type: llama, qwen2, qwen3, gemma3_text ...
    vocab_size: int
    d_model: int
    layers: tuple[Layer, ...]
    context_length: int
    tied_embeddings: bool
    norm_eps: float
    sandwich_norms: bool = False  # norms after attention and MLP too, before the residual is added
    embedding_scale: float = 1.0
