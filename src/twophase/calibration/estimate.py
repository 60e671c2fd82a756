"""The seconds of a deployment's passes, by arithmetic alone, by kernels' curves, by measured passes."""

import math
from dataclasses import dataclass
from typing import Literal

from twophase.calibration.calibrated import Calibration, scaled
from twophase.calibration.curve_times import curve_times
from twophase.calibration.curves import curves_of
from twophase.calibration.floors import floor_times
from twophase.cost.deployment import Deployment
from twophase.cost.pass_times import PassTimes
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator

Provenance = Literal["floor", "curves", "calibrated"]


@dataclass(frozen=True, slots=True)
class Estimate:
    times: PassTimes
    provenance: Provenance
    interval: tuple[float, float]  # of four passes in five: measured over estimated seconds lie between
    extrapolated: bool = False  # the curves are of another accelerator
    source: str = ""


def estimate(
    own: Deployment,
    accelerator: Accelerator,
    engine: str = "vllm",
    *,
    max_rows: int = 8192,
    max_sequences: int = 1024,
    provenance: Provenance = "curves",
    calibration: Calibration | None = None,
) -> Estimate:
    """Of one data-parallel replica. A calibration goes before `provenance`, and says what it scales."""
    floor = floor_times(own, accelerator, max_rows, max_sequences)
    if calibration is None and provenance == "calibrated":
        raise InputError("no calibration is given: `twophase calibrate` makes one")
    if provenance == "floor" and calibration is None:
        return Estimate(floor, "floor", (1.0, math.inf), source="arithmetic alone")
    curves = curves_of(accelerator)
    if calibration is None or calibration.base == "curves":
        times = curve_times(own, accelerator, curves, engine, max_rows, max_sequences)
    else:
        times = floor
    if calibration is None:
        return Estimate(times, "curves", curves.interval, curves.extrapolated, curves.source)
    return Estimate(
        scaled(times, floor, calibration.coefficients),
        "calibrated",
        calibration.interval,
        extrapolated=calibration.accelerator != accelerator.name or calibration.model != own.spec.name,
        source=calibration.source,
    )


def pass_times(
    own: Deployment,
    accelerator: Accelerator,
    engine: str = "vllm",
    *,
    max_rows: int = 8192,
    max_sequences: int = 1024,
    provenance: Provenance = "curves",
    calibration: Calibration | None = None,
) -> PassTimes:
    """The times alone of `estimate`."""
    return estimate(
        own,
        accelerator,
        engine,
        max_rows=max_rows,
        max_sequences=max_sequences,
        provenance=provenance,
        calibration=calibration,
    ).times
