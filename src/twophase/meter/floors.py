"""What a model on an accelerator allows at best, beside what was measured on a server."""

from dataclasses import dataclass

import numpy as np

from twophase.cost.communication import communication_s, exchanges
from twophase.cost.deployment import Deployment
from twophase.cost.phases import turning_point
from twophase.cost.roofline import floor
from twophase.cost.spans import Spans, decodes, prefills
from twophase.hardware.accelerator import Accelerator

MOST_SEQUENCES = 1 << 16


@dataclass(frozen=True, slots=True)
class Best:
    """The floor of one pass, on one device of each pipeline stage."""

    floor_s: float
    compute_s: float
    memory_s: float
    communication_s: float
    flops: float
    bytes: float

    @property
    def bound(self) -> str:
        if self.communication_s > self.floor_s:
            return "communication"
        return "compute" if self.compute_s >= self.memory_s else "memory"


@dataclass(frozen=True, slots=True)
class Floors:
    """A deployment on an accelerator, asked for floors."""

    own: Deployment
    accelerator: Accelerator

    @property
    def title(self) -> str:
        devices = self.own.plan.devices
        many = f"{devices} × " if devices > 1 else ""
        return f"{self.own.spec.name} in {self.own.storage.name} on {many}{self.accelerator.title}"

    def prefill(self, tokens: int) -> Best:
        return self._best(prefills(tokens))

    def decode(self, batch: int, context: int) -> Best:
        return self._best(decodes(-(-batch // self.own.plan.dp), context))

    def compute_bound_from(self) -> int | None:
        """The shortest prompt whose floor is arithmetic."""
        return turning_point(lambda tokens: floor(self.own, prefills(tokens), self.accelerator).compute_bound)

    def compute_bound_batch(self, context: int) -> int | None:
        """The smallest batch whose decode floor is arithmetic; None: keys and values keep it off."""
        batches = np.unique(np.geomspace(1, MOST_SEQUENCES, 200).astype(np.int64))
        bound = floor(self.own, decodes(batches, context), self.accelerator).compute_bound
        if not bound.any():
            return None
        at = int(np.argmax(bound))
        low, high = (int(batches[at - 1]) + 1 if at else 1), int(batches[at])
        tried = np.arange(low, high + 1)
        return int(tried[np.argmax(floor(self.own, decodes(tried, context), self.accelerator).compute_bound)])

    def pass_bytes(self) -> float:
        """What a decode pass of one sequence reads with nothing in its cache: the weights that it uses."""
        return self.decode(1, 0).bytes

    def sequence_flops_s(self) -> float:
        """Arithmetic of one more sequence at the device's peak."""
        return self.decode(2, 0).compute_s - self.decode(1, 0).compute_s

    def context_bytes(self, contexts: tuple[int, int]) -> float:
        """KV bytes that a token of one sequence's context adds to a pass, between two contexts."""
        low, high = contexts
        return (self.decode(1, high).bytes - self.decode(1, low).bytes) / (high - low)

    def _best(self, spans: Spans) -> Best:
        found = floor(self.own, spans, self.accelerator)
        moved = communication_s(exchanges(self.own, spans, self.accelerator), found.seconds)
        return Best(
            floor_s=float(found.seconds),
            compute_s=float(found.compute_s),
            memory_s=float(found.memory_s),
            communication_s=float(np.asarray(moved)),
            flops=float(found.flops),
            bytes=float(found.bytes),
        )
