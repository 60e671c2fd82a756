"""Which kernel's curve speaks for a weight's format on an accelerator."""

from collections.abc import Container

from twophase.hardware.accelerator import Accelerator
from twophase.model.formats import Format


def kernel_of(format: Format, arithmetic: str | None, accelerator: Accelerator, known: Container[str]) -> str:
    """bf16, fp8, fp8-block, nvfp4 or w4a16; what an accelerator can't multiply is widened to 16 bits."""
    kind = arithmetic or format.arithmetic
    if format.bits <= 5:
        return "nvfp4" if kind == "fp4" and "fp4" in accelerator.flops and "nvfp4" in known else "w4a16"
    if kind in ("fp8", "int8", "fp4") and ("fp8" in accelerator.flops or "int8" in accelerator.flops):
        blocks = format.block or format.name == "mxfp8"
        return "fp8-block" if blocks and "fp8-block" in known else "fp8" if "fp8" in known else "bf16"
    return "w4a16" if format.bits <= 8 else "bf16"


def expert_kernel_of(
    format: Format, arithmetic: str | None, accelerator: Accelerator, known: Container[str]
) -> str:
    if format.name == "mxfp4" and "mxfp4" in known:
        return "mxfp4"
    return kernel_of(format, arithmetic, accelerator, known)
