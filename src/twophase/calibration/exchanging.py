"""What a pass's exchanges between devices take: a latency that no bandwidth shortens, then the link."""

from collections import Counter
from math import log2

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curves import Curves
from twophase.cost.communication import ACTIVATION_BYTES, other_devices
from twophase.cost.deployment import Deployment
from twophase.hardware.accelerator import Accelerator, Link
from twophase.model.spec import Layer, MoE

Floats = NDArray[np.float64]


def exchanges_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> Floats:
    """Of all stages; rows: of one data-parallel replica."""
    plan, payload = own.plan, rows * own.spec.d_model * ACTIVATION_BYTES
    total = np.zeros_like(rows)
    if plan.tp > 1:
        count = sum(reductions(layer, own) for layer in own.spec.layers)
        total += count * all_reduce_s(payload, plan.tp, accelerator, curves)
    if plan.ep > 1:
        moes = Counter(each.feed_forward for each in own.spec.layers if isinstance(each.feed_forward, MoE))
        link = _link(accelerator, plan.tp * plan.dp)
        for moe, layers in moes.items():
            sent = payload / plan.tp * other_devices(moe, plan.ep)
            each = 2 * curves.exchange.launch_s + sent / (curves.exchange.bandwidth * link.bandwidth)
            total += 2 * layers * each
    if plan.pp > 1:
        link = _link(accelerator, plan.tp * plan.dp * 2)
        total += (plan.pp - 1) * (10e-6 + payload / plan.tp / (curves.exchange.bandwidth * link.bandwidth))
    return np.asarray((rows > 0) * total)


def reductions(layer: Layer, own: Deployment) -> int:
    """As cost.communication: one for all that mixes tokens, one for the feed-forward block."""
    dealt = own.plan.ep > 1 and isinstance(layer.feed_forward, MoE)
    each = bool(layer.mixers) + (layer.feed_forward is not None and not dealt)
    return min(each, 1) if layer.norms == "single" else each


def _link(accelerator: Accelerator, devices: int) -> Link:
    return accelerator.intra if devices <= accelerator.devices_per_node else accelerator.inter


def all_reduce_s(payload: Floats, devices: int, accelerator: Accelerator, curves: Curves) -> Floats:
    """Beyond a node: inside each, then a device's share of it between the nodes."""
    inside = min(devices, accelerator.devices_per_node)
    nodes = -(-devices // inside)
    total = _ring_s(payload, inside, accelerator.intra, curves)
    return total + _ring_s(payload / inside, nodes, accelerator.inter, curves) if nodes > 1 else total


def _ring_s(payload: Floats, devices: int, link: Link, curves: Curves) -> Floats:
    if devices == 1:
        return np.zeros_like(payload)
    latency = curves.exchange.launch_s + curves.exchange.hop_s * (log2(devices) - 1)
    sent = 2 * (devices - 1) / devices * payload
    return np.asarray(latency + sent / (curves.exchange.bandwidth * link.bandwidth))
