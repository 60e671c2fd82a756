"""What pass times are made of, and how far off they may be, as a JSON object."""

from math import isfinite
from typing import Any

from twophase.calibration.estimate import Estimate


def clock(own: Estimate) -> dict[str, Any]:
    low, high = own.interval
    return {
        "provenance": own.provenance,
        "pass_interval": [low, high if isfinite(high) else None],
        "pass_interval_assumed": own.assumed,
        "extrapolated": own.extrapolated,
        "source": own.source,
    }
