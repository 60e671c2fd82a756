"""How long a pass takes on an accelerator: by arithmetic alone, or brought to passes that were measured."""

from collections.abc import Callable

from twophase.calibration.calibrated import Calibration
from twophase.calibration.estimate import estimate
from twophase.cost.communication import communication_s, exchanges
from twophase.cost.deployment import Deployment, device_stages
from twophase.cost.operators import stage_operators, total
from twophase.cost.parallel import ALONE
from twophase.cost.pass_ import Pass
from twophase.cost.price import cost_of, spans_of
from twophase.cost.roofline import floor_of
from twophase.hardware.accelerator import Accelerator


def roofline_seconds(own: Deployment, accelerator: Accelerator) -> Callable[[Pass], float]:
    """Seconds of one replica's pass: its roofline with the experts that uniform routing touches, and after it
    what it sends between devices. No engine is as fast: see calibrated_seconds.
    """

    stages = device_stages(own)
    alone = own.plan == ALONE

    def seconds(pass_: Pass) -> float:
        spans = spans_of(pass_)
        works = [total(stage_operators(own, stage, spans, "expected")) for stage in stages]
        busy = floor_of(works, accelerator).seconds
        return float(busy if alone else busy + communication_s(exchanges(own, spans, accelerator), busy))

    return seconds


def calibrated_seconds(
    own: Deployment, accelerator: Accelerator, calibration: Calibration, max_rows: int, max_sequences: int
) -> Callable[[Pass], float]:
    """Seconds of one replica's pass, as a user's measured passes say; never below the arithmetic's floor."""
    times = estimate(
        own,
        accelerator,
        calibration.engine,
        max_rows=max_rows,
        max_sequences=max_sequences,
        provenance="calibrated",
        calibration=calibration,
    ).times

    def seconds(pass_: Pass) -> float:
        return cost_of(times, pass_)[0]

    return seconds
