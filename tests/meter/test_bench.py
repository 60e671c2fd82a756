"""Whole runs, by the library and by the command line, against a server of known times."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from timed_server import Timed, timed_server

from twophase.cli import main
from twophase.cli.load_line import line
from twophase.errors import InputError
from twophase.meter import run_folder
from twophase.meter.bench import bench
from twophase.meter.capabilities import Asked
from twophase.meter.exchange import run
from twophase.meter.goodput import slo_of
from twophase.meter.level import Limits, Progress
from twophase.meter.plan import Plan
from twophase.meter.records import LoadRun
from twophase.meter.steady import rates
from twophase.meter.summary import summarise
from twophase.report.bench_rows import notes
from twophase.workload.arrivals import Arrivals
from twophase.workload.lengths import Lengths
from twophase.workload.workload import Workload

QUICK = ("--prompt-tokens", "31", "--output-tokens", "5", "--requests", "12", "--concurrency", "3")


def plan_of(timed: Timed, **more: Any) -> Plan:
    plan = Plan(Asked(timed.url), Lengths("fixed", 31), Lengths("fixed", 5), requests=12, seed="s")
    return replace(plan, **more)


def measured(plan: Plan) -> LoadRun:
    return run(lambda: bench(plan))


def test_a_run_has_the_lengths_that_were_asked_for_and_no_warm_up_in_it() -> None:
    with timed_server() as timed:
        done = measured(plan_of(timed, concurrency=3))
    assert [reply.number for reply in done.replies] == list(range(12))
    assert {reply.prompt_tokens for reply in done.replies} == {31}  # 11 of the template, 10 words of 2
    assert {reply.output_tokens for reply in done.replies} == {5}
    assert {reply.point for reply in done.replies} == {"concurrency 3"}
    assert len(timed.measured) == 12 + 3
    assert len({asked.prompt.split()[0] for asked in timed.measured[3:]}) == 12
    warm = {" ".join(asked.prompt.split()[:6]) for asked in timed.measured[:3]}
    assert not warm & {" ".join(asked.prompt.split()[:6]) for asked in timed.measured[3:]}
    assert len(done.first_cohort) == 3
    assert not done.open_loop
    ((point, begin, end),) = done.steady
    assert point == "concurrency 3" and done.began_s <= begin < end <= done.ended_s


def test_the_steady_rate_is_the_ideal_one() -> None:
    """By overlap: 8 streams of 20 + 99 * 2 ms each make 8 / 0.218 requests a second."""
    with timed_server() as timed:
        done = measured(plan_of(timed, concurrency=8, output=Lengths("fixed", 100), requests=48))
    ((_, begin, end),) = done.steady
    reached = rates(done.replies, (begin, end))
    assert 0.5 < reached.requests_per_s / (8 / 0.218) <= 1.05
    assert reached.output_tokens_per_s / reached.requests_per_s == pytest.approx(100, rel=0.1)


def test_a_rate_is_kept_and_counted_from_the_schedule() -> None:
    with timed_server(ttft_s=0.005, itl_s=0) as timed:
        done = measured(plan_of(timed, arrivals=Arrivals(100.0, "constant")))
    assert done.open_loop
    due = [reply.due_s - done.began_s for reply in done.replies]
    assert due == pytest.approx([0.01 * number for number in range(1, 13)], abs=1e-6)
    assert dict(done.facts)["loop"] == "open"


def test_a_trace_is_replayed() -> None:
    number = np.arange(5)
    trace = Workload(0.01 * number, 31 + 2 * number, 3 + number)
    with timed_server(ttft_s=0, itl_s=0) as timed:
        done = measured(plan_of(timed, trace=trace, requests=None))
    assert [reply.prompt_tokens for reply in done.replies] == [31, 33, 35, 37, 39]
    assert [reply.output_tokens for reply in done.replies] == [3, 4, 5, 6, 7]


def test_a_sweep_has_a_level_for_each_load() -> None:
    with timed_server(ttft_s=0.01, itl_s=0, serial=True) as timed:
        done = measured(plan_of(timed, concurrency=1, sweep=True, requests=8))
    points = list(dict.fromkeys(reply.point for reply in done.replies))
    assert points[:2] == ["concurrency 1", "concurrency 2"]
    assert len(points) < 9  # one at a time: nothing is won by more, but for what a busy machine loses
    assert len({reply.number for reply in done.replies}) == len(done.replies)
    prompts = [asked.prompt for asked in timed.measured]
    assert len(set(prompts)) == len(prompts)


def test_words_that_cost_more_in_long_prompts_are_known_after_the_warm_up() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        timed.words_cost = lambda words: 2 * words if words < 400 else round(2.5 * words)
        done = measured(plan_of(timed, concurrency=4, prompt=Lengths("fixed", 2011)))
    assert {reply.prompt_tokens for reply in done.replies} == {2011}


def test_every_level_of_a_sweep_has_as_much_in_flight_as_it_says() -> None:
    with timed_server(ttft_s=0.02, itl_s=0) as timed:
        measured(plan_of(timed, concurrency=6, sweep=True, requests=8, spread_s=0.0))
    lives = [asked.live for asked in timed.measured]
    assert {6, 12, 24} <= set(lives)


def test_a_sweep_to_an_slo_stays_below_what_misses_it() -> None:
    with timed_server(ttft_s=0.04, itl_s=0, serial=True) as timed:
        plan = plan_of(timed, concurrency=1, sweep=True, requests=8, slo=slo_of("ttft=150ms"), spread_s=0.0)
        done = measured(plan)
    points = {int(reply.point.split()[1]) for reply in done.replies}
    assert {1, 2, 4} <= points  # 40, 80, 160 ms each
    assert 3 in points
    assert 8 not in points


def test_a_second_run_asks_nothing_that_the_first_has_asked() -> None:
    with timed_server(ttft_s=0, itl_s=0) as timed:
        for seed in "ab":
            measured(plan_of(timed, concurrency=4, seed=seed))
    assert len({asked.prompt for asked in timed.measured}) == len(timed.measured)


def test_short_outputs_are_counted() -> None:
    """dynamo #723, #3731: outputs shorter than asked for make throughput look like another load's."""
    with timed_server(ttft_s=0, itl_s=0, stop_after=3) as timed:
        done = measured(plan_of(timed, concurrency=2))
    summary = summarise(done)
    assert summary.tokens.short == summary.of("finished") == len(done.replies)
    assert summary.tokens.short_share == 1.0
    [said] = [note for note in notes(done, summary) if "Short outputs" in note]
    assert "100%" in said


