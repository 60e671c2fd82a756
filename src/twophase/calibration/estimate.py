"""The seconds of a deployment's passes: by arithmetic, kernels' curves, served engines, measured passes."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from twophase.calibration.calibrated import Calibration, scaled
from twophase.calibration.curve_times import curve_times
from twophase.calibration.curve_times import dealt_s as curve_dealt_s
from twophase.calibration.curves import curves_of
from twophase.calibration.floors import dealt_floor, floor_times
from twophase.calibration.served_times import SOURCE, covers, interval, served_times, serves
from twophase.calibration.served_times import dealt_s as served_dealt_s
from twophase.cost.dealt import Dealt
from twophase.cost.deployment import Deployment
from twophase.cost.pass_times import PassTimes
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator

Provenance = Literal["floor", "curves", "served", "calibrated"]


def best_of(accelerator: Accelerator, engine: str) -> Provenance:
    """What came nearest to measured serving there: see docs/accuracy.md."""
    return "served" if covers(accelerator) and serves(engine) else "curves"


@dataclass(frozen=True, slots=True)
class Estimate:
    times: PassTimes
    provenance: Provenance
    interval: tuple[float, float]  # of four passes in five: measured over estimated seconds lie between
    extrapolated: bool = False  # what was measured is of another accelerator
    source: str = ""
    dealt: Dealt | None = None  # where data-parallel ranks go in step; None: each goes alone
    assumed: bool = False  # the interval is: too few passes were measured to tell it


def estimate(
    own: Deployment,
    accelerator: Accelerator,
    engine: str = "vllm",
    *,
    max_rows: int = 8192,
    max_sequences: int = 1024,
    provenance: Provenance | None = "curves",
    calibration: Calibration | None = None,
) -> Estimate:
    """Of one data-parallel replica. A calibration goes before `provenance`, and says what it scales.

    provenance: None stands for `best_of` accelerator and engine.
    """
    provenance = provenance or best_of(accelerator, engine)
    floor = floor_times(own, accelerator, max_rows, max_sequences)
    dealt = dealt_floor(own, accelerator, max_rows) if own.plan.ep > 1 and own.plan.dp > 1 else None
    if calibration is None and provenance == "calibrated":
        raise InputError("no calibration is given: `twophase calibrate` makes one")
    if provenance == "floor" and calibration is None:
        return Estimate(floor, "floor", (1.0, math.inf), source="arithmetic alone", dealt=dealt)
    rows = np.arange(max_rows + 1.0)
    if provenance == "served" and calibration is None:
        times = served_times(own, accelerator, engine, max_rows, max_sequences)
        if dealt is not None:
            dealt = dealt.taking(*served_dealt_s(own, accelerator, rows))
        return Estimate(times, "served", interval(accelerator), not covers(accelerator), SOURCE, dealt)
    curves = curves_of(accelerator)
    if calibration is None or calibration.base == "curves":
        times = curve_times(own, accelerator, curves, engine, max_rows, max_sequences)
        if dealt is not None:
            dealt = dealt.taking(*curve_dealt_s(own, accelerator, curves, rows))
    else:
        times = floor
    if calibration is None:
        return Estimate(times, "curves", curves.interval, curves.extrapolated, curves.source, dealt)
    scale = calibration.coefficients.prompt_rows
    return Estimate(
        scaled(times, floor, calibration.coefficients),
        "calibrated",
        calibration.interval,
        extrapolated=calibration.accelerator != accelerator.name or calibration.model != own.spec.name,
        source=calibration.source,
        dealt=dealt and dealt.taking(scale * dealt.experts_s, scale * dealt.exchanges_s),
        assumed=calibration.p90_error is None,
    )


def pass_times(
    own: Deployment,
    accelerator: Accelerator,
    engine: str = "vllm",
    *,
    max_rows: int = 8192,
    max_sequences: int = 1024,
    provenance: Provenance | None = "curves",
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
