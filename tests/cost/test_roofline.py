"""The floor against numbers worked out by hand."""

import pytest

from twophase.cost.deployment import Deployment, as_bits
from twophase.cost.roofline import floor
from twophase.cost.spans import decodes, prefills
from twophase.hardware.accelerator import Accelerator
from twophase.model.catalogue import load_spec

LLAMA = load_spec("llama-3-8b")
H100 = Accelerator("any", "any", "any", {"bf16": 989e12}, 80e9, 80e9, 3.35e12)
BLOCKS, HEAD = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336), 128256 * 4096


def test_a_decode_step_is_bound_by_memory() -> None:
    least = floor(Deployment(LLAMA), decodes(1, 2048), H100)
    assert least.flops == 2 * (BLOCKS + HEAD) + 4 * 4096 * 32 * 2049
    assert least.bytes == 2 * (BLOCKS + HEAD) + 2049 * 131072 + 2 * 4096  # KV, and the embedding's row
    assert (least.bound, least.seconds) == ("memory", least.bytes / 3.35e12)
    assert least.seconds == pytest.approx(4.56e-3, rel=1e-3)


def test_a_long_prefill_is_bound_by_compute() -> None:
    least = floor(Deployment(LLAMA), prefills(2048), H100)
    assert least.flops == 2 * BLOCKS * 2048 + 2 * HEAD + 4 * 4096 * 32 * 2048 * 2049 / 2
    assert (least.bound, least.seconds) == ("compute", least.flops / 989e12)


def test_narrow_weights_shorten_memory_alone() -> None:
    wide, narrow = (
        floor(Deployment(LLAMA, as_bits(weight_bytes), kv_bytes, arithmetic="bf16"), decodes(1, 1000), H100)
        for weight_bytes, kv_bytes in ((2.0, 2.0), (0.5, 1.0))
    )
    assert wide.compute_s == narrow.compute_s
    assert narrow.bytes == 0.5 * (BLOCKS + HEAD + 4096) + 1001 * 65536
