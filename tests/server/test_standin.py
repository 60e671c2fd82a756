"""The stand-in is as fast as the arithmetic says, and as deterministic as a real engine."""

import subprocess
import sys
import time

import pytest

from twophase.calibration.calibrated import Calibration, Coefficients
from twophase.cost.deployment import Deployment
from twophase.cost.pass_ import Pass, Span
from twophase.cost.roofline import floor
from twophase.cost.spans import decodes
from twophase.engine.sampling import Sampling
from twophase.errors import InputError
from twophase.hardware.catalogue import load_accelerator
from twophase.model.catalogue import load_model
from twophase.model.formats import KV_FORMATS
from twophase.server.engine import Sizes
from twophase.server.open_standin import StandInOptions, open_standin
from twophase.server.standin import StandIn
from twophase.simulate.clock import PacedClock
from twophase.simulate.roofline import calibrated_seconds, roofline_seconds

LLAMA, H100 = load_model("llama-3.1-8b"), load_accelerator("h100-sxm")
OWN = Deployment(LLAMA.spec, LLAMA.storage, KV_FORMATS["bf16"])


def test_a_decode_takes_the_weights_time() -> None:
    seconds = roofline_seconds(OWN, H100)(Pass((Span(0, 1, 0),)))
    assert seconds == pytest.approx(15.0e9 / H100.bandwidth, rel=0.01)  # 7.5 G matrix parameters in BF16


def test_no_pass_beats_its_floor() -> None:
    own = Deployment(load_model("qwen3-30b-a3b").spec)
    for batch in (1, 8, 64):
        pass_ = Pass(tuple(Span(i, 1, 500) for i in range(batch)))
        assert roofline_seconds(own, H100)(pass_) >= float(floor(own, decodes(batch, 500), H100).seconds)


def measured(**coefficients: float) -> Calibration:
    return Calibration(
        coefficients=Coefficients(**coefficients),
        base="floor",
        model=LLAMA.spec.name,
        accelerator=H100.name,
        engine="none",
        passes=12,
        median_error=0.01,
        p90_error=0.02,
        interval=(0.98, 1.02),
        most_rows=2048,
        most_context=8192,
        source="made",
    )


def test_a_calibrated_pass_takes_what_was_measured() -> None:
    """Of an H100 with 7 ms of overhead and half of its bandwidth: one decode and one prompt by hand."""
    own = measured(decode_pass_s=7e-3, decode_rows=2.0, logits=2.0, prompt_pass_s=9e-3, prompt_rows=3.0)
    seconds = calibrated_seconds(OWN, H100, own, 4096, 64)
    weights_s = 15.0e9 / H100.bandwidth
    assert seconds(Pass((Span(0, 1, 1),))) == pytest.approx(7e-3 + 2 * weights_s, rel=0.01)
    matrices, rows = 6.98e9, 2048  # without the head
    prompt_s = 9e-3 + 3 * 2 * matrices * rows / H100.peak_flops
    assert seconds(Pass((Span(0, rows, 0, logit_rows=0),))) == pytest.approx(prompt_s, rel=0.02)


def test_without_any_coefficient_the_floor_stays() -> None:
    """Its factors of nothing would make passes that take no time."""
    own = measured(decode_rows=0.0, logits=0.0, decode_attention=0.0)
    pass_ = Pass((Span(0, 1, 500), Span(1, 1, 900)))
    assert calibrated_seconds(OWN, H100, own, 64, 8)(pass_) >= roofline_seconds(OWN, H100)(pass_) * 0.999


def test_a_calibrated_server_is_slower_and_says_so() -> None:
    slow = StandInOptions(name="m", kv="bf16", speed=1e3, calibration=measured(decode_pass_s=0.5))
    engine = open_standin(LLAMA, OWN, H100, slow)
    engine.executor.begin(0, [1, 2], Sampling())
    assert engine.executor.run(Pass((Span(0, 1, 1),))).seconds == pytest.approx(0.5, rel=0.02)
    assert len(engine.notes) == 1 and "12 measured passes" in engine.notes[0]
    other = open_standin(LLAMA, OWN, load_accelerator("h200"), slow)
    assert "llama-3.1-8b on h100-sxm" in other.notes[1].lower()


def started(sampling: Sampling, prompt: list[int]) -> list[int]:
    engine = StandIn(lambda pass_: 0.0, range(1000), 16)
    engine.begin(3, prompt, sampling)
    pass_ = Pass((Span(3, 1, len(prompt)),))
    return [engine.run(pass_).tokens[3][0] for _ in range(20)]


def test_the_same_request_has_the_same_answer() -> None:
    greedy = Sampling(seed=1)
    assert started(greedy, [1, 2]) == started(Sampling(seed=2), [1, 2])
    assert started(greedy, [1, 2]) != started(greedy, [1, 3])
    warm = [Sampling(temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    answers = [started(each, [1, 2]) for each in warm]
    assert answers[0] == answers[1] != answers[2]


def test_stop_ids_wait_for_min_tokens() -> None:
    engine = StandIn(lambda pass_: 0.0, (5, 6), 16)
    engine.begin(0, [1], Sampling(stop_ids=frozenset({5}), min_tokens=9))
    outcomes = [engine.run(Pass((Span(0, 1, 1),))) for _ in range(9)]
    assert all(outcome.tokens[0] == (6,) and not outcome.stopped for outcome in outcomes)


def test_the_pool_is_what_fit_says() -> None:
    opened = open_standin(LLAMA, OWN, H100, StandInOptions(name="m", kv="bf16", speed=1.0))
    # 80 GiB cards: 0.9 of memory less 15 GiB of weights and a little, at 128 KiB a token
    assert 380_000 < opened.limits.blocks * 16 < 460_000
    small = open_standin(
        LLAMA, OWN, H100, StandInOptions(name="m", kv="bf16", speed=1.0, sizes=Sizes(blocks=100))
    )
    assert small.longest == 1601


def test_a_model_that_does_not_fit_is_refused() -> None:
    large = load_model("llama-3.1-70b")
    own = Deployment(large.spec, large.storage)
    with pytest.raises(InputError, match=r"no room for a KV cache on H100 SXM.*--tp"):
        open_standin(large, own, H100, StandInOptions(name="m", kv="bf16", speed=1.0))


def test_the_clock_keeps_time() -> None:
    clock, began = PacedClock(speed=20.0), time.perf_counter()
    for _ in range(20):
        clock.advance(0.1)
        time.sleep(0.001)  # what the host does between passes costs nothing
    took = time.perf_counter() - began
    assert clock.lost_s == 0
    assert 0.1 <= took < 0.2  # 20 x 0.1 s at 20 times the speed
    assert clock.now() >= 2.0


def test_rest_is_no_work() -> None:
    clock = PacedClock(speed=1.0)
    clock.advance(0.01)
    clock.rest()
    time.sleep(0.05)
    before = clock.now()
    clock.advance(0.01)
    assert clock.now() - before >= 0.01


def test_it_needs_no_compiler() -> None:
    rooms = "app, loop, open_standin, running, service"
    code = f"import sys; from twophase.server import {rooms}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "llvmlite", "torch", "tokenizers"} & set(loaded.stdout.split())
