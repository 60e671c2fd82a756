"""A model as it is served, its formats and devices; and from that, what each device does in a pass."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from twophase.cost.parallel import ALONE, Plan, layers_of, share, stages
from twophase.model.cache import mixer_caches
from twophase.model.catalogue import Model
from twophase.model.formats import FORMATS, KV_FORMATS, Format
from twophase.model.mixers import Mixer
from twophase.model.quantization import Storage, uniform
from twophase.model.spec import ModelSpec
from twophase.model.stored import Stored, outer_stored, stored_bytes_of, stored_layers

BF16 = uniform("bf16")


@dataclass(frozen=True, slots=True)
class Deployment:
    spec: ModelSpec
    storage: Storage = BF16
    kv_bytes: float = 2.0  # an element of the KV cache
    plan: Plan = ALONE
    arithmetic: str | None = None  # operands' type of every multiply; None: as each weight's format allows
    kv_integers: bool = False  # the KV cache's elements are integers, where they have 8 bits or fewer


def deployed(model: Model, plan: Plan, kv: str, arithmetic: str | None = None) -> Deployment:
    """kv: a name of KV_FORMATS."""
    return Deployment(
        spec=model.spec,
        storage=model.storage,
        kv_bytes=KV_FORMATS[kv],
        plan=plan,
        arithmetic=arithmetic,
        kv_integers=kv == "int8",
    )


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of like layers, on one device of those that share them."""

    experts: int
    top_k: int
    devices: int  # that experts are dealt over whole: 1 where each device has its cut of all
    bytes: float  # of one expert, in all these layers


@dataclass(frozen=True, slots=True)
class Stage:
    """What one device of a pipeline stage holds and does. FLOPs by operands' type."""

    matrix_flops: Mapping[tuple[str, str], float]  # (part, operands' type): for each row
    matrix_bytes: Mapping[str, float]  # by part: read once a pass
    experts: tuple[Experts, ...]
    mixers: tuple[tuple[Mixer, int], ...]
    head_flops: Mapping[str, float]  # for each row that wants logits
    head_bytes: float
    gathered_bytes: float  # looked up for each row
    uncached: "Stage | None" = None  # layers that only rows with logits need: see cached_layers


def cached_layers(spec: ModelSpec) -> int:
    """Layers up to the last that doesn't borrow its keys and values (Gemma 3n and 4).

    Nothing that later ones compute is cached: they need no row but those whose logits are wanted.
    """
    own = [not layer.mixers or any(map(mixer_caches, layer.mixers)) for layer in spec.layers]
    return max((i + 1 for i, keeps in enumerate(own) if keeps), default=0)


def as_bits(weight_bytes: float) -> Storage:
    """A storage of so many bytes an element, whatever the weight: what an engine holds packed."""
    format = Format(f"{8 * weight_bytes:g} bits", 8 * weight_bytes, "bf16")
    return Storage(
        format.name, format, format, quantised=frozenset({"matrix", "embedding", "head", "router"})
    )


@lru_cache(maxsize=256)
def device_stages(own: Deployment) -> tuple[Stage, ...]:
    layers, outer = stored_layers(own.spec, own.storage), outer_stored(own.spec, own.storage)
    found = []
    ranges, cached = stages(own.spec, own.plan.pp), cached_layers(own.spec)
    for i, stage in enumerate(ranges):
        kept = range(stage.start, max(stage.start, min(stage.stop, cached)))
        later = range(kept.stop, stage.stop)
        first, last = i == 0, i == len(ranges) - 1
        beside = [each for each in outer if first and each.weight.part != "head"]
        tables = [each for each in beside if each.weight.table]
        heads = [each for each in outer if last and each.weight.part == "head" and each.weight.inputs]
        weights = Counter(each for at in kept for each in layers[at])
        weights.update(each for each in beside if not each.weight.table)
        made = _stage(own, weights, heads, tables, _mixers(own.spec, kept))
        if later:
            weights = Counter(each for at in later for each in layers[at])
            made = replace(made, uncached=_stage(own, weights, [], [], _mixers(own.spec, later)))
        found.append(made)
    return tuple(found)


def _mixers(spec: ModelSpec, stage: range) -> Counter[Mixer]:
    mixers: Counter[Mixer] = Counter()
    for layer, count in layers_of(spec, stage).items():
        for mixer in layer.mixers:
            mixers[mixer] += count
    return mixers


def _stage(
    own: Deployment,
    weights: Counter[Stored],
    heads: list[Stored],
    tables: list[Stored],
    mixers: Counter[Mixer],
) -> Stage:
    plan = own.plan
    flops: dict[tuple[str, str], float] = defaultdict(float)
    bytes_: dict[str, float] = defaultdict(float)
    experts: dict[tuple[int, int], float] = defaultdict(float)
    for each, count in weights.items():
        weight = each.weight
        if not weight.is_matrix:
            continue
        part, mine = weight.part, share(weight, plan)
        if weight.copies > 1:
            # a row's top_k experts are spread over the devices; all rows of the group come by
            mine = mine * plan.dp if plan.ep > 1 else mine
            experts[weight.copies, weight.used] += stored_bytes_of(each) / weight.copies * count * _cut(plan)
        else:
            bytes_[part] += stored_bytes_of(each) * mine * count
        key = (part, own.arithmetic or each.format.arithmetic)
        flops[key] += 2.0 * weight.active * mine * count
    head_flops: dict[str, float] = defaultdict(float)
    for each in heads:
        mine = 2.0 * each.weight.active * share(each.weight, plan)
        head_flops[own.arithmetic or each.format.arithmetic] += mine
    return Stage(
        matrix_flops=dict(flops),
        matrix_bytes=dict(bytes_),
        experts=tuple(Experts(n, k, plan.ep, held) for (n, k), held in experts.items()),
        mixers=tuple(mixers.items()),
        head_flops=dict(head_flops),
        head_bytes=sum(stored_bytes_of(each) * share(each.weight, plan) for each in heads),
        gathered_bytes=sum(_row_bytes(each) * share(each.weight, plan) for each in tables),
    )


def _cut(plan: Plan) -> float:
    """Of one expert, what a device that has a part in it holds."""
    return 1 / (plan.tp * plan.dp / plan.ep) if plan.ep > 1 else 1 / plan.tp


def _row_bytes(each: Stored) -> float:
    return stored_bytes_of(each) / each.weight.outputs


def kv_arithmetic(own: Deployment) -> str:
    """Operands' type of attention: 8 bits where keys and values are, for kernels that multiply them so."""
    if own.arithmetic:
        return own.arithmetic
    if own.kv_bytes > FORMATS["fp8"].bits / 8:
        return "bf16"
    return "int8" if own.kv_integers else "fp8"