def test_a_server_that_dies_gives_a_partial_run() -> None:
    with timed_server(ttft_s=0.02, dies_after=20) as timed:
        done = measured(plan_of(timed, concurrency=2, requests=100_000, limits=Limits(grace_s=1)))
    assert "the server is gone" in done.partial
    assert len([reply for reply in done.replies if reply.outcome == "finished"]) > 2


def test_a_server_that_fails_on_all_of_it_is_bad_input() -> None:
    def refuse(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        return (400, "prompt too long") if body.get("max_tokens") != 2 else None

    with timed_server(refuse=refuse) as timed, pytest.raises(InputError, match="prompt too long"):
        measured(plan_of(timed, concurrency=2))
    with (
        timed_server(models=[{"id": "m", "max_model_len": 32}]) as timed,
        pytest.raises(InputError, match="32"),
    ):
        measured(plan_of(timed, concurrency=2))


# the command line


def called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["twophase", "bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_json_has_the_keys_of_the_interface_and_the_folder_comes_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with timed_server() as timed:
        options = (
            "--json",
            "--slo",
            "ttft=2s",
            "--out",
            str(tmp_path / "r"),
            "--api-key",
            "hush",
            "--seed",
            "q",
        )
        status, out, err = called(monkeypatch, capsys, timed.url, *QUICK, *options)
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["requests"]["ok"] == 12
    assert set(told["ttft_s"]) >= {"mean", "p50", "p90", "p95", "p99"}
    assert {"tpot_s", "gap_s", "e2e_s", "throughput", "goodput", "meter_error_s"} <= set(told)
    assert 0.019 < told["ttft_s"]["mean"] < 0.5
    assert {asked.headers["authorization"] for asked in timed.asked} == {"Bearer hush"}
    folder = tmp_path / "r"
    assert "hush" not in (folder / "run.json").read_text()
    assert run_folder.read_document(folder)["arguments"]["seed"] == "q"
    assert len(run_folder.load(folder).replies) == 12


def test_text_tells_of_the_run_and_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with timed_server() as timed:
        status, out, _ = called(monkeypatch, capsys, timed.url, *QUICK, "--definitions", "vllm")
    assert status == 0
    assert "TTFT" in out and "12 of 12" in out
    (folder,) = (tmp_path / "twophase-runs").iterdir()
    assert f"The run: twophase-runs/{folder.name}" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rate", "1", "--concurrency", "2"), "--rate and --trace"),
        (("--rate", "0"), "--rate 0"),
        (("--rate", "nan"), "--rate nan"),
        (("--concurrency", "0"), "--concurrency 0"),
        (("--prompt-tokens", "many"), "--prompt-tokens many"),
        (("--slo", "ttft"), "--slo"),
        (("--arrivals", "constant"), "give --rate"),
        (("--rate", "1", "--burstiness", "2"), "gamma"),
        (("--trace", "x.csv", "--turns", "2"), "--trace and --turns"),
        (("--trace", "none.csv"), "none.csv"),
        (("--dataset", "none.jsonl"), "none.jsonl"),
        (("--dataset", "a", "--prompt-tokens", "5"), "--dataset and --prompt-tokens"),
        (("--header", "bad"), "--header"),
        (("--body", "[1]"), "--body"),
        (("--json", "--plain"), "--json and --plain"),
        (("--tokenizer", "none"), "--tokenizer none"),
        (("--speedup", "2"), "--speedup is for replays"),
        (("--skip-bad",), "--skip-bad is for replays"),
        (("--out", "/dev/null/run"), "--out /dev/null/run can't be written"),
        (("--prefixes", "2"), "--prefix-tokens"),
        (("--timeout", "0"), "--timeout"),
        (("--warmup", "-1"), "--warmup"),
        (("--out", "."), "--out"),
        (("--ray", "auto"), "extra ray"),
    ],
)
def test_bad_input_is_one_line(
    options: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    status, out, err = called(monkeypatch, capsys, "http://127.0.0.1:9", *options)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_what_can_not_be_kept_is_shown_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder, "write_tables", full)
    with timed_server() as timed:
        status, out, err = called(monkeypatch, capsys, timed.url, *QUICK, "--out", str(tmp_path / "r"))
    assert status == 2 and "12 of 12 requests finished" in out
    assert err == f"twophase: {tmp_path / 'r'} can't be written: No space left on device\n"


