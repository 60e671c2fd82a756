"""The description of a decoder-only transformer: all that counting it and running it need.

A layer mixes tokens (attention, a recurrence, or several side by side) and then transforms each token on its
own (an MLP, or a mixture of experts); either may be missing. What only one family has, and what costs no more
than its weights, stands in `extra`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from twophase.model.mixers import Attention, Mixer

Activation = Literal[
    "silu", "gelu_tanh", "gelu", "relu", "relu2", "quick_gelu", "swiglu_oai", "tanh", "xielu", "situ"
]
NormKind = Literal["rms", "layer", "layer-no-bias", "none"]
NormPlaces = Literal["before", "after", "around", "single", "none"]

# How many norms of d_model stand in a layer: before (or after) mixer and MLP, around both, or one for all.
NORMS: dict[NormPlaces, int] = {"before": 2, "after": 2, "around": 4, "single": 1, "none": 0}


@dataclass(frozen=True, slots=True)
class MLP:
    """A feed-forward block: down(activation(gate(x)) * up(x)), ungated down(activation(up(x)))."""

    d_ff: int
    activation: Activation
    bias: bool = False
    gated: bool = True


@dataclass(frozen=True, slots=True)
class MoE:
    """A mixture of experts: each token goes through `top_k` of `experts`, and through `shared` always."""

    experts: int
    top_k: int
    expert: MLP
    shared: MLP | None = None  # of all shared experts together, or a dense MLP beside the experts
    shared_gate: bool = False  # a scalar gate on the shared expert (Qwen2-MoE): d_model weights
    router_bias: bool = False  # one number an expert, added to its score
    renormalised: bool = False  # of softmax routers: the chosen experts' probabilities sum to one again
    latent: int | None = None  # experts work in this width, behind a projection down and up (Nemotron 3)


FeedForward: TypeAlias = MLP | MoE

Part = Literal["embedding", "attention", "recurrent", "mlp", "experts", "norms", "head"]


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight tensor by its shape and use: [outputs, inputs], or a vector of `outputs` where inputs is 0.

    A matrix is multiplied by every row of a pass, a table is looked up; of `copies` a row uses `used`.
    """

    name: str  # within its layer or model, as checkpoints call it: self_attn.q_proj
    part: Part
    outputs: int
    inputs: int = 0
    copies: int = 1
    used: int = 1
    table: bool = False
    # Tensor parallelism deals out outputs or inputs in `units` (heads), or leaves the weight whole on each.
    split: Literal["outputs", "inputs", "whole"] = "whole"
    units: int = 0  # 0: as many as outputs or inputs

    @property
    def parameters(self) -> int:
        return self.copies * self.outputs * max(self.inputs, 1)

    @property
    def active(self) -> int:
        """Parameters that one token uses."""
        return self.used * self.outputs * max(self.inputs, 1)

    @property
    def is_matrix(self) -> bool:
        return self.inputs > 0 and not self.table


@dataclass(frozen=True, slots=True)
class Layer:
    mixers: tuple[Mixer, ...]  # side by side on the same input
    feed_forward: FeedForward | None
    norms: NormPlaces = "before"
    extra: tuple[Weight, ...] = ()

    @property
    def attention(self) -> Attention:
        """The mixer of a plain transformer's layer."""
        (mixer,) = self.mixers
        assert isinstance(mixer, Attention)
        return mixer

    @property
    def mlp(self) -> MLP:
        """The feed-forward block of a plain transformer's layer."""
        assert isinstance(self.feed_forward, MLP)
        return self.feed_forward


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
    norm: NormKind = "rms"
    final_norm: bool = True
    embedding_scale: float = 1.0
    residual_scale: float = 1.0  # of what a block adds to its input (Granite)
    logit_scale: float = 1.0
    head_bias: bool = False
    embedding_dim: int | None = None  # of the embedding and the head, where it is not d_model (OPT-350M)
    logit_softcap: float | None = None  # logits are cap·tanh(logits/cap)
    extra: tuple[Weight, ...] = ()  # beside the layers: learned positions, per-layer embeddings
    draft_layers: int = 0  # multi-token-prediction modules that the checkpoint holds; counted nowhere else

    @property
    def sandwich_norms(self) -> bool:
        return self.layers[0].norms == "around"
