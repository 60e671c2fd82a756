"""What transforms each row on its own: an MLP, or a mixture of experts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twophase.engine.scratch import Array
from twophase.kernels.experts import gather, route, spread
from twophase.kernels.linear import grouped_linear, linear
from twophase.kernels.packing import Panels, padded
from twophase.kernels.rows import ACTIVATIONS, activate
from twophase.model.spec import MLP, FeedForward, MoE

Buffer = Callable[..., Array]  # Scratch.buffer
NOTHING = np.zeros(0, np.float32)
NO_ROWS = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class MLPWeights:
    """gate and up one below the other (each expert's in turn), or up alone; biases may be empty."""

    up: Panels
    up_bias: Array
    down: Panels
    down_bias: Array


@dataclass(frozen=True, slots=True)
class MoEWeights:
    router: Panels  # below it the shared expert's gate, from a panel of its own on
    experts: MLPWeights
    shared: MLPWeights | None


FeedForwardWeights = MLPWeights | MoEWeights


def up_rows(own: MLP) -> int:
    """Rows of what goes up, padded."""
    return padded(own.d_ff) * (2 if own.gated else 1)


def router_rows(own: MoE) -> int:
    return padded(own.experts) + (padded(1) if own.shared_gate else 0)


def feed_forward(
    x: Array, weights: FeedForwardWeights, own: FeedForward, buffer: Buffer, y: Array, threads: int
) -> None:
    """y = the block of x: [rows, d_model] both, padded."""
    if isinstance(weights, MLPWeights):
        assert isinstance(own, MLP)
        _mlp(x, weights, own, buffer, y, threads)
    else:
        assert isinstance(own, MoE)
        _mixture(x, weights, own, buffer, y, threads)


def _mlp(x: Array, weights: MLPWeights, own: MLP, buffer: Buffer, y: Array, threads: int) -> None:
    wide = buffer("wide", len(x), up_rows(own))
    active = buffer("active", len(x), padded(own.d_ff), x.dtype)
    linear(x, weights.up, weights.up_bias, wide, threads)
    activate(wide, ACTIVATIONS[own.activation], own.gated, active, threads)
    linear(active, weights.down, weights.down_bias, y, threads)


def _mixture(x: Array, weights: MoEWeights, own: MoE, buffer: Buffer, y: Array, threads: int) -> None:
    rows, choices = len(x), len(x) * own.top_k
    int64 = np.dtype(np.int64)
    logits = buffer("router", rows, router_rows(own))
    chosen, places = (buffer(use, rows, own.top_k, int64) for use in ("chosen", "places"))
    shares = buffer("shares", rows, own.top_k)
    starts = buffer("starts", 1, own.experts + 1, int64)[0]
    linear(x, weights.router, NOTHING, logits, threads)
    route(logits, own.experts, own.renormalised, chosen, shares, starts, places, threads)

    shared = NO_ROWS
    if weights.shared and own.shared:
        shared = buffer("shared", rows, y.shape[1])
        _mlp(x, weights.shared, own.shared, buffer, shared, threads)
    spread_x = buffer("spread", choices, x.shape[1], x.dtype)
    wide = buffer("wide", choices, up_rows(own.expert))
    active = buffer("active", choices, padded(own.expert.d_ff), x.dtype)
    each = buffer("experts", choices, y.shape[1])
    spread(x, places, spread_x, threads)
    grouped_linear(spread_x, weights.experts.up, starts, wide, threads)
    activate(wide, ACTIVATIONS[own.expert.activation], own.expert.gated, active, threads)
    grouped_linear(active, weights.experts.down, starts, each, threads)
    gate = padded(own.experts) if own.shared_gate else -1
    gather(each, places, shares, shared, logits, gate, y, threads)
