"""Entries of curves.json, and the errors of fits on what was held back from them."""

from typing import Any, NamedTuple

import numpy as np
from kernel_fits import Grids, Work, fit_curve
from numpy.typing import NDArray

from twophase.calibration.curve import Curve, curve_s
from twophase.calibration.least_squares import affine
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ROWS = (1, 4, 16, 17, 64, 65, 128, 129, 256, 257, 512, 1024, 2048, 4096, 16384)
PROFILE_GRIDS = (("rows", ROWS, "elements", (2.0**20, 2.0**24, 2.0**26, 2.0**28)),)
TYPES = {"bf16": "bf16", "fp8": "fp8", "fp8-block": "fp8", "nvfp4": "fp4", "w4a16": "bf16", "mxfp4": "bf16"}
FORMATS = {"w4a16": "int4-g32"}
MATRICES = 3


class Held(NamedTuple):
    """Errors of one operator on what was held back."""

    machine: str
    operator: str
    format: str
    phase: str
    error: Floats  # estimated over measured, less one


def keep_phases(
    held: list[Held], machine: str, operator: str, format: str, rows: Floats, error: Floats, tested: Bools
) -> None:
    """Errors of the tested rows: of few rows, as decodes have, and of many."""
    for phase, some in (("decode", rows <= 256), ("prefill", rows >= 512)):
        held.append(Held(machine, operator, format, phase, error[some & tested]))


def fitted(
    kind: str,
    accelerator: Accelerator,
    work: Work,
    measured: Floats,
    grids: Grids,
    test: Bools,
    usable: Bools,
) -> tuple[dict[str, Any], Floats]:
    """(An entry of the file, of all usable rows; what a fit without the tested ones estimates of each.)"""
    flops, moved, features = work

    def of(rows: Bools) -> Curve:
        every = {name: np.broadcast_to(each, rows.shape)[rows] for name, each in features.items()}
        return fit_curve(kind, accelerator, (flops[rows], moved[rows], every), measured[rows], grids)

    guess = curve_s(of(usable & ~test), accelerator, flops, moved, features)
    return {**entry(of(usable)), "rows": int(usable.sum())}, guess


def entry(curve: Curve) -> dict[str, Any]:
    return {
        "kind": curve.kind,
        "launch_s": float(f"{curve.launch_s:.4g}"),
        "compute": round(curve.compute, 4),
        "memory": round(curve.memory, 4),
        "knee": round(curve.knee, 3),
        "grids": [
            {
                "of": list(grid.features),
                "at": [each.tolist() for each in grid.knots],
                "log": np.round(grid.values, 3).tolist(),
            }
            for grid in curve.grids
        ],
    }


def numbers(values: Floats) -> list[float]:
    return [float(f"{each:.4g}") for each in values]


def norm_numbers(rows: Floats, width: Floats, measured: Floats, accelerator: Accelerator) -> list[float]:
    """Read and written are the row and the residual; much of that stays in the cache between kernels."""
    design = np.stack([np.ones_like(rows), rows * width * 8 / accelerator.bandwidth], 1)
    launch, slope = affine(design, measured)
    return numbers(np.array([launch, 1 / slope]))
