"""The TTFT fit against curves that the test draws: coefficients in their intervals at the nominal rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.meter.least_squares import Estimate, t975
from twophase.meter.ttft_curve import TtftFit, fit_ttft, ttft_at, ttft_between
from twophase.non_negative import non_negative

A, B, C = 25e-3, 0.1e-3, 1.5e-9  # 25 ms + 0.1 ms n + 1.5e-6 ms n²
SEEDS = 60


def lengths(low: int = 16, high: int = 65536, sizes: int = 13, each: int = 3) -> np.ndarray:
    return np.repeat(np.unique(np.round(np.geomspace(low, high, sizes))), each)


def measured(tokens: np.ndarray, truth: np.ndarray, seed: int, noise: float = 0.02) -> TtftFit:
    rng = np.random.default_rng(seed)
    seconds = truth * (1 + noise * rng.standard_normal(len(tokens)))
    return fit_ttft(list(zip(tokens.tolist(), seconds.tolist(), strict=True)), seed)


def known(tokens: np.ndarray | float) -> np.ndarray:
    return np.asarray(A + B * tokens + C * np.square(tokens))


def holds(estimate: Estimate | None, truth: float) -> bool:
    if estimate is None:
        return False
    return estimate.low <= truth <= (float("inf") if estimate.high is None else estimate.high)


@pytest.fixture(scope="module")
def fits() -> list[TtftFit]:
    tokens = lengths()
    return [measured(tokens, known(tokens), seed) for seed in range(SEEDS)]


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("overhead_s", A),
        ("linear_s_per_token", B),
        ("quadratic_s_per_token2", C),
        ("bend_prompt_tokens", 0.1 * B / C),  # 6,667 tokens
        ("quadratic_equals_linear_tokens", B / C),
        ("work_equals_overhead_tokens", (-B + np.sqrt(B * B + 4 * A * C)) / (2 * C)),
    ],
)
def test_intervals_hold_the_truth_at_about_their_rate(fits: list[TtftFit], name: str, truth: float) -> None:
    """95 % of 60 are 57; fewer than 51 would be a chance of 1 in 500."""
    assert sum(holds(getattr(fit, name), truth) for fit in fits) >= 51


def test_intervals_are_not_wide_for_nothing(fits: list[TtftFit]) -> None:
    for name, most in (("overhead_s", 0.1), ("linear_s_per_token", 0.1), ("quadratic_s_per_token2", 0.15)):
        for fit in fits:
            estimate = getattr(fit, name)
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.high - estimate.low < 2 * most * estimate.value


def test_predictions_hold_within_three_percent_at_both_ends(fits: list[TtftFit]) -> None:
    for fit in fits:
        assert fit.form == "polynomial"
        assert not fit.poor
        for tokens in (16, 65536):
            assert ttft_at(fit, tokens) == pytest.approx(float(known(tokens)), rel=0.03)
    assert sum(holds(ttft_between(fit, 65536), float(known(65536))) for fit in fits) >= 51


def test_a_curve_without_noise_is_found_exactly() -> None:
    tokens = lengths(each=1)
    fit = measured(tokens, known(tokens), 0, noise=0.0)
    assert (fit.overhead_s.value, fit.linear_s_per_token.value) == pytest.approx((A, B), rel=1e-6)
    assert fit.quadratic_s_per_token2.value == pytest.approx(C, rel=1e-6)
    assert fit.bend_prompt_tokens is not None
    assert fit.bend_prompt_tokens.value == pytest.approx(0.1 * B / C, rel=1e-6)


FLOOR, LATE_A, LATE_B, LATE_C = 38e-3, 7e-3, 0.1e-3, 2.4e-10
BREAK = 310  # where 7 ms + 0.1 ms n + 2.4e-10 n² reaches 38 ms: at 309.8


def test_a_floor_is_found_with_its_end() -> None:
    tokens = lengths(16, 32768)
    truth = np.maximum(FLOOR, LATE_A + LATE_B * tokens + LATE_C * tokens**2)
    found = [measured(tokens, truth, seed) for seed in range(30)]
    assert all(fit.form == "floored" for fit in found)
    assert sum(holds(fit.floor_s, FLOOR) for fit in found) >= 25
    assert sum(holds(fit.leaves_floor_tokens, BREAK) for fit in found) >= 25
    assert sum(holds(fit.linear_s_per_token, LATE_B) for fit in found) >= 25
    for fit in found:
        assert ttft_at(fit, 64) == pytest.approx(FLOOR, rel=0.03)
        assert fit.leaves_floor_tokens is not None
        assert fit.leaves_floor_tokens.value == pytest.approx(BREAK, rel=0.1)


def test_a_straight_line_has_no_bend_that_is_certain() -> None:
    tokens = lengths(16, 8192)
    for seed in range(20):
        bend = measured(tokens, 5e-3 + 1e-4 * tokens, seed).bend_prompt_tokens
        assert bend is None or bend.high is None or bend.value > 4096


def test_poor_fits_say_so() -> None:
    tokens = lengths()
    assert measured(tokens, known(tokens), 1, noise=0.3).poor
    narrow = lengths(1000, 2000, 6, 2)
    assert any("too alike" in reason for reason in measured(narrow, known(narrow), 1).poor)
    kinked = np.where(tokens > 2000, 2.5, 1.0) * known(tokens)
    assert measured(tokens, kinked, 1).poor
    with pytest.raises(ValueError, match="5 points"):
        fit_ttft([(16, 1.0), (32, 1.0)])


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 0.2), st.floats(1e-6, 1e-3), st.floats(0, 1e-8), st.integers(0, 99), st.floats(0, 0.05))
def test_every_curve_gives_a_sound_fit(a: float, b: float, c: float, seed: int, noise: float) -> None:
    tokens = lengths(each=2, sizes=9)
    fit = measured(tokens, a + b * tokens + c * tokens**2, seed, noise)
    for estimate in (fit.overhead_s, fit.linear_s_per_token, fit.quadratic_s_per_token2):
        assert 0 <= estimate.low <= estimate.value
        assert estimate.high is not None and estimate.value <= estimate.high
    values = [ttft_at(fit, n) for n in (1, 10, 100, 1000, 10000)]
    assert values == sorted(values)
    assert np.isfinite(values).all()


@given(st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_non_negative_least_squares_meets_its_optimality_conditions(seed: int) -> None:
    """Karush, Kuhn and Tucker: no gradient along kept terms, none downhill along those at zero."""
    rng = np.random.default_rng(seed)
    design, target = rng.random((8, 3)), rng.normal(size=8)
    found = non_negative(design, target[None, :])[0]
    gradient = design.T @ (design @ found - target)
    assert (found >= 0).all()
    assert np.abs(gradient[found > 0]).max(initial=0) < 1e-8
    assert gradient[found == 0].min(initial=0) > -1e-6


def test_students_quantiles() -> None:
    """From printed tables (Abramowitz and Stegun, 26.10)."""
    for freedom, quantile in ((1, 12.706), (10, 2.228), (40, 2.021), (60, 2.000), (120, 1.980)):
        assert t975(freedom) == pytest.approx(quantile, abs=6e-4)
