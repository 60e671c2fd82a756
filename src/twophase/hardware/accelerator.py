"""An accelerator as its datasheet tells it: the two roofs, the memory that a model must fit, the links."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twophase.errors import InputError

Kind = Literal["datasheet", "measured", "user"]

# An operand's type, and the types whose arithmetic takes it where the device has no own, nearest first.
WIDER: Mapping[str, tuple[str, ...]] = {
    "fp4": ("fp8", "bf16", "fp16", "tf32", "fp32"),
    "fp8": ("bf16", "fp16", "tf32", "fp32"),
    "int8": ("bf16", "fp16", "tf32", "fp32"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": (),
}
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")


@dataclass(frozen=True, slots=True)
class Link:
    """What carries bytes between two devices."""

    bandwidth: float  # bytes/s that one device sends, all its lanes together, in one direction
    latency_s: float  # of a small message over one hop; indicative, no floor counts it


# What a device of which no link is stated is given: the slowest that is common.
PCIE_4 = Link(bandwidth=32e9, latency_s=2.5e-6)
ETHERNET_100G = Link(bandwidth=12.5e9, latency_s=5e-6)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device. Peaks are dense: a figure that counts on sparsity is halved."""

    name: str  # as given to --gpu: h100-sxm
    title: str  # as people write it: H100 SXM
    vendor: str
    flops: Mapping[str, float]  # FLOP/s by the operands' type, one of DTYPES; fp32 without TF32
    memory_bytes: float  # that the driver lets a process have
    marketed_bytes: float  # as printed on the box: 80 GB are 80e9
    bandwidth: float  # bytes/s
    devices_per_node: int = 1  # that reach one another over `intra`
    intra: Link = PCIE_4
    inter: Link = ETHERNET_100G
    price_per_hour: float | None = None  # USD on demand, indicative
    price_date: str = ""
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)  # of flops, memory, bandwidth, links, price
    kind: Kind = "datasheet"

    @property
    def arithmetic(self) -> str:
        """The type in which it multiplies 16-bit weights: bf16, or fp16 or fp32 where it has no bf16."""
        return next(dtype for dtype in ("bf16", "fp16", "tf32", "fp32") if dtype in self.flops)

    @property
    def peak_flops(self) -> float:
        """FLOP/s in 16 bits."""
        return self.flops[self.arithmetic]

    @property
    def ridge(self) -> float:
        """FLOP/byte at which both roofs take equally long."""
        return self.peak_flops / self.bandwidth

    def peak(self, dtype: str) -> float:
        """FLOP/s on operands of that type; where it has none, of the next wider type that it has.

        Where it has no wider one either, the 16-bit peak, which is then too high and so keeps a floor.
        InputError for a type that is not in DTYPES.
        """
        if dtype not in WIDER:
            raise InputError(f"unknown type of operands {dtype!r}: one of {', '.join(DTYPES)}")
        own = next((each for each in (dtype, *WIDER[dtype]) if each in self.flops), self.arithmetic)
        return self.flops[own]
