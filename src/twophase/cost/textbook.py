"""The textbook's accounting of both phases: the round formulas that fit on a napkin.

Prefill of S tokens:              FLOPs 2·W·S + 2·L·heads·head_dim·S²     bytes w·W + KV written for S tokens
Decode step, batch B, context C:  FLOPs B·(2·W + 4·L·heads·head_dim·C)    bytes w·W + KV read for B·C tokens

W: weights that are multiplied by (blocks and output projection), w: bytes a weight. A layer with a sliding
window sees the window's tokens at the most. Unlike the floor, this rounds the causal triangle to S²/2, leaves
out a decode step's own token and the embedding's gather, gives logits to every prompt row, and of routed
experts reads those that uniform routing touches. Mixers that the textbook doesn't know are counted exactly.
After Pope et al. 2023 (Efficiently Scaling Transformer Inference) and Williams et al. 2009 (Roofline).
"""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twophase.cost.attention import Mixing, mixing
from twophase.cost.deployment import Deployment, Stage, device_stages, kv_arithmetic
from twophase.cost.operators import Work, stage_operators, total
from twophase.cost.spans import Spans, decodes, prefills
from twophase.model.cache import mixer_caches
from twophase.model.mixers import Attention, Mixer

Floats = NDArray[np.float64]
Logits = Literal["all", "last"]


def prefill(own: Deployment, prompt_tokens: ArrayLike, logits: Logits = "all") -> list[Work]:
    """One prompt in one pass, for each of prompt_tokens; of one device of each pipeline stage."""
    spans = prefills(prompt_tokens)
    if logits == "all":
        spans = replace(spans, logits=spans.new)
    return [_work(own, stage, spans, "prefill") for stage in device_stages(own)]


def decode(own: Deployment, batch: ArrayLike, context: ArrayLike) -> list[Work]:
    """One step: a token for each of `batch` sequences with `context` tokens each; the arrays broadcast."""
    spans = decodes(batch, context)
    return [_work(own, stage, spans, "decode") for stage in device_stages(own)]


def _work(own: Deployment, stage: Stage, spans: Spans, phase: Literal["prefill", "decode"]) -> Work:
    later = stage.uncached and replace(stage.uncached, mixers=())
    bare = replace(stage, mixers=(), gathered_bytes=0.0, uncached=later)
    work = total(stage_operators(own, bare, spans, "expected"))
    flops, bytes_ = dict(work.flops), work.bytes
    for mixer, layers in (*stage.mixers, *(stage.uncached.mixers if stage.uncached else ())):
        each = _round(mixer, own, spans, phase)
        many = layers * spans.count
        kind = kv_arithmetic(own)
        flops[kind] = flops.get(kind, 0.0) + (many * each.flops).sum(-1)
        bytes_ = bytes_ + (many * (each.read_bytes + each.written_bytes)).sum(-1)
    return Work(flops, bytes_)


def _round(mixer: Mixer, own: Deployment, spans: Spans, phase: Literal["prefill", "decode"]) -> Mixing:
    """Of one layer and span."""
    plain = isinstance(mixer, Attention) and not mixer.chunk and not mixer.top_k
    if not plain:
        return mixing(mixer, spans.new, spans.context, own.kv_bytes, own.plan.tp)
    assert isinstance(mixer, Attention)
    tokens = (spans.new if phase == "prefill" else spans.context).astype(np.float64)
    seen = tokens if mixer.window is None else np.minimum(tokens, mixer.window)
    pairs = seen * (2 * tokens - seen) / 2 if phase == "prefill" else seen
    heads = -(-mixer.heads // own.plan.tp)
    entry = sum(cache.entry_bytes for cache in mixer_caches(mixer, own.kv_bytes, own.plan.tp))
    moved = (tokens if phase == "prefill" else seen) * entry
    return Mixing(2.0 * heads * (mixer.head_dim + mixer.value_dim) * pairs, moved, np.zeros_like(moved))
