"""The TTFT fit against curves that are known because the test draws them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.advise.bend import fit_ttft, ttft_at
from twophase.advise.diagnosis import PrefillRow

PROMPTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def row(tokens: int, ttft_s: float, compute_s: float = 1.0, memory_s: float = 0.5) -> PrefillRow:
    floor_s = max(compute_s, memory_s)
    return PrefillRow(
        prompt_tokens=tokens,
        ttft_s=ttft_s,
        floor_s=floor_s,
        compute_s=compute_s,
        memory_s=memory_s,
        flops=1.0,
        bytes=1.0,
        mfu=0.5,
        mbu=0.5,
        bound="compute",
        runs=3,
    )


def curve(a: float, b: float, c: float, noise: float = 0.0, seed: int = 0) -> list[PrefillRow]:
    rng = np.random.default_rng(seed)
    return [row(n, (a + b * n + c * n * n) * (1 + noise * rng.standard_normal())) for n in PROMPTS]


@pytest.mark.parametrize("seed", range(20))
def test_recovers_a_noisy_curve(seed: int) -> None:
    a, b, c = 25e-3, 0.1e-3, 1.5e-6
    rows = [r for r in curve(a, b, c, noise=0.02, seed=seed) if r.prompt_tokens <= 2048]
    fit = fit_ttft(rows)
    assert fit.overhead_s == pytest.approx(a, rel=0.1)
    assert fit.quadratic_s_per_token2 == pytest.approx(c, rel=0.1)
    for n in (16, 100, 700, 2048):
        assert ttft_at(fit, n) == pytest.approx(a + b * n + c * n * n, rel=0.05)


def test_bend_is_where_the_quadratic_part_is_a_tenth_of_the_linear() -> None:
    # c·n² = b·n / 10 at n = 0.1e-3 / (10 · 1e-8) = 1000
    assert fit_ttft(curve(5e-3, 0.1e-3, 1e-8)).bend_prompt_tokens == pytest.approx(1000, rel=1e-6)


def test_no_bend_within_the_measured_lengths() -> None:
    assert fit_ttft(curve(5e-3, 0.1e-3, 1e-10)).bend_prompt_tokens is None  # would be at 100,000
    assert fit_ttft(curve(5e-3, 0.1e-3, 0)).bend_prompt_tokens is None


def test_relative_error_keeps_the_short_prompts() -> None:
    """One long outlier of 30 % must not swamp the short prompts, as absolute least squares would have it."""
    rows = curve(0, 1e-3, 0)
    rows[-1] = row(8192, 8.192 * 1.3)
    assert ttft_at(fit_ttft(rows), 16) == pytest.approx(16e-3, rel=0.1)


@given(
    st.floats(1e-5, 1),
    st.floats(1e-7, 1e-1),
    st.floats(0, 1e-4),
)
def test_exact_curves_come_back(a: float, b: float, c: float) -> None:
    fit = fit_ttft(curve(a, b, c))
    assert min(fit.overhead_s, fit.linear_s_per_token, fit.quadratic_s_per_token2) >= 0
    for n in PROMPTS:
        assert ttft_at(fit, n) == pytest.approx(a + b * n + c * n * n, rel=1e-6)


def test_prompts_that_memory_binds_are_not_taken_for_overhead() -> None:
    """Weights take 10 ms, a token 0.1 ms of arithmetic: flat up to 100 tokens, then no overhead."""
    rows = [row(n, max(1e-2, n * 1e-4), compute_s=n * 1e-4, memory_s=1e-2) for n in PROMPTS]
    fit = fit_ttft(rows)
    assert fit.overhead_s == pytest.approx(0, abs=1e-9)
    assert fit.linear_s_per_token == pytest.approx(1e-4)
    assert fit.fitted_from_tokens == 128


def test_coefficients_stay_non_negative_on_a_curve_that_bends_down() -> None:
    fit = fit_ttft([row(n, 0.01 * n**0.5) for n in PROMPTS])
    assert min(fit.overhead_s, fit.linear_s_per_token, fit.quadratic_s_per_token2) >= 0


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_are_met(rows: int) -> None:
    points = curve(0.01, 1e-4, 0)[:rows]
    fit = fit_ttft(points)
    for each in points:
        assert ttft_at(fit, each.prompt_tokens) == pytest.approx(each.ttft_s)


@pytest.mark.parametrize("lengths", [(16, 64, 256, 1024), (256, 512), (16, 32), (64,)])
def test_arithmetic_floor_begins_where_the_sides_cross(lengths: tuple[int, ...]) -> None:
    """Weights of 10 ms to read, 0.1 ms of arithmetic a token: equal at 100 tokens."""
    rows = [row(n, 1.0, compute_s=n * 1e-4, memory_s=1e-2) for n in lengths]
    assert fit_ttft(rows).compute_bound_from_tokens == pytest.approx(100)
