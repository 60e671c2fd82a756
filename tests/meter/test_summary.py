"""Figures of runs that were written down by hand."""

import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_replies import QUIET, failed, reply, run_of

from twophase.errors import InputError
from twophase.meter.distribution import distribution
from twophase.meter.goodput import Limit, goodput, slo_of
from twophase.meter.latency import (
    events_per_read,
    gaps_s,
    ntpot_s,
    queue_share,
    role_lead_s,
    tokens_per_event,
)
from twophase.meter.records import Lag, StreamEvent
from twophase.meter.summary import summarise


def test_percentiles_are_linear_between_order_statistics() -> None:
    found = distribution([10.0, 20.0, 30.0, 40.0, None, 50.0])
    assert found is not None
    assert (found.count, found.mean, found.p50, found.max) == (5, 30.0, 30.0, 50.0)
    assert found.p90 == pytest.approx(46.0)  # rank 0.9 · 4 = 3.6
    assert found.p99 == pytest.approx(49.6)
    assert distribution([None]) is None


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50))
def test_percentiles_rise_and_stay_within_the_sample(values: list[float]) -> None:
    found = distribution(values)
    assert found is not None
    rising = (min(values), found.p50, found.p90, found.p95, found.p99, found.max)
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(rising))
    assert found.p50 == pytest.approx(statistics.median(values))


def test_a_plain_stream() -> None:
    one = reply(ttft=0.1, itl=0.02, tokens=16)
    assert one.ttft_s == pytest.approx(0.1)
    assert one.tpot_s == pytest.approx(0.02)
    assert gaps_s(one) == pytest.approx([0.02] * 15)
    assert ntpot_s(one) == pytest.approx(0.4 / 16)
    assert tokens_per_event(one) == 1


def test_the_first_reads_tokens_belong_to_the_first_token() -> None:
    one = reply(ttft=0.16, itl=0.02, tokens=16, group=4)  # at 160, 240, 320, 400 ms
    assert one.tpot_s == pytest.approx(0.02)
    assert gaps_s(one) == pytest.approx([0.08] * 3)
    assert tokens_per_event(one) == 4


def test_an_empty_finish_chunk_and_usage_make_no_gap() -> None:
    one = reply(tokens=16)
    ends = one.events[-1].at_s
    events = (
        StreamEvent(1.01, "role", 0),
        *one.events,
        StreamEvent(ends + 0.5, "finish", 0),
        StreamEvent(ends + 0.5, "usage", 0),
        StreamEvent(ends + 0.5, "empty", 0),
    )
    late = reply(tokens=16, events=events, first_event_s=1.01, closed_s=ends + 0.5)
    assert len(gaps_s(late)) == 15
    assert max(gaps_s(late)) < 0.03
    assert role_lead_s(late) == pytest.approx(0.09)
    found = summarise(run_of([late]))
    assert found.latencies.e2e is not None and found.latencies.e2e.mean == pytest.approx(0.4)


