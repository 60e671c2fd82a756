"""The seconds of a deployment's passes, by arithmetic alone, by kernels' curves, by measured passes."""

from dataclasses import dataclass
from typing import Literal

from twophase.calibration.calibrated import Calibration, scaled
from twophase.calibration.curve_times import curve_times
from twophase.calibration.curves import curves_of
from twophase.calibration.floors import floor_times
from twophase.cost.deployment import Deployment
from twophase.cost.pass_times import PassTimes
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
    """Of one data-parallel replica. With a calibration, its kind goes before `provenance`."""
    if provenance == "floor" and calibration is None:
        times = floor_times(own, accelerator, max_rows, max_sequences)
        return Estimate(times, "floor", (1.0, float("inf")), source="arithmetic")
    curves = curves_of(accelerator)
    times = curve_times(own, accelerator, curves, engine, max_rows, max_sequences)
    if calibration is None:
        return Estimate(times, "curves", curves.interval, curves.extrapolated, curves.source)
    return Estimate(scaled(times, calibration), "calibrated", calibration.interval, source=calibration.source)


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
