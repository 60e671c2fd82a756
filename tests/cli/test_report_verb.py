"""twophase report: a kept run shown again, and two compared."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from page_reader import read_page
from synthetic_replies import reply, run_of

pytest.importorskip("polars")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    from twophase.meter.run_folder import save

    root = tmp_path_factory.mktemp("runs")
    for name, ttft in (("before", 0.1), ("after", 0.08)):
        run = run_of([reply(i, sent=1.0 + i, ttft=ttft + 1e-4 * i) for i in range(40)])
        save(root / name, run, {"concurrency": 1})
    return [root / "before", root / "after"]


def test_one_run_again(folders: list[Path], tmp_path: Path, run: Run) -> None:
    page = tmp_path / "page.html"
    options = ("--slo", "ttft=102.05ms", "--html", page, "--definitions", "vllm")
    status, text, _ = run("report", folders[0], *options)
    assert status == 0
    assert "40 of 40 requests finished" in text
    assert "as vllm would report" in text
    assert "Serving Benchmark Result" in text
    assert read_page(page.read_text()).counts["svg"] == 4
    status, text, _ = run("report", folders[0], "--json", "--slo", "ttft=102.05ms")
    made = json.loads(text)
    assert status == 0
    assert made["ttft_s"]["mean"] == pytest.approx(0.10195)
    assert made["goodput"]["good"] == 21  # 100.0, 100.1 ... 102.0 ms
    assert run("report", folders[0], "--vllm-block")[1].startswith("=")


def test_two_runs_side_by_side(folders: list[Path], run: Run) -> None:
    status, text, _ = run("report", *folders)
    assert status == 0
    assert "2 runs, compared with before" in text
    assert "40 pairs of the same request" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("TTFT  ") and "faster" in line)
    assert row[2:5] == ["102", "81.9", "-20.0"]
    status, text, _ = run("report", *folders, "--json")
    made = json.loads(text)
    first = made["runs"][1]["against_base"]["differences"][0]
    assert first["difference_s"]["value"] == pytest.approx(-0.02)
    assert first["verdict"] == "faster"
    assert "against_base" not in made["runs"][0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--json", "--plain"), "give one of"),
        (("--slo", "speed=3"), "--slo"),
        (("--gpus", "0"), "--gpus 0"),
    ],
)
def test_bad_input(options: tuple[str, ...], says: str, folders: list[Path], run: Run) -> None:
    status, _, err = run("report", folders[0], *options)
    assert status == 2
    assert says in err


def test_a_folder_that_is_no_run(tmp_path: Path, run: Run) -> None:
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert "no run" in err
