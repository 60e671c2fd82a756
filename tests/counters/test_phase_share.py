"""Whose GPU time it was: exact, from curves, from interference, from floors; never from request-seconds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from counter_pages import of_engine, reading

from twophase.cost.deployment import Deployment
from twophase.counters.calibrated import calibrated, read_curves
from twophase.counters.picture import Picture
from twophase.counters.prior import roofline
from twophase.counters.prior_type import Prior
from twophase.counters.reading import Beside
from twophase.counters.share import Range, Share, share_of
from twophase.counters.steps import Steps, steps_of
from twophase.errors import InputError
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model

TRUTH = 90 / 240  # of the pages' workload


@pytest.mark.parametrize("name", ["sglang", "tgi"])
def test_exact_where_the_engine_tells(name: str) -> None:
    best = of_engine(name).shares[0]
    assert best.method == "engine" and best.prefill == Range(TRUTH, TRUTH, TRUTH)
    assert of_engine(name).dominant == "decode"


@pytest.mark.parametrize("name", ["vllm", "sglang", "tgi", "llamacpp", "lmdeploy", "dynamo"])
def test_no_share_comes_from_request_seconds(name: str) -> None:
    """They would say 180 / 3,497 = 5 %. Whatever is found has the truth within its range."""
    for each in of_engine(name).shares:
        assert each.prefill.low - 1e-9 <= TRUTH <= each.prefill.high + 1e-9, each.method
        assert abs(each.prefill.mid - 180 / 3496.68) > 0.1


def test_request_seconds_change_nothing() -> None:
    """Requests' prefill and decode times a hundredfold: the same shares."""
    from counter_pages import PAGES

    first, second = ((PAGES / f"sglang_t{at}.txt").read_text() for at in (0, 1))

    def stretched(text: str) -> str:
        lines = text.splitlines()
        return "\n".join(f"{line}00" if "per_stage_req_latency" in line else line for line in lines) + "\n"

    assert reading(first, second).shares == reading(stretched(first), stretched(second)).shares


def test_vllms_wide_buckets_tell_nothing() -> None:
    found = of_engine("vllm")
    (only,) = found.shares
    assert only.method == "interference" and only.prefill.low == 0 and only.prefill.high == 1
    assert found.dominant == "unknown" and "do not tell" in found.verdict
    assert any("--enable-logging-iteration-details" in each for each in found.missing)


def test_interference_where_the_buckets_are_fine() -> None:
    """900 steps that only decode take 10 ms, 100 have 40 ms of prefill in them: 4 of 14 ms."""
    bounds = (("0.0099", 0), ("0.0101", 900), ("0.04", 900), ("0.06", 1000), ("+Inf", 1000))

    def page(share: float) -> str:
        buckets = (f'{{le="{le}"}} {count * share}' for le, count in bounds)
        parts = "".join(f"vllm:inter_token_latency_seconds_bucket{each}\n" for each in buckets)
        sums = f"vllm:inter_token_latency_seconds_count {1000 * share}\nvllm:inter_token_latency_seconds_sum "
        return f"{parts}{sums}{14 * share}\nvllm:generation_tokens_total {1000 * share}\n"

    own = reading(page(0), page(1))
    best = own.shares[0]
    assert best.method == "interference"
    assert best.prefill.mid == pytest.approx(4 / 14, abs=0.01) and best.prefill.high < 0.31
    assert own.dominant == "decode"


def test_llamacpp_tells_a_part() -> None:
    best = of_engine("llamacpp").shares[0]
    assert best.method == "engine-partly" and best.prefill_s == Range(90, 90, 90)
    # 3,316.7 slot-seconds in calls of 14.6 slots: 227.2 s, with or without 90 s of stalls
    assert best.prefill.low == pytest.approx(90 / (90 + 3316.7 / 14.6))
    assert best.prefill.high == pytest.approx(90 / (3316.7 / 14.6))


def curves_file(folder: Path) -> Path:
    def exact(**values: float) -> dict:
        return {name: {"value": value, "low": value, "high": value} for name, value in values.items()}

    path = folder / "curves.json"
    fit = {
        "ttft": exact(overhead_s=0.01, linear_s_per_token=1e-4, quadratic_s_per_token2=1e-9),
        "itl": exact(pass_s=0.009, sequence_s=1e-4, context_s_per_token=1e-7),
    }
    path.write_text(json.dumps({"fit": fit}))
    return path


def test_curves_that_were_measured(tmp_path: Path) -> None:
    """By hand, for 600 prompts of 1,200 computed tokens behind 800 cached, and 149,400 decoded tokens."""
    curves = read_curves(curves_file(tmp_path))
    found = of_engine("vllm", Beside(curves=curves))
    best = found.shares[0]
    assert best.method == "calibrated" and best.prefill_s is not None and best.decode_s is not None
    prefill = 600 * (0.01 + 1e-4 * 1200 + 1e-9 * (2000**2 - 800**2))
    batch = 149_400 / 10_000
    decode = 149_400 / batch * (0.009 + 1e-4 * batch + 1e-7 * batch * 2125)
    assert best.prefill_s.mid == pytest.approx(prefill) and best.decode_s.mid == pytest.approx(decode)
    assert best.prefill_s.low == pytest.approx(prefill - 6)  # without the overhead of passes of its own
    # at worst passes have the window's mean, 11.06 sequences, as if it had never been idle
    most = 149_400 / 11.0556 * 0.009 + 149_400 * (1e-4 + 1e-7 * 2125)
    assert best.decode_s.high == pytest.approx(most, rel=1e-4)
    assert best.prefill.mid == pytest.approx(prefill / (prefill + decode))
    assert "of the window's 300 s" in best.why[2]


