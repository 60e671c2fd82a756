"""The cases MET-01 to MET-13 of the public reports, each by its numbers."""

from dataclasses import replace

import pytest
from hand_made import DONE, chat, counted, ms, reply, text, tpot, ttft, usage

from twophase.meter.comparison import compare
from twophase.meter.definitions import project
from twophase.meter.latency import FORMULAS, gaps_s, ntpot_s, role_lead_s, tokens_per_event
from twophase.meter.records import Lag, LoadRun, Reply, Target
from twophase.meter.summary import Summary, summarise
from twophase.report import bench as shown
from twophase.report.bench_compare import Compared, plain
from twophase.report.bench_json import figures

FINISH = chat({}, "length")


def run_of(*replies: Reply) -> LoadRun:
    target = Target("http://h:1", "m", "chat")
    numbered = tuple(replace(each, number=number) for number, each in enumerate(replies))
    return LoadRun(target, "2026-01-01T00:00:00", 0.0, 100.0, "", numbered, Lag(1, 0, 0, 0, 0, 0))


def summary_of(*replies: Reply) -> Summary:
    return summarise(run_of(*replies))


def even(first_ms: float, last_ms: float, tokens: int, prompt: int = 7) -> Reply:
    """Tokens at even steps from the first to the last."""
    step = (last_ms - first_ms) / max(tokens - 1, 1)
    return reply(
        *((first_ms + step * each, text("a ")) for each in range(tokens)),
        (last_ms, FINISH + usage(tokens, prompt=prompt) + DONE),
    )


def test_met_01_a_first_chunk_with_only_a_role() -> None:
    role = chat({"role": "assistant", "content": ""})
    found = reply((900, role), *((2200 + 20 * i, text("a ")) for i in range(9)), (2360, FINISH + DONE))
    assert (ttft(found), tpot(found)) == (2200.0, 20.0)
    assert max(gaps_s(found)) < 0.021  # the 1.3 s are no gap between tokens
    assert ms(role_lead_s(found)) == 1300.0


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_met_02_reasoning_in_another_field(name: str) -> None:
    found = reply((100, chat({name: "hm"})), (300, text("yes")), (300, FINISH + usage(2) + DONE))
    own = summary_of(found).latencies
    assert own.ttft is not None and own.ttfa is not None
    assert (ms(own.ttft.mean), ms(own.ttfa.mean)) == (100.0, 300.0)
    assert "TTFA" in shown.plain(run_of(found), summary_of(found))


@pytest.mark.parametrize("along", [True, False])
def test_met_03_several_tokens_a_chunk(along: bool) -> None:
    """640 tokens in 320 chunks, 32 ms apart, by a usage that counts along and by the final one."""
    chunks = [
        (100.0 + 32 * i, text("two words", **({"usage": counted(2 * i + 2)} if along else {})))
        for i in range(320)
    ]
    found = reply(*chunks, (100 + 32 * 319, FINISH + usage(640) + DONE))
    assert found.output_tokens == 640
    assert tpot(found) == 16.0
    assert {ms(gap) for gap in gaps_s(found)} == {32.0}
    assert tokens_per_event(found) == 2.0


def test_met_03_a_step_of_32_ms_with_1_78_tokens_is_18_ms_a_token() -> None:
    chunks = [(100.0 + 32 * i, text("word " * (1 + (i % 9 < 7)))) for i in range(91)]
    total = 1 + round(90 * 32 / 18)
    found = reply(*chunks, (100 + 32 * 90, FINISH + usage(total) + DONE))
    assert found.tpot_s == pytest.approx(0.018, rel=0.01)


def test_met_06_a_report_agrees_with_itself() -> None:
    """TensorRT-LLM's example: 2048 + 128 tokens, 43.2 requests/s; here with its own times."""
    found = summary_of(*(even(52667.03, 52667.03 + 127 * 182.9639, 128, prompt=2048) for _ in range(5)))
    own, rates = found.latencies, found.throughput
    assert own.ttft is not None and own.tpot is not None and own.e2e is not None
    assert 1e3 * own.ttft.mean == pytest.approx(52667.03)
    assert 1e3 * own.tpot.mean == pytest.approx(182.9639)
    assert 1e3 * own.e2e.mean == pytest.approx(75903.45)
    assert own.e2e.mean == pytest.approx(own.ttft.mean + 127 * own.tpot.mean)
    assert rates.output_tokens_per_s == pytest.approx(128 * rates.requests_per_s)
    assert rates.total_tokens_per_s == pytest.approx(2176 * rates.requests_per_s)
    assert rates.total_tokens_per_s == rates.output_tokens_per_s + rates.input_tokens_per_s


def test_met_07_tpot_leaves_the_first_token_out_and_says_so() -> None:
    found = even(2000, 12000, 101)
    assert tpot(found) == 100.0
    assert ms(ntpot_s(found)) == pytest.approx(118.8, abs=0.02)
    assert "tokens of the first read" in dict(FORMULAS)["tpot"]
    assert "tpot = " in shown.plain(run_of(found), summary_of(found))
    other = {each.name: each for each in project((found,), "guidellm", "chat")}
    assert any(
        each.seconds and ms(each.seconds.mean) == pytest.approx(118.8, abs=0.02) for each in other.values()
    )
    assert even(2000, 2000, 1).tpot_s is None


def test_met_09_samples_of_unlike_size_are_no_comparison() -> None:
    """Mean TTFT "falls" from 248 to 138 s as load rises: the slowest had not ended with the window."""
    base = run_of(*(even(1000.0 * ttft_s, 1000.0 * ttft_s + 100, 6) for ttft_s in range(208, 288)))
    other = replace(
        base, replies=tuple(replace(each, number=each.number + 500) for each in base.replies[:40])
    )
    found = compare(base, other)
    assert (found.unequal, found.finished) == (True, (80, 40))
    assert {found.verdict(each) for each in found.differences} == {"samples differ"}
    runs = [Compared("a", base, summarise(base), None), Compared("b", other, summarise(other), found)]
    told = " ".join(plain(runs).split())
    assert "No verdict on these differences: 80 requests finished in the base and 40 in this run" in told
    assert "slower" not in told and "faster" not in told
    same = compare(base, replace(base, replies=other.replies + other.replies))  # as many, though others
    assert not same.unequal


def test_met_09_queue_and_prefill_are_told_apart() -> None:
    queued = usage(2) + b'data: {"choices": [], "metrics": {"queue_time_ms": 150}}\n\n'
    own = summary_of(reply((200, text("a")), (220, text("b") + FINISH + queued + DONE))).latencies
    assert own.queue is not None and own.queue_share is not None
    assert (ms(own.queue.mean), own.queue_share.mean) == (150.0, pytest.approx(0.75))


def test_met_13_tokens_a_second_with_and_without_the_wait() -> None:
    found = even(1000, 3000, 100)
    told = shown.plain(run_of(found), summary_of(found))
    assert (
        "49.5 tokens/s after its first (1 / mean TPOT), 33.3 from start to end (1 / mean NTPOT)"
        in " ".join(told.split())
    )
    paces = figures(summary_of(found))["tokens_per_s_of_a_request"]
    assert paces == {
        "after_first_token": pytest.approx(49.5),
        "start_to_end": pytest.approx(33.333, rel=1e-3),
    }
    assert figures(summary_of(even(1000, 1000, 1)))["tokens_per_s_of_a_request"]["after_first_token"] is None