def test_a_run_that_finished_nothing_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with timed_server(ttft_s=30) as timed:
        options = ("--timeout", "0.2", "--warmup", "0", "--model", "fake", "--duration", "0.1")
        monkeypatch.setattr("twophase.meter.capabilities.agree", agreed)
        status, out, _ = called(monkeypatch, capsys, timed.url, *options, "--out", str(tmp_path / "r"))
    assert status == 1 and "0 of 8 requests finished; 8 failed" in out


async def agreed(pool: Any, target: Any, dialect: Any, asked: Any) -> tuple[Any, int]:
    return dialect, 0


def test_what_a_trace_leaves_out_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,31,3\n0.01,31,0\nbad,1,1\n")
    with timed_server() as timed:
        options = ("--trace", str(trace), "--out", str(tmp_path / "r"))
        assert "line 4" in called(monkeypatch, capsys, timed.url, *options)[2]
        status, out, _ = called(monkeypatch, capsys, timed.url, *options, "--skip-bad")
    assert status == 0 and "1 of 1 requests finished" in out
    assert "bad line is skipped: 4" in out and "without prompt or answer is left out" in out


def test_nobody_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = called(monkeypatch, capsys, "http://127.0.0.1:9")
    assert status == 2
    assert "no server answers at http://127.0.0.1:9" in err


def test_the_live_line() -> None:
    progress = Progress(2.0, 44, 41, 2, 3, 80, 0.102, 0.02)
    assert line("concurrency 3", progress) == (
        "concurrency 3: 41 of 80, 20.5/s, 3 in flight, TTFT 102 ms, TPOT 20.0 ms, 2 failed"
    )
    assert line("rate 2/s", Progress()) == "rate 2/s: 0, 0 in flight"
