"""The storage formats of weights and of the KV cache: bits an element, scales beside them, the arithmetic.

`arithmetic` is the operand type of the fastest kernels for a format, so that a floor stays a floor: 4-bit
floats multiply as 4-bit floats where the hardware has them, whatever a given engine does. Integer formats
that hold weights only (GPTQ, AWQ) are widened to 16 bits before the multiply. llama.cpp rounds activations
to 8 bits and multiplies GGML's types as int8.
"""

import math
from dataclasses import dataclass, replace

from twophase.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Format:
    """How a weight [rows outputs, cols inputs] is stored."""

    name: str
    bits: float  # an element's, without scales
    arithmetic: str  # fp32 | bf16 | fp8 | int8 | fp4
    group: int = 0  # elements along the input dimension that share a scale; 0: none do
    scale_bits: float = 0  # of each group, or of each block
    zero_bits: float = 0  # of each group, or of each row where nothing is grouped
    block: tuple[int, int] | None = None  # rows and cols that share a scale
    row_scale_bits: float = 0
    tensor_scale_bits: float = 0
    approximate: bool = False  # the average of a mix of formats, which differs from model to model

    @property
    def bits_per_weight(self) -> float:
        """Of a large weight: element and its share of scales and zero points."""
        grouped = (self.scale_bits + self.zero_bits) / self.group if self.group else 0.0
        blocked = self.scale_bits / math.prod(self.block) if self.block else 0.0
        return self.bits + grouped + blocked


def stored_bytes(format: Format, rows: int, cols: int) -> float:
    """Bytes of a weight [rows outputs, cols inputs] with scales and zero points; a group begun is whole."""
    bits = rows * cols * format.bits + format.tensor_scale_bits + rows * format.row_scale_bits
    if format.group:
        bits += rows * -(-cols // format.group) * (format.scale_bits + format.zero_bits)
    elif format.block:
        tall, wide = format.block
        bits += -(-rows // tall) * -(-cols // wide) * format.scale_bits
    else:
        bits += rows * format.zero_bits
    return bits / 8


def _ggml(name: str, bits: int, elements: int, bytes_: int) -> Format:
    """A type of GGML: what of a block's bytes is not elements is scales and minima (ggml-common.h)."""
    return Format(name, bits, "int8", group=elements, scale_bits=bytes_ * 8 - bits * elements)


_NVFP4 = Format("nvfp4", 4, "fp4", group=16, scale_bits=8, tensor_scale_bits=32)
_INT4 = Format("int4", 4, "bf16", group=128, scale_bits=16, zero_bits=4)

_GGML = (
    *(_ggml("q1_0", 1, 128, 18), _ggml("tq1_0", 1, 256, 54), _ggml("tq2_0", 2, 256, 66)),
    *(_ggml("q2_k", 2, 256, 84), _ggml("q3_k", 3, 256, 110), _ggml("q4_k", 4, 256, 144)),
    *(_ggml("q5_k", 5, 256, 176), _ggml("q6_k", 6, 256, 210), _ggml("q8_k", 8, 256, 292)),
    *(_ggml("q4_0", 4, 32, 18), _ggml("q4_1", 4, 32, 20), _ggml("q5_0", 5, 32, 22)),
    *(_ggml("q5_1", 5, 32, 24), _ggml("q8_0", 8, 32, 34), _ggml("q8_1", 8, 32, 40)),
    *(_ggml("iq1_s", 1, 256, 50), _ggml("iq1_m", 1, 256, 56), _ggml("iq2_xxs", 2, 256, 66)),
    *(_ggml("iq2_xs", 2, 256, 74), _ggml("iq2_s", 2, 256, 82), _ggml("iq3_xxs", 3, 256, 98)),
    *(_ggml("iq3_s", 3, 256, 110), _ggml("iq4_nl", 4, 32, 18), _ggml("iq4_xs", 4, 256, 136)),
)

# Kinds of file that mix types: bits a weight of the whole file, as llama.cpp's tools/quantize/README.md
# measures them on Llama 3.1 8B; q3_k_m is of Llama 2 7B, which is all that was published.
_MIXES = {
    **{"q2_k_s": 2.9697, "q3_k_s": 3.6429, "q3_k_m": 3.91, "q3_k_l": 4.2979, "q4_k_s": 4.6672},
    **{"q4_k_m": 4.8944, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "iq2_m": 2.9294, "iq3_xs": 3.4977},
    **{"iq3_m": 3.7628},
}

GGUF = frozenset((*(each.name for each in _GGML), *_MIXES))

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("float32", 32, "fp32"),
        Format("bf16", 16, "bf16"),
        Format("fp16", 16, "bf16"),  # every accelerator that has both multiplies them at one rate
        Format("fp8", 8, "fp8", tensor_scale_bits=32),
        Format("fp8-block", 8, "fp8", scale_bits=32, block=(128, 128)),
        Format("fp8-channel", 8, "fp8", row_scale_bits=32),
        Format("int8", 8, "int8", row_scale_bits=32),
        Format("int8-weight-only", 8, "bf16", row_scale_bits=32),
        _INT4,
        replace(_INT4, name="gptq"),
        replace(_INT4, name="awq"),
        replace(_INT4, name="int4-g32", group=32),
        replace(_INT4, name="int4-a8", arithmetic="int8"),
        _NVFP4,
        Format("mxfp4", 4, "fp4", group=32, scale_bits=8),
        Format("mxfp8", 8, "fp8", group=32, scale_bits=8),
        Format("bnb-nf4", 4, "bf16", group=64, scale_bits=32),
        # The scales are themselves stored in 8 bits, with a 32-bit scale for each 256 (arXiv 2305.14314).
        Format("bnb-nf4-double", 4, "bf16", group=64, scale_bits=8 + 32 / 256),
        Format("bnb-int8", 8, "int8", row_scale_bits=32),
        *_GGML,
        *(Format(name, bits, "int8", approximate=True) for name, bits in _MIXES.items()),
    )
}

ALIASES = {
    **{"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "f16": "fp16", "fp32": "float32"},
    **{"f32": "float32", "int8-a8": "int8", "w8a8": "int8", "int4-g128": "int4", "nf4": "bnb-nf4"},
    "w4a16": "int4",
}

# Bytes of an element, with its share of the scales where groups have them; one a tensor or a head is nothing.
KV_FORMATS: dict[str, float] = {
    **{"float32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5},
    **{"q8_0": 34 / 32, "q4_0": 18 / 32, "nvfp4": 9 / 16},
}


def format_named(name: str) -> Format:
    """A format by its name, in any case; InputError where none is called so."""
    wanted = name.strip().lower()
    found = FORMATS.get(ALIASES.get(wanted, wanted))
    if found is None:
        hint = nearest(name, (*FORMATS, *ALIASES)) or f"; known are {', '.join(FORMATS)}"
        raise InputError(f"no storage format is called {name!r}{hint}")
    return found


def integer_format(
    bits: int, group: int, *, asymmetric: bool = False, arithmetic: str = "bf16", name: str = "int"
) -> Format:
    """Integers with a 16-bit scale (and a zero point) for each `group` inputs; 0 or -1: each row."""
    zero = bits if asymmetric else 0
    if group > 0:
        called = f"{name}{bits}-g{group}"
        return Format(called, bits, arithmetic, group=group, scale_bits=16, zero_bits=zero)
    return Format(f"{name}{bits}-channel", bits, arithmetic, row_scale_bits=16, zero_bits=zero)
