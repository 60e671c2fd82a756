"""A server's diagnosis in text, JSON and page, from a made-up engine with laws that the test knows."""

import json
from dataclasses import replace

import pytest
from known_engine import KnownEngine
from page_reader import read_page
from synthetic_replies import QUIET, run_of

from twophase.advise.known import known_levers
from twophase.cost.deployment import Deployment
from twophase.hardware.catalogue import load_accelerator
from twophase.meter.curves import measure_curves
from twophase.meter.floors import Floors
from twophase.meter.least_squares import Estimate
from twophase.meter.own_error import own_error
from twophase.meter.verdict import Lever, Verdict, judge
from twophase.model.catalogue import load_model
from twophase.report.bench_curves import ServerDiagnosis, plain
from twophase.report.bench_curves_html import page
from twophase.report.bench_curves_json import to_json


def diagnosis(engine: KnownEngine, floors: Floors | None = None) -> ServerDiagnosis:
    curves = measure_curves(engine.measure, budget_s=120.0, window_tokens=32768, clock=engine.clock)
    run = run_of(curves.replies, facts=(("kind", "vLLM"),))
    finished = [each for each in curves.replies if each.outcome == "finished"]
    return ServerDiagnosis(run, curves, judge(curves, floors), own_error(finished, "sent", QUIET))


@pytest.fixture(scope="module")
def llama() -> Floors:
    model = load_model("llama-3-8b")
    return Floors(Deployment(model.spec, model.storage), load_accelerator("h100-sxm"))


@pytest.fixture(scope="module")
def bare() -> ServerDiagnosis:
    return diagnosis(KnownEngine())


@pytest.fixture(scope="module")
def beside(llama: Floors) -> ServerDiagnosis:
    return diagnosis(KnownEngine(ttft=(25e-3, 2.5e-5, 4e-10), itl=(6e-3, 5e-5, 7e-8)), llama)


def test_the_first_line_answers(bare: ServerDiagnosis) -> None:
    """2,000 in and 500 out: TTFT 231 ms; 499 steps of 9.3 ms: decode has 95 % of 4.9 s."""
    first = plain(bare).splitlines()[0]
    assert first.startswith("Decode takes 95% of 4.8")
    assert "bound by what every pass pays, the weights' read above all" in first
    assert "what would pay most: weights in half the bits (1." in first


def test_text_has_both_laws_with_intervals(bare: ServerDiagnosis) -> None:
    text = plain(bare)
    assert "TTFT = " in text and " · n²" in text
    assert "ITL = " in text and " · batch · context" in text
    assert "It bends upward from" in text
    assert "MFU" not in text.split("Notes")[0].split("Decode  ")[0]  # nothing is claimed without floors


def test_floors_stand_beside(beside: ServerDiagnosis, llama: Floors) -> None:
    """A weights' read of 15.0 GB at 3.35 TB/s is 4.48 ms, of 6 ms that a pass takes: 75 % MBU."""
    marks = beside.verdict.beside
    assert marks is not None
    assert marks.weights_mbu == pytest.approx(15.009e9 / 3.35e12 / 6e-3, rel=0.05)
    # 131,072 bytes a token of context (32 layers, 8 heads of 128, keys and values, 2 bytes)
    assert marks.kv_mbu == pytest.approx(131072 / 3.35e12 / 7e-8, rel=0.15)
    # 2 · 7.5e9 FLOPs a token at 989 TFLOP/s are 15.2 µs of 25
    assert marks.linear_mfu == pytest.approx(14.0e9 / 989e12 / 2.5e-5, rel=0.1)
    assert marks.compute_bound_from_tokens == llama.compute_bound_from()
    text = plain(beside)
    assert "MBU" in text and "÷ floor" in text
    assert "Bound by memory bandwidth" in " ".join(text.split())


def test_no_measured_pass_beats_its_floor(beside: ServerDiagnosis) -> None:
    marks = beside.verdict.beside
    assert marks is not None
    for mark in (*marks.prefill, *marks.decode):
        assert mark.measured_s > mark.floor_s
        assert max(mark.mfu, mark.mbu) < 1


def test_a_term_that_may_be_zero_has_no_share(beside: ServerDiagnosis, llama: Floors) -> None:
    """Seconds that the points can't tell from none would make shares of any size, more than all of it too."""
    law = beside.curves.itl
    assert law is not None
    context = Estimate(1e-9, 0.0, 9e-8)  # the KV read alone takes 39 ns: 39 times as long
    unsure = replace(beside.curves, itl=replace(law, context_s_per_token=context))
    own = replace(beside, curves=unsure, verdict=judge(unsure, llama))
    assert "its context" not in plain(own)
    assert json.loads(to_json(own))["floors"]["kv_mbu"] is None
    assert "its context" in plain(beside)


