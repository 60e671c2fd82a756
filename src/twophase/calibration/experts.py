"""Routed experts: grouped matrix multiplies over the distinct experts that a pass's rows touch.

Curves are fitted on skewed routing (power law of 1.01) where experts are dealt over devices: the busiest of
them, which sets the pace, is in the curve.
"""

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, curve_s
from twophase.calibration.shapes import Grouped
from twophase.cost.communication import ACTIVATION_BYTES
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]


def grouped_s(curve: Curve, accelerator: Accelerator, each: Grouped, rows: Floats) -> Floats:
    """Seconds of one layer on one device; rows: all that choose among its experts."""
    flops, moved, features = grouped_work(
        rows,
        each.experts,
        each.top_k,
        each.devices,
        each.hidden,
        each.inter,
        each.matrices,
        each.expert_bytes,
    )
    return np.asarray((rows > 0) * curve_s(curve, accelerator, flops, moved, features))


def grouped_work(
    rows: Floats,
    experts: Floats | int,
    top_k: Floats | int,
    devices: Floats | int,
    hidden: Floats | int,
    inter: Floats | int,
    matrices: int,
    expert_bytes: Floats | float,
    touched: Floats | None = None,
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """(FLOPs, bytes, features). touched: distinct experts on the device; else of uniform routing."""
    some = np.maximum(rows, 1.0)
    share = np.asarray(top_k, np.float64) / experts
    here = np.asarray(experts, np.float64) / devices
    distinct = here * (1 - (1 - share) ** some) if touched is None else touched
    distinct = np.maximum(distinct, 1.0)
    routed = some * np.asarray(top_k, np.float64) / devices  # (row, expert) pairs on this device
    wide, deep = np.asarray(inter, np.float64), np.asarray(hidden, np.float64)
    features = {
        "rows": np.maximum(routed / distinct, 1.0),
        "hidden": deep,
        "inter": wide,
        "elements": wide * deep,
        "touched": distinct,
        "devices": np.asarray(devices, np.float64),
    }
    flops = 2.0 * routed * matrices * wide * deep
    moved = distinct * expert_bytes + routed * ACTIVATION_BYTES * (2 * deep + matrices * wide)
    return flops, moved, features
