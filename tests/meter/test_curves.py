"""The plan of a diagnosis on a made-up server, whose laws it must find within its budget."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from known_engine import KnownEngine

from twophase.meter.curves import (
    Ask,
    Curves,
    decode_order,
    itl_point,
    measure_curves,
    prompt_lengths,
    rebuilt,
    typical,
)
from twophase.meter.itl_law import ItlPoint, fit_itl, itl_at
from twophase.meter.least_squares import Estimate
from twophase.meter.records import Reply
from twophase.meter.ttft_curve import ttft_at


def holds(own: Estimate, truth: float, spare: float = 0.0) -> bool:
    return own.low * (1 - spare) <= truth <= (own.high or 0.0) * (1 + spare)


def run(engine: KnownEngine, budget_s: float, **changed: int) -> Curves:
    return measure_curves(engine.measure, budget_s=budget_s, clock=engine.clock, **changed)


@pytest.fixture(scope="module")
def found() -> Curves:
    return run(KnownEngine(), 300.0, window_tokens=131072)


def test_the_known_laws_come_back(found: Curves) -> None:
    assert found.failed == ()
    assert found.ttft is not None and found.itl is not None
    # intervals miss one in twenty: a tenth of spare room makes this seed's answer no matter of luck
    assert holds(found.ttft.overhead_s, 25e-3, 0.1)
    assert holds(found.ttft.linear_s_per_token, 0.1e-3, 0.1)
    assert holds(found.ttft.quadratic_s_per_token2, 1.5e-9, 0.1)
    for tokens in (27, 65536):
        truth = 25e-3 + 0.1e-3 * tokens + 1.5e-9 * tokens**2
        assert ttft_at(found.ttft, tokens) == pytest.approx(truth, rel=0.03)
    assert holds(found.itl.pass_s, 8e-3, 0.1)
    assert holds(found.itl.sequence_s, 0.2e-3, 0.2)
    assert holds(found.itl.context_s_per_token, 0.5e-6, 0.1)
    assert found.itl.pass_s.value == pytest.approx(8e-3, rel=0.05)
    assert not found.ttft.poor
    assert not found.itl.poor


def test_lengths_are_the_servers_own_counts(found: Curves) -> None:
    assert found.prefill[0].prompt_tokens == 16 + 11
    assert {each.batch for each in found.decode} == {1, 2, 4, 8, 16}


@pytest.mark.parametrize("budget_s", [5.0, 20.0, 60.0])
def test_the_budget_is_kept(budget_s: float) -> None:
    engine = KnownEngine()
    began = engine.now
    own = run(engine, budget_s)
    assert engine.now - began < 1.3 * budget_s
    assert own.ttft is not None
    assert own.itl is not None


def test_prompts_from_a_cache_fail_the_curve() -> None:
    own = run(KnownEngine(cached=0.4), 20.0)
    assert own.ttft is None
    assert own.cached_share == pytest.approx(0.4, abs=0.02)
    assert "prefix cache" in own.failed[0]
    assert run(KnownEngine(cached=None), 20.0).cached_share is None


def test_a_short_window_ends_the_lengths() -> None:
    engine = KnownEngine(window=4096)
    own = run(engine, 60.0, window_tokens=4096)
    assert max(engine.asked) <= 4096
    assert own.ttft is not None
    assert own.ttft.to_tokens > 3000
    untold = KnownEngine(window=4096)  # the server does not say: the first refusal ends them
    assert run(untold, 60.0).ttft is not None
    assert sum(tokens >= 4096 for tokens in untold.asked) == 1


def test_a_server_that_answers_nothing() -> None:
    own = run(KnownEngine(window=0), 10.0)
    assert (own.ttft, own.itl, own.prefill, own.decode) == (None, None, (), ())
    assert len(own.failed) == 2


def test_a_floor_shows() -> None:
    own = run(KnownEngine(floor_s=38e-3, ttft=(7e-3, 0.1e-3, 2.4e-10)), 200.0)
    assert own.ttft is not None
    assert own.ttft.form == "floored"
    assert own.ttft.floor_s is not None and own.ttft.floor_s.value == pytest.approx(38e-3, rel=0.03)


def test_prompt_lengths_double_and_end_with_the_longest() -> None:
    assert prompt_lengths(100) == [16, 32, 64, 100]
    assert prompt_lengths(128) == [16, 32, 64, 128]
    assert prompt_lengths(65536)[-1] == 65536


def test_the_grid_begins_with_its_corners() -> None:
    assert decode_order(16, 8192)[:3] == [(1, 64), (16, 64), (1, 8192)]
    assert set(decode_order(1, 100)) == {(1, 64)}


def test_steps_are_timed_only_while_all_decode() -> None:
    """The second prompt keeps the first one waiting for a second: no part of any ITL."""
    engine = KnownEngine(ttft=(1.0, 0.0, 0.0), itl=(0.01, 0.0, 0.0), noise=0.0)
    asks = [Ask(64, 24, "x")] * 2
    point = itl_point(engine.measure(asks, 2), 2)
    assert point is not None
    assert point.itl_s == pytest.approx(0.01)
    assert point.context == pytest.approx(64 + 11 + 1 + 22 / 2, abs=1.5)


def test_a_pause_of_the_machine_is_no_point_of_the_curve() -> None:
    engine = KnownEngine(noise=0.0)
    replies = [each for _ in range(4) for each in engine.measure([Ask(512, 2, "prompt 512")], 1)]
    engine.noise, engine.ttft = 0.0, (1.0, 0.0, 0.0)
    replies += engine.measure([Ask(512, 2, "prompt 512")], 1)
    assert len(typical(replies)) == 4


def test_the_law_of_itl_without_noise() -> None:
    points = [
        ItlPoint(batch, context, 8e-3 + 2e-4 * batch + 5e-7 * batch * context, 100)
        for batch in (1, 4, 16)
        for context in (64, 1024, 8192)
    ]
    law = fit_itl(points)
    assert law.coefficients == pytest.approx((8e-3, 2e-4, 5e-7), rel=1e-6)
    assert law.doubling_batch is not None and law.doubling_batch.value == pytest.approx(40)
    assert itl_at(law, 8, 2000) == pytest.approx(8e-3 + 1.6e-3 + 8e-3)
    alone = fit_itl([each for each in points if each.batch == 1] * 2)
    assert any("one batch" in reason for reason in alone.poor)


def test_a_kept_run_gives_the_same_laws() -> None:
    engine = KnownEngine()
    kept: list[Reply] = []

    def measure(asks: Sequence[Ask], concurrency: int) -> list[Reply]:
        found = engine.measure(asks, concurrency)
        kept.extend(replace(each, number=len(kept) + at) for at, each in enumerate(found))
        return found

    own = measure_curves(measure, budget_s=30.0, clock=engine.clock)
    again = rebuilt(kept, own.seconds)
    assert again.ttft == own.ttft
    assert again.prefill == own.prefill
    assert sorted(again.decode, key=repr) == sorted(own.decode, key=repr)
    assert again.itl is not None and own.itl is not None
    assert again.itl.coefficients == pytest.approx(own.itl.coefficients)
