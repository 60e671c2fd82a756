"""Calibrations: parts that add up to a pass, coefficients that are found again, and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.calibration import fitting
from twophase.calibration.calibrated import (
    NAMES,
    Coefficients,
    parts,
    scaled,
)
from twophase.calibration.estimate import estimate, pass_times
from twophase.calibration.fitting import Measured, calibrate
from twophase.calibration.kept import read_calibration, to_json
from twophase.calibration.measured_passes import read_passes
from twophase.cost.deployment import Deployment
from twophase.cost.pass_seconds import pass_cost
from twophase.errors import InputError
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

OWN = Deployment(load_model("gemma-3-27b").spec)  # has windows
GPU = load_accelerator("h100-sxm")
TIMES = pass_times(OWN, GPU, max_rows=5000, max_sequences=64)
FLOOR = pass_times(OWN, GPU, max_rows=5000, max_sequences=64, provenance="floor")
SPANS = st.lists(st.tuples(st.integers(1, 900), st.integers(0, 5000)), min_size=1, max_size=5)
TRUE = Coefficients(
    prompt_pass_s=3e-3,
    decode_pass_s=2e-3,
    prompt_rows=1.4,
    decode_rows=1.2,
    prompt_attention=1.4,
    decode_attention=1.2,
    logits=1.2,
)


@settings(max_examples=50, deadline=None)
@given(SPANS)
def test_parts_add_up_to_the_pass(spans: list[tuple[int, int]]) -> None:
    shape = np.array(spans)
    usual = np.array([getattr(Coefficients(), name) for name in NAMES])
    whole = pass_cost(TIMES, shape[:, 0], shape[:, 1], len(spans))[0]
    assert parts(TIMES, shape, len(spans)) @ usual == pytest.approx(whole)


@settings(max_examples=30, deadline=None)
@given(SPANS)
def test_scaled_times_are_the_coefficients_sum(spans: list[tuple[int, int]]) -> None:
    shape = np.array(spans)
    values = np.array([getattr(TRUE, name) for name in NAMES])
    whole = pass_cost(scaled(TIMES, FLOOR, TRUE), shape[:, 0], shape[:, 1], len(spans))[0]
    assert parts(TIMES, shape, len(spans)) @ values == pytest.approx(whole)


def made_passes(count: int, noise: float) -> list[Measured]:
    own, draw = scaled(TIMES, FLOOR, TRUE), np.random.default_rng(1)
    found = []
    for _ in range(count):
        shape = np.array([[1, draw.integers(100, 4000)] for _ in range(draw.integers(1, 40))])
        if draw.random() < 0.5:
            shape = np.vstack([shape, [[draw.integers(50, 4000), 0]]])
        seconds = pass_cost(own, shape[:, 0], shape[:, 1], len(shape))[0]
        found.append(Measured(shape, len(shape), seconds * float(np.exp(draw.normal(0, noise)))))
    return found


def test_a_machine_is_found_again_from_noisy_passes() -> None:
    found = calibrate(OWN, GPU, "vllm", made_passes(60, 0.02), "made")
    own = estimate(OWN, GPU, max_rows=5000, max_sequences=64, calibration=found)
    fresh = made_passes(200, 0.0)[60:]
    guesses = [pass_cost(own.times, each.shape[:, 0], each.shape[:, 1], each.logits)[0] for each in fresh]
    away = np.abs(np.array(guesses) / [each.seconds for each in fresh] - 1)
    assert np.median(away) < 0.01
    assert np.max(away) < 0.04
    assert own.provenance == "calibrated" and not own.extrapolated
    assert found.base == "curves"
    other = estimate(OWN, load_accelerator("h200"), max_rows=64, max_sequences=8, calibration=found)
    assert other.extrapolated


def test_outliers_do_not_pull() -> None:
    passes = made_passes(60, 0.0)
    passes[7] = passes[7]._replace(seconds=passes[7].seconds * 30)
    found = calibrate(OWN, GPU, "vllm", passes, "made")
    assert found.median_error is not None
    assert found.median_error < 0.01


def test_passes_together_take_as_long_as_they_did() -> None:
    """One pass in five takes half as long again: the mean, that decides on queues, is a tenth more."""
    passes = [
        each._replace(seconds=each.seconds * (1.5 if at % 5 == 0 else 1.0))
        for at, each in enumerate(made_passes(200, 0.01))
    ]
    found = calibrate(OWN, GPU, "vllm", passes, "made")
    own = estimate(OWN, GPU, max_rows=5000, max_sequences=64, calibration=found).times
    fresh = made_passes(400, 0.0)[200:]
    guessed = sum(pass_cost(own, each.shape[:, 0], each.shape[:, 1], each.logits)[0] for each in fresh)
    assert guessed / sum(each.seconds for each in fresh) == pytest.approx(1.1, abs=0.02)


def test_a_part_below_its_floor_is_made_up_for_by_others() -> None:
    """No estimate goes below the floor: what the head seems to lack, the rest must not be given twice."""
    values = np.array([0, 0, 0, 0, 2.0, 2.0, 4.0, 4.0, 0.2])
    passes = [
        each._replace(seconds=float(parts(FLOOR, each.shape, each.logits) @ values))
        for each in made_passes(80, 0.0)
        if (each.shape[:, 0] == 1).all()
    ]
    found = calibrate(OWN, GPU, "vllm", passes, "made")
    assert found.base == "floor"
    own = estimate(OWN, GPU, max_rows=5000, max_sequences=64, calibration=found).times
    guessed = sum(pass_cost(own, each.shape[:, 0], each.shape[:, 1], each.logits)[0] for each in passes)
    assert guessed / sum(each.seconds for each in passes) == pytest.approx(1.0, abs=0.005)


def test_another_machine_s_curves_must_be_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without curves of its own, by arithmetic and noise: borrowed ones come nearer by chance."""
    gpu = load_accelerator("a10g")
    own = pass_times(OWN, gpu, max_rows=5000, max_sequences=64, provenance="floor")
    passes, draw = [], np.random.default_rng(1)
    for each in made_passes(60, 0.0):
        seconds = pass_cost(own, each.shape[:, 0], each.shape[:, 1], each.logits)[0]
        passes.append(each._replace(seconds=1e-3 + 1.5 * seconds * float(np.exp(draw.normal(0, 0.05)))))
    assert calibrate(OWN, gpu, "vllm", passes, "made").base == "floor"
    monkeypatch.setattr(fitting, "CLEARLY", 1.0)
    assert calibrate(OWN, gpu, "vllm", passes, "made").base == "curves"


