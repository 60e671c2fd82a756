"""All that is considered: accelerators × formats × parallelism × engine options, whole or split by phase."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from twophase.cost.parallel import require_divisible
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import Model
from twophase.model.spec import MoE
from twophase.plan.candidate import Kind, Layout


@dataclass(frozen=True, slots=True)
class Space:
    """Formats by name, "" for the checkpoint's own. Sizes that a model or a node can't have are left out."""

    gpus: tuple[str, ...]
    weights: tuple[str, ...] = ("",)
    kv: tuple[str, ...] = ("bf16",)
    tp: tuple[int, ...] = (1, 2, 4, 8)
    pp: tuple[int, ...] = (1, 2)
    experts: bool = True  # experts whole on devices, too, where there are any
    max_tokens: tuple[int, ...] = (2048, 8192)
    max_sequences: tuple[int, ...] = (64, 256)
    aggregated: bool = True
    disaggregated: bool = True


def layouts(space: Space, model: Model, accelerators: Mapping[str, Accelerator]) -> list[Layout]:
    """In the order of the space. tp stays within a node."""
    found = []
    moe = any(isinstance(layer.feed_forward, MoE) for layer in model.spec.layers)
    for gpu, weights, kv, tp, pp in product(space.gpus, space.weights, space.kv, space.tp, space.pp):
        if tp > max(accelerators[gpu].devices_per_node, 1):
            continue
        for ep in (1, tp) if moe and space.experts and tp > 1 else (1,):
            own = Layout(gpu, weights, kv, tp, pp, ep)
            if _divides(model, own):
                found.append(own)
    return found


def _divides(model: Model, own: Layout) -> bool:
    try:
        require_divisible(model.spec, own.plan)
    except InputError:
        return False
    return True


def kinds(space: Space, of: Layout) -> list[Kind]:
    """Each of its stages' microbatches takes a sequence at least."""
    sequences = [each for each in space.max_sequences if each >= of.pp]
    return [Kind(of, tokens, seqs) for tokens, seqs in product(space.max_tokens, sequences)]


def prefills(space: Space, own: Kind) -> bool:
    """Considered as a prefill replica: prompts go one after the other, so few sequences are enough."""
    return space.disaggregated and own.max_sequences == min(space.max_sequences)


def decodes(space: Space, own: Kind) -> bool:
    """Considered as a decode replica: a pass has a row a sequence, so the least budget that holds them."""
    enough = [each for each in space.max_tokens if each >= own.max_sequences]
    return space.disaggregated and own.max_tokens == min(enough or [max(space.max_tokens)])


def pairs(space: Space, own: list[Kind]) -> Iterator[tuple[Kind, Kind]]:
    """(prefill, decode) of the same accelerator and formats: the KV cache is sent as it is."""
    by: dict[tuple[str, str, str], tuple[list[Kind], list[Kind]]] = {}
    for each in own:
        at = each.layout
        first, second = by.setdefault((at.gpu, at.weights, at.kv), ([], []))
        if prefills(space, each):
            first.append(each)
        if decodes(space, each):
            second.append(each)
    for first, second in by.values():
        yield from product(first, second)
