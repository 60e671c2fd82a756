"""The roofline (Williams, Waterman, Patterson 2009): the least time that a pass can take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from twophase.cost.deployment import Deployment
from twophase.cost.operators import Touched, Work, works
from twophase.cost.spans import Spans
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
Bound = Literal["compute", "memory"]


@dataclass(frozen=True, slots=True)
class Floor:
    """A lower bound: all FLOPs at peak, or all compulsory bytes at full bandwidth, whichever takes longer.

    Arrays over the passes. Of one device; pipeline stages come one after the other, and their times add up.
    """

    compute_s: Floats
    memory_s: Floats
    seconds: Floats
    flops: Floats
    bytes: Floats

    @property
    def compute_bound(self) -> NDArray[np.bool_]:
        return np.asarray(self.compute_s >= self.memory_s)

    @property
    def bound(self) -> Bound:
        """Of a single pass."""
        return "compute" if bool(self.compute_bound) else "memory"


def floor(own: Deployment, spans: Spans, accelerator: Accelerator, touched: Touched = "least") -> Floor:
    """spans: of one data-parallel replica. FLOPs of each operands' type count at that type's peak."""
    return floor_of(works(own, spans, touched), accelerator)


def floor_of(stages: list[Work], accelerator: Accelerator) -> Floor:
    compute = [compute_seconds(work.flops, accelerator) for work in stages]
    memory = [work.bytes / accelerator.bandwidth for work in stages]
    return Floor(
        compute_s=np.asarray(sum(compute)),
        memory_s=np.asarray(sum(memory)),
        seconds=np.asarray(sum(np.maximum(c, m) for c, m in zip(compute, memory, strict=True))),
        flops=np.asarray(sum(work.total_flops for work in stages)),
        bytes=np.asarray(sum(work.bytes for work in stages)),
    )


def compute_seconds(flops: Mapping[str, Floats], accelerator: Accelerator) -> Floats:
    return np.asarray(sum(own / accelerator.peak(kind) for kind, own in flops.items()), np.float64)