def test_a_handful_of_one_phase_leaves_the_other_to_the_base() -> None:
    decodes = [each for each in made_passes(60, 0.0) if (each.shape[:, 0] == 1).all()][:5]
    found = calibrate(OWN, GPU, "vllm", decodes, "made")
    assert found.coefficients.prompt_rows == found.coefficients.prompt_attention == 1.0


@pytest.mark.parametrize("phase", ["decode", "both"])
def test_too_few_passes_tell_no_error(phase: str) -> None:
    """Decodes tell 5 of the 9 coefficients, both phases all: 8 more passes are needed to test them."""
    told = 5 if phase == "decode" else 9
    passes = [each for each in made_passes(80, 0.0) if phase == "both" or (each.shape[:, 0] == 1).all()]
    for count, known in ((4, False), (told + 7, False), (told + 8, True)):
        found = calibrate(OWN, GPU, "vllm", passes[:count], "made")
        low, high = found.interval
        assert (found.median_error is not None) == (found.p90_error is not None) == known
        # without calibration the curves' own error is 0.8 to 1.25 or so; these passes have no noise at all
        assert (low < 0.9 and high > 1.1) is not known, (count, found.interval)
        assert estimate(OWN, GPU, max_rows=64, max_sequences=8, calibration=found).assumed is not known


