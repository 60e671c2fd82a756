"""A kernel's time as a formula with four numbers, corrected by grids between whose knots is interpolated.

seconds = launch + ((flops / (compute·peak))^p + (bytes / (memory·bandwidth))^p)^(1/p): arithmetic and traffic
meet in a soft knee. Each grid, over the logs of two features of the shape, adds to the log of that.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


class Grid(NamedTuple):
    features: tuple[str, str]
    knots: tuple[Floats, Floats]
    values: Floats  # [knots, knots]: log of measured over the formula


class Curve(NamedTuple):
    kind: str  # the operands' type whose peak counts: bf16, fp8, fp4
    launch_s: float
    compute: float  # share of the peak
    memory: float  # share of the bandwidth
    knee: float  # p: 1 adds both, much more takes the larger
    grids: tuple[Grid, ...] = ()


def curve_s(
    curve: Curve, accelerator: Accelerator, flops: Floats, moved: Floats, features: Mapping[str, ArrayLike]
) -> Floats:
    """Seconds of kernels of so many FLOPs and bytes; features broadcast with them."""
    compute = flops / (curve.compute * accelerator.peak(curve.kind))
    memory = moved / (curve.memory * accelerator.bandwidth)
    seconds = curve.launch_s + (compute**curve.knee + memory**curve.knee) ** (1 / curve.knee)
    return np.asarray(seconds * np.exp(correction(curve, features)))


def correction(curve: Curve, features: Mapping[str, ArrayLike]) -> Floats:
    """Beyond a grid its edge holds."""
    total: Floats = np.zeros(())
    for grid in curve.grids:
        i, up = between(grid.knots[0], np.asarray(features[grid.features[0]], np.float64))
        j, right = between(grid.knots[1], np.asarray(features[grid.features[1]], np.float64))
        low = grid.values[i, j] * (1 - right) + grid.values[i, j + 1] * right
        high = grid.values[i + 1, j] * (1 - right) + grid.values[i + 1, j + 1] * right
        total = total + low * (1 - up) + high * up
    return total


def between(knots: Floats, at: Floats) -> tuple[NDArray[np.intp], Floats]:
    """(the knot at or below, how far it is on to the next, from 0 to 1, in logs)."""
    found = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    low, high = np.log(knots[found]), np.log(knots[found + 1])
    return found, np.clip((np.log(np.maximum(at, knots[0])) - low) / (high - low), 0.0, 1.0)
