"""Routed experts: grouped matrix multiplies over the distinct experts that a pass's rows touch."""

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curves import Curves
from twophase.calibration.gemm import curve_s
from twophase.calibration.kernels import kernel_of
from twophase.calibration.shapes import Grouped
from twophase.cost.deployment import Deployment
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


def grouped_s(
    own: Deployment, accelerator: Accelerator, curves: Curves, each: Grouped, rows: Floats
) -> Floats:
    """Seconds of one layer on one device; rows: of one data-parallel replica."""
    curve = curves.experts[kernel_of(each.format, own.arithmetic, accelerator)]
    seen = rows * own.plan.dp if each.devices > 1 else rows  # that the experts of all devices see
    touched = each.here * (1 - (1 - each.top_k / each.experts) ** seen)
    routed = seen * each.top_k / each.devices  # (row, expert) pairs on this device
    per_expert = np.where(touched > 0, routed / np.maximum(touched, 1e-9), 0.0)
    flops = 2.0 * routed * each.matrices * each.hidden * each.inter
    moved = touched * each.expert_bytes + routed * 2.0 * (2 * each.hidden + each.matrices * each.inter)
    size = each.matrices * each.hidden * each.inter
    return np.asarray(
        (rows > 0) * curve_s(curve, accelerator, np.maximum(per_expert, 1.0), flops, moved, size)
    )
