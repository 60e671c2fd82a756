import asyncio
import random
import time
from array import array
from dataclasses import replace
from statistics import quantiles
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.meter.kernel_timer import Alarm
from twophase.meter.lag import LagProbe, lag_notes, lag_of, quantile, with_read_lag
from twophase.meter.records import Reply

REPLY = Reply(
    number=0,
    point="",
    outcome="finished",
    reason="",
    status=200,
    due_s=9.9,
    sent_s=10.0,
    first_event_s=10.1,
    first_token_s=10.1,
    first_answer_s=10.1,
    last_token_s=10.5,
    closed_s=10.5,
    prompt_tokens=1,
    cached_tokens=None,
    output_tokens=5,
    first_tokens=1,
    hidden_tokens=0,
    token_source="events",
    finish_reason="length",
    events=(),
)


def probe_of(*ticks: tuple[float, float]) -> LagProbe:
    """A probe that has seen these (handled at, lag)."""
    own = SimpleNamespace(at=array("d", [at for at, _ in ticks]), lag=array("d", [lag for _, lag in ticks]))
    own.around = lambda at: LagProbe.around(cast(LagProbe, own), at)
    return cast(LagProbe, own)


def test_a_blocked_loop_is_seen_and_the_reply_that_it_held_up_is_marked() -> None:
    async def main() -> tuple[LagProbe, float, float]:
        probe = LagProbe(asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        quiet = time.monotonic()
        await asyncio.sleep(0.05)
        time.sleep(0.2)
        blocked = time.monotonic()
        await asyncio.sleep(0.05)
        probe.close()
        return probe, quiet, blocked

    probe, quiet, blocked = asyncio.run(main())
    assert 0.18 < max(probe.lag) < 2
    assert probe.around(blocked) > 0.18
    assert probe.around(quiet) < 0.18
    assert probe.around(blocked + 0.04) < 0.18


def test_read_lag_is_the_worse_of_both_ends() -> None:
    probe = probe_of((10.0, 0.7), (10.0995, 0.004), (10.3, 0.9), (10.5, 0.002), (10.501, 0.8), (10.6, 0.8))
    (reply,) = with_read_lag([REPLY], probe)
    assert reply == replace(REPLY, read_lag_s=0.9)  # the tick after 10.1 was due at 9.4
    near = probe_of((10.0999, 0.004), (10.1009, 0.001), (10.1019, 0.5), (10.5, 0.002), (10.501, 0.003))
    (reply,) = with_read_lag([REPLY], near)
    assert reply.read_lag_s == 0.004  # two ticks after the read can't have held it up
    assert with_read_lag([replace(REPLY, first_token_s=None, last_token_s=None)], near)[0].read_lag_s == 0


def test_a_run_is_summed_up() -> None:
    lag = lag_of([0.001] * 99 + [0.1], 0.3, [REPLY, replace(REPLY, sent_s=9.95)])
    assert (lag.samples, lag.max_s, lag.cpu_share) == (100, 0.1, 0.3)
    assert lag.mean_s == pytest.approx(0.00199)
    assert lag.dispatch_p99_s == pytest.approx(0.0995)
    assert lag_of([], 0.0, []).p99_s == 0.0


def test_a_client_that_limits_says_so() -> None:
    calm = lag_of([0.001] * 100, 0.3, [REPLY])
    assert lag_notes(calm, [REPLY]) == []
    late = lag_of([0.006] * 100, 0.3, [REPLY])  # of a TTFT of 100 ms
    assert "client-limited" in lag_notes(late, [REPLY])[0]
    busy = lag_of([0.001] * 100, 0.95, [REPLY])
    assert "--workers" in lag_notes(busy, [REPLY])[0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_quantiles_are_those_of_the_standard_library(values: list[float]) -> None:
    ordered = sorted(values)
    own = [quantile(ordered, at / 100) for at in range(1, 100)]
    assert own == pytest.approx(quantiles(ordered, n=100, method="inclusive"), rel=1e-9, abs=1e-6)


def test_an_alarm_never_rings_early_and_hardly_late() -> None:
    async def main() -> list[float]:
        alarm = Alarm(asyncio.get_running_loop())
        late = []
        for _ in range(30):
            at = time.monotonic() + random.random() * 0.01
            await alarm.until(at)
            late.append(time.monotonic() - at)
        await alarm.until(time.monotonic() - 1)
        alarm.close()
        return late

    late = sorted(asyncio.run(main()))
    assert late[0] >= 0
    assert late[10] < 0.01
