"""The textbook's accounting of both phases: the round formulas that fit on a napkin.

Prefill of S tokens:              FLOPs 2·W·S + 2·L·heads·head_dim·S²     bytes w·W + KV written for S tokens
Decode step, batch B, context C:  FLOPs B·(2·W + 4·L·heads·head_dim·C)    bytes w·W + KV read for B·C tokens

W: weights that are multiplied by (blocks and output projection), w: bytes a weight. A layer with a sliding
window sees the window's tokens at the most. Unlike the floor, this rounds the causal triangle to S²/2, leaves
out a decode step's own token and the embedding's gather, and gives logits to every prompt row.
After Pope et al. 2023 (Efficiently Scaling Transformer Inference) and Williams et al. 2009 (Roofline).
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twophase.model.cache import kv_bytes_per_token
from twophase.model.counts import matmul_parameters
from twophase.model.spec import ModelSpec

Floats = NDArray[np.float64]
Logits = Literal["all", "last"]


@dataclass(frozen=True, slots=True)
class Work:
    """FLOPs and bytes of passes, one element a pass."""

    flops: Floats
    bytes: Floats


@dataclass(frozen=True, slots=True)
class Formats:
    """How the model is stored, in bytes an element, and which prompt rows get logits."""

    weight_bytes: float = 2.0
    kv_bytes: float = 2.0
    logits: Logits = "all"


def prefill(spec: ModelSpec, prompt_tokens: ArrayLike, formats: Formats) -> Work:
    """One prompt in one pass, for each of prompt_tokens."""
    S = np.asarray(prompt_tokens, np.float64)
    W = matmul_parameters(spec)
    head = spec.vocab_size * spec.d_model
    head_rows = S if formats.logits == "all" else np.ones_like(S)
    flops = 2.0 * (W - head) * S + 2.0 * head * head_rows
    for attention, layers in Counter(layer.attention for layer in spec.layers).items():
        seen = S if attention.window is None else np.minimum(S, attention.window)
        flops = flops + 2.0 * layers * attention.heads * attention.head_dim * seen * (2 * S - seen)
    return Work(flops, formats.weight_bytes * W + S * kv_bytes_per_token(spec, formats.kv_bytes))


def decode(spec: ModelSpec, batch: ArrayLike, context: ArrayLike, formats: Formats) -> Work:
    """One step: a token for each of `batch` sequences with `context` tokens each; the arrays broadcast."""
    B, C = np.broadcast_arrays(np.asarray(batch, np.float64), np.asarray(context, np.float64))
    W = matmul_parameters(spec)
    flops = 2.0 * W * B
    bytes_ = np.full_like(B, formats.weight_bytes * W)
    for attention, layers in Counter(layer.attention for layer in spec.layers).items():
        seen = C if attention.window is None else np.minimum(C, attention.window)
        flops = flops + 4.0 * layers * attention.heads * attention.head_dim * B * seen
        kv = 2.0 * layers * attention.kv_heads * attention.head_dim * formats.kv_bytes
        bytes_ = bytes_ + kv * B * seen
    return Work(flops, bytes_)


def seconds(work: Work, flops_per_s: float, bytes_per_s: float) -> Floats:
    """The roofline: each pass takes as long as its slower resource."""
    return np.maximum(work.flops / flops_per_s, work.bytes / bytes_per_s)
