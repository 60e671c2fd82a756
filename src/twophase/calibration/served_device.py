"""What a device does in a pass, as seconds at its peaks and bandwidths: before any efficiency is applied.

Fields are floats for one deployment, or arrays over many, which a fit evaluates at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.floors import flat_stages, stage_mixes
from twophase.cost.communication import ACTIVATION_BYTES, exchanges
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import resident_bytes
from twophase.cost.spans import prefills
from twophase.hardware.accelerator import Accelerator
from twophase.model.mixers import Attending, LatentAttention
from twophase.model.spec import MoE

Floats = NDArray[np.float64]
ROWS = 8192  # of the pass that says how much a row exchanges
BITS = {"fp4": 2, "fp8": 1, "int8": 1}  # of operands: 0 stands for 16 bits and more


class Device(NamedTuple):
    """One device of a data-parallel replica, its pipeline stages one after the other."""

    flop_s: Floats  # [..., 3]: multiplies of a row outside the experts, with 16, 8 and 4 bits
    read_s: Floats  # the weights that they read
    bits: Floats  # 0, 1, 2: the format of most of them
    expert_flop_s: Floats  # [..., 3]: of a row's top_k experts
    expert_read_s: Floats  # of all its experts
    experts: Floats
    top_k: Floats
    expert_bits: Floats
    head_flop_s: Floats
    head_read_s: Floats
    windows: Floats  # [..., kinds] of attention: tokens that a row sees; infinite: all
    token_read_s: Floats  # [..., kinds]: a token of the cache
    pair_s: Floats  # [..., kinds]: a (query, key) pair of a prompt, in 16 bits
    absorbed_s: Floats  # [..., kinds]: a pair of a decode
    widened_s: Floats  # a token of cached context before a prompt's chunk reads it
    state_read_s: Floats  # of a sequence's recurrent state, read and written
    recurrence_s: Floats  # of a row
    layers: Floats
    moe_layers: Floats
    latent_layers: Floats
    recurrent_layers: Floats
    reductions: Floats  # all-reduces of a pass
    reduced_s: Floats  # a row's bytes of all of them on the link
    exchanged: Floats  # all-to-alls of a pass
    exchanged_s: Floats  # a row's bytes of all of them
    sharing: Floats  # replicas of the attention whose rows meet at the same experts
    dealt: Floats  # 1: experts lie whole on devices, some of which have more to do than others
    weights_bytes: Floats
    memory_bytes: Floats


def device_of(own: Deployment, accelerator: Accelerator) -> Device:
    plan, layers = own.plan, own.spec.layers
    flops, expert_flops = np.zeros(3), np.zeros(3)
    read = expert_read = head_flop = head_read = 0.0
    experts = top_k = 1.0
    kinds: dict[float, Floats] = {}
    widened = state = recurrence = 0.0
    bandwidth, peak = accelerator.bandwidth, accelerator.peak_flops
    for stage in flat_stages(own):
        for (part, kind), a_row in stage.matrix_flops.items():
            to = expert_flops if part == "experts" else flops
            to[BITS.get(kind, 0)] += a_row / accelerator.peak(kind)
        read += sum(stage.matrix_bytes.values()) / bandwidth
        for each in stage.experts:
            expert_read += each.experts / each.devices * each.bytes / bandwidth
            experts, top_k = float(each.experts), float(each.top_k)
        head_flop += sum(each / accelerator.peak(kind) for kind, each in stage.head_flops.items())
        head_read += stage.head_bytes / bandwidth
        for mix, count in stage_mixes(own, stage):
            state += count * mix.span_bytes / bandwidth
            recurrence += count * mix.row_flops / peak
            widened += count * mix.token_flops / peak
            if mix.token_bytes:
                seen = kinds.setdefault(float(mix.window or np.inf), np.zeros(3))
                absorbed = mix.decode_pair_flops / peak if mix.kind != "attention" else 0.0
                seen += count * np.array([mix.token_bytes / bandwidth, mix.pair_flops / peak, absorbed])
    sent = {each.name: each for each in exchanges(own, prefills(ROWS), accelerator)}
    reduced, exchanged = sent.get("all-reduce"), sent.get("all-to-all")
    link = accelerator.intra.bandwidth
    times = reduced.times if reduced else 0
    ring = 2 * (plan.tp - 1) / plan.tp * own.spec.d_model * ACTIVATION_BYTES / link
    numbers = np.array(list(kinds.values())).reshape(-1, 3)
    return Device(
        flop_s=flops,
        read_s=_number(read),
        bits=_number(_format(flops)),
        expert_flop_s=expert_flops,
        expert_read_s=_number(expert_read),
        experts=_number(experts),
        top_k=_number(top_k),
        expert_bits=_number(_format(expert_flops)),
        head_flop_s=_number(head_flop),
        head_read_s=_number(head_read),
        windows=np.array(list(kinds)),
        token_read_s=numbers[:, 0],
        pair_s=numbers[:, 1],
        absorbed_s=numbers[:, 2],
        widened_s=_number(widened),
        state_read_s=_number(state),
        recurrence_s=_number(recurrence),
        layers=_number(len(layers)),
        moe_layers=_number(sum(isinstance(each.feed_forward, MoE) for each in layers)),
        latent_layers=_number(sum(any(isinstance(m, LatentAttention) for m in x.mixers) for x in layers)),
        recurrent_layers=_number(sum(any(not isinstance(m, Attending) for m in x.mixers) for x in layers)),
        reductions=_number(times),
        reduced_s=_number(times * ring),
        exchanged=_number(exchanged.times if exchanged and plan.dp > 1 else 0),
        exchanged_s=_number(float(exchanged.bytes[()]) / ROWS / link if exchanged and plan.dp > 1 else 0),
        sharing=_number(plan.dp if plan.ep > 1 else 1),
        dealt=_number(plan.ep > 1),
        weights_bytes=_number(max(resident_bytes(own.spec, own.storage, plan))),
        memory_bytes=_number(accelerator.memory_bytes),
    )


def _number(value: float) -> Floats:
    return np.asarray(value, np.float64)


def _format(flop_s: Floats) -> int:
    """Of most multiplies, in operations."""
    return int(np.argmax(flop_s * np.array([1.0, 2.0, 4.0])))


def stacked(devices: list[Device]) -> Device:
    """Many as one, their kinds of attention filled up with some that cost nothing."""
    width = max(len(each.windows) for each in devices)

    def column(name: str) -> Floats:
        values = [getattr(each, name) for each in devices]
        if name in ("windows", "token_read_s", "pair_s", "absorbed_s"):
            fill = np.inf if name == "windows" else 0.0
            values = [np.pad(v, (0, width - len(v)), constant_values=fill) for v in values]
        return np.array(values)

    return Device(*(column(name) for name in Device._fields))
