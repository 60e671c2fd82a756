"""What a pass's exchanges between devices take: a latency that no bandwidth shortens, then the link."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curves import Curves, ExchangeCurve
from twophase.cost.communication import ACTIVATION_BYTES, other_devices
from twophase.cost.deployment import Deployment
from twophase.hardware.accelerator import Accelerator, Link
from twophase.model.spec import Layer, MoE

Floats = NDArray[np.float64]
# Assumed: the share of a network's bandwidth that collectives reach, and their latency
BETWEEN_NODES = 0.7
NODE_LATENCY_S = 20e-6
SEND_S = 10e-6  # assumed, too: a pipeline's send and receive, once
# Of a PCIe link, what NCCL makes use of as it comes: on the two channels that it then opens, RTX PRO 6000 in
# PCIe 5 slots reach 22 GB/s (41 with eight, or behind switches), as the measured L40S in PCIe 4 slots do:
# github.com/voipmonitor/rtx6kpro, hardware/pcie-bandwidth.md and optimization/nccl-tuning.md
PCIE_USED = 32e9


def exchanges_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> Floats:
    """Of all stages; rows: of one data-parallel replica."""
    plan, payload = own.plan, rows * own.spec.d_model * ACTIVATION_BYTES
    total = np.zeros_like(rows)
    if plan.tp > 1:
        count = sum(reductions(layer, own) for layer in own.spec.layers)
        total += count * all_reduce_s(payload, plan.tp, accelerator, curves)
    if plan.ep > 1:
        total += dispatches_s(own, accelerator, curves, rows)
    if plan.pp > 1:
        link = _link(accelerator, plan.tp * plan.dp * 2)
        total += (plan.pp - 1) * (SEND_S + payload / plan.tp / (BETWEEN_NODES * link.bandwidth))
    return np.asarray((rows > 0) * total)


def dispatches_s(own: Deployment, accelerator: Accelerator, curves: Curves, rows: Floats) -> Floats:
    """Of rows to the devices that hold their experts, and back."""
    total = np.zeros_like(rows)
    payload = rows * own.spec.d_model * ACTIVATION_BYTES / own.plan.tp
    moes = Counter(each.feed_forward for each in own.spec.layers if isinstance(each.feed_forward, MoE))
    for moe, layers in moes.items():
        total += 2 * layers * _all_to_all_s(own, moe, payload, accelerator, curves)
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
    total = exchange_s(curves.exchange["all-reduce"], payload, inside, accelerator.intra)
    if nodes > 1:
        sent = 2 * (nodes - 1) / nodes * payload / inside
        total = total + 2 * NODE_LATENCY_S + sent / (BETWEEN_NODES * accelerator.inter.bandwidth)
    return total


def _all_to_all_s(
    own: Deployment, moe: MoE, payload: Floats, accelerator: Accelerator, curves: Curves
) -> Floats:
    """One way; a row goes once to each device that it needs, and the curve counts it for all of them. Over
    PCIe all rows go to all devices, and sums of them back: kernels that send what is needed want NVLink or a
    network (vLLM falls back on AgRsAll2AllManager: all-gather, reduce-scatter).
    """
    ep, curve = own.plan.ep, curves.exchange["all-to-all"]
    sent = payload * other_devices(moe, ep)
    if own.plan.tp * own.plan.dp > accelerator.devices_per_node:
        return np.asarray(NODE_LATENCY_S + sent / (BETWEEN_NODES * accelerator.inter.bandwidth))
    if curve.link <= PCIE_USED:
        sent = payload * (ep - 1)
    total = sent * ep / (ep - 1)  # a collective's payload, of which others/ep leave the device
    return exchange_s(curve, total, ep, accelerator.intra)


def exchange_s(curve: ExchangeCurve, payload: Floats, devices: int, link: Link) -> Floats:
    """Interpolated in logs; what exceeds the latency goes with the link's bandwidth."""
    if devices == 1:
        return np.zeros_like(payload)
    sizes = sorted(curve.seconds)
    measured = curve.seconds[min((size for size in sizes if size >= devices), default=sizes[-1])]
    at = np.maximum(payload, curve.payload[0])
    inside = np.exp(np.interp(np.log(at), np.log(curve.payload), np.log(measured)))
    beyond = np.maximum(payload / curve.payload[-1], 1.0)
    least = measured[0]
    bandwidth = min(link.bandwidth, PCIE_USED) if curve.link <= PCIE_USED else link.bandwidth
    return np.asarray(least + (inside * beyond - least) * (curve.link / bandwidth))
