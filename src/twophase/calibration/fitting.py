"""A calibration from measured passes: the base's parts scaled, overheads added, by least relative error."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twophase.calibration.calibrated import NAMES, UNCHANGED, Base, Calibration, Coefficients, parts
from twophase.calibration.curve_times import curve_times
from twophase.calibration.curves import curves_of
from twophase.calibration.floors import floor_times
from twophase.calibration.least_squares import affine
from twophase.cost.deployment import Deployment
from twophase.cost.pass_seconds import floor_seconds, pass_cost
from twophase.cost.pass_times import PassTimes
from twophase.errors import InputError
from twophase.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
FEWEST = 4  # passes
SPARE = 8  # more passes than coefficients that they tell, from which on what is left over tells the error
PRIOR = 0.05  # a coefficient that doubles its part, or adds half a pass, weighs as much as so many points
OUTLIER = 2.0  # times its estimate: more of a pass is no property of the machine
CLEARLY = 1.5  # times the error that curves of another machine leave, arithmetic alone must leave to lose
BEATEN = 0.98  # of the floor: a pass faster than that was not of this model on this machine


class Measured(NamedTuple):
    shape: NDArray[np.int64]  # [spans, (new, context)]
    logits: int
    seconds: float


def calibrate(
    own: Deployment, accelerator: Accelerator, engine: str, passes: Sequence[Measured], source: str
) -> Calibration:
    """On the base that explains the passes better: kernels' curves, or arithmetic alone. Curves of another
    machine must be clearly better: they have steps and overheads that this one need not have."""
    if len(passes) < FEWEST:
        raise InputError(f"a calibration takes {FEWEST} measured passes at least, not {len(passes)}")
    rows = max(int(each.shape[:, 0].sum()) for each in passes)
    logits = max(each.logits for each in passes)
    floor = floor_times(own, accelerator, rows, logits)
    require_possible(floor, passes, own, accelerator)
    measured = curves_of(accelerator)
    curves = curve_times(own, accelerator, measured, engine, rows, logits)
    bases: tuple[tuple[Base, PassTimes], ...] = (("curves", curves), ("floor", floor))
    found = []
    for base, times in bases:
        # nothing is faster than the floor, and a factor below 1 would be taken for 1 later
        least = UNCHANGED if base == "floor" else np.zeros(len(NAMES))
        values, seen, ratio = _fit(times, passes, least)
        borrowed = base == "curves" and measured.extrapolated
        found.append((_p90(ratio) * (CLEARLY if borrowed else 1), base, least, values, seen, ratio))
    _, base, least, values, seen, ratio = min(found, key=lambda each: each[0])
    pace = _pace(ratio, np.array([each.seconds for each in passes]))
    values, ratio = np.where(seen, np.maximum(values * pace, least), values), ratio / pace
    low, high = np.quantile(ratio, [0.1, 0.9])
    known = len(passes) >= seen.sum() + SPARE
    if not known:  # a curve through all of a few points: no surer than without them
        low, high = min(low, measured.interval[0]), max(high, measured.interval[1])
    return Calibration(
        coefficients=Coefficients(**dict(zip(NAMES, map(float, values), strict=True))),
        base=base,
        model=own.spec.name,
        accelerator=accelerator.name,
        engine=engine,
        passes=len(passes),
        median_error=float(np.median(np.abs(1 / ratio - 1))) if known else None,
        p90_error=_p90(ratio) if known else None,
        interval=(float(low), float(high)),
        most_rows=rows,
        most_context=max(int(each.shape[:, 1].max()) for each in passes),
        source=source,
    )


def require_possible(
    floor: PassTimes, passes: Sequence[Measured], own: Deployment, accelerator: Accelerator
) -> None:
    faster = 0
    for each in passes:
        _, flops, bytes_ = pass_cost(floor, each.shape[:, 0], each.shape[:, 1], each.logits)
        least = own.plan.pp * floor_seconds(floor, flops, bytes_)
        faster += each.seconds < BEATEN * least
    if faster > len(passes) / 10:
        raise InputError(
            f"{faster} of {len(passes)} passes are faster than {accelerator.title} can be with "
            f"{own.spec.name}: give the accelerator, model and formats that they were measured with"
        )


def _fit(
    times: PassTimes, passes: Sequence[Measured], least: Floats
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """(coefficients, those of which passes tell, measured over estimated of each pass)."""
    design = np.array([parts(times, each.shape, each.logits) for each in passes])
    seconds = np.array([each.seconds for each in passes])
    values = affine(design, seconds, prior=_prior(design, seconds), least=least)
    seen = np.asarray(design.any(axis=0))
    values = np.where(seen, values, UNCHANGED)
    return values, seen, seconds / (design @ values)


def _p90(ratio: Floats) -> float:
    return float(np.quantile(np.abs(1 / ratio - 1), 0.9))


def _pace(ratio: Floats, seconds: Floats) -> float:
    """By which all passes together take longer than estimated: the fit is of typical passes, and where others
    use the machine, too, some take far longer. What decides on queues and throughput is the mean.
    """
    estimated = seconds / ratio
    return float((np.minimum(ratio, OUTLIER) * estimated).sum() / estimated.sum())


def _prior(design: Floats, seconds: Floats) -> Floats:
    """Little overhead, and the base's parts stretched alike: what decides where points do not."""
    base = design @ UNCHANGED
    stretch = float(np.median(seconds / np.maximum(base, 1e-12)))
    rows = []
    for i, usual in enumerate(UNCHANGED):
        seen = design[:, i] > 0
        if not seen.any():
            continue
        share = float(np.median(design[seen, i] / seconds[seen]))
        row = np.zeros(len(UNCHANGED) + 1)
        row[i] = PRIOR * share
        row[-1] = PRIOR * share * usual * stretch
        rows.append(row)
    return np.array(rows)
