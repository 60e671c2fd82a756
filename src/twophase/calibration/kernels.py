"""Which kernel's curve speaks for a weight's format on an accelerator."""

from twophase.hardware.accelerator import Accelerator
from twophase.model.formats import Format


def kernel_of(format: Format, arithmetic: str | None, accelerator: Accelerator) -> str:
    """bf16, fp8, fp8-block, fp4 or w4a16; what an accelerator can't multiply is widened to 16 bits."""
    kind = arithmetic or format.arithmetic
    if kind == "fp4" and "fp4" in accelerator.flops and format.bits == 4:
        return "fp4"
    if format.bits <= 5:
        return "w4a16"
    if kind in ("fp8", "int8", "fp4") and kind_of_eight_bits(accelerator):
        return "fp8-block" if format.block or format.name == "mxfp8" else "fp8"
    return "w4a16" if format.bits <= 8 else "bf16"


def kind_of_eight_bits(accelerator: Accelerator) -> bool:
    return "fp8" in accelerator.flops or "int8" in accelerator.flops
