"""The matrix multiplies that one device runs in a pass, one by one: what kernel curves are read with.

Engines multiply by weights that share their input at once: queries, keys and values; gate and up; the two
projections down of latent attention. Tensor parallelism cuts outputs or inputs as in cost.deployment.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan, share, stages
from twophase.model.formats import Format, stored_bytes
from twophase.model.mixers import Mixer
from twophase.model.spec import Layer, MoE
from twophase.model.stored import Stored, outer_stored, stored_layers

# By the last word of a weight's name: what is multiplied at once with others that it shares the rest with.
FUSED = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "g_proj"), "qkv_proj"),
    **dict.fromkeys(("gate_proj", "up_proj"), "gate_up_proj"),
    **dict.fromkeys(("q_a_proj", "kv_a_proj_with_mqa"), "qkv_a_proj"),
    **dict.fromkeys(("in_proj_qkv", "in_proj_z"), "in_proj_qkvz"),
    **dict.fromkeys(("in_proj_b", "in_proj_a"), "in_proj_ba"),
}


@dataclass(frozen=True, slots=True)
class Gemm:
    """rows × inputs by inputs × outputs, `times` in a pass, on one device."""

    name: str
    outputs: int
    inputs: int
    format: Format
    times: int = 1

    @property
    def weight_bytes(self) -> float:
        return stored_bytes(self.format, self.outputs, self.inputs)


@dataclass(frozen=True, slots=True)
class Grouped:
    """The routed experts of one layer, `times` in a pass, on one device."""

    experts: int  # of the layer, on all devices
    top_k: int
    devices: int  # that experts are dealt over whole
    hidden: int  # d_model, or the experts' own width
    inter: int  # of one expert on this device
    matrices: int  # 3 gated, else 2
    format: Format
    times: int = 1

    @property
    def here(self) -> float:
        """Experts on one device."""
        return self.experts / self.devices

    @property
    def expert_bytes(self) -> float:
        wide = stored_bytes(self.format, self.inter * (self.matrices - 1), self.hidden)
        return wide + stored_bytes(self.format, self.hidden, self.inter)


@dataclass(frozen=True, slots=True)
class StageShapes:
    gemms: tuple[Gemm, ...]
    grouped: tuple[Grouped, ...]
    heads: tuple[Gemm, ...]  # for rows that want logits
    mixers: tuple[tuple[Mixer, int], ...]
    layers: int
    moe_layers: int


@lru_cache(maxsize=64)
def stage_shapes(own: Deployment) -> tuple[StageShapes, ...]:
    layers, outer = stored_layers(own.spec, own.storage), outer_stored(own.spec, own.storage)
    found = []
    ranges = stages(own.spec, own.plan.pp)
    for i, stage in enumerate(ranges):
        gemms: Counter[Gemm] = Counter()
        grouped: Counter[Grouped] = Counter()
        mixers: Counter[Mixer] = Counter()
        for at in stage:
            layer = own.spec.layers[at]
            gemms.update(_gemms(layers[at], own.plan))
            grouped.update(_grouped(layer, layers[at], own))
            mixers.update(layer.mixers)
        heads = [each for each in outer if each.weight.part == "head"] if i == len(ranges) - 1 else []
        if i == 0:
            gemms.update(_gemms([each for each in outer if each.weight.part != "head"], own.plan))
        found.append(
            StageShapes(
                gemms=_counted(gemms),
                grouped=tuple(
                    Grouped(g.experts, g.top_k, g.devices, g.hidden, g.inter, g.matrices, g.format, n)
                    for g, n in grouped.items()
                ),
                heads=tuple(_gemms(heads, own.plan)),
                mixers=tuple(mixers.items()),
                layers=len(stage),
                moe_layers=sum(isinstance(own.spec.layers[at].feed_forward, MoE) for at in stage),
            )
        )
    return tuple(found)


def _counted(gemms: Counter[Gemm]) -> tuple[Gemm, ...]:
    return tuple(Gemm(g.name, g.outputs, g.inputs, g.format, n) for g, n in gemms.items())


def _gemms(weights: Iterable[Stored], plan: Plan) -> list[Gemm]:
    """Of one layer: like inputs and names together."""
    outputs: dict[tuple[str, int, Format], int] = defaultdict(int)
    for each in weights:
        weight = each.weight
        if not weight.is_matrix or weight.copies > 1:
            continue
        mine = share(weight, plan)
        cut = weight.split == "inputs"
        path, _, last = weight.name.rpartition(".")
        name = f"{path}.{FUSED[last]}" if last in FUSED else weight.name
        inputs = round(weight.inputs * mine) if cut else weight.inputs
        outputs[name, inputs, each.format] += weight.outputs if cut else round(weight.outputs * mine)
    return [Gemm(name, n, k, format) for (name, k, format), n in outputs.items()]


def _grouped(layer: Layer, weights: Iterable[Stored], own: Deployment) -> list[Grouped]:
    moe = layer.feed_forward
    if not isinstance(moe, MoE):
        return []
    routed = next(each for each in weights if each.weight.copies > 1)
    plan = own.plan
    cut = plan.tp * plan.dp // plan.ep if plan.ep > 1 else plan.tp
    return [
        Grouped(
            experts=moe.experts,
            top_k=moe.top_k,
            devices=plan.ep,
            hidden=moe.latent or own.spec.d_model,
            inter=-(-moe.expert.d_ff // cut),
            matrices=3 if moe.expert.gated else 2,
            format=routed.format,
        )
    ]
