"""What a pass moves between devices, and how long that takes at least.

Payloads are activations in 16 bits: rows · d_model after attention and after the MLP (all-reduce), at stage
boundaries (send), and to the experts and back (all-to-all, on the way there in 8 bits where the experts
multiply 8 bits or fewer). An all-reduce of n bytes over N devices is a ring, 2·(N - 1)/N·n a link in
2·(N - 1) hops, or one shot, (N - 1)·n in one hop (Thakur et al. 2005), whichever is faster; switches that
reduce on the way (NVLink SHARP) would move about n. No floor counts this; it stands beside.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.cost.spans import Spans
from twophase.hardware.accelerator import Accelerator, Link
from twophase.model.spec import Layer, MoE

Floats = NDArray[np.float64]
ACTIVATION_BYTES = 2.0
BYTES = {"fp8": 1.0, "int8": 1.0, "fp4": 1.0}  # of an activation on its way to experts that multiply so


@dataclass(frozen=True, slots=True)
class Exchange:
    """One kind of communication of a pass, all layers together. Arrays over the passes."""

    name: str  # all-reduce, all-to-all, send
    times: int  # how often in a pass
    bytes: Floats  # that a device sends in all
    seconds: Floats  # with latency


def exchanges(own: Deployment, spans: Spans, accelerator: Accelerator) -> list[Exchange]:
    """spans: of one data-parallel replica."""
    rows = (spans.new * spans.count).sum(-1).astype(np.float64)
    plan, payload = own.plan, rows * own.spec.d_model * ACTIVATION_BYTES
    found = []
    reductions = sum(_reductions(layer, plan) for layer in own.spec.layers)
    if plan.tp > 1 and reductions:
        found.append(_all_reduces(payload, plan.tp, reductions, accelerator))
    if plan.ep > 1:
        found += _all_to_alls(own, rows, _link(accelerator, plan.tp * plan.dp))
    if plan.pp > 1:
        found.append(_sends(payload, plan, _link(accelerator, plan.tp * plan.dp * 2)))
    return found


def communication_s(every: Iterable[Exchange], like: Floats) -> Floats:
    return np.asarray(sum((each.seconds for each in every), np.zeros_like(like)))


def _reductions(layer: Layer, plan: Plan) -> int:
    """One for all that mixes tokens, one for the feed-forward block, unless its experts are dealt out.

    Where both stand side by side on one norm (Falcon, GPT-J), their sums are reduced together.
    """
    dealt = plan.ep > 1 and isinstance(layer.feed_forward, MoE)
    each = bool(layer.mixers) + (layer.feed_forward is not None and not dealt)
    return min(each, 1) if layer.norms == "single" else each


def _link(accelerator: Accelerator, devices: int) -> Link:
    return accelerator.intra if devices <= accelerator.devices_per_node else accelerator.inter


def _all_reduces(payload: Floats, tp: int, times: int, accelerator: Accelerator) -> Exchange:
    """Beyond a node: reduced inside each, every device's share of that between the nodes, and back."""
    inside = min(tp, accelerator.devices_per_node)
    nodes = -(-tp // inside)
    sent, seconds = _all_reduce(payload, inside, accelerator.intra)
    if nodes > 1:
        between, more = _all_reduce(payload / inside, nodes, accelerator.inter)
        sent, seconds = sent + between, seconds + more
    return Exchange("all-reduce", times, times * sent, times * seconds)


def _all_reduce(payload: Floats, devices: int, link: Link) -> tuple[Floats, Floats]:
    """(bytes that a device sends, seconds)."""
    others = devices - 1
    ring = 2 * others / devices * payload / link.bandwidth + 2 * others * link.latency_s
    one_shot = others * payload / link.bandwidth + link.latency_s * (others > 0)
    sent = np.where(ring <= one_shot, 2 * others / devices, others) * payload
    return sent, np.minimum(ring, one_shot)


def _all_to_alls(own: Deployment, rows: Floats, link: Link) -> list[Exchange]:
    """To the experts and back, for each layer that has them: a row goes once to each device that it needs."""
    plan = own.plan
    kind = own.arithmetic or own.storage.linear.arithmetic
    both_ways = BYTES.get(kind, ACTIVATION_BYTES) + ACTIVATION_BYTES
    mine = rows / plan.tp * own.spec.d_model  # a device sends its part of the replica's rows
    moes = Counter(layer.feed_forward for layer in own.spec.layers if isinstance(layer.feed_forward, MoE))
    found = []
    for moe, layers in moes.items():
        sent = layers * mine * other_devices(moe, plan.ep) * both_ways
        seconds = sent / link.bandwidth + 2 * layers * link.latency_s
        found.append(Exchange("all-to-all", 2 * layers, sent, seconds))
    return found


def other_devices(moe: MoE, ep: int) -> float:
    """Devices beside its own that a row's experts are on, of uniform routing: top_k drawn without return."""
    elsewhere = moe.experts - moe.experts // ep
    return (ep - 1) * (1 - comb(elsewhere, moe.top_k) / comb(moe.experts, moe.top_k))


def _sends(payload: Floats, plan: Plan, link: Link) -> Exchange:
    hops = plan.pp - 1
    sent = hops * payload / plan.tp
    return Exchange("send", hops, sent, sent / link.bandwidth + hops * link.latency_s)


def bubble(plan: Plan, microbatches: int) -> float:
    """Share of a pipeline's time in which stages wait: (pp - 1) of microbatches + pp - 1 turns (GPipe)."""
    return (plan.pp - 1) / (microbatches + plan.pp - 1)
