"""twophase simulate: what it prints, keeps and refuses."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from page_reader import read_page

from twophase.cli.simulate_options import number_of

Run = Callable[..., tuple[int, str, str]]
SMALL = ("simulate", "llama-3.1-8b", "--rate", "20", "--requests", "40", "--output-tokens", "16")


def test_the_keys_are_those_of_a_measured_run(run: Run) -> None:
    status, text, _ = run(*SMALL, "--slo", "ttft=1s,tpot=50ms", "--json")
    made = json.loads(text)
    assert status == 0
    assert made["requests"]["ok"] == made["requests"]["total"] == 40
    for metric in ("ttft_s", "tpot_s", "gap_s", "e2e_s"):
        assert {"mean", "p50", "p90", "p95", "p99"} < made[metric].keys()
    assert made["gap_s"]["count"] == 40 * 15
    assert made["tokens"]["output"] == 40 * 16
    assert made["goodput"]["slo"] == {"ttft_s": 1.0, "tpot_s": 0.05}
    own = made["simulation"]
    assert own["clock"]["provenance"] == "served"
    assert own["clock"]["pass_interval"][0] <= 1 <= own["clock"]["pass_interval"][1]
    assert sum(own["phase_shares"].values()) == pytest.approx(1)
    assert 0 < own["mfu"] < 1
    assert 0 < own["mbu"] < 1
    # a GPU's hours at its price over a million tokens
    hours = (own["simulated_s"] - made["whole_throughput"]["window_s"], own["simulated_s"])
    assert hours[0] < hours[1]
    assert own["usd_per_million_output_tokens"] > own["usd_per_million_tokens"] > 0


def test_the_same_options_print_the_same_bytes_and_another_seed_others(run: Run) -> None:
    one, two, other = (run(*SMALL, "--json", "--seed", seed)[1] for seed in ("a", "a", "b"))
    assert one == two != other


def test_floors_are_faster_than_what_was_measured(run: Run) -> None:
    made = {
        clock: json.loads(run(*SMALL, "--json", "--clock", clock)[1])
        for clock in ("floor", "curves", "served")
    }
    for clock, own in made.items():
        assert own["simulation"]["clock"]["provenance"] == clock
        assert own["tpot_s"]["p50"] >= made["floor"]["tpot_s"]["p50"]


def test_text_and_page_say_what_they_are(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, text, err = run(*SMALL, "--html", page)
    assert status == 0
    assert "llama-3.1-8b on H100 SXM, simulated" in text
    assert "40 of 40 requests finished" in text
    assert "fitted to measured serving" in text
    assert "KV cache" in text
    assert "40 requests" in err
    assert read_page(page.read_text()).counts["svg"] == 4


def test_a_kept_run_is_reported_and_compared_as_a_measured_one(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    one, two = tmp_path / "one", tmp_path / "two"
    measured = json.loads(run(*SMALL, "-o", one, "--json")[1])
    run(*SMALL, "-o", two, "--policy", "prefill-first")
    kept = {"run.json", "requests.parquet", "gaps.parquet", "report.html"}
    assert kept <= {each.name for each in one.iterdir()}
    status, text, _ = run("report", one, "--json")
    again = json.loads(text)
    assert status == 0
    for metric in ("ttft_s", "tpot_s", "e2e_s", "ntpot_s"):
        for column, value in measured[metric].items():
            assert again[metric][column] == pytest.approx(value, rel=1e-9)
    assert measured["gap_s"]["p50"] > 0
    for column, value in measured["gap_s"].items():  # of bins a thousandth wide, whose means are kept
        assert again["gap_s"][column] == pytest.approx(value, rel=1e-9 if column == "mean" else 1e-3)
    assert again["in_flight"]["peak"] == measured["in_flight"]["peak"]
    assert again["whole_throughput"]["output_tokens_per_s"] == pytest.approx(
        measured["whole_throughput"]["output_tokens_per_s"]
    )
    status, text, _ = run("report", one, two)
    assert status == 0
    assert "40 pairs of the same request" in text
    row = next(line for line in text.splitlines() if line.startswith("gap p99"))
    assert len(re.findall(r"[0-9.]+", row.removeprefix("gap p99"))) == 2
    assert "began" not in text and "loop ran" not in text  # no clock on a wall, and no meter
    assert text.count("No meter error") == 2
    assert again["meter_error_s"] is None
    status, _, err = run("report", one, "--slo", "gap=50ms")
    assert status == 2 and "--slo gap: a simulated run knows" in err
    status, text, _ = run("simulate", "llama-3.1-8b", "--trace", one, "--json")
    assert json.loads(text)["tokens"] == measured["tokens"] | {
        "cached_share": json.loads(text)["tokens"]["cached_share"]
    }


def test_a_kept_run_says_whether_clients_waited(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("polars")
    for load, loop in (("--rate", "open"), ("--concurrency", "closed")):
        folder = tmp_path / loop
        run("simulate", "llama-3.1-8b", load, "4", "--requests", "12", "-o", folder)
        assert f"simulation, {loop} loop\n" in run("report", folder)[1]


def test_clients_send_when_they_were_answered(run: Run) -> None:
    made = json.loads(run("simulate", "llama-3.1-8b", "--concurrency", "8", "--requests", "80", "--json")[1])
    assert made["requests"]["ok"] == 80
    assert made["in_flight"]["peak"] == 8
    assert made["first_cohort"]["requests"] == 8
    # lengths are all alike: by Little's law all eight are under way once they have begun
    rate = made["throughput"]["requests_per_s"]
    assert rate * made["e2e_s"]["mean"] == pytest.approx(8, rel=0.02)


def test_pools_of_different_gpus(run: Run) -> None:
    options = ("simulate", "llama-3.1-8b", "--rate", "20", "--requests", "60", "--json")
    own = json.loads(run(*options, "--pool", "h100-sxm:2", "--pool", "l40s,tp=2")[1])["simulation"]
    assert [(each["gpu"], each["replicas"]) for each in own["pools"]] == [("h100-sxm", 2), ("l40s", 1)]
    split = ("--pool", "a100-80gb:2,role=decode", "--pool", "h100-sxm,role=prefill", "--link", "ndr")
    own = json.loads(run(*options, *split)[1])["simulation"]
    assert [(each["role"], each["gpu"]) for each in own["pools"]] == [
        ("prefill", "h100-sxm"),
        ("decode", "a100-80gb"),
    ]


def test_time_that_is_up_is_said_and_ends_in_status_1(run: Run) -> None:
    status, text, _ = run(
        *("simulate", "llama-3.1-8b", "--rate", "300", "--requests", "2000", "--prompt-tokens", "3000"),
        *("--max-time", "6"),
    )
    assert status == 1
    assert "grows without bound: " in text
    assert "truncated" in text


def test_a_time_that_is_up_before_all_came_is_said_too(run: Run) -> None:
    """Nobody is under way when the time is up, and still the run was cut off."""
    status, text, _ = run(*SMALL, "--max-time", "0.000001")
    assert status == 1
    assert "40 requests would have come later than the run was to last" in text


def test_engines_beyond_what_memory_holds_are_refused(run: Run) -> None:
    """However they are asked for: each option alone is below its limit."""
    for options in (("--replicas", "64", "--dp", "64"), ("--pool", "h100-sxm:999", "--pool", "h200:999")):
        status, _, err = run(*SMALL, *options)
        assert status == 2
        assert "1,024 can be simulated at once" in err


def test_who_can_never_fit_is_refused_and_counted(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,200000,10\n2,100,10\n")
    status, text, _ = run("simulate", "llama-3.1-8b", "--trace", trace)
    assert status == 0
    assert "2 of 3 requests finished; 1 rejected" in text
    assert "1 rejected: 200000 prompt and 10 output tokens do not fit" in text


def test_bad_lines_are_named_or_skipped(run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,oops,10\n2,100,10\n")
    status, _, err = run("simulate", "llama-3.1-8b", "--trace", trace)
    assert status == 2
    assert "t.csv, line 3" in err
    status, text, _ = run("simulate", "llama-3.1-8b", "--trace", trace, "--skip-bad")
    assert status == 0
    assert "2 of 2 requests finished" in text
    assert "1 bad line is skipped: 3" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "--trace FILE, --rate R or --concurrency N"),
        (("--rate", "0"), "--rate 0"),
        (("--trace", "x.csv", "--rate", "1"), "--trace and --rate"),
        (("--trace", "none.csv"), "none.csv"),
        (("--rate", "1", "--speedup", "2"), "--speedup is for replays"),
        (("--rate", "1", "--prompt-tokens", "zipf:1,2"), "--prompt-tokens zipf:1,2"),
        (("--rate", "1", "--think", "1"), "--turns"),
        (("--rate", "1", "--prefixes", "2"), "--prefix-tokens"),
        (("--rate", "1", "--acceptance", "0.5"), "--speculate"),
        (("--rate", "1", "--speculate", "2", "--acceptance", "1.5"), "between 0 and 1"),
        (("--rate", "1", "--link", "50"), "--disaggregate"),
        (("--rate", "1", "--disaggregate", "3"), "P:D"),
        (("--rate", "1", "--disaggregate", "1:1", "--link", "fast"), "--link fast"),
        (("--rate", "1", "--disaggregate", "1:1", "--replicas", "2"), "--replicas"),
        (("--rate", "1", "--router", "random"), "no router 'random'"),
        (("--rate", "1", "--preset", "vlm"), "did you mean vllm"),
        (("--rate", "1", "--policy", "lifo"), "no policy 'lifo'"),
        (("--rate", "1", "--slo", "gap=1s"), "--slo gap"),
        (("--rate", "1", "--replicas", "0"), "--replicas 0"),
        (("--rate", "1e-300"), "--rate 1e-300"),
        (("--rate", "1e300"), "--rate 1e+300"),
        (("--rate", "1", "--speculate", "100000000"), "from 0 to 64"),
        (("--rate", "1", "--replicas", "1000000"), "from 1 to 1,024"),
        (("--rate", "1", "--max-sequences", "100000000"), "from 1 to 65,536"),
        (("--rate", "1", "--disaggregate", "9999:1"), "1,024 together at most"),
        (("--concurrency", "0"), "--concurrency 0"),
        (("--concurrency", "2", "--rate", "1"), "leave out --rate"),
        (("--concurrency", "2", "--duration", "9"), "leave out --duration"),
        (("--rate", "1", "--pool", "h100-sxm", "--gpu", "l40s"), "leave out --gpu"),
        (("--rate", "1", "--pool", "h100-sxm:0"), "GPU:N must have"),
        (("--rate", "1", "--pool", "h100-sxm,tp=x"), "tp=N must have"),
        (("--rate", "1", "--pool", "h100-sxm,tp=2,tp=4"), "'tp=4' is none of"),
        (("--rate", "1", "--pool", "h100-sxm,role=both"), "'role=both' is none of"),
        (("--rate", "1", "--pool", "h100-sxm,role=prefill"), "there is prefill"),
        (("--rate", "1", "--pool", "h100-sxm,role=prefill", "--pool", "l40s"), "there are both, prefill"),
        (("--rate", "1", "--pool", "h100-sxm", "--link", "ndr"), "--disaggregate"),
        (("--rate", "1", "--pool", "nosuch"), "nosuch"),
        (("--rate", "1", "--policy", ""), "no policy ''"),
        (("--rate", "1", "--preset", "nope"), "no preset 'nope'"),
        (("--rate", "1", "--disaggregate", "1:1", "--prefill-tp", "0"), "--prefill-tp 0"),
        (("--rate", "1", "--disaggregate", "1:1", "--prefill-tp", "3"), "--prefill-tp 3: Llama"),
        (("--rate", "1", "--disaggregate", "1:1", "--prefill-tp", "2", "--tp", "3"), " --tp 3: Llama"),
        (("--rate", "1", "--pool", "h100-sxm,tp=3"), "--pool h100-sxm,tp=3: tp 3: Llama"),
        (("--rate", "1", "--slo", "ttft=1s,ttft=2s"), "ttft has two limits"),
        (("--rate", "1", "--ramp", "1e30"), "within 1e+10 s"),
        (("--rate", "1", "--prefix-tokens", "100000000"), "--prefix-tokens 100000000"),
        (("--rate", "1", "--block-size", "100000000"), "from 1 to 65,536"),
        (("--rate", "1", "--json", "--plain"), "one of --json and --plain"),
        (("--rate", "1", "--gpu", "rtx-4090", "--weights", "bf16", "--kv-memory", "1KiB"), "not one block"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(run: Run, options: tuple[str, ...], says: str) -> None:
    status, out, err = run("simulate", "llama-3.1-8b", *options)
    assert status == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
    assert not out


def test_a_model_too_large_says_what_would_help(run: Run) -> None:
    status, _, err = run("simulate", "llama-3.1-405b", "--rate", "1")
    assert status == 2
    assert "leaves no room for a KV cache" in err


def test_a_seed_in_letters_is_its_own() -> None:
    assert number_of("17") == 17
    assert len({number_of(f"seed {i}") for i in range(1000)}) == 1000
    assert number_of("²") != number_of("2")  # a digit, and no number


def test_a_run_that_cannot_be_kept_is_not_simulated(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(*arguments: object) -> None:
        raise AssertionError("the simulation ran")

    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setattr("twophase.cli.simulate.simulated", simulated)
    status, out, err = run(*SMALL, "-o", tmp_path / "kept")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "polars" in err and "meter" in err
    assert not (tmp_path / "kept").exists()


def test_one_request_is_said_so(run: Run) -> None:
    status, out, err = run(
        "simulate", "llama-3.1-8b", "--rate", "1", "--requests", "1", "--output-tokens", "1"
    )
    assert status == 0
    assert "twophase: 1 request, " in err and "1 pass in " in out


def test_a_limit_that_no_simulation_knows_is_refused_before_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(*arguments: object) -> None:
        raise AssertionError("simulated all the same")

    monkeypatch.setattr("twophase.cli.simulate.simulated", simulated)
    status, _, err = run("simulate", "llama-3.1-8b", "--rate", "1", "--slo", "gap=1s")
    assert status == 2 and "--slo gap" in err
