"""The figures of bench/end_to_end.py, by hand, and that it hears the engine and the simulator alike."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import end_to_end
from end_to_end import LIMITS, Load, figures, load_of, of_log, same_order, simulated

from twophase.cost.pass_ import Pass
from twophase.cost.pass_times import COLUMNS, PassTimes
from twophase.records import RequestRecord
from twophase.scheduler.clock import VirtualClock
from twophase.scheduler.drive import drive
from twophase.scheduler.log import Log
from twophase.scheduler.request import PassOutcome, Request
from twophase.scheduler.scheduler import Scheduler

PASS_S = 0.25


def test_figures_by_hand() -> None:
    log = Log(lambda pass_: (0.0, 0.0))
    log.requests = [
        RequestRecord(0, 1.0, 5, token_s=[3.0, 4.0, 6.0]),
        RequestRecord(1, 2.0, 5, token_s=[6.0]),  # no TPOT
    ]
    found = of_log(log)
    assert found["TTFT mean"] == 3.0 and found["TTFT p50"] == 3.0
    assert found["TPOT p50"] == found["TPOT p99"] == 1.5
    assert found["gap p99"] == pytest.approx(1.99)


def constant_times() -> PassTimes:
    """Every pass takes PASS_S."""
    rows, logits = np.full(LIMITS.budget + 1, PASS_S), np.zeros(LIMITS.max_sequences + 1)
    nothing = np.zeros_like(rows)
    mixers = np.zeros((0, COLUMNS))
    return PassTimes(rows, rows.copy(), logits, mixers, nothing, nothing, logits, logits, np.ones(2))


@pytest.mark.parametrize("policy", end_to_end.POLICIES)
def test_engine_and_simulator_are_measured_alike(policy: str) -> None:
    """The engine's loop with passes of equal length, beside the simulator with the same."""

    class Steady:
        def run(self, pass_: Pass) -> PassOutcome:
            return PassOutcome({s.sequence: [0] for s in pass_.spans if s.logit_rows}, (), PASS_S)

    load = load_of(60, 0.5, "test")
    log = Log(lambda pass_: (0.0, 0.0))
    lengths = zip(load.prompt_tokens.tolist(), load.output_tokens.tolist(), strict=True)
    requests = [Request(i, *each) for i, each in enumerate(lengths)]
    arrivals = zip(load.arrival_s.tolist(), requests, strict=True)
    for _ in drive(arrivals, Scheduler(LIMITS, policy), Steady(), VirtualClock(), log):
        pass
    assert simulated(load, policy, constant_times()) == pytest.approx(of_log(log), rel=1e-9)


def test_loads_keep_to_the_limits() -> None:
    load = load_of(2000, 5.0, "test")
    assert isinstance(load, Load)
    assert np.max(load.prompt_tokens + load.output_tokens) <= LIMITS.context_length
    assert load.arrival_s[-1] == pytest.approx(400, rel=0.1)
    assert np.median(load.prompt_tokens) == pytest.approx(128, rel=0.1)


def test_policies_that_are_alike_have_no_order() -> None:
    assert same_order({"a": 1.0, "b": 1.04, "c": 2.0}, {"a": 1.2, "b": 1.1, "c": 1.9})
    assert not same_order({"a": 1.0, "b": 1.2}, {"a": 1.2, "b": 1.1})


def test_requests_of_one_token_have_no_tpot() -> None:
    found = figures(np.zeros(2), np.ones(2), np.array([1.0, 3.0]), np.array([1, 3]), np.ones(2))
    assert found["TPOT p99"] == 1.0


def test_a_load_at_its_own_pace() -> None:
    """Measured passes that took half as long again: simulated so, figures are half as large again."""
    load, times = load_of(30, np.inf, "test"), constant_times()
    clock = VirtualClock()
    slow = end_to_end.Paced(times, np.array([1.5]), clock)
    log = end_to_end.driven(load, "decode-first", LIMITS, slow, clock)
    paces, whole = end_to_end.paces_of(times, log.passes)
    assert whole == pytest.approx(1.5)
    np.testing.assert_allclose(paces, 1.5)
    usual = simulated(load, "decode-first", times)
    slower = end_to_end.at_its_pace(load, "decode-first", times, paces)
    assert slower == pytest.approx({name: 1.5 * value for name, value in usual.items()})
