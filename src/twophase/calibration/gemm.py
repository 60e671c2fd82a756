"""How long one matrix multiply takes: launch, arithmetic and traffic meet in a soft knee.

seconds = launch + ((flops / (compute·peak))^p + (bytes / (memory·bandwidth))^p)^(1/p), times what the curve's
grid over rows and weight elements says, interpolated between its knots.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


class GemmCurve(NamedTuple):
    kind: str  # the operands' type whose peak counts: bf16, fp8, fp4
    launch_s: float
    compute: float  # share of the peak
    memory: float  # share of the bandwidth
    knee: float  # p: 1 adds both, much more takes the larger
    row_knots: Floats  # of the grid
    size_knots: Floats
    grid: Floats  # [row knots, size knots]: log of measured over the formula


def gemm_s(
    curve: GemmCurve, accelerator: Accelerator, rows: Floats, outputs: int, inputs: int, weight_bytes: float
) -> Floats:
    flops = 2.0 * rows * outputs * inputs
    moved = weight_bytes + 2.0 * rows * (inputs + outputs)
    return np.asarray((rows > 0) * curve_s(curve, accelerator, rows, flops, moved, outputs * inputs))


def curve_s(
    curve: GemmCurve, accelerator: Accelerator, rows: Floats, flops: Floats, moved: Floats, size: float
) -> Floats:
    compute = flops / (curve.compute * accelerator.peak(curve.kind))
    memory = moved / (curve.memory * accelerator.bandwidth)
    seconds = curve.launch_s + (compute**curve.knee + memory**curve.knee) ** (1 / curve.knee)
    return np.asarray(seconds * np.exp(correction(curve, rows, size)))


def correction(curve: GemmCurve, rows: Floats, size: float | Floats) -> Floats:
    """Bilinear over the logs of rows and size; beyond the grid its edge holds."""
    if not curve.grid.size:
        return np.zeros_like(rows)
    i, up = _between(curve.row_knots, rows)
    j, right = _between(curve.size_knots, np.asarray(size, np.float64))
    low = curve.grid[i, j] * (1 - right) + curve.grid[i, j + 1] * right
    high = curve.grid[i + 1, j] * (1 - right) + curve.grid[i + 1, j + 1] * right
    return np.asarray(low * (1 - up) + high * up)


def _between(knots: Floats, at: Floats) -> tuple[NDArray[np.intp], Floats]:
    """(the knot at or below, how far it is to the next, from 0 to 1)."""
    found = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    low, high = np.log(knots[found]), np.log(knots[found + 1])
    return found, np.clip((np.log(np.maximum(at, knots[0])) - low) / (high - low), 0.0, 1.0)
