from random import Random
from statistics import fmean, median, pstdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.errors import InputError
from twophase.workload.lengths import LARGEST, Lengths, lengths_of


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("512", Lengths("fixed", 512)),
        ("normal:512,64", Lengths("normal", 512, 64)),
        ("lognormal:700, 0.5", Lengths("lognormal", 700, 0.5)),
        ("uniform:10,20", Lengths("uniform", 10, 20)),
    ],
)
def test_every_form_is_read_and_told_again(text: str, lengths: Lengths) -> None:
    assert lengths_of("--prompt-tokens", text) == lengths
    assert lengths_of("--prompt-tokens", str(lengths)) == lengths


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "512,64", "normal:0,1", "uniform:20,10", "zipf:1,2", "1e3", "lognormal:512,64", "9" * 9],
)
def test_what_is_no_length_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match="--output-tokens"):
        lengths_of("--output-tokens", text)


def test_a_fixed_length_is_always_the_same() -> None:
    assert {Lengths("fixed", 77).draw(Random(seed)) for seed in range(20)} == {77}


def test_draws_have_the_moments_that_were_asked_for() -> None:
    rng = Random(4)
    normal = [Lengths("normal", 500, 50).draw(rng) for _ in range(4000)]
    assert fmean(normal) == pytest.approx(500, abs=4 * 50 / 4000**0.5)
    assert pstdev(normal) == pytest.approx(50, rel=0.06)
    lognormal = [Lengths("lognormal", 300, 0.7).draw(rng) for _ in range(4000)]
    assert median(lognormal) == pytest.approx(300, rel=0.07)
    uniform = [Lengths("uniform", 3, 6).draw(rng) for _ in range(400)]
    assert set(uniform) == {3, 4, 5, 6}


@given(
    st.sampled_from(["normal", "lognormal"]),
    st.floats(1, 1e6),
    st.floats(0, 5),
    st.integers(),
)
def test_every_draw_is_a_positive_count(kind: str, first: float, second: float, seed: int) -> None:
    assert 1 <= Lengths(kind, first, second).draw(Random(seed)) <= LARGEST


@given(st.sampled_from(["fixed", "normal", "lognormal", "uniform"]), st.floats(1, 900), st.integers(0, 2**32))
def test_many_at_once_are_positive_counts_within_their_bounds(kind: str, first: float, seed: int) -> None:
    own = Lengths(kind, first, 0.5 if kind == "lognormal" else 1000.0)
    drawn = own.draws(200, np.random.default_rng(seed))
    assert drawn.dtype == np.int64
    assert drawn.min() >= 1
    if kind == "uniform":
        assert int(first) <= drawn.min() <= drawn.max() <= 1000
    if kind == "fixed":
        assert set(drawn.tolist()) == {round(first)}


def test_many_at_once_have_the_moments_that_were_asked_for() -> None:
    rng = np.random.default_rng(3)
    lognormal = Lengths("lognormal", 300, 0.7).draws(40_000, rng)
    assert np.median(lognormal) == pytest.approx(300, rel=0.03)
    assert np.log(lognormal).std() == pytest.approx(0.7, rel=0.03)
    assert Lengths("normal", 500, 50).draws(40_000, rng).std() == pytest.approx(50, rel=0.03)
    uniform = Lengths("uniform", 3, 6).draws(4000, rng)
    assert np.bincount(uniform)[3:].tolist() == pytest.approx([1000] * 4, abs=4 * 28)
