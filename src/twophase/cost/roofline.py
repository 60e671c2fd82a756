"""The roofline (Williams, Waterman, Patterson 2009): the least time that a pass can take."""

from dataclasses import dataclass
from typing import Literal

from twophase.cost.operators import totals
from twophase.cost.pass_ import Pass
from twophase.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Floor:
    """A lower bound: all FLOPs at peak, or all compulsory bytes at full bandwidth, whichever takes longer."""

    compute_s: float
    memory_s: float
    flops: float
    bytes: float

    @property
    def seconds(self) -> float:
        return max(self.compute_s, self.memory_s)

    @property
    def bound(self) -> Literal["compute", "memory"]:
        return "compute" if self.compute_s >= self.memory_s else "memory"


def floor(
    spec: ModelSpec,
    pass_: Pass,
    flops_per_s: float,
    bytes_per_s: float,
    weight_bytes: float = 2.0,
    kv_bytes: float = 2.0,
) -> Floor:
    """weight_bytes and kv_bytes: bytes an element in storage."""
    flops, bytes_ = totals(spec, pass_, weight_bytes, kv_bytes)
    return Floor(flops / flops_per_s, bytes_ / bytes_per_s, flops, bytes_)
