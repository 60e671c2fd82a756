"""`twophase plan`: what it answers, what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

QUICK = (
    *("llama-3.1-8b", "--slo", "ttft=500ms,tpot=50ms", "--gpus", "h100-sxm,a100-80gb", "--processes", "1"),
    *("--requests", "120", "--rate", "10", "--prompt-tokens", "512", "--output-tokens", "32"),
    *("--weights", "own", "--kv", "bf16", "--tp", "1", "--pp", "1", "--max-tokens-per-pass", "2048"),
    *("--max-sequences", "64", "--max-gpus", "4"),
)


def plan(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from twophase.cli import main; main()", "plan", *options]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("plan") / "run"
    done = plan(*QUICK, "-o", str(folder), "--html", str(folder.parent / "plan.html"), "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return folder, found


def test_the_cheapest_wins(answered: tuple[Path, dict[str, Any]]) -> None:
    _, found = answered
    winner = found["winner"]
    assert (winner["gpu"], winner["gpus"], winner["usd_per_hour"]) == ("a100-80gb", 1, 1.39)
    assert winner["share"] >= 0.9
    assert found["fewest_gpus"]["gpus"] == 1
    assert found["cheapest_measured"] == winner and not winner["extrapolated"]
    counts = found["candidates"]
    assert counts["considered"] == counts["left"] + sum(counts["ruled_out"].values())
    assert [each["factor"] for each in found["sensitivity"]] == [0.8, 1.2, 0.8, 1.2]
    front = [(each["usd_per_hour"], each["e2e_s"]) for each in found["front"]]
    assert front == sorted(front) and [e2e for _, e2e in front] == sorted(
        (e2e for _, e2e in front), reverse=True
    )
    assert front[0][0] == winner["usd_per_hour"]
    clocks = {
        gpu: (each["provenance"], each["extrapolated"], bool(each["source"]))
        for gpu, each in found["clocks"].items()
    }
    assert clocks == {"h100-sxm": ("served", False, True), "a100-80gb": ("curves", False, True)}
    assert not any("extrapolated" in each for each in found["notes"])
    (command,) = found["launch"]["vllm"]
    assert command.startswith("vllm serve meta-llama/Llama-3.1-8B --max-model-len 1024 ")


def test_a_run_goes_on(answered: tuple[Path, dict[str, Any]]) -> None:
    folder, found = answered
    assert json.loads((folder / "plan.json").read_text()) == found
    before = (folder / "trials.jsonl").read_text()
    again = plan(*QUICK, "-o", str(folder), "--resume", "--json")
    assert json.loads(again.stdout) == found
    assert (folder / "trials.jsonl").read_text() == before


def test_the_page_needs_nothing_else(answered: tuple[Path, dict[str, Any]]) -> None:
    text = (answered[0].parent / "plan.html").read_text()
    assert "a100-80gb" in text and "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "") and "<script src" not in text


def test_a_winner_that_nobody_measured_is_said(tmp_path: Path) -> None:
    prices = ("--price", "mi300x=1", "--price", "mi325x=9", "--price", "a100-80gb=1.39")
    devices = ("--gpus", "mi300x,mi325x,a100-80gb", *prices, "--no-split")
    page = tmp_path / "plan.html"
    done = plan(*QUICK, *devices, "--plain", "--html", str(page))
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    assert first.endswith("1 × mi300x (own weights)*: $1.00 an hour")
    beside = (
        "* pass times extrapolated; the cheapest whose are not: 1 × a100-80gb (own weights), $1.39 an hour"
    )
    assert second == f"{beside}, 39% dearer"
    marked = [line for line in rest if "mi300x (own weights)" in line and "wins" not in line]
    assert len(marked) >= 4 and all("mi300x (own weights)*" in line for line in marked)
    assert not any("a100-80gb (own weights)*" in line for line in rest)
    assert "* pass times extrapolated from other accelerators'" in rest
    assert beside in page.read_text() and "extrapolated from other accelerators" in page.read_text()
    said = " ".join(done.stdout.split())
    assert "the winner's pass times are extrapolated: measure some on mi300x before buying" in said
    assert "pass times of mi325x are extrapolated" in said
    found = json.loads(plan(*QUICK, *devices, "--json").stdout)
    assert found["winner"]["gpu"] == "mi300x"
    assert {gpu: each["extrapolated"] for gpu, each in found["clocks"].items()} == {
        "mi300x": True,
        "mi325x": True,
        "a100-80gb": False,
    }
    assert (found["winner"]["extrapolated"], found["cheapest_measured"]["extrapolated"]) == (True, False)
    measured = found["cheapest_measured"]
    assert (measured["gpu"], measured["usd_per_hour"]) == ("a100-80gb", 1.39)
    assert "pass times are extrapolated" in found["notes"][0]


def test_cheapest_single_gpu_that_meets_both_limits() -> None:
    """ADV-01: a T4 passes on floors alone, and can't be what is recommended; an A100 is the smallest."""
    done = plan(
        *("llama-3-8b", "--gpus", "t4,a100-80gb,h100-sxm,h200", "--slo", "ttft=500ms,tpot=50ms"),
        *("--rate", "0.1", "--requests", "20", "--prompt-tokens", "2048", "--output-tokens", "64"),
        *("--weights", "own", "--kv", "bf16", "--tp", "1", "--pp", "1", "--max-gpus", "1"),
        *("--processes", "1", "--json", "--no-split"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["winner"]["gpu"] == "a100-80gb"


def test_nothing_keeps_it() -> None:
    done = plan(*QUICK, "--max-cost", "0.5", "--plain")
    assert done.returncode == 1
    assert "Nothing that was looked at keeps the SLO" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--slo", "p99=3"), "unknown time"),
        (("--slo", "gap=1s"), "gap is none of them"),
        (("--slo", "ttft=1s", "--attainment", "1.5"), "--attainment 1.5"),
        (("--slo", "ttft=1s", "--gpus", "h1000"), "unknown accelerator"),
        (("--slo", "ttft=1s", "--tp", "two"), "--tp two"),
        (("--slo", "ttft=1s", "--kv", "int3"), "--kv int3"),
        (("--slo", "ttft=1s", "--price", "h100-sxm"), "NAME=USD"),
        (("--slo", "ttft=1s", "--price", "l4=1"), "not among --gpus"),
        (("--slo", "ttft=1s", "--resume"), "-o DIR"),
        (("--slo", "ttft=1s", "--router", "random"), "--router random"),
        (("--slo", "ttft=1s", "--price", "h100-sxm=5=6"), "--price h100-sxm=5=6"),
        (("--slo", "ttft=1s,ttft=2s"), "ttft has two limits"),
        (("--slo", "ttft=1s", "--max-sequences", "64,1000000"), "from 1 to 65,536"),
        (("--slo", "ttft=1s", "--max-tokens-per-pass", "10000000"), "from 1 to 4,194,304"),
        (("--slo", "ttft=1s", "--requests", "100000000"), "--requests 100000000"),
        (("--slo", "ttft=1s", "--processes", "100000000"), "--processes 100000000"),
        (("--slo", "ttft=1s"), "say what arrives"),
        (("--slo", "ttft=1s", "--ray", "here", "--processes", "2"), "one of them"),
    ],
)
def test_bad_input_is_said_in_one_line(options: tuple[str, ...], said: str) -> None:
    rate = () if said == "say what arrives" else ("--rate", "1")
    done = plan("llama-3.1-8b", *rate, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
