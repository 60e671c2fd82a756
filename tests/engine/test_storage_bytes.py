"""What a narrower format leaves of the bytes that a pass reads, from the model's dimensions by hand."""

import pytest

from twophase.engine.storage import share_left
from twophase.model.catalogue import load_spec

SCALED = 16 / 128  # bits of a scale a weight, INT8
LAYERS = 28 * (1024 * 128 * (16 + 8 + 8) + 16 * 128 * 1024 + 3 * 1024 * 3072)  # Qwen3-0.6B, tied head
HEAD = 151936 * 1024


@pytest.mark.parametrize(
    ("now", "then", "left"),
    [
        ("bf16", "int8", (8 + SCALED) / 16),
        ("bf16", "int4", (4.5 * LAYERS + (8 + SCALED) * HEAD) / (16 * (LAYERS + HEAD))),
        ("int8", "int4", (4.5 * LAYERS + (8 + SCALED) * HEAD) / ((8 + SCALED) * (LAYERS + HEAD))),
        ("int4-a8", "int4", 1.0),
    ],
)
def test_what_is_left(now, then, left: float) -> None:
    assert share_left(load_spec("qwen3-0.6b"), "bf16", now, then) == pytest.approx(left, rel=1e-3)
