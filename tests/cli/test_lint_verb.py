"""twophase lint: the table, flags in words, JSON, CSV, exit status, options, bad input."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "lint"
BLOG = DATA / "h100_blog.csv"
HEADS = ("row", "model", "gpu", "of", "measured", "floor", "headroom", "MFU", "MBU", "bound", "flag")


def test_the_status_is_one_where_a_row_is_impossible(run, tmp_path: Path) -> None:
    status, out, err = run("lint", BLOG)
    assert (status, err) == (1, "")
    head, *rows = out.split("\n\n")[0].splitlines()
    assert head.split() == [*HEADS]
    assert [row.rstrip().endswith("impossible") for row in rows] == [True, True, False]
    assert "48.2" in rows[0]  # 3.35 TB/s over 69.5 GB
    assert "with speculative decoding, at 2.5 tokens a pass or more" in out
    assert "3 rows: 3 checked, 2 impossible, 0 suspicious, 0 not checked" in out
    right = tmp_path / "right.csv"
    right.write_text(
        "\n".join(line for line in BLOG.read_text().splitlines() if "650" not in line and "120" not in line)
    )
    assert run("lint", right)[0] == 0


def test_json_has_each_row_and_a_summary(run) -> None:
    status, out, _ = run("lint", BLOG, "--json")
    document = json.loads(out)
    assert status == 1
    assert document["summary"] == {
        "rows": 3, "checked": 3, "impossible": 2, "suspicious": 0, "not_checked": {},
    }  # fmt: skip
    first, _, last = document["rows"]
    assert (first["row"], first["model"], first["accelerator"]) == (
        "one at a time",
        "Llama-3.3-70B",
        "h100-sxm",
    )
    assert first["output_tokens_per_s_most"] == pytest.approx(48.2, rel=1e-3)
    assert first["headroom"] == pytest.approx(48.2 / 120, rel=1e-3)
    assert first["mbu"] == pytest.approx(120 / 48.2, rel=1e-3)
    assert first["bound"] == "memory" and first["checked"] is True and first["why"] == ""
    assert [flag["kind"] for flag in first["flags"]] == ["impossible"]
    assert {
        "assumption": "one token a pass",
        "says": "with speculative decoding, at 2.5 tokens a pass or more",
    } in (first["flags"][0]["breaks"])
    assert last["flags"] == [] and last["itl_floor_s"] is None


def test_options_say_what_rows_leave_open(run, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("first,rest,tokens\n500,20,1000\n500,2,1000\n")
    arguments = ("--model", "llama-3.1-8b", "--gpu", "h100", "--tp", "1", "--weights", "bf16", "--json")
    columns = ("--columns", "ttft_ms=first,tpot_ms=rest,input_tokens=tokens", "--given", "concurrency=1")
    status, out, _ = run("lint", table, *arguments, *columns)
    slow, fast = json.loads(out)["rows"]
    assert status == 1 and (slow["ttft_s"], slow["itl_s"]) == (0.5, 0.02)
    # 15.0 GB of matrices and 131 MB of cache at 3.35 TB/s
    assert slow["itl_floor_s"] == pytest.approx((15.01e9 + 131e6) / 3.35e12, rel=2e-3)
    assert not slow["flags"] and fast["flags"]


def test_a_folder_of_configs_and_only_flagged_rows(run) -> None:
    table = DATA / "serving_points.csv"
    status, out, _ = run("lint", table, "--models", DATA / "configs", "--flagged", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 1 and len(rows) == 3
    assert all(row["model"] == "deepseek-ai/DeepSeek-R1" and row["flags"] for row in rows)


def test_a_model_by_path(run) -> None:
    config = DATA / "configs" / "openai--gpt-oss-120b.json"
    rows = json.loads(run("lint", BLOG, "--model", config, "--json")[1])["rows"]
    assert {row["model"] for row in rows} == {"openai/gpt-oss-120b"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such.csv"], "/no/such.csv"),
        ([BLOG, "--model", "llama-9"], "no model is called 'llama-9'"),
        ([BLOG, "--models", "/no/such"], "--models /no/such: no such folder"),
        ([BLOG, "--gpu", "h100-sxn"], "did you mean h100-sxm"),
        ([BLOG, "--tp", "0"], "--tp 0: it must be a whole number"),
        ([BLOG, "--pp", "99999999999999999999"], "--pp 99999999999999999999: at most 1,000,000"),
        ([BLOG, "--model", ""], "no model is called ''"),
        ([BLOG, "--gpu", ""], "unknown accelerator ''"),
        ([BLOG, "--weights", ""], "weights=: the value says nothing"),
        ([BLOG, "--hardware", "/no/such.toml"], "/no/such.toml can't be read"),
        ([BLOG, "--columns", "ttft_ms"], "--columns ttft_ms: give NAME=VALUE pairs"),
        ([BLOG, "--columns", "ttft=case"], "unknown field 'ttft'; did you mean ttft_ms"),
        ([BLOG, "--given", "nothing=1"], "unknown field 'nothing'"),
        ([BLOG, "--json", "--csv"], "give one of --json, --csv and --plain"),
    ],
)
def test_bad_input_is_one_line(run, arguments: list[str], said: str) -> None:
    status, out, err = run("lint", *arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_a_terminal_gets_the_same_words(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = run("lint", BLOG, "--plain")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    coloured = run("lint", BLOG)[1]
    assert "\x1b[1;31m" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert all(
        line in bare.replace("\n", " ") for line in plain.splitlines() if line.startswith("  impossible")
    )
    assert plain.splitlines()[-1] in bare


def test_heavy_imports_stay_out() -> None:
    code = (
        f"import sys; sys.argv = ['twophase', 'lint', {str(BLOG)!r}, '--plain']\n"
        "import twophase.cli\n"
        "try: twophase.cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'torch', 'pydantic', 'polars'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
