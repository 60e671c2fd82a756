"""Reports of a load run: every figure put in by the test stands in text, JSON, block and page."""

import json
import re
from dataclasses import replace

import pytest
from page_reader import read_page
from synthetic_replies import TARGET, failed, reply, run_of

from twophase.meter.definitions import project
from twophase.meter.goodput import slo_of
from twophase.meter.records import Lag, LoadRun
from twophase.meter.summary import Summary, summarise
from twophase.report.bench import plain
from twophase.report.bench_html import page
from twophase.report.bench_json import to_json
from twophase.report.bench_vllm import vllm_block

HOSTILE = "<script>alert('&')</script> $model"


def loaded(**changed: object) -> LoadRun:
    """100 requests 50 ms apart: TTFT 101 to 200 ms, 20 ms a token, one failure."""
    replies = [reply(i, sent=1.0 + 0.05 * i, ttft=0.101 + 0.001 * i, prompt_tokens=512) for i in range(100)]
    return run_of([*replies, failed(100, sent=2.0)], **changed)


def summed(run: LoadRun) -> Summary:
    return summarise(run, slo_of("ttft=150ms,tpot=30ms"))


@pytest.fixture(scope="module")
def run() -> LoadRun:
    return loaded(facts=(("kind", "vLLM"), ("version", "0.33.0")), notes=("min_tokens was dropped",))


def test_text_has_the_figures(run: LoadRun) -> None:
    text = plain(run, summed(run))
    assert "fake-model at http://127.0.0.1:1" in text
    assert "vLLM 0.33.0" in text
    assert "100 of 101 requests finished; 1 failed" in text
    ttft = next(line.split() for line in text.splitlines() if line.startswith("TTFT "))
    assert ttft[1:] == ["150", "150", "190", "195", "199", "200", "100"]  # mean 150.5, p90 190.1
    tpot = next(line.split() for line in text.splitlines() if line.startswith("TPOT "))
    assert tpot[1:6] == ["20.0"] * 5
    assert "goodput 50% of 101 requests" in text  # 50 of 101 have 150 ms or less
    assert "1 failed: out of memory" in text
    assert "Meter error ≤" in text
    assert "min_tokens was dropped" in text
    assert text.count("ttft = ") == 1  # a formula stands once


def test_json_has_the_agreed_keys(run: LoadRun) -> None:
    made = json.loads(to_json(run, summed(run)))
    assert made["requests"] == {
        **{"total": 101, "ok": 100, "failed": 1, "rejected": 0},
        **{"truncated": 0, "cancelled": 0, "empty": 0},
    }
    for name in ("ttft_s", "tpot_s", "gap_s", "e2e_s"):
        assert {"mean", "p50", "p90", "p95", "p99"} <= made[name].keys()
    assert made["ttft_s"]["mean"] == pytest.approx(0.1505)
    assert {"output_tokens_per_s", "input_tokens_per_s", "requests_per_s"} <= made["throughput"].keys()
    assert made["goodput"]["share"] == pytest.approx(50 / 101)
    assert made["meter_error_s"] > 0
    assert "fit" in made
    assert made["levels"] == []


def test_json_of_a_run_in_which_nothing_finished() -> None:
    made = json.loads(to_json(nothing := run_of([failed(0)]), summed(nothing)))
    assert made["ttft_s"] is None
    assert made["meter_error_s"] is None
    assert made["requests"]["ok"] == 0


def test_the_block_of_vllm(run: LoadRun) -> None:
    block = vllm_block(run, summed(run))
    lines = dict(re.findall(r"^(.+?):\s+(\S+)\s*$", block, re.MULTILINE))
    assert lines["Successful requests"] == "100"
    assert lines["Failed requests"] == "1"
    assert lines["Mean TTFT (ms)"] == "150.50"
    assert lines["Median TTFT (ms)"] == "150.50"
    assert lines["P99 TTFT (ms)"] == "199.01"
    assert lines["Mean TPOT (ms)"] == "20.00"
    assert lines["Total input tokens"] == "51200"
    assert lines["Total generated tokens"] == "1600"
    assert block.splitlines()[0].strip("=") == " Serving Benchmark Result "
    assert {len(line) for line in block.splitlines() if line.startswith(("=", "-"))} == {50}


def test_the_client_as_bottleneck_stands_at_the_head() -> None:
    slow = loaded(lag=Lag(1000, 0.01, 0.05, 0.2, 0.95, 0.01), partial="interrupted")
    text = plain(slow, summed(slow))
    assert "The client was the bottleneck" in text
    assert "Partial: interrupted" in text
    assert text.index("bottleneck") < text.index("Latency")
    shown = " ".join(read_page(page(slow, summed(slow))).text)
    assert "The client was the bottleneck" in shown
    assert "Partial: interrupted" in shown


def test_definitions_of_others_stand_beside(run: LoadRun) -> None:
    text = plain(run, summed(run), project(run.replies, "guidellm", "chat"), "guidellm")
    assert "as guidellm would report the same events" in text
    assert "TTFT is in it" in text


def test_levels_have_a_row_each() -> None:
    first = [reply(i, sent=1.0 + i, point="concurrency 1") for i in range(3)]
    second = [reply(3 + i, sent=10.0 + i, ttft=0.3, point="concurrency 2") for i in range(3)]
    swept = run_of([*first, *second])
    text = plain(swept, summed(swept))
    rows = [line.split() for line in text.splitlines() if line.startswith("concurrency")]
    assert [row[2] for row in rows] == ["3/3", "3/3"]
    assert [row[6] for row in rows] == ["100", "300"]
    drawn = read_page(page(swept, summed(swept)))
    assert ["concurrency 1", "3/3"] in [row[:2] for row in drawn.rows]
    assert drawn.counts["svg"] == 6


def test_the_page_is_whole_and_loads_nothing(run: LoadRun) -> None:
    drawn = read_page(page(run, summed(run)))
    assert drawn.links == []
    assert "script" not in drawn.counts
    assert drawn.counts["svg"] == 4
    shown = " ".join(drawn.text)
    assert "First token after 150 ms, 199 ms at p99" in shown
    assert "Serving Benchmark Result" in shown
    assert any(row[:2] == ["TTFT", "150"] for row in drawn.rows)


def test_hostile_names_stay_text() -> None:
    evil = replace(
        loaded(notes=(HOSTILE,)), target=replace(TARGET, model=HOSTILE, url="http://x/<b>"), partial=HOSTILE
    )
    made = page(evil, summed(evil))
    assert "<script" not in made
    assert HOSTILE in "".join(read_page(made).text)


def test_the_page_of_a_run_in_which_nothing_finished() -> None:
    nothing = run_of([failed(0)])
    drawn = read_page(page(nothing, summed(nothing)))
    assert "No request finished" in " ".join(drawn.text)
    assert ["failed", "1", "out of memory"] in drawn.rows
    read_page(page(run_of([]), summed(run_of([]))))
