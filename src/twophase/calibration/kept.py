"""A calibration's file: JSON that `twophase calibrate` writes and `simulate --calibration` reads."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from twophase.calibration.calibrated import NAMES, Calibration, Coefficients
from twophase.errors import InputError, damaged, require_regular

MARK = "twophase calibration"
LARGEST_FILE = 1 << 20
MOST = 1e6  # times what arithmetic says, or seconds of a pass


def to_json(own: Calibration) -> str:
    return json.dumps({"kind": MARK, **asdict(own)}, indent=1) + "\n"


def read_calibration(path: Path) -> Calibration:
    """InputError where the file is not one that `twophase calibrate` wrote."""
    require_regular(path)
    with damaged(path):
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} has more than {LARGEST_FILE >> 20} MiB: not a calibration")
        entry = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entry, dict) or entry.get("kind") != MARK:
            raise InputError(f"{path} is no calibration: `twophase calibrate` writes one")
        return _calibration(entry, path)


def _calibration(entry: dict[str, Any], path: Path) -> Calibration:
    coefficients = Coefficients(**{name: float(entry["coefficients"][name]) for name in NAMES})
    if any(not 0 <= getattr(coefficients, name) <= MOST for name in NAMES):
        raise InputError(f"{path}: a coefficient is negative, absurdly large or not a number")
    if entry["base"] not in ("floor", "curves"):
        raise InputError(f"{path}: base is {entry['base']!r}, neither floor nor curves")
    low, high = (float(each) for each in entry["interval"])
    if not 0 < low <= high <= MOST:
        raise InputError(f"{path}: interval is {low:g} to {high:g}, which no ratio of times can be")
    return Calibration(
        coefficients=coefficients,
        base=entry["base"],
        model=str(entry["model"]),
        accelerator=str(entry["accelerator"]),
        engine=str(entry["engine"]),
        passes=int(entry["passes"]),
        median_error=_known(entry["median_error"]),
        p90_error=_known(entry["p90_error"]),
        interval=(low, high),
        most_rows=int(entry["most_rows"]),
        most_context=int(entry["most_context"]),
        source=str(entry["source"]),
    )


def _known(error: Any) -> float | None:
    found = None if error is None else float(error)
    if found is not None and not 0 <= found < math.inf:
        raise ValueError(f"an error of {found:g}")
    return found