def test_the_weights_read_is_guessed_where_its_share_is_unknown(
    beside: ServerDiagnosis, llama: Floors
) -> None:
    law = beside.curves.itl
    assert law is not None
    unsure = replace(beside.curves, itl=replace(law, pass_s=Estimate(6e-3, 0.0, 2e-2)))

    def halved(verdict: Verdict) -> Lever:
        return next(each for each in verdict.levers if each.change == "weights in half the bits")

    assert "if the weights' read is what it pays for" in halved(judge(unsure, llama)).why
    assert "is the weights' read at full bandwidth" in halved(beside.verdict).why


def test_levers_are_what_the_laws_say(bare: ServerDiagnosis) -> None:
    """Weights in half the bits save 4 of 9.3 ms a token: 4.87 s / 2.87 s."""
    gains = {each.change: each.gain for each in bare.verdict.levers}
    whole = 0.231 + 499 * (8e-3 + 0.2e-3 + 0.5e-6 * 2250)
    assert gains["weights in half the bits"] == pytest.approx(whole / (whole - 499 * 4e-3), rel=0.05)
    batch = next(each for each in bare.verdict.levers if each.serves_more)
    one, many = 9.325e-3, 8e-3 + 16 * 1.325e-3
    assert batch.gain == pytest.approx(16 * one / many, rel=0.05)
    assert bare.verdict.levers[-1].serves_more


def test_levers_have_the_lists_prices_and_flags(bare: ServerDiagnosis, beside: ServerDiagnosis) -> None:
    for own in (bare, beside):
        for each in own.verdict.levers:
            assert not each.lever or known_levers()[each.lever].phase == each.phase
    known, unknown = (
        {each["change"]: each for each in json.loads(to_json(own))["verdict"]["advice"]}
        for own in (beside, bare)
    )
    assert known["weights in half the bits"]["lever"] == "int8-weights"  # of bf16
    assert known["weights in half the bits"]["flags"]["ours"] == "--weights int8"
    assert "ours --weights int8" in " ".join(plain(beside).split())
    assert "ours --weights int8" in " ".join(read_page(page(beside)).text)
    assert unknown["weights in half the bits"]["flags"] == {}  # how many bits they have is not known
    assert unknown["keys and values in half the bits"]["flags"]["vllm"] == "--kv-cache-dtype fp8"


def test_what_would_leave_nothing_is_no_lever(bare: ServerDiagnosis) -> None:
    """A server whose every prompt takes the floor, and whose decode could not be measured."""
    assert bare.curves.ttft is not None
    floor = Estimate(10.0, 9.0, 11.0)
    alone = replace(bare.curves, ttft=replace(bare.curves.ttft, floor_s=floor), itl=None)
    verdict = judge(alone)
    assert not verdict.levers
    assert "pay most" not in verdict.headline


def test_json(bare: ServerDiagnosis, beside: ServerDiagnosis) -> None:
    made = json.loads(to_json(bare))
    fit = made["fit"]["ttft"]
    assert fit["overhead_s"]["low"] <= fit["overhead_s"]["value"] <= fit["overhead_s"]["high"]
    assert fit["bend_prompt_tokens"]["value"] == pytest.approx(6667, rel=0.1)
    assert {"pass_s", "sequence_s", "context_s_per_token"} <= made["fit"]["itl"].keys()
    assert {"prompt_tokens", "ttft_s"} <= made["prefill"][0].keys()
    assert {"batch", "context", "itl_s"} <= made["decode"][0].keys()
    assert made["floors"] is None
    assert made["verdict"]["headline"]
    made = json.loads(to_json(beside))
    assert {"floor_s", "mfu", "mbu", "bound"} <= made["prefill"][0].keys()
    assert made["floors"]["weights_mbu"] > 0.5


def test_the_page_is_whole(bare: ServerDiagnosis, beside: ServerDiagnosis) -> None:
    for own in (bare, beside):
        drawn = read_page(page(own))
        assert drawn.links == []
        assert drawn.counts["svg"] == 3
        assert own.verdict.headline in " ".join(drawn.text)


def test_failures_are_told_not_hidden() -> None:
    cached = diagnosis(KnownEngine(cached=0.5))
    text = plain(cached)
    assert "prefix cache" in text
    assert text.startswith("Decode alone was measured")
    assert json.loads(to_json(cached))["fit"]["ttft"] is None
    read_page(page(cached))
    dead = diagnosis(KnownEngine(window=0))
    assert plain(dead).startswith("No verdict")
    assert "context length exceeded" in plain(dead)
    assert json.loads(to_json(dead))["requests"]["ok"] == 0
    read_page(page(dead))
