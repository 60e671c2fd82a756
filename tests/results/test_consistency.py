"""Rows that contradict themselves, and published ones that must not be said to."""

from dataclasses import replace
from pathlib import Path

import pytest

from twophase.results import Point, inconsistencies, read_points

DATA = Path(__file__).parents[1] / "data" / "results"

# TensorRT-LLM's perf-overview example: every identity holds in it.
REPORT = Point(
    "report",
    input_tokens=2048,
    output_tokens=128,
    ttft_s=52.66703,
    tpot_s=0.1829639,
    e2e_s=75.90345,
    requests_per_s=43.2089,
    output_tokens_per_s=5530.74,
    total_tokens_per_s=94_022.55,
    statistic="mean",
)


def test_a_consistent_report() -> None:
    assert inconsistencies(REPORT) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"e2e_s": 50.0}, "TTFT 52.67 s is longer than the whole request, 50 s"),
        ({"e2e_s": 150.0}, "TTFT + (output tokens - 1) · TPOT is 75.9 s, but E2E is 150 s"),
        ({"requests_per_s": 21.6}, "output rate is 5,531 tokens/s, but requests/s · output tokens is 2,765"),
        ({"total_tokens_per_s": 5530.74}, "(input + output tokens) is 94,023"),
        ({"output_tokens_per_s": 94_022.55}, "output rate is 94,023 tokens/s"),
        ({"gpus": 8, "output_tokens_per_s_per_gpu": 5530.74}, "per GPU · 8 GPUs is 44,246"),
        ({"cached_tokens": 4096.0}, "4,096 tokens from a cache, of 2,048 input tokens"),
    ],
)
def test_one_changed_number_is_seen(change: dict[str, float], said: str) -> None:
    assert any(said in sentence for sentence in inconsistencies(replace(REPORT, **change)))


def test_tpot_with_the_ttft_inside() -> None:
    """2 s to the first of 101 tokens, 12 s in all: 100 ms after the first, 118.8 ms where all is divided."""
    request = Point("one", ttft_s=2.0, e2e_s=12.0, output_tokens=101, tpot_s=0.1, statistic="mean")
    assert inconsistencies(request) == ()
    (said,) = inconsistencies(replace(request, tpot_s=12 / 101))
    assert "118.8 ms is E2E / output tokens, with the TTFT inside" in said
    assert said.endswith("is 100 ms")


def test_one_token_has_no_tpot(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("ttft_ms,tpot_ms,e2e_ms,osl\n2000,7,2000,1\n")
    (point,) = read_points(path)
    assert point.tpot_s is None
    assert inconsistencies(point) == ()


def test_input_and_output_tokens_called_output() -> None:
    """8 GPUs, 64 clients at 7.36 ms: at most 1,087 output tokens/s a GPU, so 2,106.9 counts both."""
    both = Point(
        "both",
        gpus=8,
        concurrency=64,
        tpot_s=0.00736,
        input_tokens=1024,
        output_tokens=1024,
        total_tokens_per_s_per_gpu=2106.9,
    )
    assert both.concurrency is not None
    assert both.concurrency / 0.00736 / 8 == pytest.approx(1087, abs=0.5)
    assert inconsistencies(both) == ()
    wrong = replace(both, total_tokens_per_s_per_gpu=None, output_tokens_per_s_per_gpu=2106.9)
    (said,) = inconsistencies(wrong)
    assert "more than concurrency / TPOT, 8,696; it fits input and output together" in said


def test_the_system_s_rate_called_a_user_s() -> None:
    point = Point("user", tpot_s=0.05, output_tokens_per_s_per_user=20.0)
    assert inconsistencies(point) == ()
    assert "per user" in inconsistencies(replace(point, output_tokens_per_s_per_user=1280.0))[0]


def test_medians_make_no_sum() -> None:
    """A median request is no request: only means add up."""
    assert inconsistencies(replace(REPORT, e2e_s=150.0, statistic="median")) == ()


@pytest.mark.parametrize("path", sorted(DATA.iterdir()), ids=lambda path: path.name)
def test_nothing_is_said_of_consistent_files(path: Path) -> None:
    for point in read_points(path):
        assert inconsistencies(point) == (), point.row
