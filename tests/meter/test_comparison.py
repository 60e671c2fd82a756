"""Two runs side by side: pairs cancel what both share; intervals hold what the test put in."""

import random
from dataclasses import replace

import pytest
from synthetic_replies import reply, run_of

from twophase.meter.comparison import Comparison, Difference, compare
from twophase.meter.records import Reply


def requests(extra_s: float, seed: int, noise: float = 0.001, first: int = 0) -> list[Reply]:
    """TTFT differs from request to request by far more than between runs."""
    own, noisy = random.Random(1), random.Random(seed)
    return [
        reply(first + i, sent=float(i), ttft=own.uniform(0.05, 0.5) + extra_s + noise * noisy.random())
        for i in range(200)
    ]


def of(found: Comparison, metric: str, statistic: str) -> Difference:
    return next(each for each in found.differences if (each.metric, each.statistic) == (metric, statistic))


def test_pairs_show_what_samples_would_hide() -> None:
    base, other = run_of(requests(0.0, 2)), run_of(requests(0.005, 3))
    found = compare(base, other)
    assert found.paired and found.pairs == 200
    mean = of(found, "TTFT", "mean")
    assert mean.difference_s.low <= 0.005 <= (mean.difference_s.high or 0)
    assert mean.difference_s.value == pytest.approx(0.005, abs=2e-4)
    assert mean.verdict == "slower"
    apart = compare(base, run_of(requests(0.005, 3, first=1000)))  # other requests: no pairs
    assert not apart.paired
    assert of(apart, "TTFT", "mean").verdict == "no difference seen"


def test_a_run_against_itself_has_no_difference() -> None:
    run = run_of(requests(0.0, 2))
    for each in compare(run, run).differences:
        assert (each.difference_s.low, each.difference_s.value, each.difference_s.high) == (0, 0, 0)
        assert each.verdict == "no difference seen"


def test_a_faster_run_is_called_so() -> None:
    assert of(compare(run_of(requests(0.02, 2)), run_of(requests(0.0, 3))), "E2E", "p50").verdict == "faster"


def test_a_p99_of_few_requests_is_not_compared() -> None:
    run = run_of([reply(i) for i in range(99)])
    assert {each.statistic for each in compare(run, run).differences} == {"mean", "p50"}


def test_a_replay_pairs_with_the_one_level_that_it_replays() -> None:
    def level(name: str, first: int = 0) -> list[Reply]:
        return [replace(reply(first + i), point=name) for i in range(20)]

    replay = run_of(level(""))
    assert compare(run_of(level("rate 4/s")), replay).pairs == 20
    assert compare(replay, run_of(level("rate 4/s"))).pairs == 20
    assert compare(run_of(level("rate 4/s")), run_of(level("rate 8/s"))).pairs == 0
    two = run_of([*level("rate 4/s"), *level("rate 8/s", 20)])
    assert compare(two, replay).pairs == 0


def test_prompts_of_other_lengths_are_no_pairs() -> None:
    base = run_of([reply(i, prompt_tokens=500) for i in range(20)])
    other = run_of([reply(i, prompt_tokens=900) for i in range(20)])
    assert compare(base, other).pairs == 0


def test_intervals_hold_the_truth_at_about_their_rate() -> None:
    """Thirty pairs of runs whose means differ by 2 ms: 95 % intervals of the mean miss it a few times."""
    hit = 0
    for seed in range(30):
        rng = random.Random(seed)
        base = run_of([reply(i, ttft=0.1 + 0.01 * rng.gauss(0, 1)) for i in range(60)])
        other = run_of([reply(i, ttft=0.102 + 0.01 * rng.gauss(0, 1)) for i in range(60)])
        own = of(compare(base, other), "TTFT", "mean").difference_s
        hit += own.low <= 0.002 <= (own.high or 0)
    assert hit >= 24


def test_nothing_to_compare() -> None:
    assert compare(run_of([]), run_of([])).differences == ()
