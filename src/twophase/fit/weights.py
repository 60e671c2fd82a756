"""The weights on one device of each pipeline stage, as an engine holds them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal

from twophase.cost.parallel import resident_bytes, share, stages
from twophase.fit.serving import Serving
from twophase.model.catalogue import Model
from twophase.model.stored import stored_bytes_of, stored_layers

Origin = Literal["given", "counted", "estimated"]

VISION_BYTES = 2  # of a parameter: towers stay in 16 bits
# vLLM's MXFP4 kernels on Hopper and later want experts of so many columns: gpt-oss's 2,880 become 3,072.
MXFP4_COLUMNS = 256


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a device's memory, and how it is known."""

    name: str
    bytes: float
    origin: Origin
    note: str = ""


def weights_of(model: Model, own: Serving) -> tuple[Term, ...]:
    """Of each stage; a vision tower stands on the first."""
    if own.weights_bytes is not None:
        return (Term("weights", own.weights_bytes, "given"),) * own.plan.pp
    held = list(resident_bytes(model.spec, model.storage, own.plan))
    note = model.storage.name
    if model.vision is not None:
        counted = model.vision.parameters
        held[0] += (counted or 0) * VISION_BYTES / own.plan.tp
        note += ", vision in 16 bits" if counted else f"; the tower {model.vision.name} is not counted"
    if own.engine == "vllm" and "mxfp4" in model.storage.name:
        padded = list(_padding(model, own))
        held = [stage + more for stage, more in zip(held, padded, strict=True)]
        note += ", experts padded" if any(padded) else ""
    return tuple(Term("weights", each, "counted", note) for each in held)


def _padding(model: Model, own: Serving) -> Iterator[float]:
    """Bytes that MXFP4 experts gain on a device of each stage."""
    layers = stored_layers(model.spec, model.storage)
    for stage in stages(model.spec, own.plan.pp):
        more = 0.0
        for each in (each for i in stage for each in layers[i]):
            if each.weight.copies == 1 or each.format.name != "mxfp4" or not each.weight.inputs:
                continue
            whole = each.weight.inputs if each.weight.split == "inputs" else each.weight.outputs
            width = whole / (1 if own.plan.ep > 1 else own.plan.tp)
            grown = ceil(width / MXFP4_COLUMNS) * MXFP4_COLUMNS / width - 1
            more += stored_bytes_of(each) * share(each.weight, own.plan) * grown
        yield more
