"""FlashAttention 2: decodes beside prompts, whose heads each read the cache; chunks that leave it idle."""

import pytest
from numpy import array, int64, testing

from twophase.calibration.calibrated import Coefficients, parts, scaled
from twophase.calibration.estimate import pass_times
from twophase.cost import pass_times as columns
from twophase.cost.deployment import Deployment
from twophase.cost.pass_seconds import pass_cost
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

# Llama-3.1-8B: a token of context is 32 layers of 2 · 8 heads · 128 · 2 bytes, read by groups of 4 queries
TOKEN_BYTES, GROUP = 131_072, 4


def per_token_s(machine: str, *chunk: tuple[int, int], kv_bytes: float = 2.0) -> float:
    """Of a decode's context, beside these prompts."""
    own = Deployment(load_model("llama-3.1-8b").spec, kv_bytes=kv_bytes)
    times = pass_times(own, load_accelerator(machine), "none", max_rows=4096, max_sequences=64)
    seconds = []
    for context in (10_000, 20_000):
        spans = array([*chunk, (1, context)], int64)
        seconds.append(pass_cost(times, spans[:, 0], spans[:, 1], 1)[0])
    return (seconds[1] - seconds[0]) / 10_000


@pytest.mark.parametrize("machine", ["a100-80gb", "l40s", "rtx-4090", "rtx-pro-6000"])
def test_beside_a_prompt_context_costs_as_much_as_was_measured(machine: str) -> None:
    once = TOKEN_BYTES / load_accelerator(machine).bandwidth
    assert per_token_s(machine, (512, 0)) == pytest.approx(once * (0.1 + 0.5 * GROUP), rel=0.02)
    assert once <= per_token_s(machine) < 1.5 * once  # alone, each byte is read once


@pytest.mark.parametrize("machine", ["h100-sxm", "b200", "mi300x", "tpu-v6e"])
def test_other_kernels_read_it_once(machine: str) -> None:
    assert per_token_s(machine, (512, 0)) == pytest.approx(per_token_s(machine))


def test_calibrations_scale_what_decodes_cost_beside_prompts() -> None:
    own, machine = Deployment(load_model("llama-3.1-8b").spec), load_accelerator("a100-80gb")
    times, floor = (
        pass_times(own, machine, "none", max_rows=600, max_sequences=9, provenance=base)
        for base in ("curves", "floor")
    )
    mixed = array([(512, 100), (1, 5000), (1, 300)], int64)
    for times_, factor in ((times, 1.0), (scaled(times, floor, Coefficients(decode_attention=3.0)), 3.0)):
        taken_apart = parts(times, mixed, 3)
        taken_apart[7] *= factor
        testing.assert_allclose(
            taken_apart[[4, 5, 6, 7, 8]].sum(), pass_cost(times_, mixed[:, 0], mixed[:, 1], 3)[0]
        )
    assert times.mixers[0, columns.MIXED_TOKEN_S] > 0


@pytest.mark.parametrize(
    ("rows", "measured_s"), [(36, 171e-6), (273, 170e-6), (410, 316e-6), (923, 464e-6), (1384, 616e-6)]
)
def test_context_costs_a_chunk_as_much_as_waves_of_blocks_were_measured_to_take(
    rows: int, measured_s: float
) -> None:
    """LLMServingSim's RTX PRO 6000, Llama-3.1-8B: more for each layer behind 16384 tokens than behind 8748.

    32 heads in blocks of 64 rows on 188 processors: one wave up to 320 rows, then two and so on.
    """
    own = Deployment(load_model("llama-3.1-8b").spec)
    machine = load_accelerator("rtx-pro-6000-server")
    times = pass_times(own, machine, "none", max_rows=2048, max_sequences=8)
    near, far = (
        pass_cost(times, array([rows], int64), array([context], int64), 1)[0] for context in (8748, 16384)
    )
    assert (far - near) / 32 == pytest.approx(measured_s, rel=0.15)
