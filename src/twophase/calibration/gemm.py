"""A matrix multiply's FLOPs, bytes and features, for its curve."""

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, curve_s
from twophase.cost.communication import ACTIVATION_BYTES
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


def gemm_s(
    curve: Curve, accelerator: Accelerator, rows: Floats, outputs: int, inputs: int, weight_bytes: float
) -> Floats:
    flops, moved, features = gemm_work(rows, outputs, inputs, weight_bytes)
    return np.asarray((rows > 0) * curve_s(curve, accelerator, flops, moved, features))


def gemm_work(
    rows: Floats, outputs: Floats | int, inputs: Floats | int, weight_bytes: Floats | float
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """(FLOPs, bytes, features); a zero row counts as one, for the logs' sake."""
    some = np.maximum(rows, 1.0)
    wide, deep = np.asarray(outputs, np.float64), np.asarray(inputs, np.float64)
    features = {"rows": some, "outputs": wide, "inputs": deep, "elements": wide * deep}
    return 2.0 * some * wide * deep, weight_bytes + ACTIVATION_BYTES * some * (wide + deep), features
