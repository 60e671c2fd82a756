"""Gains, their intervals, and whether they help: worked out by hand."""

from dataclasses import replace
from math import exp, inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.advise.effects import chance, effects, helps
from twophase.advise.figures import Figures

PARTS = (0.2,) * 5
BEFORE = Figures(
    ttft_s=0.2,
    ttft_p99_s=0.4,
    itl_s=0.02,
    gap_p99_s=0.05,
    e2e_s=2.0,
    requests_per_s=4.0,
    output_tokens_per_s=400.0,
    usd_per_million_output_tokens=2.0,
    usd_per_1000_requests=0.2,
    device_s_per_request=0.25,
    good=1.0,
    goodput_per_s=3.0,
    most_good_per_s=3.0,
    cached_share=0.0,
    grows=False,
    devices=1,
    counted=1_000_000,
    ttft_parts=PARTS,
    itl_parts=PARTS,
)


def test_less_time_and_cost_and_more_requests_are_gains() -> None:
    after = replace(BEFORE, ttft_s=0.1, itl_s=0.04, requests_per_s=6.0, usd_per_1000_requests=0.4)
    found = effects(BEFORE, replace(after, most_good_per_s=1.5), (0.9, 1.1), other_kernels=False)
    gains = {aim: each.gain for aim, each in found.items()}
    assert gains == pytest.approx(
        {"ttft": 2.0, "itl": 0.5, "throughput": 1.5, "cost": 0.5, "goodput": 0.5}, rel=1e-12
    )
    assert helps(found, "ttft")
    assert helps(found, "throughput")
    assert not helps(found, "itl")


def test_kernels_of_other_kinds_err_on_their_own() -> None:
    after = replace(BEFORE, ttft_s=0.1)
    other = effects(BEFORE, after, (0.8, 1.25), other_kernels=True)["ttft"]
    spread = sqrt(2) * log(1.25)
    assert other.gain_range == pytest.approx((2 * exp(-spread), 2 * exp(spread)), rel=1e-9)
    same = effects(BEFORE, after, (0.8, 1.25), other_kernels=False)["ttft"]
    assert same.gain_range == pytest.approx((2.0, 2.0))  # all parts are alike: chance is nothing


def test_at_a_floor_there_is_no_interval() -> None:
    found = effects(BEFORE, replace(BEFORE, ttft_s=0.1), (1.0, inf), other_kernels=True)
    assert found["ttft"].gain == pytest.approx(2.0)
    assert found["ttft"].gain_range is None


def test_the_ttft_of_a_growing_queue_has_no_interval() -> None:
    """It is what it is because the run ended; other figures are steady."""
    growing = replace(BEFORE, ttft_s=20.0, grows=True)
    for before, after in ((growing, BEFORE), (BEFORE, growing), (growing, growing)):
        found = effects(before, after, (0.9, 1.1), other_kernels=True)
        assert found["ttft"].gain_range is None
        assert found["itl"].gain_range is not None and found["throughput"].gain_range is not None


def test_without_prices_the_devices_time_is_the_cost() -> None:
    free = replace(BEFORE, usd_per_1000_requests=None, usd_per_million_output_tokens=None)
    found = effects(free, replace(free, device_s_per_request=0.1), (0.9, 1.1), other_kernels=False)
    assert found["cost"].gain == pytest.approx(2.5)
    assert found["cost"].before is None


def test_chance_of_parts_by_hand() -> None:
    """Ratios 1, 1 and 4: the spread of logarithms 0, 0 and ln 4."""
    logs = (0.0, 0.0, log(4.0))
    middle = sum(logs) / 3
    deviation = sqrt(sum((each - middle) ** 2 for each in logs) / 2)
    assert chance((1.0, 1.0, 4.0), (1.0, 1.0, 1.0)) == pytest.approx(1.53 * deviation / sqrt(3))
    assert chance((1.0,), (2.0,)) == 0.0


@given(
    was=st.floats(1e-6, 1e3),
    now=st.floats(1e-6, 1e3),
    width=st.floats(1.0, 3.0),
    other=st.booleans(),
)
def test_the_gain_lies_in_its_interval(was: float, now: float, width: float, other: bool) -> None:
    before, after = replace(BEFORE, ttft_s=was), replace(BEFORE, ttft_s=now)
    found = effects(before, after, (1 / width, width), other_kernels=other)["ttft"]
    back = effects(after, before, (1 / width, width), other_kernels=other)["ttft"]
    assert found.gain is not None
    assert back.gain is not None
    assert found.gain_range is not None
    assert found.gain * back.gain == pytest.approx(1.0)
    assert found.gain_range[0] * (1 - 1e-12) <= found.gain <= found.gain_range[1] * (1 + 1e-12)