def test_a_buffered_stream_shows_as_events_per_read() -> None:
    times = [1.1 + 0.06 * (i // 3) for i in range(15)]
    one = reply(events=tuple(StreamEvent(at, "content", 1.0) for at in times), tokens=15, itl=0.02)
    assert events_per_read(one) == 3
    assert sorted(gaps_s(one)) == pytest.approx([0.0] * 10 + [0.06] * 4)


def test_tokens_and_requests_are_weighted_apart() -> None:
    """Two tokens 10 ms apart, and 101 at 100 ms: 55 ms by requests, (10 + 100 · 100) / 101 by tokens."""
    found = summarise(run_of([reply(0, tokens=2, itl=0.01), reply(1, tokens=101, itl=0.1)])).latencies
    assert found.tpot is not None and found.tpot.mean == pytest.approx(0.055)
    assert found.tpot_token_weighted_s == pytest.approx((0.01 + 100 * 0.1) / 101)


def test_failures_are_outcomes_of_their_own_and_miss_the_slo() -> None:
    replies = [
        reply(0, sent=1.0),
        reply(1, sent=1.0, ttft=0.6),
        reply(2, sent=1.0, tokens=1),
        failed(3),
        failed(4, outcome="empty", reason="no token came"),
        reply(5, outcome="truncated", reason="connection reset", ttft=9.0),
        reply(6, outcome="cancelled", reason="time was up", ttft=9.0),
    ]
    found = summarise(run_of(replies), slo_of("ttft=500ms,tpot=30ms"))
    assert dict(found.outcomes) == {
        **{"finished": 3, "failed": 1, "rejected": 0},
        **{"truncated": 1, "cancelled": 1, "empty": 1},
    }
    assert ("failed", "out of memory", 1) in found.reasons
    assert found.latencies.ttft is not None and found.latencies.ttft.max == pytest.approx(0.6)
    assert found.latencies.tpot is not None and found.latencies.tpot.count == 2  # a single token has none
    assert found.goodput is not None
    assert (found.goodput.good, found.goodput.requests) == (1, 7)  # the single token meets no TPOT limit
    assert found.goodput.met == (2, 2)
    assert found.goodput.without_tpot == 1
    assert found.goodput.share == pytest.approx(1 / 7)


def test_ttft_is_not_zero_where_most_answers_are_empty() -> None:
    replies = [reply(i) for i in range(9)] + [failed(9 + i, outcome="empty") for i in range(11)]
    found = summarise(run_of(replies))
    assert found.latencies.ttft is not None and found.latencies.ttft.p50 == pytest.approx(0.1)
    assert found.of("empty") == 11


def test_open_loops_count_from_the_plan() -> None:
    """10 requests/s on a server that takes one at a time for 500 ms: eight requests, one in flight."""
    sent = [0.5 * i + 1 for i in range(8)]
    due = [0.1 * i + 1 for i in range(8)]
    replies = [
        reply(i, sent=s, due=d, ttft=0.5, tokens=1) for i, (s, d) in enumerate(zip(sent, due, strict=True))
    ]
    found = summarise(run_of(replies, open_loop=True))
    assert found.since == "due"
    assert found.latencies.e2e is not None and found.other_e2e is not None
    assert found.other_e2e.mean == pytest.approx(0.5)
    assert found.latencies.e2e.mean == pytest.approx(0.5 + 0.4 * 3.5)
    assert found.in_flight.asked_per_s == pytest.approx(10)
    assert found.in_flight.sent_per_s == pytest.approx(2)
    assert found.in_flight.mean == pytest.approx(1)


def test_throughput_over_the_window_from_first_sent_to_last_closed() -> None:
    replies = [reply(i, sent=1.0 + i * 0.4, tokens=16) for i in range(5)]  # each ends as the next is sent
    found = summarise(run_of(replies), gpus=2).throughput
    assert found.requests_per_s == pytest.approx(5 / 2.0)
    assert found.output_tokens_per_s == pytest.approx(80 / 2.0)
    assert found.input_tokens_per_s == pytest.approx(35 / 2.0)
    assert found.total_tokens_per_s == pytest.approx(115 / 2.0)
    assert found.output_tokens_per_s_per_gpu == pytest.approx(20)


def test_steady_throughput_counts_tokens_by_the_time_at_which_they_came() -> None:
    """Two streams of 50 tokens/s side by side, seen from 1.2 to 1.3 s: five tokens each."""
    replies = [reply(0, sent=1.0, ttft=0.11), reply(1, sent=1.0, ttft=0.11)]
    found = summarise(run_of(replies, steady=(("", 1.2, 1.3),)))
    assert found.throughput.output_tokens_per_s == pytest.approx(100)
    assert found.throughput.window_s == pytest.approx(0.1)
    assert found.whole_throughput.output_tokens_per_s == pytest.approx(32 / 0.41)
    assert summarise(run_of(replies)).throughput == found.whole_throughput


def test_the_first_cohort_stands_apart() -> None:
    """32 at once on a server that prefills one after the other, 10 ms each; later ones wait for none."""
    first = [reply(i, sent=1.0, ttft=0.01 * (i + 1), tokens=64) for i in range(32)]
    later = [reply(32 + i, sent=3.0 + 0.05 * i, ttft=0.01, tokens=64) for i in range(64)]
    found = summarise(run_of([*first, *later], first_cohort=tuple(range(32))))
    assert found.cohort_requests == 32
    assert found.latencies.ttft is not None and found.first_cohort is not None
    assert found.first_cohort.ttft is not None
    assert found.latencies.ttft.p99 == pytest.approx(0.01)
    assert found.first_cohort.ttft.p99 > 0.3
    alone = summarise(run_of(first, first_cohort=tuple(range(32))))
    assert alone.first_cohort is None  # nothing else is left to stand for the run
    assert alone.latencies.ttft is not None and alone.latencies.ttft.count == 32


def test_levels_of_a_sweep_stand_beside_the_whole() -> None:
    replies = [reply(i, sent=float(i), ttft=0.1, point="1") for i in range(3)]
    replies += [reply(3 + i, sent=10.0 + i, ttft=0.2, point="2") for i in range(3)]
    found = summarise(run_of(replies))
    assert [level.point for level in found.levels] == ["1", "2"]
    means = [level.latencies.ttft.mean for level in found.levels if level.latencies.ttft]
    assert means == pytest.approx([0.1, 0.2])
    assert summarise(run_of(replies[:3])).levels == ()


def test_cached_share_queue_share_and_hidden_tokens() -> None:
    replies = [
        reply(0, prompt_tokens=300, cached_tokens=0, server_times=(("queue_s", 0.04),)),
        reply(1, prompt_tokens=100, cached_tokens=8, hidden_tokens=4.0),
        reply(2, prompt_tokens=100, cached_tokens=None),
    ]
    found = summarise(run_of(replies))
    assert found.tokens.cached_share == pytest.approx(8 / 400)
    assert found.tokens.hidden == 4
    assert queue_share(replies[0]) == pytest.approx(0.4)
    assert queue_share(replies[1]) is None


def test_the_meters_error_bounds_the_percentile() -> None:
    """Truth plus a lateness within each reply's bound: the true p99 lies within bound below the measured."""
    late = [0.0001 * (i % 10) for i in range(100)]
    truth = [0.1 + 0.001 * i for i in range(100)]
    replies = [
        reply(i, sent=float(i), ttft=truth[i] + late[i], tokens=2, read_lag_s=late[i] + 1e-9)
        for i in range(100)
    ]
    found = summarise(run_of(replies))
    measured, bound = found.latencies.ttft, found.error.ttft
    true = distribution(truth)
    assert measured is not None and bound is not None and true is not None
    for name in ("mean", "p50", "p90", "p95", "p99"):
        error = getattr(measured, name) - getattr(true, name)
        assert -1e-9 <= error <= getattr(bound, name) + 1e-12


def test_a_run_that_its_client_held_back_says_so() -> None:
    assert summarise(run_of([reply()])).error.limited == ""
    late = Lag(1000, 1e-3, 0.02, 0.2, 0.5, 1e-3)
    assert "20.0 ms late" in summarise(run_of([reply()], lag=late)).error.limited
    busy = Lag(1000, 1e-5, 1e-4, 1e-3, 0.97, 1e-3)
    assert "97% of a core" in summarise(run_of([reply()], lag=busy)).error.limited
    assert summarise(run_of([reply()], lag=QUIET)).error.ttft is not None


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft=500ms,tpot=30ms", (Limit("ttft", 0.5), Limit("tpot", 0.03))),
        ("e2e=2s", (Limit("e2e", 2.0),)),
        ("ttft=0.25", (Limit("ttft", 0.25),)),
        ("gap<=0.5ms", (Limit("gap", 0.0005),)),
    ],
)
def test_slos(text: str, limits: tuple[Limit, ...]) -> None:
    assert slo_of(text) == limits


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft=fast", "ttfb=3ms", "ttft=0ms", "tpot=-3ms", "e2e=1s,ttft=1s,ttft=2s"]
)
def test_bad_slos_say_what_is_right(text: str) -> None:
    with pytest.raises(InputError, match="--slo"):
        slo_of(text)


@pytest.mark.parametrize("text", ["ttft=500", "tpot=30ms,e2e=60.5"])
def test_milliseconds_are_not_taken_for_seconds(text: str) -> None:
    metric, number = text.rpartition(",")[2].split("=")
    with pytest.raises(InputError, match=f"{metric}={number} would be {number} seconds: say {number}ms, or"):
        slo_of(text)
    assert slo_of("e2e=60,ttft=500s") == (Limit("e2e", 60.0), Limit("ttft", 500.0))


def test_goodput_of_nothing() -> None:
    assert goodput([], slo_of("ttft=1s"), "sent", 0.0).share == 0.0
    nothing = summarise(run_of([]))
    assert nothing.latencies.ttft is None
    assert nothing.throughput.requests_per_s == 0