def test_passes_that_no_such_machine_can_make_are_refused() -> None:
    passes = [each._replace(seconds=each.seconds / 10) for each in made_passes(20, 0.0)]
    with pytest.raises(InputError, match="faster than H100 SXM can be"):
        calibrate(OWN, GPU, "vllm", passes, "made")
    with pytest.raises(InputError, match="4 measured passes"):
        calibrate(OWN, GPU, "vllm", passes[:3], "made")


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = calibrate(OWN, GPU, "vllm", made_passes(20, 0.01), "made")
    path = tmp_path / "own.json"
    path.write_text(to_json(found))
    assert read_calibration(path) == found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "else"}, "no calibration"),
        ({"base": "wish"}, "neither floor nor curves"),
        ({"coefficients": {}}, "damaged"),
        ({"coefficients": dict.fromkeys(NAMES, -1)}, "negative"),
        ({"coefficients": dict.fromkeys(NAMES, 1e300)}, "absurdly large"),
        ({"coefficients": dict.fromkeys(NAMES, float("nan"))}, "not a number"),
        ({"interval": [0.9, float("nan")]}, "interval"),
        ({"interval": [1.1, 0.9]}, "interval"),
        ({"interval": [-1, 2]}, "interval"),
        ({"p90_error": float("inf")}, "damaged"),
        ({"passes": float("inf")}, "damaged"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, change: object, said: str) -> None:
    entry = json.loads(to_json(calibrate(OWN, GPU, "vllm", made_passes(10, 0.0), "made")))
    path = tmp_path / "own.json"
    path.write_text(json.dumps(entry | change))  # type: ignore[operator]
    with pytest.raises(InputError, match=said):
        read_calibration(path)


def test_pass_records_by_line(tmp_path: Path) -> None:
    path = tmp_path / "passes.jsonl"
    path.write_text('{"shape": [[5, 0], [1, 7]], "seconds": 0.25, "logit_rows": [0, 1]}\n\n')
    (one,) = read_passes(path)
    assert one.shape.tolist() == [[5, 0], [1, 7]] and one.logits == 1 and one.seconds == 0.25
    for line in (
        '{"shape": [[5, 0]]}',
        "[]",
        '{"shape": [[0, 0]], "seconds": 1}',
        "{",
        '{"shape": [], "seconds": 1}',
        '{"shape": [[1000000000000, 0]], "seconds": 1}',
        '{"shape": [[1, 1000000000000]], "seconds": 1}',
        '{"shape": [[1, 0]], "seconds": 1e300}',
        '{"shape": [[1, 0]], "seconds": NaN}',
        '{"shape": [[1, 0]], "seconds": 1, "logit_rows": -5}',
        '{"shape": [[1, 0]], "seconds": 1, "logit_rows": 1e30}',
    ):
        path.write_text('{"shape": [[5, 0]], "seconds": 1}\n' + line)
        with pytest.raises(InputError, match="line 2"):
            read_passes(path)


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "passes.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(InputError, match="is damaged"):
        read_passes(path)


def test_a_meters_two_curves_are_passes(tmp_path: Path) -> None:
    fit = {
        "ttft": {
            "overhead_s": {"value": 0.01},
            "linear_s_per_token": {"value": 1e-4},
            "quadratic_s_per_token2": {"value": 1e-9},
            "to_tokens": 1000,
        },
        "itl": {
            "pass_s": {"value": 0.02},
            "sequence_s": {"value": 1e-4},
            "context_s_per_token": {"value": 1e-7},
        },
    }
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"fit": fit}))
    found = {
        (each.shape[0, 0], len(each.shape), each.shape[0, 1]): each.seconds for each in read_passes(path)
    }
    assert found[512, 1, 0] == pytest.approx(0.01 + 0.0512 + 512**2 * 1e-9)
    assert found[1, 16, 2048] == pytest.approx(0.02 + 16e-4 + 16 * 2048e-7)
    assert max(new for new, _, _ in found) == 512  # the curve was measured up to 1,000 tokens
    for value in (float("nan"), float("inf"), -1.0):
        path.write_text(json.dumps({"fit": fit | {"ttft": fit["ttft"] | {"overhead_s": value}}}))
        with pytest.raises(InputError, match="TTFT of 64 tokens"):
            read_passes(path)
    path.write_text(json.dumps({"fit": {"ttft": None, "itl": fit["itl"]}}))
    with pytest.raises(InputError, match="lacks one"):
        read_passes(path)
