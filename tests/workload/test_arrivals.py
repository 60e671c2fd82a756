from bisect import bisect
from itertools import islice, pairwise
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.workload.arrivals import Arrivals, time_of


def taken(arrivals: Arrivals, number: int, seed: str = "s") -> list[float]:
    return list(islice(arrivals.times(seed), number))


def gaps(arrivals: Arrivals, number: int, seed: str) -> list[float]:
    return [after - before for before, after in pairwise([0.0, *taken(arrivals, number, seed)])]


@pytest.mark.parametrize("seed", ["a", "b", "c"])
def test_poisson_has_its_rate_within_three_sigma_and_exponential_gaps(seed: str) -> None:
    rate, number = 40.0, 6000
    own = gaps(Arrivals(rate), number, seed)
    # the time of n arrivals has mean n/rate and standard deviation sqrt(n)/rate
    assert abs(sum(own) - number / rate) < 3 * sqrt(number) / rate
    ordered = sorted(own)
    distance = max(
        max(abs((at + 1) / number - (1 - exp(-rate * gap))), abs(at / number - (1 - exp(-rate * gap))))
        for at, gap in enumerate(ordered)
    )
    assert distance < 1.63 / sqrt(number)  # Kolmogorov and Smirnov's limit at 1 %


@pytest.mark.parametrize(("burstiness", "variation"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_gamma_gaps_vary_as_their_burstiness_says(burstiness: float, variation: float) -> None:
    own = gaps(Arrivals(10.0, "gamma", burstiness), 20_000, "g")
    mean = sum(own) / len(own)
    spread = sqrt(sum((gap - mean) ** 2 for gap in own) / len(own))
    assert mean == pytest.approx(0.1, rel=0.06)
    assert spread / mean == pytest.approx(variation, rel=0.06)  # 1 / sqrt(shape)


def test_constant_arrivals_do_not_drift() -> None:
    assert taken(Arrivals(8.0, "constant"), 4)[-1] == 0.5
    assert taken(Arrivals(3.0, "constant"), 30_000)[-1] == pytest.approx(10_000, abs=1e-6)


def test_the_ramp_grows_linearly_and_holds_half_of_its_rate() -> None:
    times = taken(Arrivals(100.0, "constant", ramp_s=10.0), 1500)
    assert bisect(times, 10.0) == 500  # 100/s * 10 s / 2
    assert bisect(times, 5.0) == 125  # a quarter of them in its first half
    assert bisect(times, 11.0) - bisect(times, 10.0) == 100


@given(st.floats(0.01, 1e4), st.floats(0, 1e3), st.lists(st.floats(0, 1e5), min_size=2, max_size=20))
def test_time_goes_on_with_what_has_come(rate: float, ramp_s: float, passed: list[float]) -> None:
    times = [time_of(each, rate, ramp_s) for each in sorted(passed)]
    assert all(after >= before >= 0 for before, after in pairwise(times))


@given(st.floats(0.01, 1e4), st.floats(0, 1e3), st.floats(0, 1e5))
def test_time_undoes_the_integral_of_the_rate(rate: float, ramp_s: float, passed: float) -> None:
    at = time_of(passed, rate, ramp_s)
    in_ramp = min(at, ramp_s)
    due = (rate * in_ramp**2 / (2 * ramp_s) if ramp_s else 0.0) + rate * (at - in_ramp)
    assert due == pytest.approx(passed, rel=1e-6, abs=1e-6)


def test_the_same_seed_gives_the_same_times() -> None:
    one = Arrivals(5.0, "gamma", 0.5)
    assert taken(one, 50, "x") == taken(one, 50, "x") != taken(one, 50, "y")


@pytest.mark.parametrize(
    "arrivals", [Arrivals(5.0), Arrivals(5.0, "gamma", 0.5), Arrivals(5.0, ramp_s=100.0)]
)
def test_many_at_once_are_the_same_as_one_by_one(arrivals: Arrivals) -> None:
    assert arrivals.first(3000, "x").tolist() == taken(arrivals, 3000, "x")


def test_gaps_hold_no_bits_that_depend_on_a_machine_s_logarithm() -> None:
    gaps = Arrivals(1.0).gaps(1000, np.random.default_rng(1))
    assert np.array_equal(gaps * 2**32, np.rint(gaps * 2**32))
