"""An accelerator as its datasheet tells it: the two roofs, and the memory that a model must fit."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device. Peaks are dense: a figure that counts on sparsity is halved."""

    name: str  # as given to --gpu: h100-sxm
    title: str  # as people write it: H100 SXM
    vendor: str
    flops: Mapping[str, float]  # FLOP/s by the operands' type: bf16, fp16, fp8, int8, fp4
    memory_bytes: float
    bandwidth: float  # bytes/s
    source: str

    @property
    def arithmetic(self) -> str:
        """The 16-bit type that it multiplies: bf16, or fp16 where it has no bf16."""
        return "bf16" if "bf16" in self.flops else "fp16"

    @property
    def peak_flops(self) -> float:
        """FLOP/s in 16 bits."""
        return self.flops[self.arithmetic]

    @property
    def ridge(self) -> float:
        """FLOP/byte at which both roofs take equally long."""
        return self.peak_flops / self.bandwidth
