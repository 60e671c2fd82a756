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
    if any(not 0 <= getattr(coefficients, name) < math.inf for name in NAMES):
        raise InputError(f"{path}: a coefficient is negative or not a number")
    if entry["base"] not in ("floor", "curves"):
        raise InputError(f"{path}: base is {entry['base']!r}, neither floor nor curves")
    low, high = (float(each) for each in entry["interval"])
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
    return None if error is None else float(error)
