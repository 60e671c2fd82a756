"""A deployment with what is counted once for all of a table's rows that it serves."""

from dataclasses import dataclass
from functools import lru_cache

from twophase.cost.deployment import Deployment, Stage, device_stages
from twophase.cost.operators import Touched, stage_operators, total
from twophase.cost.parallel import resident_bytes
from twophase.cost.roofline import Floor, floor_of
from twophase.cost.spans import Spans
from twophase.hardware.accelerator import Accelerator
from twophase.lint.plans import indivisible_heads
from twophase.model.cache import LayerCache, caches, sequence_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Deployed:
    own: Deployment
    stages: tuple[Stage, ...]
    weights_bytes: float  # on the fullest device
    uneven_heads: int | None  # the number of heads that its devices can't share evenly, as no engine runs it
    caches: tuple[tuple[LayerCache, int], ...]  # of all layers, on one of the devices that share heads


@lru_cache(maxsize=4096)
def deployed(own: Deployment) -> Deployed:
    return Deployed(
        own,
        device_stages(own),
        max(resident_bytes(own.spec, own.storage, own.plan)),
        indivisible_heads(own.spec, own.plan.tp),
        tuple(caches(own.spec, own.kv_bytes, own.plan.tp).items()),
    )


def floor(on: Deployed, spans: Spans, accelerator: Accelerator, touched: Touched = "least") -> Floor:
    """cost.roofline's, without looking for the deployment each time."""
    works = [total(stage_operators(on.own, stage, spans, touched)) for stage in on.stages]
    return floor_of(works, accelerator)


def sequences_held(on: Deployed, tokens: float, memory_bytes: float) -> float:
    """Of so many tokens each, beside the weights in a device's memory; infinite where they keep nothing."""
    sequence = sequence_bytes(on.caches, int(tokens)) / on.own.plan.pp
    return max(0.0, memory_bytes - on.weights_bytes) / sequence if sequence else float("inf")
