"""How a layer mixes tokens: what is attended to, or what state is carried."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

RopeScaling = Literal["default", "linear", "llama3", "yarn", "dynamic", "longrope", "proportional", "mrope"]


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary position embedding; `scaling` stretches it beyond the length it was trained on."""

    theta: float
    scaling: RopeScaling = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 1.0
    original_context: int = 0
    share: float = 1.0  # of a head's dimensions that are rotated
    short_factors: tuple[
        float, ...
    ] = ()  # longrope: what each frequency is divided by, up to original_context
    long_factors: tuple[float, ...] = ()  # and beyond
    attention_factor: float = 1.0  # longrope: of both sine and cosine


@dataclass(frozen=True, slots=True)
class Indexer:
    """DeepSeek's lightning indexer, and MiniMax's: small heads that pick the keys a query attends to.

    V3.2 (arXiv 2512.02556) scores every cached token with `heads` queries against one key of `dim`.
    """

    heads: int
    dim: int
    query_rank: (
        int | None
    )  # its queries come from attention's compressed queries; None: from the hidden state
    weighted: bool = True  # a learned weight for each head's score (weights_proj)


@dataclass(frozen=True, slots=True)
class Attention:
    """Grouped-query attention: `heads` query heads share `kv_heads` key and value heads."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float  # what Q·K is multiplied by, 1/sqrt(head_dim) unless the model says otherwise
    rope: Rope | None  # None: no rotation (learned positions, ALiBi, or none at all)
    window: int | None = None  # a row sees itself and the window - 1 tokens before it; None: all
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False  # RMS norm over each head's query and key
    qk_norm_wide: bool = False  # over all heads together, or with a weight of its own for each head
    v_dim: int | None = None  # of a value head, where it differs from head_dim
    chunk: int | None = None  # a row sees itself and what stands before it in its own chunk (Llama 4)
    top_k: int | None = None  # tokens that a row attends to, of those it sees (sparse attention)
    indexer: Indexer | None = None  # picks them; a layer with top_k and none reuses an earlier layer's picks
    sinks: bool = False  # one learned logit a head (gpt-oss)
    gate: Literal["none", "element", "head"] = (
        "none"  # of the output: as wide as queries, or one number a head
    )
    keys_are_values: bool = False  # no value projection: values are the keys (Gemma 4)
    borrows_kv: bool = False  # reads an earlier layer's keys and values: no projection, no cache of its own
    softcap: float | None = None  # scores are cap·tanh(scores/cap)

    @property
    def value_dim(self) -> int:
        return self.v_dim or self.head_dim


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA, DeepSeek-V2, arXiv 2405.04434): what is cached is one vector.

    Prefill decompresses keys and values; decode may absorb the decompression into queries and output.
    """

    heads: int
    query_rank: int | None  # None: queries are projected directly
    kv_rank: int
    nope_dim: int  # of a head's query and key, not rotated
    rope_dim: int  # rotated, shared by all heads
    v_dim: int
    scale: float
    rope: Rope | None
    bias: bool = False  # on the projections down and on the output
    top_k: int | None = None
    indexer: Indexer | None = None
    gate: Literal["none", "element", "head"] = "none"


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """DeepSeek-V4's attention: one key-value head, a window of entries, and entries compressed `ratio` to 1.

    ratio 0: the window alone. With an indexer a row attends to top_k compressed entries, else to all.
    """

    heads: int
    head_dim: int
    query_rank: int
    out_groups: int
    out_rank: int
    window: int
    ratio: int
    rope_dim: int
    top_k: int | None = None
    indexer: Indexer | None = None


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Linear attention with a gated delta rule (Gated DeltaNet, arXiv 2412.06464): Qwen3-Next, Qwen3.5."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int  # taps of the short convolution
    fused: bool = True  # one projection for q, k, v and z, another for b and a (Qwen3-Next); else apart


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Kimi delta attention (KDA, arXiv 2510.26692): a delta rule whose gate has an entry for each channel."""

    heads: int
    key_dim: int
    value_dim: int
    kernel: int
    full_gate: bool = False  # the output's gate in one projection; else through a rank of key_dim


@dataclass(frozen=True, slots=True)
class Mamba2:
    """A state-space layer (Mamba-2, arXiv 2405.21060): state of heads × head_dim × state_dim."""

    heads: int
    head_dim: int
    groups: int
    state_dim: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    norm: bool = True  # a gated norm before the projection out


@dataclass(frozen=True, slots=True)
class Mamba:
    """A selective state-space layer (Mamba, arXiv 2312.00752), as Jamba has it."""

    inner: int
    state_dim: int
    dt_rank: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    norms: bool = True  # Jamba's RMS norms of dt, B and C


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Linear attention with a decay (MiniMax-01, arXiv 2501.08313): state of heads × head_dim × head_dim."""

    heads: int
    head_dim: int


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated short convolution (LFM2): the last `kernel` - 1 tokens are its state."""

    width: int
    kernel: int
    bias: bool = False


Recurrent: TypeAlias = GatedDelta | KimiDelta | Mamba2 | Mamba | LightningAttention | ShortConvolution
Attending: TypeAlias = Attention | LatentAttention | CompressedAttention
Mixer: TypeAlias = Attending | Recurrent