def test_a_coefficient_without_an_upper_limit_is_not_made_up(tmp_path: Path) -> None:
    path = curves_file(tmp_path)
    found = json.loads(path.read_text())
    found["fit"]["itl"]["pass_s"]["high"] = None
    path.write_text(json.dumps(found))
    with pytest.raises(InputError, match="damaged"):
        read_curves(path)


def test_prompts_that_share_passes_pay_less_than_their_own(tmp_path: Path) -> None:
    """12.6 s by the curves, of which 6 s are the overhead of prompts' own passes, in a window of 10 s."""
    curves = read_curves(curves_file(tmp_path))
    own = Picture("vllm", "vLLM", "m", 10, 10, requests=600, prompt_tokens=6e4, computed_prompt_tokens=6e4,
                  first_tokens=600, generation_tokens=600, mean_running_decode=15)  # fmt: skip
    without = replace(own, generation_tokens=600 + 15 * 40)  # 40 passes of 15 sequences
    found = calibrated(replace(without, covered_s=11), curves)
    assert isinstance(found, Share) and found.prefill_s is not None and found.decode_s is not None
    assert found.prefill_s.low == pytest.approx(600 * (1e-4 * 100 + 1e-9 * 100**2))
    assert found.prefill_s.mid + found.decode_s.mid == pytest.approx(11)


def test_curves_of_another_server_are_noticed(tmp_path: Path) -> None:
    curves = read_curves(curves_file(tmp_path))
    own = Picture("vllm", "vLLM", "m", 10, 10, requests=600, prompt_tokens=1.2e6, computed_prompt_tokens=1e6,
                  first_tokens=600, generation_tokens=150_000, mean_running_decode=15)  # fmt: skip
    found = calibrated(own, curves)
    assert isinstance(found, Share) and "more than the window has" in found.why[-1]
    assert isinstance(calibrated(Picture("tgi", "TGI", "", 1, 1), curves), str)


@pytest.mark.parametrize(
    "content", ["{}", "[]", "nothing", '{"fit": {"ttft": {"overhead_s": {}}, "itl": {"pass_s": {}}}}']
)
def test_a_file_without_curves(tmp_path: Path, content: str) -> None:
    path = tmp_path / "curves.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"curves.json"):
        read_curves(path)


def test_the_roofline_prior() -> None:
    """Floors by hand: 2 x 7.5e9 weights FLOPs a token at 989 TFLOP/s, 15 GB a step at 3.35 TB/s, and
    131,072 bytes of KV a token.
    """
    model = load_model("llama-3.1-8b")
    prior = Prior(Deployment(model.spec), load_accelerator("h100-sxm"))
    own = of_engine("vllm", Beside(prior=lambda name: prior if name else None))
    best = own.shares[0]
    assert best.method == "roofline" and best.prefill_s is not None and best.decode_s is not None
    blocks = 6.98e9  # matmul weights but for the head, which the last row alone needs
    pairs = 1200 * 800 + 1200 * 1201 / 2
    flops = 2 * blocks * 1200 + 32 * 4 * 4096 * pairs + 2 * 525e6
    assert best.prefill_s.mid == pytest.approx(600 * flops / 989e12 / 0.55, rel=0.01)
    steps = 149_400 / 15
    step_s = (15.0e9 + 15 * 2125 * 131_072) / 3.35e12
    assert best.decode_s.mid == pytest.approx(steps * step_s / 0.70, rel=0.01)
    assert best.prefill_s.low < best.prefill_s.mid < best.prefill_s.high
    assert own.dominant == "decode" and "roofline" in own.verdict


def test_lengths_that_no_prompt_has_give_no_floor() -> None:
    """Counters of 1e29 tokens come with a page that is damaged; a floor of them would overflow."""
    prior = Prior(Deployment(load_model("llama-3.1-8b").spec), load_accelerator("h100-sxm"))
    own = of_engine("vllm", Beside()).picture
    absurd = replace(own, computed_prompt_tokens=1e29, prompt_tokens=1e29)
    assert "can't be" in str(roofline(absurd, prior))


def test_what_steps_need() -> None:
    own = steps_of(of_engine("vllm").picture)
    assert isinstance(own, Steps)
    assert (own.prefills, own.computed, own.cached, own.context) == (600, 1200, 800, 2125)
    assert own.batch.low == pytest.approx(11.0556) and own.batch.mid == pytest.approx(14.94)
    assert isinstance(steps_of(of_engine("llamacpp").picture), str)  # it tells no requests


def test_ranges_are_ordered() -> None:
    found = share_of("roofline", Range(1, 2, 3), Range(2, 4, 8), ())
    assert (found.prefill.low, found.prefill.mid, found.prefill.high) == (1 / 9, 2 / 6, 3 / 5)
