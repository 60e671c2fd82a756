"""Between float32 and bfloat16, which NumPy doesn't have: its bits stand in uint16."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

QUIET_NAN = np.uint16(0x7FC0)


def to_bf16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Round to nearest, ties to even. NaN stays NaN, which rounding its bits could make an infinity."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), QUIET_NAN, rounded)


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
