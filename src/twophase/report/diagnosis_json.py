"""A diagnosis as one JSON document: keys are the field names."""

import json
from dataclasses import asdict

from twophase.advise.diagnosis import Diagnosis


def to_json(diagnosis: Diagnosis) -> str:
    """Indented JSON; a number that is not finite is a fault of ours and raises ValueError."""
    return json.dumps(asdict(diagnosis), indent=2, allow_nan=False, ensure_ascii=False)
