"""twophase hardware and probe: the table, all about one, users' files, a measurement read back."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_table_has_a_row_a_device(run) -> None:
    status, out, err = run("hardware")
    assert (status, err) == (0, "")
    head, *rows = out.split("\n\n")[0].splitlines()
    assert head.split()[:5] == ["vendor", "name", "bf16", "fp8", "fp4"]
    by_name = {row.split()[1]: row.split() for row in rows}
    assert len(rows) == len(by_name) >= 65
    # 989 and 1979 TFLOP/s, 79.2 GiB, 80 GB, 3.35 TB/s, ridge 295, NVLink 450 GB/s one way
    assert by_name["h100-sxm"][2:9] == ["989", "1979", "79.2", "80", "3.35", "295", "450"]
    assert by_name["b200"][2:5] == ["2250", "4500", "9000"]
    assert by_name["t4"][2:4] == ["f16", "65"]


def test_one_is_shown_with_the_source_of_each_figure(run) -> None:
    status, out, _ = run("hardware", "NVIDIA H100 80GB HBM3")
    assert status == 0
    assert (
        "bf16 989" in out and "3350 GB/s" in out and "79.19 GiB = 85.0 GB" in out and "80 GB marketed" in out
    )
    assert out.count("    source: ") == 5
    assert "indicative" in out
    assert run("hardware", "h100-sxm", "--plain")[1] == out


def test_json_of_one_and_of_all(run) -> None:
    one = json.loads(run("hardware", "b200", "--json")[1])
    assert (one["name"], one["flops"]["fp4"], one["bandwidth"]) == ("b200", 9e15, 8e12)
    assert one["ridge_flop_per_byte"] == pytest.approx(2250 / 8)
    assert one["intra"] == {"bandwidth": 900e9, "latency_s": 2e-6}
    every = json.loads(run("hardware", "--json")[1])["accelerators"]
    assert one in every
    assert len(every) >= 65


def test_a_users_file_adds_and_replaces(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[mine]\nflops = { bf16 = 1e14 }\nmemory_bytes = 16e9\nbandwidth = 5e11\n")
    status, out, _ = run("hardware", "mine", "--hardware", path)
    assert status == 0 and "mine (mine): user" in out and "assumed where not stated" in out
    rows = run("hardware", "--hardware", path)[1].splitlines()
    assert any(row.split()[:2] == ["mine", "100"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["h100-sxn"], "unknown accelerator 'h100-sxn'; did you mean h100-sxm"),
        (["--hardware", "/no/such.toml"], "/no/such.toml can't be read"),
        (["--hardware", "long" * 100], "File name too long"),
        (["--json", "--plain"], "give one of --json and --plain"),
    ],
)
def test_bad_input_is_one_line(run, arguments: list[str], said: str) -> None:
    status, out, err = run("hardware", *arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_a_terminal_gets_the_same_numbers(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = run("hardware", "h200", "--plain")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    coloured = run("hardware", "h200")[1]
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "mi355x" in run("hardware")[1]


def test_heavy_imports_stay_out() -> None:
    code = (
        "import sys; sys.argv = ['twophase', 'hardware', 'h100']\n"
        "import twophase.cli\n"
        "try: twophase.cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'torch', 'rich.table', 'pydantic', 'polars', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_measurement_is_saved_and_read_back(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twophase.hardware.probe.MOST_BYTES", 64 << 20)
    path = tmp_path / "here.toml"
    status, out, _ = run("probe", "--budget", "0.3", "--threads", "1", "--save", path, "--json")
    assert status == 0
    (measured, *_others) = json.loads(out)["accelerators"]
    assert measured["name"] == "this-machine"
    assert measured["kind"] == "measured"
    again = json.loads(run("hardware", "this-machine", "--hardware", path, "--json")[1])
    assert again == measured


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budget", "0"], "--budget 0: must be greater than zero"),
        (["--budget", "inf"], "--budget inf: must be greater than zero, and finite"),
        (["--save", "/no/such/folder/me.toml"], "can't be written: give a file in a folder that is there"),
        (["--save", "/"], "it is a directory"),
        (["--save", "long" * 100], "File name too long"),
        (["--save", "/dev/null"], "it is a device or a pipe"),
        (["--threads", "0"], "--threads 0: this machine offers 1 to"),
    ],
)
def test_a_probe_that_cannot_be_is_refused_before_it_starts(run, arguments: list[str], said: str) -> None:
    status, out, err = run("probe", *arguments)
    assert (status, out) == (2, "")
    assert said in err
