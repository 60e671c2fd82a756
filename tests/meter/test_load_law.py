"""A sweep's law: levels whose batches and times follow one, made by hand."""

import json

import pytest
from synthetic_replies import reply, run_of

from twophase.meter.load_law import LoadPoint, fit_load
from twophase.meter.records import Reply
from twophase.meter.summary import summarise
from twophase.report.bench import plain
from twophase.report.bench_json import document

PASS_S, SEQUENCE_S = 0.02, 0.0005


def level(streams: int, first: int) -> list[Reply]:
    """So many streams that decode all the time, ten rounds of them: no prefill between, 100 tokens each."""
    itl = PASS_S + SEQUENCE_S * streams
    return [
        reply(
            first + round_ * streams + stream,
            sent=1 + round_ * 100 * itl,
            ttft=itl,
            itl=itl,
            tokens=100,
            point=f"concurrency {streams}",
            prompt_tokens=450,
        )
        for round_ in range(10)
        for stream in range(streams)
    ]


def test_the_law_comes_back() -> None:
    points = [LoadPoint(n, PASS_S + SEQUENCE_S * n, 500.0) for n in (1.0, 2.0, 4.0, 8.0)]
    law = fit_load(points)
    assert law is not None
    assert law.pass_s.value == pytest.approx(PASS_S)
    assert law.sequence_s.value == pytest.approx(SEQUENCE_S)
    assert (law.levels, law.context_tokens, law.poor) == (4, 500.0, ())


def test_levels_off_the_law_widen_its_intervals_and_are_said() -> None:
    points = [LoadPoint(n, s, 500.0) for n, s in ((1.0, 0.02), (2.0, 0.03), (4.0, 0.02), (8.0, 0.03))]
    law = fit_load(points)
    assert law is not None and law.poor
    assert law.sequence_s.low == 0.0
    assert law.sequence_s.high is not None and law.sequence_s.high > 0.001


@pytest.mark.parametrize("decoding", [[1.0, 2.0], [4.0, 4.0, 4.0], [1.0]])
def test_too_little_gives_none(decoding: list[float]) -> None:
    assert fit_load([LoadPoint(n, 0.02, 500.0) for n in decoding]) is None


def test_a_sweep_has_its_law_in_text_and_json() -> None:
    replies = [each for at, streams in enumerate((1, 2, 4, 8)) for each in level(streams, at * 1000)]
    run = run_of(replies)
    summary = summarise(run)
    assert summary.law is not None
    assert summary.law.pass_s.value == pytest.approx(PASS_S, rel=0.05)  # 99 of 100 tokens are later ones
    assert summary.law.sequence_s.value == pytest.approx(SEQUENCE_S, rel=0.05)
    assert summary.law.context_tokens == pytest.approx(500)
    made = json.loads(json.dumps(document(run, summary), allow_nan=False))["fit"]["tpot"]
    assert made["pass_s"]["low"] <= made["pass_s"]["value"] <= made["pass_s"]["high"]
    assert made["levels"] == 4
    assert "a sequence that decodes, over 4 levels of 500 tokens" in plain(run, summary)


def test_one_level_has_no_law() -> None:
    run = run_of(level(4, 0))
    assert document(run, summarise(run))["fit"] is None
