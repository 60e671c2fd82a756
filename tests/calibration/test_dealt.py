"""Of pass times, the part that depends on all ranks' rows where experts are dealt out."""

from typing import get_args

import numpy as np
import pytest

from twophase.calibration.calibrated import Calibration, Coefficients
from twophase.calibration.estimate import Estimate, Provenance, estimate
from twophase.cost.deployment import Deployment
from twophase.cost.parallel import Plan
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

MODEL = load_model("qwen3-30b-a3b")
PROVENANCES = [each for each in get_args(Provenance) if each != "calibrated"]


def made(plan: Plan, provenance: Provenance, calibration: Calibration | None = None) -> Estimate:
    own = Deployment(MODEL.spec, MODEL.storage, plan=plan)
    return estimate(
        own,
        load_accelerator("h100-sxm"),
        "vllm",
        max_rows=2048,
        max_sequences=64,
        provenance=provenance,
        calibration=calibration,
    )


@pytest.mark.parametrize("provenance", PROVENANCES)
@pytest.mark.parametrize("plan", [Plan(ep=2, dp=2), Plan(tp=2, ep=8, dp=4)])
def test_it_is_a_part_of_what_the_pass_takes(provenance: Provenance, plan: Plan) -> None:
    found = made(plan, provenance)
    dealt, times = found.dealt, found.times
    assert dealt is not None
    part = dealt.experts_s + dealt.exchanges_s
    assert part[0] == 0.0
    assert np.all(part[1:] > 0)
    assert np.all(part[1:] < times.rows_s[1:])
    assert np.all(dealt.experts_flops[1:] < times.rows_flops[1:])
    assert np.all(dealt.experts_bytes[1:] < times.rows_bytes[1:])
    assert np.all(dealt.exchanges_s == 0) == (provenance == "floor")


def test_experts_flops_and_bytes_by_hand() -> None:
    """48 layers; of 128 experts 8 a row; three matrices of 2,048 by 768, in 16 bits, half of them here."""
    dealt = made(Plan(ep=2, dp=2), "floor").dealt
    assert dealt is not None
    rows, expert = 100, 3 * 2048 * 768
    assert dealt.experts_flops[rows] == pytest.approx(2 * 48 * 8 * expert * rows)
    touched = 128 * (1 - (1 - 8 / 128) ** (2 * rows))  # both ranks' rows choose
    assert dealt.experts_bytes[rows] == pytest.approx(48 * touched / 2 * 2 * expert, rel=1e-3)


@pytest.mark.parametrize("plan", [Plan(), Plan(dp=2), Plan(tp=4, ep=4)])
@pytest.mark.parametrize("provenance", PROVENANCES)
def test_ranks_without_dealt_experts_have_none(provenance: Provenance, plan: Plan) -> None:
    assert made(plan, provenance).dealt is None


def test_a_calibration_scales_it_as_it_does_the_rows() -> None:
    own = Calibration(
        Coefficients(prompt_rows=1.5),
        "curves",
        MODEL.spec.name,
        "h100-sxm",
        "vllm",
        *(10, 0.0, 0.0, (1.0, 1.0), 2048, 4096, ""),
    )
    plain, scaled = (made(Plan(ep=2, dp=2), "curves", each).dealt for each in (None, own))
    assert plain is not None
    assert scaled is not None
    np.testing.assert_allclose(scaled.experts_s, 1.5 * plain.experts_s)
    np.testing.assert_allclose(scaled.exchanges_s, 1.5 * plain.exchanges_s)
    np.testing.assert_array_equal(scaled.experts_flops, plain.experts_flops)
