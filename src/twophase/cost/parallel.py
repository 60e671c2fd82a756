"""How a model is dealt over devices: tensor, pipeline, expert and data parallel.

tp devices share every layer's heads and widths; pp stages share the layers; dp replicas of the attention
share the sequences. Experts are cut by tp, or with ep > 1 dealt whole over the tp·dp devices of a stage.
"""

from collections import Counter
from dataclasses import dataclass
from math import ceil

from twophase.errors import InputError
from twophase.model.mixers import Attending, Attention, GatedDelta, KimiDelta, LightningAttention, Mamba2
from twophase.model.quantization import Storage
from twophase.model.spec import Layer, ModelSpec, MoE, Weight
from twophase.model.stored import Stored, outer_stored, stored_bytes_of, stored_layers

MOST_DEVICES = 100_000
VOCABULARY_PADDING = 64  # vLLM and SGLang pad the embedding's rows to a multiple of this, then deal them out


@dataclass(frozen=True, slots=True)
class Plan:
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def devices(self) -> int:
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        said = [f"{name.upper()}{size}" for name, size in self.sizes if size > 1]
        return " ".join(said) or "one device"

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        return (("tp", self.tp), ("pp", self.pp), ("ep", self.ep), ("dp", self.dp))


ALONE = Plan()


def require_divisible(spec: ModelSpec, plan: Plan) -> None:
    """InputError where engines refuse the plan: heads, vocabulary or experts that can't be dealt evenly."""
    for name, size in plan.sizes:
        if not 1 <= size <= MOST_DEVICES:
            raise InputError(f"--{name} {size}: it must be a whole number from 1 to {MOST_DEVICES:,}")
    indivisible = _indivisible(spec, plan.tp)
    if indivisible:
        right = [size for size in range(2, 129) if not _indivisible(spec, size)]
        others = ", ".join(map(str, right[:6])) or "only 1"
        raise InputError(f"--tp {plan.tp}: {spec.name}'s {indivisible} can't be shared evenly; {others} can")
    if plan.pp > len(spec.layers):
        raise InputError(f"--pp {plan.pp}: {spec.name} has {len(spec.layers)} layers, one a stage at least")
    if plan.ep == 1:
        return
    moes = [layer.feed_forward for layer in spec.layers if isinstance(layer.feed_forward, MoE)]
    if not moes:
        raise InputError(f"--ep {plan.ep}: {spec.name} has no experts")
    if (plan.tp * plan.dp) % plan.ep:
        raise InputError(f"--ep {plan.ep} must divide --tp times --dp, {plan.tp * plan.dp}")
    if any(moe.experts % plan.ep for moe in moes):
        raise InputError(f"--ep {plan.ep}: {moes[0].experts} experts can't be dealt evenly over them")


def _indivisible(spec: ModelSpec, tp: int) -> str | None:
    for layer in dict.fromkeys(spec.layers):
        for mixer in layer.mixers:
            if isinstance(mixer, Attending | KimiDelta | LightningAttention | Mamba2) and mixer.heads % tp:
                return f"{mixer.heads} heads"
            if isinstance(mixer, Attention) and mixer.kv_heads % tp and tp % mixer.kv_heads:
                return f"{mixer.kv_heads} key-value heads"
            if isinstance(mixer, GatedDelta) and mixer.key_heads % tp:
                return f"{mixer.key_heads} heads of its linear attention"
    padded = -(-spec.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
    return f"vocabulary of {padded:,}" if padded % tp else None


def stages(spec: ModelSpec, pp: int) -> tuple[range, ...]:
    """The layers of each pipeline stage; the remainder goes to the stages before the last, as in vLLM."""
    layers, left = divmod(len(spec.layers), pp)
    sizes = [layers] * pp
    for i in range(left):
        sizes[-(i + 2) % pp] += 1
    starts = [sum(sizes[:i]) for i in range(pp)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def share(weight: Weight, plan: Plan) -> float:
    """Of a weight, or of all its copies together, what one device holds: whole heads, one at the least."""
    if weight.copies > 1:
        return 1 / (plan.tp * plan.dp if plan.ep > 1 else plan.tp)
    if weight.split == "whole" or plan.tp == 1:
        return 1.0
    units = weight.units or (weight.inputs if weight.split == "inputs" else weight.outputs)
    return ceil(units / plan.tp) / units


def resident_bytes(spec: ModelSpec, storage: Storage, plan: Plan = ALONE) -> tuple[float, ...]:
    """Weight bytes on one device of each pipeline stage: the embedding on the first, the head on the last."""
    layers = stored_layers(spec, storage)
    outer = outer_stored(spec, storage)
    held = []
    for i, own in enumerate(stages(spec, plan.pp)):
        weights = Counter(each for at in own for each in layers[at])
        for each in outer:
            first, last = i == 0, i == plan.pp - 1
            is_head = each.weight.part == "head"
            if is_head and spec.tied_embeddings and each.weight.inputs and plan.pp == 1:
                continue  # the embedding's own table
            if last if is_head or each.weight.part == "norms" else first:
                weights[each] += 1
        held.append(_bytes(weights, plan))
    return tuple(held)


def _bytes(weights: Counter[Stored], plan: Plan) -> float:
    return sum(stored_bytes_of(each) * share(each.weight, plan) * count for each, count in weights.items())


def layers_of(spec: ModelSpec, stage: range) -> Counter[Layer]:
    return Counter(spec.layers[i] for i in stage)
